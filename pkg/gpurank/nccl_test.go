package gpurank

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
)

// setUp makes this process find the stand-ins, with three devices, but for a library
// that the test has named.
func setUp(t *testing.T) {
	t.Helper()
	shared := fakes.MemoryDir(t)
	for _, kv := range append(fakes.Build(t).Environ(shared), "CX_FAKE_DEVICES=3") {
		name, value, _ := strings.Cut(kv, "=")
		if name != "CX_NCCL_LIB" || os.Getenv(name) == "" {
			t.Setenv(name, value)
		}
	}
}

// together runs body as every rank of a group, each with a device and an OS thread of
// its own, and returns the ranks' errors. A rank that hangs fails the test.
func together(t *testing.T, kind nccl.Kind, world int, body func(ctx context.Context, s *rank.Session, l *nccl.Library, g *GPU) error) []error {
	t.Helper()
	setUp(t)
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	errs := make([]error, world)
	done := make(chan struct{})
	for r := range world {
		go func() {
			runtime.LockOSThread() // a device is current here; the thread ends with the rank
			defer func() { done <- struct{}{} }()
			errs[r] = func() error {
				store, err := rendezvous.OpenFile(dir)
				if err != nil {
					return err
				}
				defer store.Close()
				s := rank.NewSession(rank.Place{Rank: r, World: world, LocalRank: r}, store, "test", nil)
				l, g, err := OpenNCCL(kind, s)
				if err != nil {
					return err
				}
				return errors.Join(body(ctx, s, l, g), g.Close())
			}()
		}()
	}
	for range world {
		select {
		case <-done:
		case <-ctx.Done():
			require.FailNow(t, "a rank hangs")
		}
	}
	return errs
}

// exchangeRows is what a backend of expert parallelism does with a group: each rank
// sends r+1 rows to rank r, of which each knows where they come from, and returns
// what it received.
func exchangeRows(ctx context.Context, s *rank.Session, l *nccl.Library, g *GPU) (got []int64, err error) {
	c, err := Join(ctx, s, l, "rows", nccl.Config{})
	if err != nil {
		return nil, err
	}
	const most = 64
	lists := make([]int64, 4*s.World)
	rows, sent, received := make([]int64, most), int64(0), int64(0)
	for r := range s.World {
		lists[r], lists[s.World+r] = int64(r+1), sent
		lists[2*s.World+r], lists[3*s.World+r] = int64(s.Rank+1), received
		for i := range int64(r + 1) {
			rows[sent+i] = int64(100*s.Rank + 10*r)
		}
		sent += int64(r + 1)
		received += int64(s.Rank + 1)
	}
	from, err := g.Alloc(2 * most * 8)
	if err != nil {
		return nil, err
	}
	to := from.Add(most * 8)
	stream, err := g.NewStream()
	if err != nil {
		return nil, err
	}
	got = make([]int64, most)
	err = errors.Join(
		g.CopyIn(stream, from, unsafe.Pointer(&rows[0]), most*8),
		c.Exchange(stream, numeric.Int64, from, to, lists),
		stream.Synchronize(),
		g.CopyOut(stream, unsafe.Pointer(&got[0]), to, most*8),
		stream.Synchronize(), stream.Close(), g.Free(from), c.Close())
	return got[:received], err
}

func TestExchange(t *testing.T) {
	for _, c := range []struct {
		kind nccl.Kind
		want rank.Facts
	}{
		{nccl.NCCL, rank.Facts{Framework: "cuda", Library: rank.Library{Kind: "nccl"}}},
		{nccl.RCCL, rank.Facts{Framework: "hip", Library: rank.Library{Kind: "rccl"}}},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			got := make([][]int64, 3)
			facts := make([]rank.Facts, 3)
			for _, err := range together(t, c.kind, 3, func(ctx context.Context, s *rank.Session, l *nccl.Library, g *GPU) (err error) {
				facts[s.Rank] = g.Facts(LibraryOf(l))
				got[s.Rank], err = exchangeRows(ctx, s, l, g)
				return err
			}) {
				require.NoError(t, err)
			}
			require.Equal(t, [][]int64{{0, 100, 200}, {10, 10, 110, 110, 210, 210}, {20, 20, 20, 120, 120, 120, 220, 220, 220}}, got)
			for _, f := range facts {
				require.Equal(t, c.want.Framework, f.Framework)
				require.Equal(t, c.want.Library.Kind, f.Library.Kind)
				require.NotEmpty(t, f.DeviceProduct)
			}
		})
	}
}

func TestExchangeRefuses(t *testing.T) {
	lists := []int64{1, 0, 1, 0}
	for _, c := range []struct {
		name  string
		hide  []string
		lists []int64
		want  string
	}{
		{"lists of another group", nil, lists[:3], "grouped-send-recv on rank 0: 3 numbers in lists for 1 ranks, want 4"},
		{"a library without", []string{"ncclSend"}, lists, "no such symbol: ncclSend in libnccl.so.2: load another library"},
		{"no buffer", nil, lists, "grouped-send-recv: ncclInvalidArgument on rank 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("CX_NCCL_LIB", fakes.Variant{Hide: c.hide}.Build(t))
			errs := together(t, nccl.NCCL, 1, func(ctx context.Context, s *rank.Session, l *nccl.Library, g *GPU) error {
				comm, err := Join(ctx, s, l, "one", nccl.Config{})
				if err != nil {
					return err
				}
				stream, err := g.NewStream()
				if err != nil {
					return err
				}
				return errors.Join(comm.Exchange(stream, numeric.Float, 0, 0, c.lists), stream.Close(), comm.Abort())
			})
			require.ErrorContains(t, errs[0], c.want)
		})
	}
}

func TestRoots(t *testing.T) {
	require.Equal(t, []int{0}, roots(1, 1))
	require.Equal(t, []int{0, 2}, roots(4, 2))
	require.Equal(t, []int{0, 3, 5}, roots(7, 3))
	require.Equal(t, []int{0, 44, 87}, roots(130, 3))
}

// Many ranks meet at several ids, where the library can.
func TestManyRanksMeetAtSeveralIDs(t *testing.T) {
	meet := func(t *testing.T, kind nccl.Kind) []error {
		t.Helper()
		return together(t, kind, 3, func(ctx context.Context, s *rank.Session, l *nccl.Library, _ *GPU) error {
			c, err := join(ctx, s, l, "several", nccl.Config{}, 2)
			if err != nil {
				return err
			}
			return c.Close()
		})
	}
	for _, err := range meet(t, nccl.NCCL) {
		require.NoError(t, err)
	}
	for _, c := range []struct {
		kind nccl.Kind
		want string
	}{
		{nccl.NCCL, "ncclCommInitRankScalable"},
		{nccl.RCCL, "ncclCommInitRankConfig"}, // this one has no other
		{nccl.MSCCLPP, "ncclCommInitRankConfig"},
	} {
		t.Setenv("CX_FAKE_NCCL_INIT_ERROR", "0,1,2")
		for _, err := range meet(t, c.kind) {
			var coded *rank.Error
			require.ErrorAs(t, err, &coded)
			require.Equal(t, fmt.Sprintf("library-error: %s ncclSystemError", c.want), coded.Reason.String())
		}
	}
}

func TestNoDeviceForARank(t *testing.T) {
	setUp(t)
	for _, platform := range []string{"cuda", "hip"} {
		_, err := Open(platform, rank.NewSession(rank.Place{Rank: 3, World: 4, LocalRank: 3}, nil, "", nil))
		var coded *rank.Error
		require.ErrorAs(t, err, &coded)
		require.Equal(t, "environment: 3 devices for local rank 3", coded.Reason.String())
		require.NoError(t, coded.Reason.Check())
	}
}
