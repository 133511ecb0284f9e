package nccl

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
)

// vendors are the libraries that every failure is tried with. Their stand-ins
// take the same orders; what is a vendor's own is here.
var vendors = []struct {
	kind    nccl.Kind
	file    string
	arch    string // that reduces every type
	library string // variables that name the files
	driver  string
	version string // variable that orders the version
	another string // variable that names another vendor's library
}{
	{nccl.NCCL, "libnccl.so.2", "sm_90", "CX_NCCL_LIB", "CX_CUDA_LIB", "CX_FAKE_NCCL_VERSION", "CX_RCCL_LIB"},
	{nccl.RCCL, "librccl.so.1", "gfx950", "CX_RCCL_LIB", "CX_HIP_LIB", "CX_FAKE_RCCL_VERSION", "CX_NCCL_LIB"},
}

// end is one rank's end of a group, with what a test needs to use it.
type end struct {
	runner.Parts
	rank.Place
	comm   *comm
	stream accel.Stream
	wrong  error // what checks found; the group goes on
}

// together runs body as every rank of a group in this process and returns the
// ranks' errors. A rank that hangs fails the test.
func together(t *testing.T, kind nccl.Kind, world int, body func(e *end) error) []error {
	t.Helper()
	dir := t.TempDir()
	errs := make([]error, world)
	done := make(chan int)
	for r := range world {
		go func() {
			runtime.LockOSThread() // a device is current here; the thread ends with the rank
			defer func() { done <- r }()
			errs[r] = asRank(t.Context(), dir, kind, rank.Place{Rank: r, World: world, LocalRank: r}, body)
		}()
	}
	timeout := time.After(10 * time.Minute)
	for range world {
		select {
		case r := <-done:
			if errs[r] != nil {
				t.Logf("rank %d: %v", r, errs[r])
			}
		case <-timeout:
			require.FailNow(t, "a rank hangs")
		}
	}
	return errs
}

// shared is what all tests use: a HIP device stays open as long as the process,
// and kernels are compiled once.
var shared string

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(shared)
	os.Exit(code)
}

// setUp makes this process find the stand-ins, with four devices.
func setUp(t *testing.T) {
	t.Helper()
	need.CXX(t)
	if shared == "" {
		dir, err := os.MkdirTemp("/dev/shm", "collectivex-nccl-")
		require.NoError(t, err)
		shared = dir
	}
	// Ranks are threads here: variables that one sets while another reads the environment have to exist before.
	for _, kv := range append(fakes.Build(t).Environ(shared), "CX_FAKE_DEVICES=4", "NCCL_DEBUG=", "NCCL_DEBUG_SUBSYS=", "NCCL_DEBUG_FILE=") {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
}

func asRank(ctx context.Context, dir string, kind nccl.Kind, p rank.Place, body func(e *end) error) error {
	store, err := rendezvous.OpenFile(dir)
	if err != nil {
		return err
	}
	defer store.Close()
	s := rank.NewSession(p, store, "test", nil)
	library, gpu, err := gpurank.OpenNCCL(kind, s)
	if err != nil {
		return err
	}
	parts, err := newParts(ctx, s, library, gpu)
	if err != nil {
		return errors.Join(err, gpu.Close())
	}
	e := &end{Parts: parts, Place: p, comm: parts.Comm.(*comm)}
	if e.stream, err = e.Device.NewStream(); err != nil {
		return err
	}
	if err = body(e); err != nil {
		e.comm.Abort()
	}
	return errors.Join(err, e.wrong, e.stream.Close(), e.Data.Close(), e.comm.Close(), e.Device.Close())
}

// wait is what the family does: it looks at the stream and at the library.
func (e *end) wait() error {
	for {
		done, err := e.stream.Query()
		if done || err != nil {
			return err
		}
		if err := e.comm.AsyncError(); err != nil {
			return err
		}
		time.Sleep(100 * time.Microsecond)
	}
}
