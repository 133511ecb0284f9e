package nccl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

// What MSCCL++ has is done right on both vendors' devices, and the rest is
// refused before it is called: the stand-in ends this process where the real
// one does.
func TestMSCCLPP(t *testing.T) {
	setUp(t)
	t.Setenv("CX_FAKE_RCCL_VERSION", "22809") // underneath the stand-in for AMD
	for _, platform := range []struct{ name, library string }{
		{"cuda", fakes.Build(t).MSCCLPP}, {"hip", fakes.Build(t).MSCCLPPHIP},
	} {
		t.Setenv("CX_MSCCLPP_LIB", platform.library)
		for _, world := range []int{1, 3} {
			t.Run(fmt.Sprint(platform.name, world), func(t *testing.T) {
				for _, err := range together(t, nccl.MSCCLPP, world, func(e *end) error {
					if got := e.Facts; got.Framework != platform.name || got.Library.Kind != "mscclpp" || got.Library.Version != "0.9.0" {
						return fmt.Errorf("%+v", got)
					}
					return whatItHas(e)
				}) {
					require.NoError(t, err)
				}
			})
		}
	}
}

// whatItHas tries everything, and counts what was not refused.
func whatItHas(e *end) error {
	m, err := e.comm.Alloc(context.Background(), 2<<20, "none")
	if err != nil {
		return err
	}
	done := map[runner.Op]int{}
	for _, op := range runner.Ops() {
		redops := []workload.RedOp{workload.NoRedOp}
		if op.Reduces() {
			redops = workload.RedOps()
		}
		for _, dt := range numeric.Types() {
			for _, redop := range redops {
				err := e.comm.Supports(runner.Call{Op: op, Type: dt, RedOp: redop})
				var coded *rank.Error
				if errors.As(err, &coded) && coded.Reason.Code == result.ReasonRefused {
					continue
				}
				if err := errors.Join(err, e.run(m, op, dt, redop, 5000, false)); err != nil {
					return fmt.Errorf("%s %s %s: %w", op, dt, redop, err)
				}
				done[op]++
			}
		}
	}
	reduced := 16 // sum and min of eight types
	if strings.HasPrefix(e.Device.Info().Arch, "gfx94") {
		reduced = 12 // its two fp8 types are of another format
	}
	if len(done) != 2 || done[runner.AllReduce] != reduced || done[runner.AllGather] != 8 {
		return fmt.Errorf("did %v", done)
	}
	return m.Close()
}

func TestMSCCLPPRefuses(t *testing.T) {
	setUp(t)
	call := runner.Call{Op: runner.AllReduce, Type: numeric.Float}
	for _, c := range []struct {
		name string
		body func(e *end) error
		want string
	}{
		{"type", func(e *end) error {
			return e.comm.Supports(runner.Call{Op: runner.AllGather, Type: numeric.Double, RedOp: workload.NoRedOp})
		}, "refused: mscclpp has no double"},
		{"reduction", func(e *end) error {
			return e.comm.Supports(runner.Call{Op: runner.AllReduce, Type: numeric.Half, RedOp: workload.MulSum})
		}, "refused: mscclpp has no mulsum"},
		{"operation with an entry point", func(e *end) error {
			return e.comm.Supports(runner.Call{Op: runner.ReduceScatter, Type: numeric.Half})
		}, "refused: mscclpp does not implement reduce_scatter itself"},
		{"operation by sends and receives", func(e *end) error {
			return e.comm.Supports(runner.Call{Op: runner.Gather, Type: numeric.Half, RedOp: workload.NoRedOp})
		}, "refused: mscclpp does not implement gather itself"},
		{"registration", func(e *end) error {
			_, err := e.comm.Alloc(context.Background(), 1<<20, "local")
			return err
		}, "refused: registration \"local\": mscclpp does not register buffers"},
		{"group", func(e *end) error {
			return e.comm.Enqueue(e.stream, []runner.Call{call, call}, 2)
		}, "refused: mscclpp has no group calls of several operations"},
		{"nothing to do", func(e *end) error {
			return e.comm.Enqueue(e.stream, []runner.Call{call}, 1)
		}, "library-error: ncclAllReduce ncclInvalidArgument"},
	} {
		t.Run(c.name, func(t *testing.T) {
			errs := together(t, nccl.MSCCLPP, 2, c.body)
			require.ErrorContains(t, errs[0], c.want)
		})
	}
}

// Without a refusal the process ends: the tests above can fail.
func TestMSCCLPPEndsTheProcess(t *testing.T) {
	need.CXX(t)
	const unrefused = "CX_TEST_UNREFUSED" // names the directory that outlives the process
	if os.Getenv(unrefused) == "" {
		self := exec.Command(os.Args[0], "-test.run=^TestMSCCLPPEndsTheProcess$")
		self.Env = append(os.Environ(), unrefused+"="+fakes.MemoryDir(t))
		out, err := self.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "SIGABRT")
		return
	}
	shared = os.Getenv(unrefused)
	setUp(t)
	together(t, nccl.MSCCLPP, 2, func(e *end) error {
		m, err := e.comm.Alloc(context.Background(), 1<<20, "none")
		if err != nil {
			return err
		}
		return e.comm.Enqueue(e.stream, []runner.Call{{
			Op: runner.AllReduce, Type: numeric.Int64, Count: 4, Send: m.Ptr(), Recv: m.Ptr(),
		}}, 1)
	})
}
