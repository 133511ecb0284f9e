package runner

import (
	"context"
	"time"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// listExchanges makes the exchanges of all rungs and keeps them in place until close:
// calls and captured graphs have their addresses.
func (b *bench) listExchanges() {
	for i := range b.ladder.rungs {
		r := &b.ladder.rungs[i]
		r.exchange, r.settle = b.exchange(*r, r.Extent), b.exchange(*r, b.settleExtent(*r))
	}
}

// exchange returns the address of the exchange of a rung, 0 where there is none.
func (b *bench) exchange(r rung, e Extent) uintptr {
	words := b.spec.form(r.Pair).Exchange(e, b.session.Rank)
	if words == nil {
		return 0
	}
	b.pins.Pin(&words[0])
	return uintptr(unsafe.Pointer(&words[0]))
}

// settleExtent is r as settle runs it: no larger than its buffers.
func (b *bench) settleExtent(r rung) Extent {
	return b.spec.form(r.Pair).Extent(min(r.Requested, settleMost))
}

// idle reports whether this rank has no part in the rung at hand.
func (b *bench) idle() bool { return b.spec.form(b.rung.Pair).Idle(b.session.Rank) }

// attend is what an idle rank does of a window: it comes to the barriers, so that
// it is idle while the others measure and all go on together.
func (b *bench) attend(ctx context.Context, w window) (sample, error) {
	if err := b.arrive(ctx); err != nil {
		return sample{}, err
	}
	if w.Mode == vocab.Blocking {
		for range b.us {
			if err := b.sync(ctx); err != nil {
				return sample{}, err
			}
		}
	}
	return sample{Sample: collective.Sample{Window: w}, Entry: rank.Enter(time.Time{})}, nil
}
