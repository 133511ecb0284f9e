package transfer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Runner is the rank half of the family, over the parts of one backend.
type Runner struct{ parts Parts }

var _ rank.Runner = (*Runner)(nil)

// NewRunner returns a runner that owns p.
func NewRunner(p Parts) *Runner { return &Runner{p} }

// Close implements rank.Runner.
func (r *Runner) Close() error { return r.parts.Engine.Close() }

const (
	postingRank = 1
	memoryShare = 0.8 // the part of the free memory that the pools may take
	// lateWait is how long a released pool is watched.
	lateWait = 100 * time.Millisecond
)

// Run implements rank.Runner: by operation the rows of the case, each with all of its
// trials, then bursts that follow each other, and a last look at what was released.
func (r *Runner) Run(ctx context.Context, s *rank.Session, c plan.Case) error {
	t := c.Transfer()
	if t == nil || s.World != plan.TransferRanks || c.World != plan.TransferRanks {
		return rank.Refused("%d ranks run a transfer, which has %d", s.World, plan.TransferRanks)
	}
	if err := s.Emit(rank.KindFacts, r.parts.Facts); err != nil {
		return err
	}
	if err := s.RefuseIdle(&c, Idle); err != nil {
		return err
	}
	// Collections happen between the cases only.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	b := &bench{Parts: r.parts, session: s, block: t, owned: &owned{Engine: r.parts.Engine}}
	b.Engine = b.owned
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	err := b.open(ctx, c)
	if err == nil {
		err = b.run(ctx)
	}
	if err != nil { // the group ends with the case, and nobody waits for the peer
		b.owned.users = 0
		giveUp()
	}
	return errors.Join(err, b.close())
}

// bench is one case in one rank.
type bench struct {
	Parts
	session *rank.Session
	block   *plan.Transfer
	owned   *owned // the engine
	rows    []bursts
	fastest []float64 // burst of each row that this rank has timed, in milliseconds
	meet    barrier
	pool    Memory
	nonce   uint16
}

// barrier brings the two ranks together.
type barrier interface {
	Wait(ctx context.Context) error
	Close() error
}

// storeBarrier is a barrier over the store, for ranks on two hosts.
type storeBarrier struct {
	session *rank.Session
	round   int
}

func (b *storeBarrier) Wait(ctx context.Context) error {
	b.round++
	return b.session.Barrier(ctx, "meet-"+strconv.Itoa(b.round))
}

func (*storeBarrier) Close() error { return nil }

// posts reports whether this rank prepares and posts requests.
func (b *bench) posts() bool { return b.session.Rank == postingRank || b.TwoSided }

// open registers the pools, connects them and emits what it took.
func (b *bench) open(ctx context.Context, c plan.Case) error {
	own, err := b.agree(ctx)
	if err != nil {
		return err
	}
	rows := result.AskedRows(b.block, own.Points)
	var largest int64
	for _, row := range rows {
		largest = max(largest, row.ReqBytes*int64(row.Batch))
	}
	b.fastest = make([]float64, len(rows))
	own.Pool = poolBytes(b.block.PoolSlack, largest)
	for _, row := range rows {
		b.rows = append(b.rows, newBursts(b.block, row, own.Pool))
	}
	if err := b.spoilLists(); err != nil {
		return err
	}
	for _, x := range b.rows {
		if err := x.check(own.Pool); err != nil {
			return err
		}
		own.Merged, own.Sets = append(own.Merged, x.merged()), append(own.Sets, len(x.sets))
	}
	if err := b.sameLists(ctx); err != nil {
		return err
	}
	start := time.Now()
	if b.pool, err = b.Engine.Register(ctx, own.Pool); err != nil {
		return err
	}
	if _, twice := b.session.Fault(FaultTwice); twice {
		if b.pool, err = b.Engine.Register(ctx, own.Pool); err != nil {
			return err
		}
	}
	own.Register, own.Checked = since(start), b.pool.CheckedBy()
	if err := b.paint(); err != nil {
		return err
	}
	if own.Connect, err = b.connect(ctx, own.Pool); err != nil {
		return err
	}
	if _, early := b.session.Fault(FaultUnregister); early {
		if err := b.Engine.Unregister(); err != nil {
			return err
		}
	}
	b.meet = &storeBarrier{session: b.session}
	if c.Nodes == 1 {
		spin, err := rendezvous.OpenSpin(ctx, b.session.Store, b.session.Scope+"/meet", b.session.Rank, b.session.World)
		if err != nil {
			return err
		}
		b.meet = spin
	}
	return b.session.Emit(kindSetup, own)
}

// agree finds the points for which both ranks have memory.
func (b *bench) agree(ctx context.Context) (own setup, err error) {
	free, err := b.Free()
	if err != nil {
		return own, rank.Coded(result.ReasonDevice, err)
	}
	budgets, err := rank.Gather(ctx, b.session, "budget", int64(memoryShare*float64(free)))
	if err != nil {
		return own, err
	}
	own.TwoSided, own.Budget = b.TwoSided, min(slices.Min(budgets), b.block.PoolBudget)
	kept, _ := b.block.Points()
	for _, point := range kept {
		if poolBytes(b.block.PoolSlack, point.Bytes) > own.Budget {
			own.Dropped = append(own.Dropped, point)
		} else {
			own.Points = append(own.Points, point)
		}
	}
	if len(own.Points) == 0 {
		return own, rank.Coded(result.ReasonMemory, fmt.Errorf("no burst fits into a pool of %d bytes", own.Budget))
	}
	return own, nil
}

// connect exchanges metadata and moves the first 8 bytes. It returns the milliseconds from
// having the metadata to having the bytes.
func (b *bench) connect(ctx context.Context, pool int64) (float64, error) {
	metadata, err := b.Engine.Metadata()
	if err != nil {
		return 0, err
	}
	all, err := rank.Gather(ctx, b.session, "metadata", metadata)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := b.Engine.Connect(all[1-b.session.Rank], pool); err != nil {
		return 0, err
	}
	var millis float64
	if b.posts() {
		request := [][]Block{{{Local: guardBytes, Remote: guardBytes, Bytes: wordBytes}}}
		if err := b.burst(ctx, b.block.Ops[0], request, nil); err != nil {
			return 0, err
		}
		millis = since(start)
	}
	// A pool goes with its owner: nobody leaves before the other is connected.
	return millis, b.session.Barrier(ctx, "connected")
}

func (b *bench) close() error {
	err := errors.Join(b.Engine.Disconnect(), b.Engine.Unregister())
	if b.meet != nil {
		err = errors.Join(err, b.meet.Close())
	}
	return err
}

// origin is where the words of a rank's pool come from in the checked burst at hand.
func (b *bench) origin(rank int) Origin { return Origin{PoolOf(rank), b.nonce} }

// paint writes to each word of this rank's pool what it is.
func (b *bench) paint() error { return b.pool.Paint(b.origin(b.session.Rank).Word(0)) }

func (b *bench) run(ctx context.Context) error {
	for _, op := range b.block.Ops {
		if err := b.first(ctx, op); err != nil {
			return err
		}
		last := 0
		for i := range b.rows {
			if b.rows[i].row.Op != op {
				continue
			}
			last = i
			for n := range b.block.Timing.Trials {
				if err := b.trial(ctx, i, n); err != nil {
					return fmt.Errorf("%s, trial %d: %w", b.rows[i].row.Name(), n, err)
				}
			}
		}
		if err := b.sustained(ctx, op, last); err != nil {
			return err
		}
		if err := b.released(ctx, op); err != nil {
			return err
		}
	}
	if b.posts() {
		lane, err := b.Engine.Lane()
		if err != nil {
			return err
		}
		if err := b.session.Emit(kindLane, lane); err != nil {
			return err
		}
	}
	// A pool goes with its owner, when the peer has let go of it.
	if err := b.meet.Wait(ctx); err != nil {
		return err
	}
	if err := b.Engine.Disconnect(); err != nil {
		return err
	}
	if err := b.meet.Wait(ctx); err != nil {
		return err
	}
	b.owned.left()
	return nil
}

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

// checkedReps are the bursts of a trial that are checked: the first, the last and one that
// the seed chooses between them.
func checkedReps(t *plan.Transfer, row, trial int) []int {
	reps := []int{0, t.Timing.Reps - 1}
	if t.Timing.Reps > 2 {
		reps = append(reps, 1+rand.New(rand.NewPCG(t.Seed, uint64(row)<<32|uint64(trial))).IntN(t.Timing.Reps-2))
	}
	slices.Sort(reps)
	return slices.Compact(reps)
}

// checked paints both pools anew, lets rank 1 do its work, and has each rank check its
// pool. Rank 0 checks what was pushed to it when it is notified, which is when the ranks
// meet, and again after they met once more.
func (b *bench) checked(ctx context.Context, at check, blocks []Block, work func() error) error {
	if err := b.repaint(ctx); err != nil {
		return err
	}
	if b.posts() {
		if err := work(); err != nil {
			return err
		}
	}
	if err := b.meet.Wait(ctx); err != nil {
		return err
	}
	pull := at.Op == vocab.Pull
	src, dst := b.origin(1-destinationOf(at.Op)), b.origin(destinationOf(at.Op))
	receives := b.session.Rank == destinationOf(at.Op)
	var err error
	if receives {
		at.Finding, err = b.arrived(dst, src, blocks, pull)
	} else if err = Spoil(b.session, b.pool); err == nil {
		at.Finding, err = Unchanged(src, b.pool, "source")
	}
	if err != nil {
		return err
	}
	if err := b.meet.Wait(ctx); err != nil {
		return err
	}
	if receives && !pull {
		if err := disturb(b.session, b.pool); err != nil {
			return err
		}
		again, err := Destination(dst, src, b.pool, spans(blocks, pull))
		if err != nil {
			return err
		}
		at.later(again)
	}
	if err := b.session.Emit(kindCheck, at); err != nil {
		return err
	}
	return b.meet.Wait(ctx)
}

// arrived checks this rank's pool after the blocks were moved there.
func (b *bench) arrived(dst, src Origin, blocks []Block, pull bool) (Finding, error) {
	order := spans(blocks, pull)
	if err := Injure(b.session, dst, src, b.pool, order); err != nil {
		return Finding{}, err
	}
	return Destination(dst, src, b.pool, order)
}

// repaint gives the words of both pools a new nonce, when rank 1 has no request in flight.
func (b *bench) repaint(ctx context.Context) error {
	if err := b.meet.Wait(ctx); err != nil {
		return err
	}
	if b.nonce++; b.nonce == 0 {
		b.nonce = 1
	}
	if err := b.paint(); err != nil {
		return err
	}
	return b.meet.Wait(ctx)
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

// enough returns what says that so many bursts, posted since start, are enough: when the time
// of the case is over or, where both ranks have to post as many, when the time is over at
// the pace of rank 1's fastest burst of the row. Each table has its turn.
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

// released repaints the pools, whose requests are all released, and looks at them later.
func (b *bench) released(ctx context.Context, op string) error {
	if err := b.repaint(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(lateWait):
	}
	at := check{Row: rowReleased, Op: op}
	if b.session.Rank == destinationOf(op) {
		if err := disturb(b.session, b.pool); err != nil {
			return err
		}
	}
	var err error
	if at.Finding, err = Unchanged(b.origin(b.session.Rank), b.pool, "late"); err != nil {
		return err
	}
	if err := b.session.Emit(kindCheck, at); err != nil {
		return err
	}
	return b.meet.Wait(ctx)
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
