package runner

import (
	"errors"
	"slices"

	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
	"github.com/collectivex/collectivex/pkg/workload"
)

// fill writes the data of window w to a slot. It first poisons the result buffer or, where this rank
// receives nothing, fills it with contents that must remain. Then it writes the input, which in place is
// part of the same buffer.
func (b *bench) fill(w window, slot int) error {
	p := b.spec.pattern(w, slot)
	send, recv := b.buffers(place{slot: slot})
	out := b.outputs(b.rung)
	in, guard := b.untouched(b.rung)
	if b.rung.Placement == vocab.InPlace {
		in, guard = b.spec.form(b.rung.Pair).Inputs(b.rung.Extent, b.spec.seat), nil
	}
	covered := b.rung.Placement == vocab.InPlace && len(in) > 0 && in[0].Count >= b.rung.Recv
	if len(guard) > 0 {
		if err := b.backend.Data.Fill(b.stream, p, recv, guard); err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
	}
	for round := b.rung.rounds - 1; round >= 0 && len(out) > 0 && !covered; round-- {
		// Results of at least two marks overlap, so the poison of one round covers the next.
		if 0 < round && round < b.rung.rounds-1 && end(out)*int64(b.spec.dtype.Size()) >= 2*markBytes {
			continue
		}
		_, recv := b.buffers(place{slot, round})
		if err := b.backend.Data.Poison(b.stream, p, recv, out); err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
	}
	return rank.Coded(result.ReasonDevice, b.backend.Data.Fill(b.stream, p, send, in))
}

// fillAll fills all slots of the current rung.
func (b *bench) fillAll(w window) error {
	for slot := range b.rung.Slots {
		if err := b.fill(w, slot); err != nil {
			return err
		}
	}
	return nil
}

// renew rewrites the input of operations first to last−1 of window w.
func (b *bench) renew(w window, first, last int) error {
	in := b.spec.form(b.rung.Pair).Inputs(b.rung.Extent, b.spec.seat)
	for i := first; i < last; i++ {
		slot := b.rung.place(i, len(b.calls)).slot
		send, _ := b.buffers(place{slot: slot})
		if err := b.backend.Data.Fill(b.stream, b.spec.pattern(w, slot), send, in); err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
	}
	return nil
}

// end returns the number of elements from the start of a buffer to the end of its last region.
func end(regions []workload.Region) int64 {
	last := regions[len(regions)-1]
	return last.Offset + last.Count
}

// outputs returns the regions of a rung's result on this rank.
func (b *bench) outputs(r rung) []workload.Region {
	return b.spec.form(r.Pair).Outputs(r.Extent, b.spec.seat)
}

// untouched returns the regions that operations of a rung must not change in each slot of this rank. In
// place there are none on a rank with a result, since the library may write the whole buffer.
func (b *bench) untouched(r rung) (send, recv []workload.Region) {
	form := b.spec.form(r.Pair)
	switch {
	case form.Idle(b.spec.seat):
		return nil, nil
	case r.Placement == vocab.OutOfPlace:
		send, recv = form.untouched(r.Extent, b.spec.seat)
		for i := range recv {
			recv[i].Count += (b.spec.shares(r.rounds) - 1) * markBytes / int64(b.spec.dtype.Size())
		}
		empty := func(r workload.Region) bool { return r.Count == 0 } // of an operation without data
		return slices.DeleteFunc(send, empty), slices.DeleteFunc(recv, empty)
	case len(b.outputs(r)) == 0:
		return form.Inputs(r.Extent, b.spec.seat), nil
	}
	return nil, nil
}

// part is a comparison in one buffer of this rank.
type part struct {
	place
	result  bool // true: receive buffer; false: send buffer
	regions []workload.Region
}

// parts returns the comparisons after a window on r: the marked parts of results, and the regions that
// must not change.
func (b *bench) parts(r rung, marks []mark) (parts []part) {
	if b.spec.form(r.Pair).Idle(b.spec.seat) {
		return nil
	}
	out := b.outputs(r)
	for _, m := range marks {
		parts = append(parts, part{m.place, true, b.left(out, m)})
	}
	inputs, guards := b.untouched(r)
	for slot := range r.Slots {
		parts = append(parts, part{place{slot: slot}, false, inputs}, part{place{slot: slot}, true, guards})
	}
	return slices.DeleteFunc(parts, func(p part) bool { return len(p.regions) == 0 })
}

// compared returns the number of elements that check compares after a window on r.
func (b *bench) compared(r rung, marks []mark) int64 {
	total := int64(0)
	for _, p := range b.parts(r, marks) {
		for _, region := range p.regions {
			total += region.Count
		}
	}
	return total
}

// check compares the buffers after a window on the current rung.
func (b *bench) check(w window, marks []mark) (workload.Verdict, error) {
	total := workload.Verdict{First: -1}
	for _, p := range b.parts(b.rung, marks) {
		buf, recv := b.buffers(p.place)
		if p.result {
			buf = recv
		}
		v, err := b.backend.Data.Check(b.stream, b.spec.pattern(w, p.slot), buf, p.regions)
		switch {
		case errors.Is(err, ErrDisagree):
			return total, rank.Coded(result.ReasonUnchecked, err)
		case err != nil:
			return total, rank.Coded(result.ReasonDevice, err)
		}
		total.Add(v)
	}
	return total, nil
}

// left returns the regions of a result that its mark retains.
func (b *bench) left(out []workload.Region, m mark) []workload.Region {
	if m.whole {
		return out
	}
	var left []workload.Region
	limit := markBytes / int64(b.spec.dtype.Size())
	for _, r := range out {
		if r.Offset < limit {
			r.Count = min(r.Count, limit-r.Offset)
			left = append(left, r)
		}
	}
	return left
}
