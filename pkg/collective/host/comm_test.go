package host

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	hostdev "github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/collective/data"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

// together runs f as every rank of a world, each on a thread of its own in this
// process. The first error ends the test.
func together(t *testing.T, world int, f func(rank int, d *hostdev.Device, c *Comm) error) {
	t.Helper()
	dir := t.TempDir()
	errs := make([]error, world)
	var wg sync.WaitGroup
	for r := range world {
		wg.Go(func() {
			runtime.LockOSThread() // pinned: never unlocked, the thread ends here
			errs[r] = asRank(t.Context(), dir, r, world, f)
		})
	}
	wg.Wait()
	for r, err := range errs {
		require.NoError(t, err, "rank %d", r)
	}
}

func asRank(ctx context.Context, dir string, r, world int, f func(rank int, d *hostdev.Device, c *Comm) error) error {
	store, err := rendezvous.OpenFile(dir)
	if err != nil {
		return err
	}
	defer store.Close()
	d, err := hostdev.Open(r, world)
	if err != nil {
		return err
	}
	defer d.Close()
	s := rank.NewSession(rank.Place{Rank: r, World: world, LocalRank: r}, store, "test", func(rank.Record) error { return nil })
	c, err := NewComm(ctx, s, d)
	if err != nil {
		return err
	}
	defer c.Close()
	return f(r, d, c)
}

func TestCallLayout(t *testing.T) {
	require.EqualValues(t, callBytes, unsafe.Sizeof(runner.Call{}))
}

// Every operation, type and reduction, small and large, in and out of place, is
// right in every bit, over several worlds.
func TestOperations(t *testing.T) {
	for _, world := range []int{1, 2, 3, 4} {
		t.Run(fmt.Sprint(world), func(t *testing.T) {
			together(t, world, func(r int, d *hostdev.Device, c *Comm) error {
				mem, err := c.Alloc(t.Context(), 4<<20, "none")
				if err != nil {
					return err
				}
				for _, op := range runner.Ops() {
					redops := []workload.RedOp{workload.NoRedOp}
					if op.Reduces() {
						redops = workload.RedOps()
					}
					for _, dt := range numeric.Types() {
						for _, redop := range redops {
							for _, bytes := range []int64{16, 256, 4096, 5000, 70000} {
								if err := operate(c, mem, op, dt, redop, r, world, bytes); err != nil {
									return fmt.Errorf("%s %s %s %d bytes: %w", op, dt, redop, bytes, err)
								}
							}
						}
					}
				}
				return mem.Close()
			})
		})
	}
}

// form is the operation with all it may need: the last rank is the root, and
// traffic goes to ranks after the sender, to the last one in large parts.
func form(op runner.Op, dt numeric.Type, world int) runner.Form {
	f := runner.Form{Op: op, Type: dt, World: world}
	if op.Rooted() {
		f.Root = world - 1
	}
	if op.Pairwise() && world > 1 {
		f.Pair = runner.Pair{Src: world - 1, Dst: 0}
	}
	if op == runner.AllToAllV {
		f.Traffic = make([][]int64, world)
		for from := range world {
			f.Traffic[from] = make([]int64, world)
			for to := from; to < world; to++ {
				f.Traffic[from][to] = 4096
			}
			f.Traffic[from][world-1] = 1 << 16
		}
	}
	return f
}

func operate(c *Comm, mem runner.Memory, op runner.Op, dt numeric.Type, redop workload.RedOp, r, world int, bytes int64) error {
	f := form(op, dt, world)
	if f.Idle(r) || op.Pairwise() && world < 2 || op == runner.Hypercube && world == 3 {
		return nil
	}
	e := f.Extent(bytes)
	if e.Count == 0 {
		return nil
	}
	p, err := workload.NewPattern(dt, redop, world, uint32(bytes))
	if err != nil {
		return err
	}
	data := data.Inline{}
	for _, inPlace := range []bool{false, true} {
		send, recv := mem.Ptr(), mem.Ptr().Add(1<<20)
		if inPlace {
			if !op.InPlace() {
				continue
			}
			s, d := op.InPlaceOffsets(e.Count, r)
			send, recv = mem.Ptr().Add(s*int64(dt.Size())), mem.Ptr().Add(d*int64(dt.Size()))
		}
		out := f.Outputs(e, r)
		if err := data.Poison(nil, p, recv, out); err != nil {
			return err
		}
		if err := data.Fill(nil, p, send, f.Inputs(e, r)); err != nil {
			return err
		}
		call := runner.Call{
			Op: op, RedOp: redop, Type: dt, Root: f.Root, Count: e.Count,
			Scalar: float64(workload.MulSumScalar(r)), Send: send, Recv: recv,
		}
		var pin runtime.Pinner
		defer pin.Unpin()
		if x := f.Exchange(e, r); x != nil {
			pin.Pin(&x[0])
			call.Exchange = uintptr(unsafe.Pointer(&x[0]))
		}
		if err := c.Enqueue(nil, []runner.Call{call}, 1); err != nil {
			return err
		}
		v, err := data.Check(nil, p, recv, out)
		if err != nil {
			return err
		}
		if v.Wrong > 0 {
			return fmt.Errorf("in place %v: rank %d: %+v", inPlace, r, v)
		}
		// Nobody may refill a buffer that a slower rank still reads.
		if op.Pairwise() {
			continue // idle ranks are not here; a sender has waited for what it cannot refill
		}
		if err := c.agree("next"); err != nil {
			return err
		}
	}
	return nil
}

func TestDisagreementIsAnError(t *testing.T) {
	together(t, 2, func(r int, d *hostdev.Device, c *Comm) error {
		mem, err := c.Alloc(t.Context(), 4096, "none")
		if err != nil {
			return err
		}
		call := runner.Call{Op: runner.AllReduce, Type: numeric.Float, Count: int64(4 + r), Send: mem.Ptr(), Recv: mem.Ptr()}
		err = c.Enqueue(nil, []runner.Call{call}, 1)
		var coded *rank.Error
		require.ErrorAs(t, err, &coded)
		require.Equal(t, result.ReasonLibrary, coded.Reason.Code)
		require.ErrorContains(t, err, fmt.Sprintf("rank %d called a different operation", 1-r))
		return nil
	})
}

func TestForeignMemoryIsAnError(t *testing.T) {
	together(t, 1, func(_ int, d *hostdev.Device, c *Comm) error {
		mem, err := c.Alloc(t.Context(), 4096, "none")
		if err != nil {
			return err
		}
		call := runner.Call{Op: runner.AllReduce, Type: numeric.Float, Count: 1, Send: mem.Ptr(), Recv: 4096}
		require.ErrorContains(t, c.Enqueue(nil, []runner.Call{call}, 1), "outside memory from Alloc")
		_, err = c.Alloc(t.Context(), 4096, "symmetric")
		require.ErrorContains(t, err, "registration")
		_, err = c.Alloc(t.Context(), 1<<50, "none")
		require.ErrorContains(t, err, string(result.ReasonMemory))
		return nil
	})
}

func TestAbortEndsAllRanks(t *testing.T) {
	for _, world := range []int{2, 5} { // with processors of their own, and crowded
		together(t, world, func(r int, d *hostdev.Device, c *Comm) error {
			if r == 0 {
				c.Abort()
				c.Abort()
				return nil
			}
			require.ErrorContains(t, c.agree("never"), "aborted")
			require.ErrorContains(t, c.agree("never"), "aborted", "for ever")
			return nil
		})
	}
}
