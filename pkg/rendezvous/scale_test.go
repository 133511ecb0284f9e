package rendezvous

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// The figures of docs/scale.md: see there for the command line.

// requests counts what the ranks of a gather ask of a file system.
type requests struct {
	disk

	all *atomic.Int64
}

func (r requests) Visit(dir string) error {
	r.all.Add(1)
	return r.disk.Visit(dir)
}

func (r requests) Create(path string) (io.WriteCloser, error) {
	r.all.Add(1)
	return r.disk.Create(path)
}

func (r requests) Read(path string, offset, limit int64) ([]byte, error) {
	r.all.Add(1)
	return r.disk.Read(path, offset, limit)
}

func (r requests) Link(from, to string) error {
	r.all.Add(1)
	return r.disk.Link(from, to)
}

func (r requests) Remove(path string) error {
	r.all.Add(1)
	return r.disk.Remove(path)
}

// valueBytes is the size of what a rank gives to a gather: about that of an NCCL id.
const valueBytes = 128

// BenchmarkGather measures a gather of ranks that are goroutines, each with a store of its
// own, from the first that comes to the last that leaves.
func BenchmarkGather(b *testing.B) {
	for _, kind := range []string{"files", "tcp"} {
		for _, world := range []int{8, 64, 512} {
			b.Run(fmt.Sprintf("store=%s/ranks=%d", kind, world), func(b *testing.B) {
				var asked atomic.Int64
				ranks := benchStores(b, kind, world, &asked)
				gather := func(name string) {
					var wg sync.WaitGroup
					for r, s := range ranks {
						wg.Go(func() {
							values, err := s.Gather(b.Context(), name, r, world, make([]byte, valueBytes))
							if err != nil || len(values) != world {
								b.Errorf("rank %d: %d values: %v", r, len(values), err)
							}
						})
					}
					wg.Wait()
				}
				gather("connect")
				asked.Store(0)
				n, used := 0, processorTime(b)
				for b.Loop() {
					n++
					gather("g-" + strconv.Itoa(n))
				}
				b.ReportMetric(float64(processorTime(b)-used)/float64(n*world), "cpu-µs/rank")
				if kind == "files" {
					b.ReportMetric(float64(asked.Load())/float64(n*world), "requests/rank")
				}
			})
		}
	}
}

// processorTime is what this process has used, in microseconds. Unlike the elapsed time it
// depends little on what else the machine does.
func processorTime(b *testing.B) int64 {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return (u.Utime.Nano() + u.Stime.Nano()) / 1000
}

// benchStores opens a store of a kind for each rank.
func benchStores(b *testing.B, kind string, world int, asked *atomic.Int64) []Store {
	b.Helper()
	ranks := make([]Store, world)
	if kind == "files" {
		root, err := os.MkdirTemp(Memory(), "cxbench-")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { os.RemoveAll(root) })
		for r := range ranks {
			if ranks[r], err = openFile(requests{system{}, asked}, root, firstNudge); err != nil {
				b.Fatal(err)
			}
		}
		return ranks
	}
	l, err := Lead(loopback, world)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	for r := range ranks {
		if ranks[r], err = Join(l.Address(), func(name string) string { return l.Env()[name] }); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = ranks[r].Close() })
	}
	return ranks
}

const loopback = "127.0.0.1"

// rankVariable makes this test binary a rank of BenchmarkStart: its number and its world.
const rankVariable = "CX_TEST_RANK"

func TestMain(m *testing.M) {
	var rank, world int
	if n, _ := fmt.Sscanf(os.Getenv(rankVariable), "%d/%d", &rank, &world); n < 2 {
		os.Exit(m.Run())
	}
	if err := startedRank(rank, world); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// startedRank is a rank of BenchmarkStart: it joins the store and meets the others.
func startedRank(rank, world int) error {
	s, err := Join(os.Args[1], os.Getenv)
	if err != nil {
		return err
	}
	if err := s.Barrier(context.Background(), "start", rank, world); err != nil {
		return err
	}
	return s.Close()
}

// BenchmarkStart measures how long it takes from the start of processes on this host until
// they have met in a barrier and ended.
func BenchmarkStart(b *testing.B) {
	for _, kind := range []string{"files", "tcp"} {
		for _, world := range []int{2, 8, 32} {
			b.Run(fmt.Sprintf("store=%s/ranks=%d", kind, world), func(b *testing.B) {
				for b.Loop() {
					start(b, kind, world)
				}
			})
		}
	}
}

func start(b *testing.B, kind string, world int) {
	b.Helper()
	address, env := b.TempDir(), os.Environ()
	if kind == "tcp" {
		l, err := Lead(loopback, world)
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		address = l.Address()
		env = append(env, TokenVariable+"="+l.token)
	}
	var wg sync.WaitGroup
	for r := range world {
		wg.Go(func() {
			c := exec.Command(os.Args[0], address)
			c.Env = slices.Concat(env, []string{fmt.Sprintf("%s=%d/%d", rankVariable, r, world)})
			if out, err := c.CombinedOutput(); err != nil {
				b.Errorf("rank %d: %v: %s", r, err, out)
			}
		})
	}
	wg.Wait()
}
