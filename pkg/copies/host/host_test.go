package host

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/copytest"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/copies/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
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

// Tests of all devices, and of each pair or device in turn, move every word on three ranks. Those that time several copies
// as one have the rate of all of them, and those that other devices disturb say for how long.
func TestCopiesOfAllDevices(t *testing.T) {
	for _, test := range []string{
		"host_to_device_memcpy_ce", "device_to_device_memcpy_read_ce", "device_to_device_memcpy_write_ce", "device_to_device_bidirectional_memcpy_read_ce",
		"all_to_host_memcpy_ce", "host_to_all_memcpy_ce", "all_to_one_write_ce", "all_to_one_read_ce", "one_to_all_write_ce", "one_to_all_read_ce",
	} {
		t.Run(test, func(t *testing.T) {
			d := run(t, "", plantest.CopyOn("host", test, 3, func(c *plan.Case) { copies.Of(c).Sizes = []int64{4096} }))
			copytest.Arrived(t, d)
			of := copies.TestOf(test)
			for _, r := range d.Measurement.Rows {
				require.Equal(t, 2, r.Host.Micros.N)
				require.Equal(t, of.Ranks == 2, r.Src != nil && r.Dst != nil, r.Name())
				require.Equal(t, of.Ranks != 2, r.Target != nil, r.Name())
				require.Equal(t, of.Disturbed(), r.Covered != nil)
				require.Equal(t, of.Both, r.Both != nil)
				require.InDelta(t, float64(max(1, r.Copies))*float64(r.Bytes)/r.Host.Micros.P50/1e3, r.Host.GBps, 1e-6*r.Host.GBps)
			}
		})
	}
}

// A wrong word on one flow is found, and its flow is named.
func TestAWrongFlowIsNamed(t *testing.T) {
	for _, tt := range []struct {
		test, kind, wrong, detail string
	}{
		{"all_to_one_write_ce", pool.FaultFlip, "rank 2", "of the destination of the copy by rank 0 from rank 0 to rank 2"},
		{"one_to_all_read_ce", pool.FaultSource, "rank 0 rank 1", "of the source of the copy by rank 0 from rank 2 to rank 0"},
		{"all_to_host_memcpy_ce", pool.FaultHalf, "rank 0 rank 1 rank 2", "of the destination of the copy by rank 2 from rank 2 to the host of rank 2"},
		{"device_to_device_memcpy_read_ce", pool.FaultFlip, "rank 0 to 2 rank 1 to 2", "of the destination"},
	} {
		t.Run(tt.test, func(t *testing.T) {
			d := run(t, "rank=2,kind="+tt.kind, plantest.CopyOn("host", tt.test, 3, func(c *plan.Case) { copies.Of(c).Sizes = []int64{4096} }))
			require.Equal(t, result.Invalid, d.Outcome.Status)
			require.Equal(t, result.ReasonCheck, d.Outcome.Code())
			var wrong []string
			for _, r := range d.Measurement.Rows {
				if !r.Verify.Passed {
					wrong = append(wrong, r.Place())
					if wrong[0] == r.Place() {
						require.Contains(t, r.Verify.Detail, tt.detail)
					}
				}
			}
			require.Equal(t, tt.wrong, strings.Join(wrong, " "))
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

// Blocks of odd bytes are compared on copies of the memory, which are freed: the rank does not grow with them.
func TestComparingOddBlocksTakesLittleMemory(t *testing.T) {
	held := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapSys)
	}
	const block = 4<<20 + 1
	before := held()
	copytest.Arrived(t, run(t, "", plantest.Copy("host", "swap_blocks_d2d", func(c *plan.Case) {
		b := copies.Of(c)
		b.BlockBytes, b.NumBlocks, b.MaxPayload, b.Timing.Reps = []int64{block}, []int{4}, 4*block, 1
	})))
	require.Less(t, held()-before, int64(8*block), "both sides")
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

// Every point of a swap's grid moves every byte, in each layout; those above the maximum are named.
func TestSwaps(t *testing.T) {
	for _, test := range []string{"swap_blocks_h2d", "swap_blocks_d2h", "swap_blocks_d2d"} {
		for _, layout := range copies.Layouts() {
			d := run(t, "", plantest.Copy("host", test, func(c *plan.Case) { copies.Of(c).Layout = layout }))
			copytest.Arrived(t, d)
			require.Len(t, d.Measurement.Rows, 5)
			for _, r := range d.Measurement.Rows {
				require.Equal(t, int64(r.Pieces)*r.BlockBytes, r.Bytes)
				require.Nil(t, r.Device)
				require.Nil(t, r.Host)
				require.Equal(t, 20, r.Latency.SampleCount)
			}
			require.Equal(t, []copies.Excluded{{BlockBytes: 4096, NumBlocks: 32, Reason: "exceeds-max-payload-bytes"}}, d.Measurement.Excluded)
		}
	}
}

func TestFaultsInSwapsAreNamed(t *testing.T) {
	copytest.FaultsAreNamed(t, run, plantest.Copy("host", "swap_blocks_h2d", func(c *plan.Case) { copies.Of(c).NumBlocks = []int{5, 32} }), "0", "0")
	for kind, class := range map[string]string{pool.FaultNotWritten: "not written", pool.FaultStale: "corrupted", pool.FaultSwap: "corrupted"} {
		d := run(t, "rank=0,kind="+kind, plantest.Copy("host", "swap_blocks_h2d", func(c *plan.Case) {
			b := copies.Of(c)
			b.Layout, b.BlockBytes, b.NumBlocks = copies.Contiguous, []int64{1}, []int{4, 5}
		}))
		require.Equal(t, result.Invalid, d.Outcome.Status, kind)
		for _, r := range d.Measurement.Rows {
			classes := r.Verify.Wrong.Classes() // a byte names no place that it can come from
			most := slices.MaxFunc(classes, func(a, b result.WrongClass) int { return cmp.Compare(*a.Count, *b.Count) })
			require.Equal(t, class, most.Name, "%s: %+v", r.Name(), r.Verify.Wrong)
		}
	}
}

// swapped is how many blocks the swaps of TestWrongSwapsAreFound have.
const swapped = 4

// mistaken is the host, also with batches, which makes some copies of swaps wrong.
type mistaken struct {
	copier
	calls int
	wrong func(swap, call int, m *move, bytes int64)
}

func (d *mistaken) move(to, from unsafe.Pointer, bytes int64) error {
	m := move{unsafe.Slice((*byte)(to), bytes), unsafe.Slice((*byte)(from), bytes)}
	d.wrong(d.calls/swapped, d.calls%swapped, &m, bytes)
	d.calls++
	copy(m.to, m.from)
	return nil
}

func (d *mistaken) Copy(_ accel.Stream, dst, src accel.Ptr, bytes int64) error {
	return d.move(dst.Pointer(), src.Pointer(), bytes)
}

func (d *mistaken) CopyIn(_ accel.Stream, dst accel.Ptr, src unsafe.Pointer, bytes int64) error {
	return d.move(dst.Pointer(), src, bytes)
}

func (d *mistaken) CopyOut(_ accel.Stream, dst unsafe.Pointer, src accel.Ptr, bytes int64) error {
	return d.move(dst, src.Pointer(), bytes)
}

func (d *mistaken) CopyBatch(_ accel.Stream, dst, src []accel.Ptr, sizes []uintptr) error {
	for i, n := range sizes {
		if err := d.move(dst[i].Pointer(), src[i].Pointer(), int64(n)); err != nil {
			return err
		}
	}
	return nil
}

// runMistaken runs swaps of four blocks, of odd bytes and of words, on a device that makes some copies wrong.
func runMistaken(t *testing.T, test, submission string, wrong func(swap, call int, m *move, bytes int64)) *copies.Document {
	t.Helper()
	return copytest.Goroutines(t, func(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
		p, err := parts(ctx, s, c)
		p.Device = &mistaken{copier: p.Device.(copier), wrong: wrong}
		return runner.NewRunner(p), err
	}, "", plantest.Copy("host", test, func(c *plan.Case) {
		b := copies.Of(c)
		b.Submission, b.Layout, b.BlockBytes, b.NumBlocks = submission, copies.Contiguous, []int64{257, 4096}, []int{swapped}
	}))
}

// An engine that makes whole swaps where it expects a full comparison, at the end of all swaps of a row, and leaves out
// blocks of all others is found, since it cannot know which of them are compared.
func TestBlocksLeftOutAreFound(t *testing.T) {
	// 4 untimed swaps, 20 before the timed ones, and 20 timed ones: all of the last one stays.
	last := func(swap int) bool { return swap%(4+20+20) == 4+20+20-1 }
	for name, leftOut := range map[string]func(swap, call int) bool{
		"nothing":                       func(int, int) bool { return false },
		"all but the first block":       func(_, call int) bool { return call > 0 },
		"the last block":                func(_, call int) bool { return call == swapped-1 },
		"on the second and later calls": func(swap, call int) bool { return swap > 0 && call > 0 },
	} {
		for _, test := range []string{"swap_blocks_h2d", "swap_blocks_d2h", "swap_blocks_d2d"} {
			for _, submission := range copies.Submissions() {
				t.Run(name+" in "+test+" "+submission, func(t *testing.T) {
					n := 0
					d := runMistaken(t, test, submission, func(swap, call int, m *move, _ int64) {
						if !last(swap) && leftOut(swap, call) {
							m.to = nil
							n++
						}
					})
					if n == 0 {
						copytest.Arrived(t, d)
						return
					}
					require.Equal(t, result.ReasonCheck, d.Outcome.Code(), "%d blocks left out", n)
					for _, r := range d.Measurement.Rows {
						require.False(t, r.Verify.Passed, r.Name())
					}
				})
			}
		}
	}
}

// shifted returns n bytes that begin some bytes after or before other bytes.
func shifted(of []byte, by, n int64) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(of)), by)), n)
}

// What is wrong in each swap is found, in blocks of words and of odd bytes.
func TestWrongSwapsAreFound(t *testing.T) {
	for name, tc := range map[string]struct {
		wrong func(swap, call int, m *move, bytes int64)
		class string
	}{
		"no mistake": {func(int, int, *move, int64) {}, ""},
		"another's block": {func(_, call int, m *move, n int64) {
			if call == 1 {
				m.from = shifted(m.from, n, n)
			}
		}, "misplaced"},
		"two swapped": {func(_, call int, m *move, n int64) {
			switch call {
			case 1:
				m.to = shifted(m.to, n, n)
			case 2:
				m.to = shifted(m.to, -n, n)
			}
		}, "misplaced"},
		"behind the last place": {func(_, call int, m *move, n int64) {
			if call == 3 {
				m.to = shifted(m.to, n, n)
			}
		}, "guard"},
		"in front of the first place": {func(_, call int, m *move, n int64) {
			if call == 0 {
				m.to = shifted(m.to, -n, n)
			}
		}, "guard"},
		"a byte too many": {func(_, call int, m *move, n int64) {
			if call == 3 {
				m.to, m.from = shifted(m.to, 0, n+1), shifted(m.from, 0, n+1)
			}
		}, "guard"},
		"a byte short": {func(_, _ int, m *move, n int64) { m.to = m.to[:n-1] }, "corrupted"},
		"no block":     {func(_, _ int, m *move, _ int64) { m.to = nil }, "not written"},
		"every second swap": {func(swap, _ int, m *move, _ int64) {
			if swap%2 == 1 {
				m.to = nil
			}
		}, "misplaced"},
		"the source": {func(_, _ int, m *move, _ int64) { m.from[0]++ }, "source"},
	} {
		t.Run(name, func(t *testing.T) {
			d := runMistaken(t, "swap_blocks_d2d", copies.Loop, tc.wrong)
			if tc.class == "" {
				copytest.Arrived(t, d)
				return
			}
			require.Equal(t, result.Invalid, d.Outcome.Status)
			require.Equal(t, result.ReasonCheck, d.Outcome.Code())
			require.Len(t, d.Measurement.Rows, 2)
			for _, r := range d.Measurement.Rows {
				require.False(t, r.Verify.Passed, r.Name())
				for _, c := range r.Verify.Wrong.Classes() {
					require.True(t, c.Name != tc.class || *c.Count > 0, "%s: %+v", r.Name(), r.Verify.Wrong)
				}
			}
		})
	}
}
