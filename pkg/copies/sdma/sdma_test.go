package sdma

import (
	"os"
	"testing"

	"github.com/collectivex/collectivex/pkg/copies"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/copytest"
	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Drivers open memory of other processes alone, so that the ranks here are processes.
func TestMain(m *testing.M) {
	eptest.Main(func(plan.Case) (rank.Opener, error) { return Open, nil })
	os.Exit(m.Run())
}

var tests = []string{
	"host_to_device_memcpy_ce", "device_to_host_memcpy_ce",
	"host_to_device_bidirectional_memcpy_ce", "device_to_host_bidirectional_memcpy_ce",
	"device_to_device_memcpy_write_ce", "device_to_device_bidirectional_memcpy_write_ce",
}

// Every test moves every word, on one stream and on several, whole and in pages, has both
// clocks, and says which engines it took: those for XGMI between devices.
func TestCopiesArriveWhole(t *testing.T) {
	fakes.Build(t).Use(t)
	for _, test := range tests {
		for _, page := range []int64{0, 1024} {
			d := copytest.Processes(t, "", plantest.Copy("sdma", test, func(c *plan.Case) {
				copies.Of(c).Streams, copies.Of(c).Sizes, copies.Of(c).PageBytes = []int{1, 3, 4}, []int64{12 << 10}, page
			}))
			copytest.Arrived(t, d)
			for _, r := range d.Measurement.Rows {
				require.NotNil(t, r.Device, r.Name())
				require.Equal(t, d.Measurement.Sampling.Windows, r.Device.Micros.N)
				require.Equal(t, d.Measurement.Sampling.Windows, r.Host.Micros.N)
			}
			engines := []int{0, 1, 2, 3, 4, 5, 6, 7}
			if copies.TestOf(test).Ranks > 1 {
				engines = engines[2:]
			}
			require.Equal(t, engines, d.Measurement.Engines)
			require.Equal(t, "device", d.Measurement.CheckedBy)
			require.Equal(t, "1.1", *d.Implementation.LibraryVersion)
		}
	}
}

// Three devices write to one and to each other, and to their hosts.
func TestCopiesOfAllDevices(t *testing.T) {
	fakes.Build(t).Use(t)
	t.Setenv("CX_FAKE_DEVICES", "3")
	for _, test := range []string{"device_to_device_memcpy_write_ce", "all_to_one_write_ce", "one_to_all_write_ce", "all_to_host_bidirectional_memcpy_ce"} {
		d := copytest.Processes(t, "", plantest.CopyOn("sdma", test, 3, func(c *plan.Case) { copies.Of(c).Sizes = []int64{12 << 10} }))
		copytest.Arrived(t, d)
	}
}

// Memory that a GPU cannot access is made accessible, and engines that another program has are
// left alone.
func TestAgentsAndEngines(t *testing.T) {
	fakes.Build(t).Use(t)
	t.Setenv("CX_FAKE_HSA_DENY", "1")
	t.Setenv("CX_FAKE_HSA_BUSY", "0x2f")
	d := copytest.Processes(t, "", plantest.Copy("sdma", "host_to_device_memcpy_ce", func(c *plan.Case) { copies.Of(c).Streams = []int{4} }))
	copytest.Arrived(t, d)
	require.Equal(t, []int{4, 6, 7}, d.Measurement.Engines)
}

func TestFaultsAreNamed(t *testing.T) {
	fakes.Build(t).Use(t)
	copytest.FaultsAreNamed(t, copytest.Processes, plantest.Copy("sdma", "device_to_host_memcpy_ce"), "0", "0")
	copytest.FaultsAreNamed(t, copytest.Processes, plantest.Copy("sdma", "device_to_device_memcpy_write_ce"), "0", "1")
}

// An engine that loses a word is found out.
func TestALostWordIsFound(t *testing.T) {
	fakes.Build(t).Use(t)
	t.Setenv("CX_FAKE_HSA_CUT", "1")
	d := copytest.Processes(t, "", plantest.Copy("sdma", "host_to_device_memcpy_ce"))
	require.Equal(t, result.Invalid, d.Outcome.Status)
	require.Regexp(t, `^check-failed: (torn|not written|stale), `, d.Outcome.Reasons.String())
}

// What cannot be measured ends the case with its reason: a copy that fails after it was
// submitted, engines that are another program's, a runtime that would copy by kernels, no runtime.
func TestFailures(t *testing.T) {
	for _, tc := range []struct {
		variable, value string
		want            result.Code
	}{
		{"CX_FAKE_HSA_FAIL", "5", result.ReasonDevice},
		{"CX_FAKE_HSA_BUSY", "0xff", result.ReasonRefused},
		{"HSA_ENABLE_SDMA", "0", result.ReasonRefused},
		{"HSA_ENABLE_PEER_SDMA", "0", result.ReasonRefused},
		{"CX_HSA_LIB", "/nowhere/libhsa-runtime64.so.1", result.ReasonNoLibrary},
	} {
		t.Run(tc.variable, func(t *testing.T) {
			fakes.Build(t).Use(t)
			t.Setenv(tc.variable, tc.value)
			d := copytest.Processes(t, "", plantest.Copy("sdma", "device_to_host_memcpy_ce"))
			require.Equal(t, result.Failed, d.Outcome.Status)
			require.Equal(t, tc.want, d.Outcome.Code())
		})
	}
}
