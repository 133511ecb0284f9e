package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
)

// Runner is the rank half of the family, over the parts of one backend.
type Runner struct{ parts Parts }

var _ rank.Runner = (*Runner)(nil)

// NewRunner returns a runner that owns p.
func NewRunner(p Parts) *Runner { return &Runner{p} }

// Close implements rank.Runner.
func (r *Runner) Close() error { return r.parts.Memory.Close() }

// disturbance is the number of copies beside each timed copy, or beside a victim that takes as long.
const disturbance = copies.Disturbance

// queued is the maximum number of pieces that a window enqueues behind the gate. A device queues about a thousand. The
// next call would wait for the gate, and never return, since the same thread opens the gate.
const queued = 512

// Run implements rank.Runner: for each size and number of streams, windows by each clock. Before each window the sides
// are painted anew; after it, every word of them is compared.
func (r *Runner) Run(ctx context.Context, s *rank.Session, c plan.Case) error {
	block := copies.Of(&c)
	if block == nil || s.World != c.World || !copies.TestOf(block.Test).Runs(s.World, block.Each) || c.Nodes != 1 {
		return rank.Refused("%d ranks on %d nodes cannot run the copies of this case", s.World, c.Nodes)
	}
	if err := s.Emit(rank.KindFacts, r.parts.Facts); err != nil {
		return err
	}
	if err := s.RefuseIdle(&c, Measurer.Idle); err != nil {
		return err
	}
	// Collections happen only between windows.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	b := &bench{Parts: r.parts, own: accel.NewScope(r.parts.Device), session: s, planned: &c, block: block, test: copies.TestOf(block.Test)}
	b.garbage = rank.NewGarbage()
	var err error
	if b.chance, err = rank.Chance(ctx, s); err != nil {
		return err
	}
	if b.meet, err = rendezvous.OpenSpin(ctx, s.Store, s.Scope+"/meet", s.Rank, s.World); err != nil {
		return err
	}
	return errors.Join(b.run(ctx), b.close())
}

// bench is one case in one rank.
type bench struct {
	Parts
	session    *rank.Session
	own        *accel.Scope // of streams and events
	planned    *plan.Case
	block      *copies.Block
	test       copies.Test
	meet       *rendezvous.Spin
	acting     *rendezvous.Spin // of the ranks that copy in this turn; nil: at most one copies
	streams    []accel.Stream
	start, end accel.Event
	ends       []accel.Event // by stream
	bystander  *bystander    // nil: this rank runs no victim
	nonce      uint16
	chance     *rand.Rand // draws the swaps that are compared
	garbage    *rank.Garbage
	margins    margins // of the buffers of the current size
	odd        bool    // its pieces do not begin and end with words
}

func (b *bench) close() error {
	return errors.Join(b.dismiss(), b.meet.Close(), coded(b.own.Close()), b.bystander.close())
}

// run measures the rows of the case: for each size and turn, by numbers of streams.
func (b *bench) run(ctx context.Context) error {
	if err := b.room(ctx); err != nil {
		return err
	}
	if err := b.open(ctx); err != nil {
		return err
	}
	asked, turns := copies.Asked(b.planned), b.block.Turns(b.session.World)
	for i := 0; i < len(asked); i += len(b.block.Streams) {
		b.margins, b.odd = marginsOf(asked[i].BlockBytes), asked[i].BlockBytes%wordBytes != 0
		turn := turns[i/len(b.block.Streams)%len(turns)]
		ways, err := b.ways(ctx, i, asked[i].Bytes, turn)
		if err == nil {
			err = b.rows(ctx, i, asked[i:][:len(b.block.Streams)], ways)
		}
		if err != nil {
			return errors.Join(err, b.drain(), closed(ways))
		}
		if err := b.shut(ctx, ways); err != nil {
			return err
		}
	}
	return nil
}

// rows measures the rows of one size and turn, the first of which is row number.
func (b *bench) rows(ctx context.Context, number int, rows []copies.Row, ways []*way) error {
	if number == 0 {
		if err := b.begin(ways); err != nil {
			return err
		}
	}
	for i, asked := range rows {
		if err := b.row(ctx, number+i, asked, ways); err != nil {
			return fmt.Errorf("%s: %w", asked.Name(), err)
		}
	}
	return nil
}

// drain waits for work enqueued before a failure, since its memory is about to be freed.
func (b *bench) drain() (err error) {
	for _, s := range b.streams {
		err = errors.Join(err, coded(s.Synchronize()))
	}
	return errors.Join(err, b.bystander.drain())
}

// begin emits what is known before the first row.
func (b *bench) begin(ways []*way) error {
	by := "host"
	for _, w := range ways {
		for _, side := range []*Buffer{w.dst, w.src} {
			if side != nil && side.At.Host == nil {
				by = side.CheckedBy()
			}
		}
	}
	out := setup{Checked: by}
	if b.Engines != nil {
		out.Engines = b.Engines()
	}
	return b.session.Emit(kindSetup, out)
}

// open creates the streams and events: the maximum number of streams of any row for each flow of this rank.
func (b *bench) open(ctx context.Context) (err error) {
	acts := 0
	for _, turn := range b.block.Turns(b.session.World) {
		n := 0
		for _, flow := range b.test.Flows(b.session.World, turn) {
			if flow.Acts == b.session.Rank {
				n++
			}
		}
		acts = max(acts, n)
	}
	for range acts * slices.Max(b.block.Streams) {
		s, err := b.own.NewStream()
		if err != nil {
			return coded(err)
		}
		b.streams = append(b.streams, s)
		e, err := b.own.NewEvent()
		if err != nil {
			return coded(err)
		}
		b.ends = append(b.ends, e)
	}
	for _, e := range []*accel.Event{&b.start, &b.end} {
		if *e, err = b.own.NewEvent(); err != nil {
			return coded(err)
		}
	}
	if b.block.Victim && b.session.Rank == b.block.Turns(b.session.World)[0].One {
		b.bystander, err = newBystander(ctx, b.session, b.Device)
	}
	return err
}

// ways allocates the memory of the flows of a turn. The result must be closed, even on error. number is that of the
// turn's first row.
func (b *bench) ways(ctx context.Context, number int, bytes int64, turn copies.Turn) (ways []*way, err error) {
	for i, flow := range b.test.Flows(b.session.World, turn) {
		ways = append(ways, &way{Flow: flow, number: i, odd: b.odd, acts: flow.Acts == b.session.Rank})
	}
	handles := make([][]byte, len(ways)) // of this rank's sides
	for i, w := range ways {
		if handles[i], err = w.own(b.Memory, b.session.Rank, b.block.HostMemory, bytes, b.margins); err != nil {
			return ways, err
		}
	}
	if b.session.World == 1 {
		return ways, nil
	}
	all, err := rank.Gather(ctx, b.session, fmt.Sprintf("memory-%d", number), handles)
	for i, w := range ways {
		if err == nil {
			err = w.open(b.Memory, b.margins, func(owner int) []byte { return all[owner][i] })
		}
	}
	if err == nil {
		err = b.assemble(ctx, number, ways)
	}
	return ways, err
}

// assemble opens the barrier of the ranks that copy in a turn, if several do.
func (b *bench) assemble(ctx context.Context, number int, ways []*way) (err error) {
	var acting []int
	for _, w := range ways {
		acting = append(acting, w.Acts)
	}
	slices.Sort(acting)
	acting = slices.Compact(acting)
	own := slices.Index(acting, b.session.Rank)
	switch {
	case len(acting) == b.session.World:
		b.acting = b.meet
	case len(acting) > 1 && own >= 0:
		b.acting, err = rendezvous.OpenSpin(ctx, b.session.Store, fmt.Sprintf("%s/acting-%d", b.session.Scope, number), own, len(acting))
	}
	return err
}

// dismiss closes the barrier of the ranks that copied.
func (b *bench) dismiss() (err error) {
	if b.acting != nil && b.acting != b.meet {
		err = b.acting.Close()
	}
	b.acting = nil
	return err
}

// shut frees the memory of ways. It unmaps memory of the other rank before its owner frees it.
func (b *bench) shut(ctx context.Context, ways []*way) error {
	for _, w := range ways {
		if err := w.release(); err != nil {
			return err
		}
	}
	if err := b.meet.Wait(ctx); err != nil {
		return err
	}
	return errors.Join(b.dismiss(), closed(ways))
}

// closed frees the memory of ways.
func closed(ways []*way) (err error) {
	for _, w := range ways {
		err = errors.Join(err, w.close())
	}
	return err
}
