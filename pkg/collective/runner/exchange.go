package runner

import (
	"context"
	"time"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/rank"
)

// listExchanges makes the lists of Form.Exchange for all rungs and pins them until close, since calls
// and captured graphs hold their addresses.
func (b *bench) listExchanges() {
	for i := range b.ladder.rungs {
		r := &b.ladder.rungs[i]
		r.exchange, r.settle = b.exchange(*r, r.Extent), b.exchange(*r, b.settleExtent(*r))
	}
}

// exchange returns the address of a rung's Form.Exchange, or 0 if it has none.
func (b *bench) exchange(r rung, e Extent) uintptr {
	words := b.spec.form(r.Pair).Exchange(e, b.spec.seat)
	if words == nil {
		return 0
	}
	b.pins.Pin(&words[0])
	return uintptr(unsafe.Pointer(&words[0]))
}

// settleExtent returns the extent of r as settle runs it, limited to maxSettle.
func (b *bench) settleExtent(r rung) Extent {
	return b.spec.form(r.Pair).Extent(min(r.Requested, maxSettle))
}

// idle reports whether this rank takes no part in the current rung.
func (b *bench) idle() bool { return b.spec.form(b.rung.Pair).Idle(b.spec.seat) }

// attend runs a window of this many iterations on an idle rank: the barriers without the operations.
func (b *bench) attend(ctx context.Context, w window, iterations int) (sample, error) {
	if err := b.arrive(ctx); err != nil {
		return sample{}, err
	}
	if _, barriers := b.spec.oneByOne(w.Mode); barriers > 0 {
		for range iterations {
			if err := b.sync(ctx); err != nil {
				return sample{}, err
			}
		}
	}
	return sample{Sample: collective.Sample{Window: w}, Entry: rank.Enter(time.Time{})}, nil
}
