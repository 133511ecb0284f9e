package collective

import "unsafe"

// listExchanges makes the exchanges of all rungs and keeps them in place until close:
// calls and captured graphs have their addresses.
func (b *bench) listExchanges() {
	for i := range b.ladder.rungs {
		r := &b.ladder.rungs[i]
		r.exchange, r.settle = b.exchange(r.Extent), b.exchange(b.settleExtent(*r))
	}
}

// exchange returns the address of an exchange, 0 where there is none.
func (b *bench) exchange(e Extent) uintptr {
	words := b.form().Exchange(e, b.session.Rank)
	if words == nil {
		return 0
	}
	b.pins.Pin(&words[0])
	return uintptr(unsafe.Pointer(&words[0]))
}

// settleExtent is r as settle runs it: no larger than its buffers.
func (b *bench) settleExtent(r rung) Extent { return b.form().Extent(min(r.Requested, settleMost)) }
