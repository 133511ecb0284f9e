package runner

import (
	"context"
	"errors"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/victim"
	"github.com/collectivex/collectivex/pkg/rank"
)

// bystander is a victim on a stream of its own, beside the copies of this rank.
type bystander struct {
	victim     *victim.Victim
	device     *accel.Scope
	stream     accel.Stream
	start, end accel.Event // of its work
	session    *rank.Session
	wrong      string // first wrong result of its work
}

// newBystander returns the victim of a rank. Its errors have a reason code.
func newBystander(ctx context.Context, s *rank.Session, d accel.Device) (*bystander, error) {
	v, err := victim.New(ctx, d)
	if errors.Is(err, accel.ErrUnsupported) {
		return nil, rank.Refused("compile the kernel of the victim: %w", err)
	}
	if err != nil {
		return nil, coded(err)
	}
	b := &bystander{victim: v, device: accel.NewScope(d), session: s}
	b.device.Defer(v.Close)
	b.stream, err = b.device.NewStream()
	for _, e := range []*accel.Event{&b.start, &b.end} {
		if err == nil {
			*e, err = b.device.NewEvent()
		}
	}
	if err != nil {
		return nil, errors.Join(coded(err), b.close())
	}
	return b, nil
}

func (b *bystander) close() error {
	if b == nil {
		return nil
	}
	return coded(b.device.Close())
}

// drain waits for what was enqueued before a failure.
func (b *bystander) drain() error {
	if b == nil {
		return nil
	}
	return coded(b.stream.Synchronize())
}

// enqueue makes the victim work after an event.
func (b *bystander) enqueue(after accel.Event, units uint64) error {
	if b.session.HasFault(FaultVictim) {
		units /= 2
	}
	if err := b.victim.Clear(b.stream); err != nil {
		return err
	}
	if err := b.stream.Wait(after); err != nil {
		return err
	}
	if err := b.stream.Record(b.start); err != nil {
		return err
	}
	if err := b.victim.Enqueue(b.stream, units); err != nil {
		return err
	}
	return b.stream.Record(b.end)
}

// check waits for the victim, and records a wrong result of its work.
func (b *bystander) check(units uint64) error {
	wrong, err := b.victim.Check(b.stream, units)
	if b.wrong == "" {
		b.wrong = wrong
	}
	return err
}

// span returns when the victim began and ended, in microseconds from an event.
func (b *bystander) span(from accel.Event) (start, end float64, err error) {
	if start, err = b.device.Elapsed(from, b.start); err == nil {
		end, err = b.device.Elapsed(from, b.end)
	}
	return start, end, coded(err)
}

// outlast is the required ratio of the time of copies to the victim's when their number is chosen, so that they
// cover it in other windows too.
const outlast = 1.25

// calibrate chooses the work of the victim and the number of copies beside it, and returns them in a record. The
// victim alone takes about as long as the copies of a window alone. The number of copies begins at disturbance times
// a window's copies and doubles until they outlast the victim or the device's queue is full.
func (m *measuring) calibrate(ctx context.Context) (*beside, error) {
	n := m.block.Timing.Reps
	least := m.bystander.victim.LeastUnits()
	var took float64
	for range 2 { // the first one warms up
		_, start, end, err := m.besideWindow(ctx, 0, least)
		if err != nil {
			return nil, err
		}
		took = end - start
	}
	copies, _, err := m.gated(ctx, n, 0)
	if err != nil {
		return nil, err
	}
	out := &beside{Units: least, Copies: disturbance * n}
	if took > 0 {
		out.Units = max(least, uint64(float64(least)*copies/took))
	}
	pieces := 0
	for _, share := range m.work[0].pieces {
		pieces += len(share)
	}
	for limit := queued / pieces; out.Copies < limit; out.Copies = min(2*out.Copies, limit) {
		ended, _, end, err := m.besideWindow(ctx, out.Copies, out.Units)
		if err != nil {
			return nil, err
		}
		if ended >= outlast*end {
			break
		}
	}
	return out, nil
}

// besideWindow makes copies beside units of the victim's work. It returns when the copies ended, and when the
// victim began and ended, in microseconds from the opening of the gate.
func (m *measuring) besideWindow(ctx context.Context, copies int, units uint64) (ended, start, end float64, err error) {
	if ended, _, err = m.gated(ctx, copies, units); err == nil {
		start, end, err = m.bystander.span(m.start)
	}
	return ended, start, end, err
}

// alone measures the victim without copies.
func (m *measuring) alone(ctx context.Context) error {
	out := m.out.Victim
	_, start, end, err := m.besideWindow(ctx, 0, out.Units)
	out.Alone = append(out.Alone, end-start)
	return err
}

// slowed measures the victim beside copies that outlast it.
func (m *measuring) slowed(ctx context.Context) error {
	out := m.out.Victim
	ended, start, end, err := m.besideWindow(ctx, out.Copies, out.Units)
	out.Slowed = append(out.Slowed, end-start)
	out.Covered = append(out.Covered, share(min(ended, end)-start, end-start))
	return err
}

// beside measures n copies beside a victim that outlasts them.
func (m *measuring) beside(ctx context.Context, n int) error {
	out := m.out.Victim
	ended, start, end, err := m.besideWindow(ctx, n, disturbance*out.Units)
	out.Copy = append(out.Copy, ended/float64(n))
	out.CopyCovered = append(out.CopyCovered, share(min(ended, end)-start, ended))
	out.Wrong = m.bystander.wrong
	return err
}

// share returns part / of, from 0 to 1.
func share(part, of float64) float64 {
	if of <= 0 {
		return 0
	}
	return max(0, min(1, part/of))
}
