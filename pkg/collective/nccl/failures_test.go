package nccl

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/workload"
)

// reason is the code of an error, as a document would say it.
func reason(t *testing.T, err error) string {
	t.Helper()
	var coded *rank.Error
	require.ErrorAs(t, err, &coded)
	require.NoError(t, coded.Reason.Check())
	return coded.Reason.String()
}

func reduceOnce(e *end) error {
	m, err := e.comm.Alloc(context.Background(), 2<<20, "none")
	if err != nil {
		return err
	}
	for range 3 {
		if err := e.run(m, runner.AllReduce, numeric.Float, workload.Sum, 4096, false); err != nil {
			return err
		}
	}
	return m.Close()
}

// Every failure has a code that may be published, and the call's name and rank
// in its text.
func TestFailures(t *testing.T) {
	setUp(t)
	for _, v := range vendors {
		for _, c := range []struct {
			name            string
			variable, value string
			reason, text    string
		}{
			{
				"a call", "CX_FAKE_NCCL_CALL_ERROR", "0:1", "library-error: ncclAllReduce ncclInternalError",
				"operation 1 of 1: ncclAllReduce: ncclInternalError on rank 0: ordered to fail at operation 1",
			},
			{"asynchronous", "CX_FAKE_NCCL_ASYNC_ERROR", "0:1", "library-error: asynchronous error ncclRemoteError", "on rank 0"},
			{"memory", "CX_FAKE_NCCL_MEMORY", "4096", "out-of-memory: 2097152 bytes", "ncclMemAlloc: ncclUnhandledCudaError"},
			{"set-up", "CX_FAKE_NCCL_INIT_ERROR", "0", "library-error: ncclCommInitRankConfig ncclSystemError", "on rank 0"},
			{
				"no symbol", v.library, fakes.Variant{RCCL: v.kind == nccl.RCCL, Hide: []string{"ncclCommDestroy"}}.Build(t),
				"symbol-missing", "ncclCommDestroy in " + v.file,
			},
			{"no library", v.library, "/nowhere/" + v.file, "library-missing", v.library},
			{"another library", v.library, os.Getenv(v.another), "library-missing", "set " + v.library + " to the right library"},
			{"no driver", v.driver, "/nowhere/driver.so", "library-missing", v.driver},
		} {
			t.Run(fmt.Sprint(c.name, " of ", v.kind), func(t *testing.T) {
				t.Setenv(c.variable, c.value)
				errs := together(t, v.kind, 1, reduceOnce)
				require.Equal(t, c.reason, reason(t, errs[0]))
				require.ErrorContains(t, errs[0], c.text)
			})
		}
		t.Run(fmt.Sprint("one wrong bit of ", v.kind), func(t *testing.T) {
			t.Setenv("CX_FAKE_NCCL_FLIP", "1:2")
			errs := together(t, v.kind, 2, reduceOnce)
			require.NoError(t, errs[0])
			require.ErrorContains(t, errs[1], "Wrong:1 First:512")
		})
	}
}

// An operation that never ends, ends with Abort from another goroutine.
func TestAbortEndsAHang(t *testing.T) {
	setUp(t)
	t.Setenv("CX_FAKE_NCCL_HANG", "0:1")
	for _, v := range vendors {
		errs := together(t, v.kind, 2, func(e *end) error {
			stop := time.AfterFunc(time.Second, e.comm.Abort)
			defer stop.Stop()
			return reduceOnce(e)
		})
		for _, err := range errs {
			require.ErrorContains(t, err, "the communicator has ended", v.kind)
		}
	}
}

// Operations that the ranks do not agree on are found by the stand-in.
func TestMismatch(t *testing.T) {
	setUp(t)
	for _, v := range vendors {
		errs := together(t, v.kind, 2, func(e *end) error {
			m, err := e.comm.Alloc(context.Background(), 1<<20, "none")
			if err != nil {
				return err
			}
			call := runner.Call{Op: runner.AllReduce, Type: numeric.Float, Count: int64(4 + e.Rank), Send: m.Ptr(), Recv: m.Ptr()}
			if err := e.comm.Enqueue(e.stream, []runner.Call{call}, 1); err != nil {
				return err
			}
			return e.wait()
		})
		for _, err := range errs {
			require.ErrorContains(t, err, "ncclInvalidUsage", v.kind)
		}
	}
}

// So are parts of which the sender counts other elements than the receiver, by
// whatever entry point.
func TestMismatchOfParts(t *testing.T) {
	setUp(t)
	for _, v := range vendors {
		refused := make(chan struct{})
		errs := together(t, v.kind, 2, func(e *end) error {
			if e.Rank == 1 {
				defer close(refused)
			} else {
				go func() { // else it would wait for ever
					<-refused
					e.comm.Abort()
				}()
			}
			m, err := e.comm.Alloc(context.Background(), 1<<20, "none")
			if err != nil {
				return err
			}
			f := runner.Form{Op: runner.AllToAllV, Type: numeric.Float, World: 2, Traffic: [][]int64{{0, 400}, {0, 0}}}
			if e.Rank == 1 {
				f.Traffic = [][]int64{{0, 404}, {0, 0}}
			}
			words := f.Exchange(f.Extent(1<<10), e.Rank)
			var pin runtime.Pinner
			pin.Pin(&words[0])
			defer pin.Unpin()
			call := runner.Call{Op: f.Op, Type: f.Type, Send: m.Ptr(), Recv: m.Ptr().Add(4096), Exchange: uintptr(unsafe.Pointer(&words[0]))}
			if err := e.comm.Enqueue(e.stream, []runner.Call{call}, 1); err != nil {
				return err
			}
			return e.wait()
		})
		require.ErrorContains(t, errs[1], "ncclInvalidUsage", v.kind)
	}
}
