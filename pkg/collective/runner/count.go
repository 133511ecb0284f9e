package runner

import "github.com/collectivex/collectivex/pkg/workload"

// counts reports whether this rank counts the messages of a rung; see Counter.
func (b *bench) counts(r rung) bool {
	of, ok := b.backend.Comm.(Counter)
	return ok && of.Counts(b.counted(r))
}

// counted returns a call like those of a rung.
func (b *bench) counted(r rung) Call {
	c := b.spec.call(b.spec.seat)
	c.Exchange = r.exchange
	return c
}

// arrived returns how many messages of the current rung have arrived on this rank in all, or 0 if it does not count
// them.
func (b *bench) arrived() (uint32, error) {
	if !b.counts(b.rung) {
		return 0, nil
	}
	return b.backend.Comm.(Counter).Arrived(b.counted(b.rung))
}

// count requires that as many messages as operations have arrived since before, where this rank counts them. It adds
// checked to the elements of the verdict; each missing or surplus message is a wrong one of them.
func (b *bench) count(v *workload.Verdict, before uint32, operations, checked int) error {
	if !b.counts(b.rung) {
		return nil
	}
	now, err := b.arrived()
	if err != nil {
		return err
	}
	other := int64(now-before) - int64(operations)
	v.Checked += int64(checked)
	v.Wrong += min(max(other, -other), int64(checked))
	return nil
}
