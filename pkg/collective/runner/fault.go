package runner

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Kinds of data faults, for rank.FaultVariable. Each imitates an error of a library: it changes the
// receive buffer of a rank between a timed window and its check.
const (
	FaultFlip  = "flip-bit" // one bit of one element is flipped
	FaultStale = "stale"    // the result of the previous window
	FaultSwap  = "swap"     // the parts of two ranks (or two halves) are swapped
)

// FaultKinds lists the kinds of data faults.
func FaultKinds() []string { return []string{FaultFlip, FaultStale, FaultSwap} }

// Measurer measures collectives.
var Measurer = rank.Measurer{Family: collective.Name, Assemble: Assemble, Faults: FaultKinds()}

// checkFaults refuses a data fault on a rank that receives no data in the case, where it would have no
// effect.
func (s spec) checkFaults(session *rank.Session, l ladder) error {
	receives := func(r rung) bool {
		form := s.form(r.Pair)
		return !form.Idle(s.seat) && len(form.Outputs(r.Extent, s.seat)) > 0
	}
	for _, kind := range FaultKinds() {
		if session.HasFault(kind) && !slices.ContainsFunc(l.rungs, receives) {
			return rank.RefusedFault(kind, "rank %d receives no data in %s; inject it into a rank that does",
				session.Rank, s.op)
		}
	}
	return nil
}

// injectFaults applies the data faults of this rank, normally none.
func (b *bench) injectFaults(w window) error {
	regions := b.outputs(b.rung)
	if len(regions) == 0 || b.idle() {
		return nil
	}
	marks := b.spec.marks(b.rung)
	at := marks[len(marks)-1].place
	_, recv := b.buffers(at)
	size := int64(b.spec.dtype.Size())
	if b.session.HasFault(FaultStale) {
		before := w
		before.Trial--
		if err := b.backend.Data.Fill(b.stream, b.spec.pattern(before, at.slot), recv, regions); err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
	}
	if b.session.HasFault(FaultFlip) {
		last := regions[len(regions)-1]
		at := recv.Add((last.Offset + last.Count) * size).Add(-1) // the byte with sign and exponent
		if err := b.edit(at, 1, func(buf []byte) { buf[0] ^= 0x40 }); err != nil {
			return err
		}
	}
	if b.session.HasFault(FaultSwap) {
		last := regions[len(regions)-1]
		bytes := (last.Offset + last.Count) * size
		part := bytes / 2
		if len(regions) > 1 {
			part = min(part, regions[0].Count*size)
		}
		err := b.edit(recv, bytes, func(buf []byte) {
			for i := range part {
				buf[i], buf[part+i] = buf[part+i], buf[i]
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// edit changes device memory through a copy on the host.
func (b *bench) edit(at accel.Ptr, bytes int64, change func([]byte)) error {
	buf, err := accel.Read[byte](b.backend.Device, b.stream, at, int(bytes))
	if err != nil {
		return rank.Coded(result.ReasonDevice, err)
	}
	change(buf)
	return rank.Coded(result.ReasonDevice, accel.Write(b.backend.Device, b.stream, at, buf))
}
