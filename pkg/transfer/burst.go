package transfer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// first times transfers of 8 bytes and of a block of the first row.
func (b *bench) first(ctx context.Context, op string) error {
	if !b.posts() {
		return nil
	}
	i := slices.IndexFunc(b.rows, func(x bursts) bool { return x.row.Op == op && x.row.Kind == vocab.KindPaged })
	for _, bytes := range []int64{wordBytes, b.rows[i].sets[0][0][0].Bytes} {
		f := first{Op: op, Bytes: bytes}
		request := [][]Block{{{Local: guardBytes, Remote: guardBytes, Bytes: bytes}}}
		for range b.block.Timing.Warmup + b.block.Timing.Reps*b.block.Timing.Trials {
			var one trial
			if err := b.burst(ctx, op, request, &one); err != nil {
				return err
			}
			f.Millis = append(f.Millis, one.Latency...)
		}
		f.Millis = f.Millis[b.block.Timing.Warmup:]
		if err := b.session.Emit(kindFirst, f); err != nil {
			return err
		}
	}
	return nil
}

// trial measures one trial of a row. The bursts whose results are checked are among the
// timed ones.
func (b *bench) trial(ctx context.Context, row, n int) error {
	x, timing := b.rows[row], b.block.Timing
	out := trial{Row: row, Trial: n}
	if b.posts() {
		for i := range timing.Warmup {
			if err := b.burst(ctx, x.row.Op, x.sets[i%len(x.sets)], nil); err != nil {
				return err
			}
		}
	}
	checked := checkedReps(b.block, row, n)
	for i := range timing.Reps {
		set := i % len(x.sets)
		if slices.Contains(checked, i) {
			at := check{Row: row, Op: x.row.Op, Trial: n, Rep: i}
			err := b.checked(ctx, at, x.blocks(set), func() error {
				return b.burst(ctx, x.row.Op, x.sets[set], &out)
			})
			if err != nil {
				return err
			}
		} else if b.posts() {
			if err := b.burst(ctx, x.row.Op, x.sets[set], &out); err != nil {
				return err
			}
		}
	}
	if !b.posts() {
		return nil
	}
	if best := slices.Min(out.Latency); n == 0 || best < b.fastest[row] {
		b.fastest[row] = best
	}
	return b.session.Emit(kindTrial, out)
}

// inFlight is how many bursts are posted and not waited for while bursts follow each
// other.
const inFlight = 2

// sustained posts bursts of a row one after the other, inFlight of them at a time, and
// takes the processor time of both ranks meanwhile. The tables of its last bursts are
// checked. Rank 0 waits in the store, where waiting costs next to nothing.
func (b *bench) sustained(ctx context.Context, op string, row int) error {
	x := b.rows[row]
	depth := min(inFlight, len(x.sets))
	out := sustained{Op: op}
	var blocks []Block
	for set := range depth {
		blocks = append(blocks, x.blocks(set)...)
	}
	enough, err := b.enough(ctx, op, row, depth)
	if err != nil {
		return err
	}
	if err := b.repaint(ctx); err != nil {
		return err
	}
	before, err := cpuSeconds()
	if err != nil {
		return err
	}
	if b.posts() {
		if err := b.follow(ctx, op, x, depth, enough, &out); err != nil {
			return err
		}
	}
	if err := b.session.Barrier(ctx, "sustained-"+op); err != nil {
		return err
	}
	after, err := cpuSeconds()
	if err != nil {
		return err
	}
	out.CPU = after - before
	if err := b.session.Emit(kindSustained, out); err != nil {
		return err
	}
	at := check{Row: rowSustained, Op: op}
	pull := op == vocab.Pull
	src, dst := b.origin(1-destinationOf(op)), b.origin(destinationOf(op))
	if b.session.Rank == destinationOf(op) {
		at.Finding, err = b.arrived(dst, src, blocks, pull)
	} else {
		at.Finding, err = Unchanged(src, b.pool, "source")
	}
	if err != nil {
		return err
	}
	return b.session.Emit(kindCheck, at)
}

// enough returns a function that reports whether the bursts posted since start are enough: at
// least depth, so that each table has its turn, and for as long as the case sustains its rate.
// Where both ranks have to post equally many, that time is taken at the pace of rank 1's fastest
// burst of the row.
func (b *bench) enough(ctx context.Context, op string, row, depth int) (func(posted int, start time.Time) bool, error) {
	limit := time.Duration(b.block.SustainMillis) * time.Millisecond
	if !b.TwoSided {
		return func(posted int, start time.Time) bool { return posted >= depth && time.Since(start) >= limit }, nil
	}
	fastest, err := rank.Gather(ctx, b.session, "fastest-"+op, b.fastest[row])
	if err != nil {
		return nil, err
	}
	const least = 1e-3 // no burst takes less than a microsecond
	asked := max(depth, int(millis(limit)/max(least, fastest[postingRank])))
	return func(posted int, _ time.Time) bool { return posted >= asked }, nil
}

// follow posts bursts until they are enough.
func (b *bench) follow(ctx context.Context, op string, x bursts, depth int, enough func(int, time.Time) bool, out *sustained) error {
	var flying [][]Request
	finish := func() error {
		for _, request := range flying[0] {
			if err := b.wait(ctx, request); err != nil {
				return err
			}
			if err := request.Release(); err != nil {
				return err
			}
		}
		flying = flying[1:]
		out.Bursts++
		return nil
	}
	start := time.Now()
	for posted := 0; !enough(posted, start); posted++ {
		if len(flying) == depth {
			if err := finish(); err != nil {
				return err
			}
		}
		var burst []Request
		for _, blocks := range x.sets[posted%depth] {
			request, err := b.Engine.Prepare(op, blocks)
			if err != nil {
				return err
			}
			if err := request.Post(); err != nil {
				return err
			}
			burst = append(burst, request)
		}
		flying = append(flying, burst)
	}
	for len(flying) > 0 {
		if err := finish(); err != nil {
			return err
		}
	}
	out.Seconds = time.Since(start).Seconds()
	out.InFlight, out.Bytes = depth, int64(out.Bursts)*x.row.ReqBytes*int64(x.row.Batch)
	return nil
}

// burst makes, posts and completes the requests of a burst, and adds its times to out, if
// that is not nil. The clock stops before the requests are released.
func (b *bench) burst(ctx context.Context, op string, requests [][]Block, out *trial) error {
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
	for _, request := range posted {
		if err := request.Release(); err != nil {
			return err
		}
	}
	if out != nil {
		if out.Began.IsZero() {
			out.Began = start.UTC()
		}
		out.Latency = append(out.Latency, millis(latency))
		out.Request = append(out.Request, ends...)
		out.Prepare = append(out.Prepare, millis(prepare))
		out.Post = append(out.Post, millis(post))
		out.Release = append(out.Release, since(at))
	}
	return nil
}

// wait polls until a request is done.
func (b *bench) wait(ctx context.Context, r Request) error {
	const polls = 1 << 12 // between looks at the context
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

// cpuSeconds is the processor time of this process, all of its threads.
func cpuSeconds() (float64, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	seconds := func(t unix.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(u.Utime) + seconds(u.Stime), nil
}
