// Package communicators measures how long NCCL takes to create communicators of the GPUs of this host: from a
// unique id, by ncclCommSplit and by ncclCommShrink. Each rank is a process with a device of its own.
//
//	go test ./bench/communicators -run '^$' -bench . -g 4
//
// All ranks begin together, after an operation on a communicator that all of them share. A row has three
// times in ms: of the call, of the first all_gather, in which NCCL connects the ranks, and of closing the
// communicator. Each is the time of the slowest rank: the median of the trials, and their range. The result
// of the all_gather is checked.
package communicators

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
)

var (
	world  = flag.Int("g", 4, "ranks, one for each GPU: at least 2")
	trials = flag.Int("n", 10, "trials of each row, after an untimed one")
)

// rankVariable makes a process a rank. Its value has the options.
const rankVariable = "CX_TEST_COMMUNICATORS_RANK"

type options struct {
	world, trials, rank int
	dir                 string // of the store
}

func TestMain(m *testing.M) {
	var o options
	if n, _ := fmt.Sscan(os.Getenv(rankVariable), &o.world, &o.trials, &o.rank, &o.dir); n == 0 {
		os.Exit(m.Run())
	}
	if err := beRank(context.Background(), os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stdout, "communicators:", err)
		os.Exit(1)
	}
}

func BenchmarkCommunicators(b *testing.B) {
	for b.Loop() {
		if err := start(b.Context(), os.Stdout, b.TempDir(), *world, *trials); err != nil {
			b.Fatal(err)
		}
	}
}

// Four ranks make communicators in every way. A library that skips an operation of one of them, or
// lacks a call, is found, and no rank is left waiting.
func TestCommunicators(t *testing.T) {
	need.Full(t)
	fakes.Build(t).Use(t)
	t.Setenv("CX_FAKE_DEVICES", "4")
	communicators := func() (string, error) {
		var out strings.Builder
		err := start(t.Context(), &out, t.TempDir(), 4, 2)
		return out.String(), err
	}

	const times = ` \| [0-9.e+-]+ \([0-9.e+-]+ … [0-9.e+-]+\) \| [0-9.e+-]+ \([0-9.e+-]+ … [0-9.e+-]+\) \| [0-9.e+-]+ \([0-9.e+-]+ … [0-9.e+-]+\) \|\n`
	out, err := communicators()
	require.NoError(t, err, out)
	require.Regexp(t, `^4 ranks on CX Fake NVIDIA GPU, NCCL 2\.28\.9, 2 trials; ms of the slowest rank, median \(range\)\n\n`+
		`\| communicator \| made \| first all_gather \| closed \|\n\|---\|--:\|--:\|--:\|\n`+
		`\| ncclCommInitRankConfig, all ranks`+times+`\| ncclCommSplit, all ranks`+times+
		`\| ncclCommSplit, two halves`+times+`\| ncclCommShrink, without the last rank`+times+`$`, out)

	real := os.Getenv("CX_NCCL_LIB")
	t.Setenv("CX_NCCL_LIB", fakes.Liar(t, real))
	t.Setenv("CX_LIE", "every:4") // the second all_gather of a communicator: operations of the parent come between them
	out, err = communicators()
	require.Error(t, err)
	require.Regexp(t, `communicators: ncclCommInitRankConfig, all ranks: rank [0-3]: the communicator has 4 ranks and gathers \[255 255 255 255\], want \[0 1 2 3\]\n`, out)

	t.Setenv("CX_NCCL_LIB", fakes.Variant{Hide: []string{"ncclCommShrink"}}.Build(t))
	out, err = communicators()
	require.Error(t, err)
	require.Contains(t, out, "communicators: ncclCommShrink, without the last rank: no such symbol: ncclCommShrink in libnccl.so.2: ")
}

// start runs the ranks as processes. When one fails, it ends the others, which may wait for it.
func start(ctx context.Context, stdout io.Writer, dir string, world, trials int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	ended, lock := make(chan error), &sync.Mutex{}
	for r := range world {
		cmd := exec.CommandContext(ctx, exe)
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %d %s", rankVariable, world, trials, r, dir))
		cmd.Stdout, cmd.Stderr = &locked{w: stdout, lock: lock}, os.Stderr
		go func() {
			if err := cmd.Run(); err != nil {
				ended <- fmt.Errorf("rank %d: %w", r, err)
				return
			}
			ended <- nil
		}()
	}
	var first error
	for range world {
		if err := <-ended; err != nil && first == nil {
			first = err
			cancel()
		}
	}
	return first
}

// locked is a writer that several processes share.
type locked struct {
	w    io.Writer
	lock *sync.Mutex
}

func (l *locked) Write(p []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.w.Write(p)
}

// maker is a rank that makes communicators.
type maker struct {
	session *rank.Session
	library *nccl.Library
	device  accel.Device
	stream  accel.Stream
	world   *gpurank.Group
	// buffer holds the byte that this rank sends, followed by the bytes that it receives.
	buffer accel.Ptr
}

// config is the configuration of communicators of collectives in cxrun.
var config = nccl.Config{NVLinkCentric: true}

// way is a way to make a communicator.
type way struct {
	name string
	// group returns the group of a rank. Ranks of one group get a communicator. A rank with NoColor
	// gets none and does not take part.
	group func(rank, world int) int
	// prepare does what is not timed, and returns the call that is.
	prepare func(ctx context.Context, m *maker, name string, group int) (func() (*nccl.Communicator, error), error)
}

func everyone(int, int) int { return 0 }

func split(_ context.Context, m *maker, _ string, group int) (func() (*nccl.Communicator, error), error) {
	return func() (*nccl.Communicator, error) { return m.world.Split(group, m.session.Rank, config) }, nil
}

var ways = []way{
	{"ncclCommInitRankConfig, all ranks", everyone, func(ctx context.Context, m *maker, name string, _ int) (func() (*nccl.Communicator, error), error) {
		var id nccl.ID
		var err error
		if m.session.Rank == 0 {
			if id, err = m.library.NewID(); err != nil {
				return nil, err
			}
		}
		ids, err := rank.Gather(ctx, m.session, name, id)
		if err != nil {
			return nil, err
		}
		return func() (*nccl.Communicator, error) {
			return m.library.Init(ids[:1], m.session.Rank, m.session.World, config)
		}, nil
	}},
	{"ncclCommSplit, all ranks", everyone, split},
	{"ncclCommSplit, two halves", func(rank, world int) int { return 2 * rank / world }, split},
	{"ncclCommShrink, without the last rank", func(rank, world int) int {
		if rank == world-1 {
			return nccl.NoColor
		}
		return 0
	}, func(_ context.Context, m *maker, _ string, _ int) (func() (*nccl.Communicator, error), error) {
		return func() (*nccl.Communicator, error) {
			return m.world.Shrink([]int{m.session.World - 1}, false, config)
		}, nil
	}},
}

// beRank makes communicators in every way. Rank 0 prints the rows.
func beRank(ctx context.Context, stdout io.Writer, o options) (err error) {
	runtime.LockOSThread() // the device is current here
	store, err := rendezvous.OpenFile(o.dir)
	if err != nil {
		return err
	}
	defer store.Close()
	m := maker{session: rank.NewSession(rank.Place{Rank: o.rank, World: o.world, LocalRank: o.rank}, store, "communicators", nil)}
	library, device, err := gpurank.OpenNCCL(nccl.NCCL, m.session)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	m.library, m.device = library, device
	if m.stream, err = device.NewStream(); err != nil {
		return err
	}
	if m.world, err = gpurank.JoinGroup(ctx, m.session, library, device, "world", nccl.Config{NVLinkCentric: true}); err != nil {
		return err
	}
	if m.buffer, err = device.Alloc(int64(1 + o.world)); err != nil {
		return err
	}
	if err := accel.Write(device, m.stream, m.buffer, []byte{byte(o.rank)}); err != nil {
		return err
	}
	if o.rank == 0 {
		fmt.Fprintf(stdout, "%d ranks on %s, NCCL %s, %d trials; ms of the slowest rank, median (range)\n\n", o.world, device.Info().Product, library.VersionString(), o.trials)
		fmt.Fprintf(stdout, "| communicator | made | first all_gather | closed |\n|---|--:|--:|--:|\n")
	}
	for i, w := range ways {
		var mine [columns][]float64
		for trial := range 1 + o.trials {
			times, err := m.time(ctx, w, fmt.Sprintf("%d-%d", i, trial))
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			for c := range times {
				mine[c] = append(mine[c], times[c])
			}
		}
		all, err := rank.Gather(ctx, m.session, fmt.Sprintf("times-%d", i), mine)
		if err != nil {
			return err
		}
		if o.rank == 0 {
			if err := printRow(stdout, w.name, all); err != nil {
				return err
			}
		}
	}
	return errors.Join(m.device.Free(m.buffer), m.stream.Close(), m.world.Close())
}

// columns are the times of a row: made, first all_gather, closed.
const columns = 3

// time makes and closes a communicator, and returns the times in ms. They are 0 on a rank that
// gets none.
func (m *maker) time(ctx context.Context, w way, name string) (times [columns]float64, err error) {
	group := w.group(m.session.Rank, m.session.World)
	call, err := w.prepare(ctx, m, name, group)
	if err != nil {
		return times, err
	}
	// A rank that did not take part in the last one waits here, with nothing enqueued.
	if err := m.session.Store.Barrier(ctx, m.session.Scope+"/begin-"+name, m.session.Rank, m.session.World); err != nil {
		return times, err
	}
	received := m.buffer.Add(1)
	const poison = 0xff // no rank's byte
	if err := errors.Join(
		m.device.Set(m.stream, received, poison, int64(m.session.World)), m.world.Align(m.stream), m.stream.Synchronize()); err != nil {
		return times, err
	}
	if group == nccl.NoColor {
		return times, nil
	}
	began := time.Now()
	lap := func() float64 {
		now := time.Now()
		defer func() { began = now }()
		return float64(now.Sub(began)) / float64(time.Millisecond)
	}
	c, err := call()
	if err != nil {
		return times, err
	}
	times[0] = lap()
	if err := errors.Join(c.AllGather(m.stream, numeric.Int8, m.buffer, received, 1), m.stream.Synchronize()); err != nil {
		return times, err
	}
	times[1] = lap()
	var want []byte
	for r := range m.session.World {
		if w.group(r, m.session.World) == group {
			want = append(want, byte(r))
		}
	}
	got, err := accel.Read[byte](m.device, m.stream, received, len(want))
	if err != nil {
		return times, err
	}
	if c.World() != len(want) || !slices.Equal(got, want) {
		return times, fmt.Errorf("rank %d: the communicator has %d ranks and gathers %d, want %d", m.session.Rank, c.World(), got, want)
	}
	lap()
	err = c.Close()
	times[2] = lap()
	return times, err
}

// printRow prints the times of all ranks, without the first trial.
func printRow(stdout io.Writer, name string, ranks [][columns][]float64) error {
	fields := []string{name}
	for c := range ranks[0] {
		var perRank [][]float64
		for _, times := range ranks {
			perRank = append(perRank, times[c][1:])
		}
		ms, err := measure.OverRanks(perRank, measure.Max)
		if err != nil {
			return err
		}
		fields = append(fields, fmt.Sprintf("%.3g (%.3g … %.3g)", measure.Percentile(ms, 50), slices.Min(ms), slices.Max(ms)))
	}
	_, err := fmt.Fprintf(stdout, "| %s |\n", strings.Join(fields, " | "))
	return err
}
