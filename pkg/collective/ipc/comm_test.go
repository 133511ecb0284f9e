package ipc

import (
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/steps"
	stepsrunner "github.com/collectivex/collectivex/pkg/steps/runner"
)

// Drivers open memory of other processes alone, so that the ranks here are processes.
func TestMain(m *testing.M) {
	eptest.Main(func(c plan.Case) (rank.Opener, error) {
		return map[plan.Family]rank.Opener{
			collective.Name: Open, steps.Name: OpenSchedule, overlap.Name: OpenOverlap,
		}[c.Family], nil
	})
	os.Exit(m.Run())
}

// withDriver sets up the stand-in of a vendor's driver with four devices.
func withDriver(t *testing.T, vendor string) {
	fakes.Build(t).UseWithoutKernels(t)
	t.Setenv("CX_FAKE_DEVICES", "4")
	if vendor == "hip" {
		t.Setenv("CX_CUDA_LIB", "/nowhere/libcuda.so.1")
	}
}

// schedules is the cases of every schedule that a world allows.
func schedules(world, width int, change ...func(*plan.Case)) []plan.Case {
	return plantest.Schedules(world, width, append([]func(*plan.Case){plantest.Few, func(c *plan.Case) { c.Backend = "ipc" }}, change...)...)
}

// run runs cases in one group, a process for each rank, and returns their documents. Faults
// are as in rank.ParseFaults.
func run(t *testing.T, faults string, cases ...plan.Case) (all []*steps.Document) {
	t.Helper()
	need.CXX(t)
	e := eptest.Processes(t, true, faults, cases...)
	for r, log := range e.Logs {
		if e.Errs[r] != nil {
			t.Logf("rank %d: %v: %s", r, e.Errs[r], log)
		}
	}
	for i, c := range cases {
		all = append(all, eptest.Assembled(t, c, e.Streams[i], stepsrunner.Assemble).(*steps.Document))
	}
	return all
}

func requireRan(t *testing.T, d *steps.Document) {
	t.Helper()
	c := &d.Identity.Case
	require.Equal(t, result.Success, d.Outcome.Status, "%s: %v", c.CaseID, d.Outcome.Reasons)
	require.Equal(t, "peer-copies", d.Measurement.Path)
	require.Len(t, d.Measurement.Rows, len(steps.Of(c).Sizes)*len(steps.Of(c).Placements))
	for _, row := range d.Measurement.Rows {
		require.True(t, row.Check.Passed)
		require.Positive(t, row.Check.Checked)
	}
}

// Every schedule that a world allows gives the right bits, in and out of place, with copies
// into the memory of other processes, all in one group of ranks.
func TestEverySchedule(t *testing.T) {
	two := schedules(2, 2)
	needsMore := func(c plan.Case) bool { // grids of several rows, and what two ranks do not allow
		s := steps.Of(&c)
		return s.Width > 0 || !slices.ContainsFunc(two, func(of plan.Case) bool {
			return steps.Of(&of).Op == s.Op && steps.Of(&of).Algorithm == s.Algorithm
		})
	}
	four := slices.DeleteFunc(schedules(4, 2), func(c plan.Case) bool { return !needsMore(c) })
	for _, tt := range []struct {
		vendor    string
		cases     []plan.Case
		schedules int
	}{{"cuda", two, 30}, {"hip", schedules(3, 3), 27}, {"cuda", four, 8}} {
		t.Run(strconv.Itoa(tt.cases[0].World), func(t *testing.T) {
			need.Full(t)
			withDriver(t, tt.vendor)
			require.Len(t, tt.cases, tt.schedules)
			for _, d := range run(t, "", tt.cases...) {
				requireRan(t, d)
			}
		})
	}
}

// Each fault of a rank's steps is found in the results.
func TestStepFaults(t *testing.T) {
	need.Full(t)
	for kind, of := range map[string][]string{
		stepsrunner.FaultSkip:   {"all_gather", "all_reduce", "reduce_scatter"},
		stepsrunner.FaultDouble: {"all_reduce", "reduce_scatter"},
		stepsrunner.FaultChunk:  {"all_gather"},
	} {
		t.Run(kind, func(t *testing.T) {
			withDriver(t, "cuda")
			cases := slices.DeleteFunc(schedules(3, 3), func(c plan.Case) bool {
				s := steps.Of(&c)
				return !slices.Contains(of, s.Op) || s.Algorithm != "ring" && s.Algorithm != "direct"
			})
			require.Len(t, cases, 2*len(of))
			for _, d := range run(t, "rank=1,kind="+kind, cases...) {
				require.Equal(t, result.Invalid, d.Outcome.Status, d.Identity.Case.CaseID)
				require.Equal(t, result.Reasons{{Code: result.ReasonSemantics}}, d.Outcome.Reasons)
			}
		})
	}
}

// What the driver refuses ends the case with the call and its code, and what a driver lacks is
// refused.
func TestFailures(t *testing.T) {
	for _, tc := range []struct{ name, variable, value, reason string }{
		{"a write fails", "CX_FAKE_FAIL", "cuStreamWriteValue32_v2#3=719", "device-error"},
		{"a wait fails", "CX_FAKE_FAIL", "cuStreamWaitValue32_v2#3=719", "device-error"},
		{"a copy fails", "CX_FAKE_FAIL", "cuMemcpyDtoDAsync_v2#3=719", "device-error"},
		{"the handle opens nothing", "CX_FAKE_FAIL", "cuIpcOpenMemHandle_v2=1", "device-error"},
		{"too little memory", "CX_FAKE_FAIL", "cuMemAlloc_v2#2=2", "out-of-memory"},
		{"a driver without flags", "CX_CUDA_LIB", "cuStreamWaitValue32_v2", "refused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withDriver(t, "cuda")
			value := tc.value
			if tc.variable == "CX_CUDA_LIB" {
				value = fakes.OldCUDA(t, value)
			}
			t.Setenv(tc.variable, value)
			d := run(t, "", schedules(2, 2)[0])[0]
			require.Equal(t, result.Failed, d.Outcome.Status)
			require.Contains(t, d.Outcome.Reasons[0].String(), tc.reason)
		})
	}
}
