package runner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// first times transfers of 8 bytes and of a block of the first row, like the bursts of a row.
func (b *bench) first(ctx context.Context, op string) error {
	i := slices.IndexFunc(b.rows, func(x bursts) bool { return x.row.Op == op && x.row.Kind == transfer.KindPaged })
	for size, bytes := range []int64{pool.WordBytes, b.rows[i].sets[0][0][0].Bytes} {
		s := small(op, bytes).series()
		var out trial
		for n := range b.block.Timing.Trials {
			if err := b.round(ctx, s, check{Row: rowFirst - size, Op: op, Trial: rank.Trial{Number: n}}, &out); err != nil {
				return err
			}
		}
		if b.posts() {
			if err := b.session.Emit(kindFirst, first{Op: op, Bytes: bytes, Millis: out.Latency}); err != nil {
				return err
			}
		}
		if err := b.clean(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// row measures the trials of a row.
func (b *bench) row(ctx context.Context, row int) error {
	s := b.rows[row].series()
	if err := b.session.Trials(ctx, trialsOf(row), b.block.Timing.Trials, func(t rank.Trial) error {
		out := trial{Row: row, Trial: t}
		if err := b.round(ctx, s, check{Row: row, Op: s.row.Op, Trial: t}, &out); err != nil {
			return fmt.Errorf("%s, trial %d: %w", s.row.Name(), t.Number, err)
		}
		if !b.posts() {
			return nil
		}
		if best := slices.Min(out.Latency); b.fastest[row] == 0 || best < b.fastest[row] {
			b.fastest[row] = best
		}
		return b.session.Emit(kindTrial, out)
	}); err != nil {
		return err
	}
	return b.clean(ctx, s)
}

// trialsOf returns the name of the trials of a row for rank.Session.Trials.
func trialsOf(row int) string { return fmt.Sprintf("row-%d", row) }

// clean paints the pools if bursts have left anything there.
func (b *bench) clean(ctx context.Context, s *series) error {
	if s.fresh == s.made {
		return nil
	}
	s.fresh = s.made
	return b.repaint(ctx)
}

// round makes the bursts of a trial. It checks the pools after some of the timed bursts, drawn so that no
// library can predict which.
func (b *bench) round(ctx context.Context, s *series, at check, out *trial) error {
	timing := b.block.Timing
	checked := b.drawn(timing.Reps)
	for i := range timing.Warmup + timing.Reps {
		at.Rep = i - timing.Warmup
		var times *trial
		if at.Rep >= 0 {
			times = out
		}
		var look func() error
		if slices.Contains(checked, at.Rep) {
			look = func() error { return b.inspect(ctx, at, s.arrived()) }
		}
		requests := s.next()
		var err error
		if b.posts() {
			err = b.burst(ctx, s.row.Op, requests, times, look)
		} else if look != nil {
			err = look()
		}
		if err == nil && look != nil {
			err = b.clean(ctx, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inFlight is the number of sustained bursts in flight at a time.
const inFlight = 2

// Sustained bursts come in parts, whose last bursts are checked. partBursts is the minimum mean number of
// bursts in a part. It is not smaller, because the first and the last burst of a part are alone in flight.
const (
	minParts, maxParts = 2, 16
	partBursts         = 16
)

// sustained posts back-to-back bursts of a row, inFlight at a time, and measures the processor time of
// both ranks meanwhile. It posts them in several parts. Once a burst has overwritten another, a part ends
// after each burst with the same probability, so that no library can predict its end. After each part
// the results of the last bursts are checked, and the pools are painted. The clock stops between parts.
func (b *bench) sustained(ctx context.Context, op string, row int) error {
	s := b.rows[row].series()
	limit := float64(b.block.SustainMillis) / 1e3
	parts, mean, err := b.parts(ctx, op, row, limit)
	if err != nil {
		return err
	}
	out := sustained{Op: op}
	for seconds := 0.0; out.Parts < parts || seconds < limit; out.Parts++ {
		if out.Parts >= parts {
			mean *= 2
		}
		if seconds, err = b.part(ctx, s, s.tables+1+int(mean*b.chance.ExpFloat64()), &out); err != nil {
			return err
		}
	}
	return b.session.Emit(kindSustained, out)
}

// parts returns the minimum number of parts of sustained bursts and the mean number of bursts in a part,
// so that all parts together take about limit seconds. It estimates this from rank 1's fastest burst of
// the row.
func (b *bench) parts(ctx context.Context, op string, row int, limit float64) (parts int, mean float64, err error) {
	fastest, err := rank.Gather(ctx, b.session, "fastest-"+op, b.fastest[row])
	if err != nil {
		return 0, 0, err
	}
	const least = 1e-3 // no burst takes less than a microsecond
	n := 1e3 * limit / max(least, fastest[postingRank])
	parts = min(maxParts, max(minParts, int(n/partBursts)))
	return parts, n / float64(parts), nil
}

// part makes a part of n sustained bursts. It returns the time of the bursts of all parts so far, in
// seconds. Rank 0 waits in the store, which takes almost no processor time.
func (b *bench) part(ctx context.Context, s *series, n int, out *sustained) (float64, error) {
	before, err := cpuSeconds()
	if err != nil {
		return 0, err
	}
	var last []Request
	if b.posts() {
		if last, err = b.follow(ctx, s, n, out); err != nil {
			return 0, err
		}
	} else {
		s.made += n
	}
	seconds, err := rank.Gather(ctx, b.session, fmt.Sprintf("sustained-%s-%d", s.row.Op, out.Parts), out.Seconds)
	if err != nil {
		return 0, err
	}
	after, err := cpuSeconds()
	if err != nil {
		return 0, err
	}
	out.CPU += after - before
	if err := b.inspect(ctx, check{Row: rowSustained, Op: s.row.Op, Rep: out.Parts}, s.arrived()); err != nil {
		return 0, err
	}
	if err := release(last); err != nil {
		return 0, err
	}
	return slices.Max(seconds), b.clean(ctx, s)
}

// follow posts n bursts, and returns the requests of the last ones, which have completed.
func (b *bench) follow(ctx context.Context, s *series, n int, out *sustained) ([]Request, error) {
	depth := min(inFlight, s.tables)
	var flying [][]Request
	start := time.Now()
	for range n {
		if len(flying) == depth {
			for _, request := range flying[0] {
				if err := b.wait(ctx, request); err != nil {
					return nil, err
				}
				if err := request.Release(); err != nil {
					return nil, err
				}
			}
			flying = flying[1:]
		}
		var burst []Request
		for _, blocks := range s.next() {
			request, err := b.Engine.Prepare(s.row.Op, blocks)
			if err != nil {
				return nil, err
			}
			if err := request.Post(); err != nil {
				return nil, err
			}
			burst = append(burst, request)
		}
		flying = append(flying, burst)
	}
	last := slices.Concat(flying...)
	for _, request := range last {
		if err := b.wait(ctx, request); err != nil {
			return nil, err
		}
	}
	out.Seconds += time.Since(start).Seconds()
	out.InFlight, out.Bursts = depth, out.Bursts+n
	out.Bytes += int64(n) * s.row.ReqBytes * int64(s.row.Batch)
	return last, nil
}

// burst prepares, posts and completes the requests of a burst. It then calls look, unless that is nil,
// and releases the requests. It adds the times of the burst, without look, to out, unless that is nil.
func (b *bench) burst(ctx context.Context, op string, requests [][]Block, out *trial, look func() error) error {
	posted := make([]Request, len(requests))
	ends := make([]float64, len(requests))
	var prepare, post time.Duration
	start := time.Now()
	at := start
	for i, blocks := range requests {
		var err error
		if posted[i], err = b.Engine.Prepare(op, blocks); err != nil {
			return err
		}
		ready := time.Now()
		prepare += ready.Sub(at)
		if err := posted[i].Post(); err != nil {
			return err
		}
		at = time.Now()
		post += at.Sub(ready)
	}
	for i, request := range posted {
		if err := b.wait(ctx, request); err != nil {
			return err
		}
		at = time.Now()
		ends[i] = millis(at.Sub(start))
	}
	latency := at.Sub(start)
	if look != nil {
		if err := look(); err != nil {
			return err
		}
		at = time.Now()
	}
	if err := release(posted); err != nil {
		return err
	}
	if out != nil {
		released := since(at)
		if out.Began.IsZero() {
			out.Began = start.UTC()
		}
		out.Latency = append(out.Latency, millis(latency))
		out.Request = append(out.Request, ends...)
		out.Prepare = append(out.Prepare, millis(prepare))
		out.Post = append(out.Post, millis(post))
		out.Release = append(out.Release, released)
	}
	return nil
}

func release(requests []Request) error {
	for _, request := range requests {
		if err := request.Release(); err != nil {
			return err
		}
	}
	return nil
}

// wait polls until a request is done.
func (b *bench) wait(ctx context.Context, r Request) error {
	const polls = 1 << 12 // between checks of the context
	for n := 1; ; n++ {
		done, err := r.Done()
		if done || err != nil {
			return err
		}
		if n%polls == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
}

func millis(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func since(start time.Time) float64 { return millis(time.Since(start)) }

// cpuSeconds returns the processor time of this process, over all of its threads.
func cpuSeconds() (float64, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	seconds := func(t unix.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(u.Utime) + seconds(u.Stime), nil
}
