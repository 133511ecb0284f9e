package runner

import (
	"context"
	"time"

	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// origin returns the origin of the words of a rank's pool in the current checked burst.
func (b *bench) origin(rank int) pool.Origin { return pool.Origin{Pool: pool.Of(rank), Nonce: b.nonce} }

// paint writes its origin to each word of this rank's pool.
func (b *bench) paint() error { return b.pool.Paint(b.origin(b.session.Rank).Word(0)) }

// drawn draws the timed bursts of a trial that are checked.
func (b *bench) drawn(reps int) []int { return b.chance.Perm(reps)[:min(transfer.CheckedReps, reps)] }

// inspect checks both pools after the posting ranks have moved blocks. For a pull, rank 1 posts and
// receives, and checks its pool at once. For a push, the first meeting of the ranks notifies rank 0,
// which then checks its pool, and checks it again after the second meeting. The peer of the receiving
// rank checks that its pool is unchanged. Before a pool is painted, the ranks meet again.
func (b *bench) inspect(ctx context.Context, at check, blocks []pool.Span) error {
	pull := at.Op == transfer.Pull
	src, dst := b.origin(1-destinationOf(at.Op)), b.origin(destinationOf(at.Op))
	receives := b.session.Rank == destinationOf(at.Op)
	var err error
	if receives && pull {
		if at.Finding, err = b.arrived(ctx, dst, src, blocks); err != nil {
			return err
		}
	}
	if err := b.meet.Wait(ctx); err != nil {
		return err
	}
	if receives && !pull {
		at.Finding, err = b.arrived(ctx, dst, src, blocks)
	} else if !receives {
		if err = pool.Spoil(b.session, b.pool); err == nil {
			at.Finding, err = pool.Unchanged(src, b.pool, "source")
		}
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
		again, err := pool.Destination(dst, src, b.pool, blocks)
		if err != nil {
			return err
		}
		at.Later(again)
	}
	return b.session.Emit(kindCheck, at)
}

// arrived checks this rank's pool after the blocks were moved there. If words are wrong, it checks again
// after nextLook, because they may be late.
func (b *bench) arrived(ctx context.Context, dst, src pool.Origin, blocks []pool.Span) (f pool.Finding, err error) {
	if err := pool.Injure(b.session, dst, src, b.pool, blocks); err != nil {
		return f, err
	}
	if f, err = pool.Destination(dst, src, b.pool, blocks); err != nil || f.Wrong.Total() == 0 {
		return f, err
	}
	if err := pause(ctx, nextLook); err != nil {
		return f, err
	}
	again, err := pool.Destination(dst, src, b.pool, blocks)
	if err != nil {
		return f, err
	}
	f.Later(again)
	return f, nil
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

const (
	nextLook = 2 * time.Millisecond   // until a check looks again at wrong words
	lateWait = 100 * time.Millisecond // how long a released pool is watched
)

// pause waits, unless ctx ends.
func pause(ctx context.Context, wait time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}

// released repaints the pools after all requests were released, and checks them later.
func (b *bench) released(ctx context.Context, op string) error {
	if err := b.repaint(ctx); err != nil {
		return err
	}
	if err := pause(ctx, lateWait); err != nil {
		return err
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
