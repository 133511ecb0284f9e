package runner

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// origin is where the words of a rank's pool come from in the checked burst at hand.
func (b *bench) origin(rank int) pool.Origin { return pool.Origin{Pool: pool.Of(rank), Nonce: b.nonce} }

// paint writes to each word of this rank's pool what it is.
func (b *bench) paint() error { return b.pool.Paint(b.origin(b.session.Rank).Word(0)) }

// checkedReps are the bursts of a trial that are checked: the first, the last and one that
// the seed chooses between them.
func checkedReps(t *transfer.Block, row, trial int) []int {
	reps := []int{0, t.Timing.Reps - 1}
	if t.Timing.Reps > 2 {
		reps = append(reps, 1+rand.New(rand.NewPCG(t.Seed, uint64(row)<<32|uint64(trial))).IntN(t.Timing.Reps-2))
	}
	slices.Sort(reps)
	return slices.Compact(reps)
}

// checked paints both pools anew, has the ranks that post do their work, and inspects the pools.
func (b *bench) checked(ctx context.Context, at check, blocks []Block, work func() error) error {
	if err := b.repaint(ctx); err != nil {
		return err
	}
	if b.posts() {
		if err := work(); err != nil {
			return err
		}
	}
	return b.inspect(ctx, at, blocks)
}

// inspect has each rank check its pool after the blocks were moved, once the ranks that post are
// done. Rank 0 checks what was pushed to it when it is notified, which is when the ranks meet, and
// again after they met once more.
func (b *bench) inspect(ctx context.Context, at check, blocks []Block) error {
	if err := b.meet.Wait(ctx); err != nil {
		return err
	}
	pull := at.Op == transfer.Pull
	src, dst := b.origin(1-destinationOf(at.Op)), b.origin(destinationOf(at.Op))
	receives := b.session.Rank == destinationOf(at.Op)
	var err error
	if receives {
		at.Finding, err = b.arrived(dst, src, blocks, pull)
	} else if err = pool.Spoil(b.session, b.pool); err == nil {
		at.Finding, err = pool.Unchanged(src, b.pool, "source")
	}
	if err != nil {
		return err
	}
	if err := b.meet.Wait(ctx); err != nil {
		return err
	}
	if receives && !pull {
		if err := pool.Disturb(b.session, b.pool); err != nil {
			return err
		}
		again, err := pool.Destination(dst, src, b.pool, spans(blocks, pull))
		if err != nil {
			return err
		}
		at.Later(again)
	}
	if err := b.session.Emit(kindCheck, at); err != nil {
		return err
	}
	return b.meet.Wait(ctx)
}

// arrived checks this rank's pool after the blocks were moved there.
func (b *bench) arrived(dst, src pool.Origin, blocks []Block, pull bool) (pool.Finding, error) {
	order := spans(blocks, pull)
	if err := pool.Injure(b.session, dst, src, b.pool, order); err != nil {
		return pool.Finding{}, err
	}
	return pool.Destination(dst, src, b.pool, order)
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

// lateWait is how long a released pool is watched.
const lateWait = 100 * time.Millisecond

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
		if err := pool.Disturb(b.session, b.pool); err != nil {
			return err
		}
	}
	var err error
	if at.Finding, err = pool.Unchanged(b.origin(b.session.Rank), b.pool, "late"); err != nil {
		return err
	}
	if err := b.session.Emit(kindCheck, at); err != nil {
		return err
	}
	return b.meet.Wait(ctx)
}
