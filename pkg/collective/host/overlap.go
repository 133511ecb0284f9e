package host

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/accel/gemm"
	"github.com/collectivex/collectivex/pkg/affinity"
	"github.com/collectivex/collectivex/pkg/collective/data"
	"github.com/collectivex/collectivex/pkg/hostrank"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/overlap/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// OpenOverlap is a rank.Opener for ranks that multiply matrices beside communication. The caller has
// locked its OS thread, which communicates. A second thread computes, on a processor of its own if
// there are two for each rank.
func OpenOverlap(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
	return openOverlap(ctx, s, c, gemm.Loop{})
}

// openOverlap is OpenOverlap with another engine for the products.
func openOverlap(ctx context.Context, s *rank.Session, c plan.Case, e gemm.Engine) (rank.Runner, error) {
	cpus, err := affinity.Allowed()
	if err != nil {
		return nil, rank.Coded(result.ReasonEnvironment, err)
	}
	device, err := hostrank.Open(s, c.RanksPerNode)
	if err != nil {
		return nil, err
	}
	own, _ := device.CPUs()
	apart := len(cpus) >= 2*c.RanksPerNode
	if apart {
		own = cpus[c.RanksPerNode+s.LocalRank:][:1]
	}
	threads, err := newThreads(own, apart)
	if err != nil {
		return nil, errors.Join(rank.Coded(result.ReasonEnvironment, err), device.Close())
	}
	comm, err := newComm(ctx, s, device, !apart)
	if err != nil {
		return nil, errors.Join(err, threads.Close(), device.Close())
	}
	loop := func(string) (runner.Multiplier, error) {
		return runner.Multiplier{Engine: e, Compute: overlap.ComputeLoop}, nil
	}
	return runner.NewRunner(runner.Parts{
		Streams: threads, Multiplier: loop, Matrix: gemm.Inline{}, Data: data.Inline{}, Comm: comm, Device: device,
		Facts: hostrank.Facts(device),
	})
}

// threads holds the streams of a rank: the calling thread communicates and a second thread computes.
type threads struct {
	windows chan *window
	ended   chan struct{}
	apart   bool
}

var _ runner.Streams = (*threads)(nil)

// newThreads starts the compute thread on the given processors.
func newThreads(cpus []int, apart bool) (*threads, error) {
	t := &threads{windows: make(chan *window), ended: make(chan struct{}), apart: apart}
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	started := make(chan error)
	go func() {
		defer close(t.ended)
		runtime.LockOSThread() // never unlocked: the thread ends with its processor affinity
		started <- unix.SchedSetaffinity(0, &set)
		for w := range t.windows {
			w.compute()
			w.over.Store(true)
		}
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *threads) SharedProcessor() bool { return !t.apart }

func (t *threads) Close() error {
	close(t.windows)
	<-t.ended
	return nil
}

// window is a window on which both threads work. One thread may read non-atomic fields that the other
// thread writes only after the writer has finished.
type window struct {
	runner.Window
	opened time.Time
	times  runner.Times

	ready, open, over atomic.Bool
	abandoned         atomic.Bool
	communicated      atomic.Int64 // tasks done
	err               error        // of the computation
}

func (t *threads) Run(ctx context.Context, asked runner.Window, meet func(context.Context) error) (runner.Times, error) {
	w := &window{Window: asked}
	t.windows <- w
	until(w.ready.Load)
	err := meet(ctx)
	if err != nil {
		w.abandoned.Store(true)
	}
	w.opened = time.Now()
	w.times.Opened = w.opened
	w.open.Store(true)
	if w.Early {
		until(w.over.Load)
	}
	if err == nil {
		if err = w.communicate(); err != nil {
			w.abandoned.Store(true)
		}
	}
	until(w.over.Load)
	return w.times, errors.Join(err, w.err)
}

// communicate runs the tasks of the calling thread.
func (w *window) communicate() error {
	for _, task := range w.Communication {
		start := w.now()
		if err := task.Enqueue(nil); err != nil {
			return err
		}
		w.times.Communication = append(w.times.Communication, runner.Span{Start: start, End: w.now()})
		w.communicated.Add(1)
	}
	return nil
}

// compute runs the tasks of the compute thread.
func (w *window) compute() {
	w.ready.Store(true)
	until(w.open.Load)
	for _, task := range w.Compute {
		if !w.Early {
			until(func() bool { return w.communicated.Load() > int64(task.After) || w.abandoned.Load() })
		}
		if w.abandoned.Load() {
			return
		}
		start := w.now()
		if w.err = task.Enqueue(nil); w.err != nil {
			return
		}
		w.times.Compute = append(w.times.Compute, runner.Span{Start: start, End: w.now()})
	}
}

// now returns the microseconds since the gate opened.
func (w *window) now() float64 {
	return float64(time.Since(w.opened)) / float64(time.Microsecond)
}

const (
	// polls is the number of checks before until first yields the processor, which the awaited thread
	// may need.
	polls = 256
	// yields is the interval, in checks, at which until yields to goroutines instead of threads.
	yields = 64
)

// until returns when cond is true. It does not sleep: a wake-up would be part of the window.
func until(cond func() bool) {
	for n := 1; !cond(); n++ {
		switch {
		case n < polls:
		case n%yields == 0:
			runtime.Gosched()
		default:
			_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // cannot fail
		}
	}
}
