package runner

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// origin returns the origin of the words of a rank's pool in the current checked burst.
func (b *bench) origin(rank int) pool.Origin { return pool.Origin{Pool: pool.Of(rank), Nonce: b.nonce} }

// paint writes its origin to each word of this rank's pool.
func (b *bench) paint() error { return b.pool.Paint(b.origin(b.session.Rank).Word(0)) }

// checkedReps returns the bursts of a trial that are checked: the first, the last and one that the seed
// chooses between them.
func checkedReps(t *transfer.Block, row, trial int) []int {
	reps := []int{0, t.Timing.Reps - 1}
	if t.Timing.Reps > 2 {
		reps = append(reps, 1+rand.New(rand.NewPCG(t.Seed, uint64(row)<<32|uint64(trial))).IntN(t.Timing.Reps-2))
	}
	slices.Sort(reps)
	return slices.Compact(reps)
}

// checked repaints both pools, runs the work of the posting ranks, and inspects the pools.
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

// inspect checks each rank's pool after the posting ranks have moved the blocks. The first meeting of the
// ranks notifies rank 0, which then checks what was pushed to it. After a second meeting it checks again.
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

// repaint gives the words of both pools a new nonce. Rank 1 must have no request in flight.
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

// released repaints the pools after all requests were released, and checks them later.
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
