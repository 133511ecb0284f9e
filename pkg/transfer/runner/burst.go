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

// first times transfers of 8 bytes and of a block of the first row. They write to one place from two
// places in turn, so that each changes the destination. The result of the last transfer is checked.
// After the pools are repainted, one more transfer is made and checked.
func (b *bench) first(ctx context.Context, op string) error {
	i := slices.IndexFunc(b.rows, func(x bursts) bool { return x.row.Op == op && x.row.Kind == transfer.KindPaged })
	// Their number is even, so that the last one has another source than the first.
	timed := b.block.Timing.Reps * b.block.Timing.Trials
	warmup := b.block.Timing.Warmup
	warmup += (warmup + timed) % 2
	last := warmup + timed - 1
	for size, bytes := range []int64{pool.WordBytes, b.rows[i].sets[0][0][0].Bytes} {
		request := func(n int) []Block { return moved(op, guardBytes+int64((n+size)%2)*bytes, bytes) }
		requests := [][][]Block{{request(0)}, {request(1)}}
		at := check{Row: rowFirst - size, Op: op}
		f := first{Op: op, Bytes: bytes}
		if b.posts() {
			for n := range warmup + timed {
				var one trial
				if err := b.burst(ctx, op, requests[n%2], &one); err != nil {
					return err
				}
				f.Millis = append(f.Millis, one.Latency...)
			}
			f.Millis = f.Millis[warmup:]
			if err := b.session.Emit(kindFirst, f); err != nil {
				return err
			}
		}
		if err := b.inspect(ctx, at, request(last)); err != nil {
			return err
		}
		at.Rep = 1
		if err := b.checked(ctx, at, request(last+1), func() error { return b.burst(ctx, op, requests[0], nil) }); err != nil {
			return err
		}
	}
	return nil
}

// moved returns a request with one block, from an offset in the source to the beginning of the
// destination.
func moved(op string, from, bytes int64) []Block {
	if op == transfer.Pull {
		return []Block{{Local: guardBytes, Remote: from, Bytes: bytes}}
	}
	return []Block{{Local: from, Remote: guardBytes, Bytes: bytes}}
}

// trial measures one trial of a row. The checked bursts are among the timed ones.
func (b *bench) trial(ctx context.Context, row, n int) error {
	x, timing := b.rows[row], b.block.Timing
	out := trial{Row: row, Trial: n}
	if b.posts() {
		for i := range timing.Warmup {
			if err := b.burst(ctx, x.row.Op, x.sets[x.set(i, x.tables)], nil); err != nil {
				return err
			}
		}
	}
	checked := checkedReps(b.block, row, n)
	for i := range timing.Reps {
		set := x.set(i, x.tables)
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

// inFlight is how many bursts are posted and not completed while bursts follow each other.
const inFlight = 2

// sustained posts back-to-back bursts of a row, inFlight at a time, and measures the processor time of
// both ranks meanwhile. Rank 0 waits in the store, where waiting costs next to nothing. The results of
// the last bursts are checked. Then the pools are repainted, and inFlight more bursts follow in the same
// manner and are checked: a library that has stopped moving data fails this.
func (b *bench) sustained(ctx context.Context, op string, row int) error {
	x := b.rows[row]
	depth := min(inFlight, x.tables)
	out := sustained{Op: op}
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
		if err := b.follow(ctx, x, 0, depth, enough, &out); err != nil {
			return err
		}
	}
	bursts, err := rank.Gather(ctx, b.session, "sustained-"+op, out.Bursts)
	if err != nil {
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
	posted := bursts[postingRank]
	latest := func(n int) (blocks []Block) {
		for i := n - depth; i < n; i++ {
			blocks = append(blocks, x.blocks(x.set(i, depth))...)
		}
		return blocks
	}
	at := check{Row: rowSustained, Op: op}
	if err := b.inspect(ctx, at, latest(posted)); err != nil {
		return err
	}
	at.Rep = 1
	return b.checked(ctx, at, latest(posted+depth), func() error {
		once := func(n int, _ time.Time) bool { return n >= depth }
		return b.follow(ctx, x, posted, depth, once, &sustained{})
	})
}

// enough returns a function that reports whether the bursts posted since start suffice. They must take
// as long as the case requires. Each of depth tables must have been used in both of its sets, so that
// the last bursts leave other data than the first ones. If both ranks must post equally many, the duration
// is estimated from rank 1's fastest burst of the row.
func (b *bench) enough(ctx context.Context, op string, row, depth int) (func(posted int, start time.Time) bool, error) {
	limit := time.Duration(b.block.SustainMillis) * time.Millisecond
	if !b.TwoSided {
		return func(posted int, start time.Time) bool {
			return posted > 0 && posted%(2*depth) == 0 && time.Since(start) >= limit
		}, nil
	}
	fastest, err := rank.Gather(ctx, b.session, "fastest-"+op, b.fastest[row])
	if err != nil {
		return nil, err
	}
	const least = 1e-3 // no burst takes less than a microsecond
	turns := 1 + int(millis(limit)/max(least, fastest[postingRank]))/(2*depth)
	asked := 2 * depth * turns
	return func(posted int, _ time.Time) bool { return posted >= asked }, nil
}

// follow posts bursts until there are enough. from is the number of the first one.
func (b *bench) follow(ctx context.Context, x bursts, from, depth int, enough func(posted int, start time.Time) bool, out *sustained) error {
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
		for _, blocks := range x.sets[x.set(from+posted, depth)] {
			request, err := b.Engine.Prepare(x.row.Op, blocks)
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

// burst prepares, posts and completes the requests of a burst, and adds its times to out unless that is
// nil. The clock stops before the requests are released.
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
