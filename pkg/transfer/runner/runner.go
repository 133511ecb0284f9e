package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
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
	memoryShare = 0.8 // fraction of the free memory that the pools may take
)

// Run implements rank.Runner: for each operation the rows of the case, each with all of its trials, then
// back-to-back bursts, and a final check of released pools.
func (r *Runner) Run(ctx context.Context, s *rank.Session, c plan.Case) error {
	t := transfer.Of(&c)
	if t == nil || s.World != transfer.Ranks || c.World != transfer.Ranks {
		return rank.Refused("the group has %d ranks, but a transfer needs %d", s.World, transfer.Ranks)
	}
	if err := s.Emit(rank.KindFacts, r.parts.Facts); err != nil {
		return err
	}
	if err := s.RefuseIdle(&c, Measurer.Idle); err != nil {
		return err
	}
	// Collections happen only between cases.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	b := &bench{Parts: r.parts, session: s, block: t, owned: &owned{Engine: r.parts.Engine}}
	b.Engine = b.owned
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	err := b.open(ctx, c)
	if err == nil {
		err = b.run(ctx)
	}
	if err != nil { // a failure ends the group, so this rank need not wait for its peer
		b.owned.users = 0
		giveUp()
	}
	return errors.Join(err, b.close())
}

// bench is one case in one rank.
type bench struct {
	Parts
	session *rank.Session
	block   *transfer.Block
	owned   *owned // the engine
	rows    []bursts
	fastest []float64  // fastest burst of each row that this rank has timed, in milliseconds
	chance  *rand.Rand // the same on both ranks
	meet    barrier
	pool    pool.Memory
	nonce   uint16
}

// barrier synchronises the two ranks.
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

// open registers the pools, connects them and emits the time.
func (b *bench) open(ctx context.Context, c plan.Case) error {
	own, err := b.agree(ctx)
	if err != nil {
		return err
	}
	rows := transfer.AskedRows(b.block, own.Points)
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
		own.Merged, own.Sets = append(own.Merged, x.merged()), append(own.Sets, x.tables)
	}
	if err := b.sameLists(ctx, own.Pool); err != nil {
		return err
	}
	if b.chance, err = rank.Chance(ctx, b.session); err != nil {
		return err
	}
	start := time.Now()
	if b.pool, err = b.Engine.Register(ctx, own.Pool, b.block.Handle); err != nil {
		return err
	}
	if b.session.HasFault(FaultTwice) {
		if b.pool, err = b.Engine.Register(ctx, own.Pool, b.block.Handle); err != nil {
			return err
		}
	}
	own.Register, own.Checked = since(start), b.pool.CheckedBy()
	if err := b.paint(); err != nil {
		return err
	}
	if own.Connect, err = b.connect(ctx); err != nil {
		return err
	}
	if b.session.HasFault(FaultUnregister) {
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
	if err := b.repaint(ctx); err != nil { // over the word that connect moved
		return err
	}
	return b.session.Emit(kindSetup, own)
}

// agree finds the points for which both ranks have memory. If there are none, it emits the dropped
// ones.
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
	if len(own.Points) > 0 {
		return own, nil
	}
	if err := b.session.Emit(kindSetup, own); err != nil {
		return own, err
	}
	// The first rank that fails ends its peer, which must have emitted its record before. The case fails
	// in any event.
	_ = b.session.Barrier(ctx, "dropped")
	smallest := slices.MinFunc(own.Dropped, func(x, y transfer.Point) int { return cmp.Compare(x.Bytes, y.Bytes) })
	return own, rank.Coded(result.ReasonMemoryForSize, fmt.Errorf("the smallest burst needs a pool of %d bytes in each rank, but only %d may be used: choose fewer tokens or requests",
		poolBytes(b.block.PoolSlack, smallest.Bytes), own.Budget))
}

// connect exchanges metadata. On a posting rank it connects and moves the first 8 bytes; it returns
// the milliseconds from receiving the metadata to receiving the bytes.
func (b *bench) connect(ctx context.Context) (float64, error) {
	metadata, err := b.Engine.Metadata()
	if err != nil {
		return 0, err
	}
	all, err := rank.Gather(ctx, b.session, "metadata", metadata)
	if err != nil {
		return 0, err
	}
	var millis float64
	if b.posts() {
		start := time.Now()
		if err := b.Engine.Connect(all[1-b.session.Rank]); err != nil {
			return 0, err
		}
		op := b.block.Ops[0]
		if err := b.burst(ctx, op, small(op, pool.WordBytes).sets[0], nil, nil); err != nil {
			return 0, err
		}
		millis = since(start)
	}
	// A pool is freed with its owner: neither rank leaves before the other is connected.
	return millis, b.session.Barrier(ctx, "connected")
}

func (b *bench) close() error {
	err := errors.Join(b.Engine.Disconnect(), b.Engine.Unregister())
	if b.meet != nil {
		err = errors.Join(err, b.meet.Close())
	}
	return err
}

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
			if err := b.row(ctx, i); err != nil {
				return err
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
	// A pool is freed with its owner, after the peer has disconnected.
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
