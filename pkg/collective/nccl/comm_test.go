package nccl

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// form is the operation with all it may need: the last rank is the root, and
// traffic is of unequal parts, some of them nothing.
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
			for to := range world {
				f.Traffic[from][to] = int64((from+2*to)%3) * 1000
			}
		}
		f.Traffic[world-1][0] = 3000
	}
	return f
}

// run does an operation on fresh data and checks it.
func (e *end) run(m runner.Memory, op runner.Op, dt numeric.Type, redop workload.RedOp, bytes int64, inPlace bool) error {
	f := form(op, dt, e.World)
	if f.Idle(e.Rank) || op.Pairwise() && e.World < 2 || op == runner.Hypercube && e.World == 3 {
		return nil
	}
	x := f.Extent(bytes)
	if x.Count == 0 {
		return nil
	}
	p, err := workload.NewPattern(dt, redop, e.World, uint32(bytes))
	if err != nil {
		return err
	}
	call := runner.Call{
		Op: op, RedOp: redop, Type: dt, Root: f.Root, Count: x.Count,
		Scalar: float64(workload.MulSumScalar(e.Rank)), Send: m.Ptr(), Recv: m.Ptr().Add(1 << 20),
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	if words := f.Exchange(x, e.Rank); words != nil {
		pin.Pin(&words[0])
		call.Exchange = uintptr(unsafe.Pointer(&words[0]))
	}
	if inPlace {
		s, r := op.InPlaceOffsets(x.Count, e.Rank)
		call.Send, call.Recv = m.Ptr().Add(s*int64(dt.Size())), m.Ptr().Add(r*int64(dt.Size()))
	}
	if err := e.comm.Supports(call); err != nil {
		return err
	}
	out := f.Outputs(x, e.Rank)
	if err := e.Data.Poison(e.stream, p, call.Recv, out); err != nil {
		return err
	}
	if err := e.Data.Fill(e.stream, p, call.Send, f.Inputs(x, e.Rank)); err != nil {
		return err
	}
	if err := e.comm.Enqueue(e.stream, []runner.Call{call}, 1); err != nil {
		return err
	}
	if err := e.wait(); err != nil {
		return err
	}
	v, err := e.Data.Check(e.stream, p, call.Recv, out)
	if err != nil {
		return err
	}
	if v.Wrong > 0 && e.wrong == nil {
		e.wrong = fmt.Errorf("rank %d: %s %s %s, in place %v: %+v", e.Rank, op, dt, redop, inPlace, v)
	}
	return nil
}

// everything does every operation on every type with every reduction.
func everything(e *end) error {
	m, err := e.comm.Alloc(context.Background(), 2<<20, "none")
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
				for _, inPlace := range []bool{false, true} {
					if inPlace && !op.InPlace() {
						continue
					}
					if err := e.run(m, op, dt, redop, 5000, inPlace); err != nil {
						return fmt.Errorf("%s %s %s: %w", op, dt, redop, err)
					}
				}
			}
		}
	}
	return m.Close()
}

func TestOperations(t *testing.T) {
	setUp(t)
	for _, v := range vendors {
		t.Setenv(v.version, "22809")
		t.Setenv("CX_FAKE_ARCH", v.arch)
		for _, world := range []int{1, 2, 3} {
			t.Run(fmt.Sprint(v.kind, world), func(t *testing.T) {
				for _, err := range together(t, v.kind, world, everything) {
					require.NoError(t, err)
				}
			})
		}
	}
}

// What a library lacks is done by grouped sends and receives, or by its older
// name, and the document can say so.
func TestStandIns(t *testing.T) {
	need.Full(t)
	setUp(t)
	ops := []runner.Op{runner.AllToAll, runner.Gather, runner.Scatter, runner.SendRecv, runner.AllToAllV, runner.P2P, runner.P2PBidir, runner.Hypercube}
	for _, c := range []struct {
		name  string
		kind  nccl.Kind
		hide  []string
		paths []string
	}{
		{"new", nccl.NCCL, nil, []string{"ncclAlltoAll", "ncclGather", "ncclScatter", "grouped-send-recv", "grouped-send-recv"}},
		{"old", nccl.NCCL, []string{"ncclAlltoAll", "ncclGather", "ncclScatter"}, []string{"grouped-send-recv", "grouped-send-recv", "grouped-send-recv", "grouped-send-recv", "grouped-send-recv"}},
		{"RCCL", nccl.RCCL, nil, []string{"ncclAlltoAll", "ncclGather", "ncclScatter", "grouped-send-recv", "ncclAlltoAllv"}},
		{"old RCCL", nccl.RCCL, []string{"ncclAlltoAll", "ncclAlltoAllv"}, []string{"ncclAllToAll", "ncclGather", "ncclScatter", "grouped-send-recv", "ncclAllToAllv"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			variant := fakes.Variant{RCCL: c.kind == nccl.RCCL, Hide: c.hide}
			t.Setenv("CX_NCCL_LIB", variant.Build(t))
			t.Setenv("CX_RCCL_LIB", variant.Build(t))
			for _, err := range together(t, c.kind, 3, func(e *end) error {
				m, err := e.comm.Alloc(context.Background(), 2<<20, "none")
				if err != nil {
					return err
				}
				for i, op := range ops {
					if got, want := e.comm.Path(op), append(c.paths, "grouped-send-recv", "grouped-send-recv", "grouped-send-recv")[i]; got != want {
						return fmt.Errorf("%s by %s, not %s", op, got, want)
					}
					for _, inPlace := range []bool{false, op.InPlace()} {
						if err := e.run(m, op, numeric.Half, workload.NoRedOp, 9000, inPlace); err != nil {
							return fmt.Errorf("%s: %w", op, err)
						}
					}
				}
				return m.Close()
			}) {
				require.NoError(t, err)
			}
		})
	}
}

// Four ranks gather in two steps, and the second sends what the first brought.
func TestHypercubeSteps(t *testing.T) {
	setUp(t)
	for _, err := range together(t, nccl.NCCL, 4, func(e *end) error {
		m, err := e.comm.Alloc(context.Background(), 2<<20, "none")
		if err != nil {
			return err
		}
		for _, inPlace := range []bool{false, true} {
			if err := e.run(m, runner.Hypercube, numeric.Float, workload.NoRedOp, 5000, inPlace); err != nil {
				return err
			}
		}
		return m.Close()
	}) {
		require.NoError(t, err)
	}
}

// A captured operation runs with each launch of the graph.
func TestGraph(t *testing.T) {
	setUp(t)
	for _, err := range together(t, nccl.NCCL, 2, func(e *end) error {
		m, err := e.comm.Alloc(context.Background(), 1<<20, "none")
		if err != nil {
			return err
		}
		one := float32(1)
		if err := e.Device.CopyIn(e.stream, m.Ptr(), unsafe.Pointer(&one), 4); err != nil {
			return err
		}
		if err := e.stream.BeginCapture(); err != nil {
			return err
		}
		call := runner.Call{Op: runner.AllReduce, Type: numeric.Float, Count: 1, Send: m.Ptr(), Recv: m.Ptr()}
		enqueued := e.comm.Enqueue(e.stream, []runner.Call{call, call, call}, 1)
		g, err := e.stream.EndCapture()
		if err := errors.Join(enqueued, err); err != nil {
			return err
		}
		if err := errors.Join(g.Launch(e.stream), g.Launch(e.stream), e.wait()); err != nil {
			return err
		}
		var got float32
		if err := errors.Join(e.Device.CopyOut(e.stream, unsafe.Pointer(&got), m.Ptr(), 4), e.stream.Synchronize()); err != nil {
			return err
		}
		if got != 64 {
			return fmt.Errorf("1 doubled six times is %v", got)
		}
		return errors.Join(g.Close(), m.Close())
	}) {
		require.NoError(t, err)
	}
}

// What an old release lacks is refused, and a missing symbol is named.
func TestSupports(t *testing.T) {
	setUp(t)
	for _, v := range vendors {
		kind := string(v.kind)
		// A release without these has no config either.
		older := fakes.Variant{RCCL: v.kind == nccl.RCCL, Hide: []string{
			"ncclCommInitRankConfig", "ncclRedOpCreatePreMulSum", "ncclReduce", "ncclSend",
		}}.Build(t)
		for _, c := range []struct {
			name    string
			version string
			call    runner.Call
			want    string
		}{
			{"bfloat16", "2804", runner.Call{Type: numeric.BFloat16}, "refused: " + kind + " 2.8.4 has no bfloat16: load a newer library"},
			{"avg", "2804", runner.Call{Type: numeric.Float, RedOp: workload.Avg}, "refused: " + kind + " 2.8.4 has no avg: load a newer library"},
			{"fp8", "22304", runner.Call{Type: numeric.F8E4M3}, "refused: " + kind + " 2.23.4 has no f8e4m3: load a newer library"},
			{"mulsum", "22809", runner.Call{Type: numeric.Float, RedOp: workload.MulSum}, "symbol-missing: no such symbol: ncclRedOpCreatePreMulSum in " + v.file + ": load another library"},
			{"reduce", "22809", runner.Call{Op: runner.Reduce, Type: numeric.Float}, "symbol-missing: no such symbol: ncclReduce in " + v.file + ": load another library"},
			{"send", "22809", runner.Call{Op: runner.SendRecv, Type: numeric.Float}, "symbol-missing: no such symbol: ncclSend in " + v.file + ": load another library"},
		} {
			t.Run(kind+" without "+c.name, func(t *testing.T) {
				t.Setenv(v.library, older)
				t.Setenv(v.version, c.version)
				errs := together(t, v.kind, 1, func(e *end) error { return e.comm.Supports(c.call) })
				require.EqualError(t, errs[0], c.want)
			})
		}
	}
}

// An old device copies fp8, but does not reduce it.
func TestSupportsOfAnOldDevice(t *testing.T) {
	setUp(t)
	t.Setenv("CX_FAKE_ARCH", "sm_80")
	for _, err := range together(t, nccl.NCCL, 1, func(e *end) error {
		if err := e.comm.Supports(runner.Call{Op: runner.AllGather, Type: numeric.F8E5M2, RedOp: workload.NoRedOp}); err != nil {
			return fmt.Errorf("a copy: %w", err)
		}
		return e.comm.Supports(runner.Call{Type: numeric.F8E5M2})
	}) {
		require.EqualError(t, err, "refused: sm_80 does not reduce f8e5m2")
	}
}

// onGFX942 is a device that says it is of that architecture.
type onGFX942 struct{ accel.Device }

func (d onGFX942) Info() accel.Info {
	info := d.Device.Info()
	info.Arch = "gfx942"
	return info
}

// RCCL's fp8 is of the format of the device.
func TestSupportsOfAnotherFormat(t *testing.T) {
	setUp(t)
	t.Setenv("CX_FAKE_RCCL_VERSION", "22809")
	for _, err := range together(t, nccl.RCCL, 1, func(e *end) error {
		e.comm.device = onGFX942{e.comm.device}
		return e.comm.Supports(runner.Call{Type: numeric.F8E4M3})
	}) {
		require.EqualError(t, err, "refused: gfx942 uses a different format of f8e4m3 (FNUZ), which is not supported")
	}
}

func TestRegistrationIsWhatTheLibrarySays(t *testing.T) {
	setUp(t)
	for _, c := range []struct {
		registration, noHandle string
		want                   bool
	}{{"none", "", false}, {"local", "", true}, {"symmetric", "", true}, {"symmetric", "1", false}} {
		t.Setenv("CX_FAKE_NCCL_NO_HANDLE", c.noHandle)
		for _, err := range together(t, nccl.NCCL, 2, func(e *end) error {
			m, err := e.comm.Alloc(context.Background(), 1<<20, c.registration)
			if err != nil {
				return err
			}
			if m.Registered() != c.want {
				return fmt.Errorf("%+v: registered %v", c, m.Registered())
			}
			return m.Close()
		}) {
			require.NoError(t, err)
		}
	}
}

func TestCallLayout(t *testing.T) {
	require.EqualValues(t, callBytes, unsafe.Sizeof(runner.Call{}))
	require.EqualValues(t, callRecv, unsafe.Offsetof(runner.Call{}.Recv))
}
