package host

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/copytest"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

func run(t *testing.T, faults string, c plan.Case) *copies.Document {
	return copytest.Goroutines(t, Open, faults, c)
}

// Every test moves every word, whole and in scattered pages. There is no device's clock, since
// the host does the work.
func TestCopiesArriveWhole(t *testing.T) {
	for _, test := range []string{
		"host_to_device_memcpy_ce", "device_to_host_memcpy_ce", "device_local_copy",
		"device_to_device_memcpy_read_ce", "device_to_device_memcpy_write_ce",
		"device_to_device_bidirectional_memcpy_read_ce", "device_to_device_bidirectional_memcpy_write_ce",
	} {
		t.Run(test, func(t *testing.T) {
			for _, page := range []int64{0, 1024} {
				d := run(t, "", plantest.Copy("host", test, func(c *plan.Case) { copies.Of(c).PageBytes = page }))
				copytest.Arrived(t, d)
				for _, r := range d.Measurement.Rows {
					require.Nil(t, r.Device)
					require.Equal(t, 2, r.Host.Micros.N)
					require.Equal(t, copies.TestOf(test).Both, r.Host.OppositeGBps > 0)
					require.Equal(t, copies.TestOf(test).Both, r.Both != nil)
					if page > 0 {
						require.Equal(t, int(r.Bytes/page), r.Pieces)
					}
				}
			}
		})
	}
}

// A read has its destination in rank 1, which copies, and a write its source.
func TestFaultsAreNamed(t *testing.T) {
	copytest.FaultsAreNamed(t, run, plantest.Copy("host", "device_local_copy"), "0", "0")
	copytest.FaultsAreNamed(t, run, plantest.Copy("host", "device_to_device_memcpy_read_ce"), "1", "0")
}

// A fault where nothing would change is refused.
func TestAFaultWithoutEffectIsRefused(t *testing.T) {
	for fault, sizes := range map[string][]int64{
		"rank=1,kind=" + pool.FaultStale: {4096},
		"rank=0,kind=" + pool.FaultLate:  {4096},
		"rank=0,kind=" + pool.FaultSwap:  {8},
	} {
		d := run(t, fault, plantest.Copy("host", "device_to_device_memcpy_write_ce", func(c *plan.Case) { copies.Of(c).Sizes = sizes }))
		require.Equal(t, result.Failed, d.Outcome.Status)
		require.Equal(t, result.ReasonRefused, d.Outcome.Code())
	}
	d := run(t, "rank=0,kind="+pool.FaultSwap, plantest.Copy("host", "device_to_device_memcpy_write_ce", func(c *plan.Case) { copies.Of(c).Sizes = []int64{8, 16} }))
	require.Equal(t, result.Invalid, d.Outcome.Status, "the halves of 16 bytes")
}

// Copies that the memory of the host cannot hold are refused before any of it is taken.
func TestTooLittleMemory(t *testing.T) {
	for _, test := range []string{"host_to_device_memcpy_ce", "device_to_device_bidirectional_memcpy_read_ce"} {
		d := run(t, "", plantest.Copy("host", test, func(c *plan.Case) { copies.Of(c).Sizes = []int64{1 << 45} }))
		require.Equal(t, result.Failed, d.Outcome.Status)
		require.Equal(t, result.ReasonMemoryForSize, d.Outcome.Code(), "%v", d.Outcome.Reasons)
	}
}

// A case of which a rank says done, and whose records are lost, was not checked.
func TestLostRecords(t *testing.T) {
	for test, ranks := range map[string][]string{"device_local_copy": {"0"}, "device_to_device_memcpy_read_ce": {"0", "1"}} {
		for _, rank := range ranks {
			d := run(t, "rank="+rank+",kind=mute", plantest.Copy("host", test))
			require.Equal(t, result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonUnchecked}}}, d.Outcome, "%s, rank %s", test, rank)
		}
	}
}
