package nccl

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/steps"
	stepsrunner "github.com/collectivex/collectivex/pkg/steps/runner"
)

// schedules is the cases of every schedule that a world allows, on a kind of library.
func schedules(kind nccl.Kind, world, width int, change ...func(*plan.Case)) []plan.Case {
	return plantest.Schedules(world, width, append([]func(*plan.Case){plantest.Few, func(c *plan.Case) { c.Backend = string(kind) }}, change...)...)
}

// scheduled runs schedule cases in one group and returns their documents. Faults are as in
// rank.ParseFaults.
func scheduled(t *testing.T, kind nccl.Kind, faults string, cases ...plan.Case) []*steps.Document {
	t.Helper()
	parsed, err := rank.ParseFaults(faults, stepsrunner.FaultKinds()...)
	require.NoError(t, err)
	var out []*steps.Document
	for i, streams := range eptest.RunGroup(t, OpenSchedule(kind), parsed, cases...) {
		for r, s := range streams {
			require.Nil(t, s.Failure, "%s, rank %d", cases[i].CaseID, r)
		}
		doc, err := result.New(cases[i], result.Attempt{Ordinal: 1, At: time.Now(), Vendor: "nvidia", Generator: "test 0"})
		require.NoError(t, err)
		require.NoError(t, stepsrunner.Assemble(doc, streams))
		out = append(out, doc.(*steps.Document))
	}
	return out
}

func requireRan(t *testing.T, c *plan.Case, d *steps.Document) {
	t.Helper()
	require.Equal(t, result.Success, d.Outcome.Status, "%s: %v", c.CaseID, d.Outcome.Reasons)
	require.Equal(t, nccl.GroupedSendRecv, d.Measurement.Path)
	require.Len(t, d.Measurement.Rows, len(steps.Of(c).Sizes)*len(steps.Of(c).Placements))
	for _, row := range d.Measurement.Rows {
		require.True(t, row.Check.Passed)
		require.Positive(t, row.Check.Checked)
	}
}

// Every schedule that a world allows gives the right bits, in and out of place, with
// messages of the library and additions of our kernels.
func TestEverySchedule(t *testing.T) {
	need.Full(t)
	setUp(t)
	three := schedules(nccl.RCCL, 3, 3)
	needsFour := func(c plan.Case) bool { // grids of several rows, and powers of two
		s := steps.Of(&c)
		return s.Width > 0 || !slices.ContainsFunc(three, func(of plan.Case) bool {
			return steps.Of(&of).Op == s.Op && steps.Of(&of).Algorithm == s.Algorithm
		})
	}
	four := slices.DeleteFunc(schedules(nccl.NCCL, 4, 2), func(c plan.Case) bool { return !needsFour(c) })
	for _, tt := range []struct {
		kind      nccl.Kind
		cases     []plan.Case
		schedules int
	}{{nccl.NCCL, four, 11}, {nccl.RCCL, three, 27}} {
		t.Run(string(tt.kind), func(t *testing.T) {
			require.Len(t, tt.cases, tt.schedules)
			for i, d := range scheduled(t, tt.kind, "", tt.cases...) {
				requireRan(t, &tt.cases[i], d)
			}
		})
	}
}

// Sums in every type are exact where they can be, and elsewhere as declared.
func TestScheduleTypes(t *testing.T) {
	need.Full(t)
	setUp(t)
	var cases []plan.Case
	for _, typ := range []string{"int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "double", "bfloat16", "f8e4m3", "f8e5m2"} {
		for _, c := range schedules(nccl.NCCL, 3, 3, func(c *plan.Case) { c.Precision = typ }) {
			if s := steps.Of(&c); s.Op == "all_reduce" && s.Algorithm == "ring" {
				cases = append(cases, c)
			}
		}
	}
	for i, d := range scheduled(t, nccl.NCCL, "", cases...) {
		requireRan(t, &cases[i], d)
		if d.Measurement.Arithmetic != nil {
			require.True(t, d.Measurement.Arithmetic.Passed, "%s: %v", cases[i].CaseID, d.Measurement.Arithmetic.Reasons)
		}
	}
}

// Each fault of a rank's steps is found in the results.
func TestStepFaults(t *testing.T) {
	need.Full(t)
	setUp(t)
	for kind, of := range map[string][]string{
		stepsrunner.FaultSkip:   {"all_gather", "all_reduce", "reduce_scatter"},
		stepsrunner.FaultDouble: {"all_reduce", "reduce_scatter"},
		stepsrunner.FaultChunk:  {"all_gather"},
	} {
		t.Run(kind, func(t *testing.T) {
			cases := slices.DeleteFunc(schedules(nccl.NCCL, 3, 3), func(c plan.Case) bool {
				s := steps.Of(&c)
				return !slices.Contains(of, s.Op) || s.Algorithm != "ring" && s.Algorithm != "direct"
			})
			require.Len(t, cases, 2*len(of))
			for i, d := range scheduled(t, nccl.NCCL, "rank=1,kind="+kind, cases...) {
				require.Equal(t, result.Invalid, d.Outcome.Status, cases[i].CaseID)
				require.Equal(t, result.Reasons{{Code: result.ReasonSemantics}}, d.Outcome.Reasons)
			}
		})
	}
}

// A message that the library damages is found, too.
func TestScheduleOfALibraryThatLies(t *testing.T) {
	setUp(t)
	t.Setenv("CX_FAKE_NCCL_FLIP", "1:40")
	c := schedules(nccl.NCCL, 2, 2, func(c *plan.Case) { steps.Of(c).Measure.Checks = 0 })[0]
	d := scheduled(t, nccl.NCCL, "", c)[0]
	require.Equal(t, result.Invalid, d.Outcome.Status)
	require.Equal(t, result.Reasons{{Code: result.ReasonSemantics}}, d.Outcome.Reasons)
}

// A library without point-to-point operations has no schedules.
func TestScheduleWithoutPointToPoint(t *testing.T) {
	setUp(t)
	t.Setenv("CX_NCCL_LIB", fakes.Variant{Hide: []string{"ncclRecv"}}.Build(t))
	streams := eptest.RunGroup(t, OpenSchedule(nccl.NCCL), nil, schedules(nccl.NCCL, 2, 2)[0])[0]
	first := slices.IndexFunc(streams, func(s rank.Stream) bool { return s.Failure != nil && s.Failure.Reason.Code == result.ReasonNoSymbol })
	require.GreaterOrEqual(t, first, 0, "one rank says so, and the other may be cancelled before")
	require.Contains(t, streams[first].Failure.Text, "ncclRecv in libnccl.so.2")
}
