package runner

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/rank"
)

// told is what the ranks of a row tell each other.
type told struct {
	Gated  bool `json:"gated"`  // there are windows behind the gate
	Beside int  `json:"beside"` // copies beside the victim; 0: no victim
}

// measuring is one row in one rank.
type measuring struct {
	*bench
	number  int
	bytes   int64
	ways    []*way
	pieces  [][]piece // that are left
	slots   int
	work    []*submission // of the ways for which this rank copies
	told    told          // by all ranks
	out     row
	windows int             // checked so far
	left    map[int]remains // by number of copies
}

// row measures one size on a number of streams.
func (b *bench) row(ctx context.Context, number int, asked copies.Row, ways []*way) error {
	m := &measuring{bench: b, number: number, bytes: asked.Bytes, ways: ways, out: row{Row: number}, left: map[int]remains{}}
	m.pieces, m.slots = cut(b.block, asked), slotsOf(b.block, asked.Pieces)
	whole := m.pieces
	if b.test.Chase {
		m.pieces = chased(whole)
	}
	for _, w := range ways {
		if !w.acts {
			continue
		}
		s := &submission{device: b.Device, way: w, streams: b.streams[len(m.work)*asked.Streams:][:asked.Streams], pieces: whole, slots: m.slots}
		if b.test.Chase {
			var ok bool
			if s.chase, ok = b.Device.(chaser); !ok {
				return rank.Refused("this device has no kernel for %s", b.test.Name)
			}
		}
		if b.block.Submission == copies.Batch {
			if err := s.batch(); err != nil {
				return err
			}
		}
		m.work = append(m.work, s)
	}
	if err := b.repaint(ctx, ways); err != nil {
		return err
	}
	if err := m.prepare(ctx, asked.Pieces); err != nil {
		return err
	}
	all, err := rank.Gather(ctx, b.session, fmt.Sprintf("row-%d", number), m.told)
	if err != nil {
		return err
	}
	for _, of := range all { // a rank that does not copy has no objection and no victim
		m.told = told{m.told.Gated && of.Gated, max(m.told.Beside, of.Beside)}
	}
	if err := b.session.Trials(ctx, trialsOf(number), b.block.Timing.Trials, func(t rank.Trial) error {
		m.out.Trials = append(m.out.Trials, t)
		return m.trial(ctx)
	}); err != nil {
		return err
	}
	if len(m.work) == 0 {
		return nil
	}
	return b.session.Emit(kindRow, m.out)
}

// trialsOf returns the name of the trials of a row for rank.Session.Trials.
func trialsOf(row int) string { return fmt.Sprintf("trials-%d", row) }

// prepare decides which windows the row has, makes the untimed copies and calibrates the victim.
func (m *measuring) prepare(ctx context.Context, pieces int) error {
	t := m.block.Timing
	total := 0
	for _, s := range m.work {
		total += t.Reps * pieces * s.way.Times
	}
	if m.bystander != nil {
		total *= disturbance
	}
	m.told.Gated = m.Gate != nil && !m.test.Swap && m.block.HostMemory != copies.Pageable && total <= queued
	if m.bystander != nil && !m.told.Gated {
		return rank.Refused("a window beside a victim needs %d pieces, but a device queues at most %d: choose fewer streams, copies of a window or pages", total, queued)
	}
	if len(m.work) == 0 {
		return nil // only other ranks copy
	}
	if err := m.untimed(ctx, t.Warmup); err != nil || m.bystander == nil {
		return err
	}
	var err error
	m.out.Victim, err = m.calibrate(ctx)
	if err == nil {
		m.told.Beside = m.out.Victim.Copies
	}
	return err
}

// trial measures and checks one window of each kind.
func (m *measuring) trial(ctx context.Context) error {
	n := m.block.Timing.Reps
	if m.test.Swap {
		us, err := m.drawn(ctx, n)
		m.out.Each = append(m.out.Each, us)
		return err
	}
	if m.told.Gated {
		if err := m.checked(ctx, n, func() error {
			us, opened, err := m.gated(ctx, n, 0)
			m.out.Device = append(m.out.Device, us/float64(n))
			if m.acting != nil {
				m.out.Opened = append(m.out.Opened, opened)
			}
			return err
		}); err != nil {
			return err
		}
	}
	if err := m.checked(ctx, n, func() error {
		window, err := m.hostWindow(ctx, n)
		m.out.Host = append(m.out.Host, float64(window.End-window.Begin)/1e3/float64(n))
		if m.acting != nil {
			m.out.Spans = append(m.out.Spans, window)
		}
		return err
	}); err != nil {
		return err
	}
	if m.told.Beside == 0 {
		return nil
	}
	if m.bystander != nil {
		if err := m.alone(ctx); err != nil {
			return err
		}
	}
	if err := m.checked(ctx, m.told.Beside, func() error { return m.slowed(ctx) }); err != nil {
		return err
	}
	return m.checked(ctx, n, func() error { return m.beside(ctx, n) })
}

// drawn times n swaps in windows that end with a swap after which all blocks are compared: the last one, and others that
// are drawn, so that a library cannot know which.
func (m *measuring) drawn(ctx context.Context, n int) (us []float64, err error) {
	last := m.chance.Perm(n - 1)[:copies.CheckedSwaps(n)-1]
	slices.Sort(last)
	for _, i := range append(last, n-1) {
		window := i + 1 - len(us)
		if err := m.checked(ctx, window, func() error {
			each, err := m.swaps(window)
			us = append(us, each...)
			return err
		}); err != nil {
			return nil, err
		}
	}
	return us, nil
}

// checked paints all sides, runs a window of n copies if this rank copies, and compares every word of the sides with what
// the copies must have left.
func (m *measuring) checked(ctx context.Context, n int, window func() error) error {
	if err := m.repaint(ctx, m.ways); err != nil {
		return err
	}
	if len(m.work) > 0 {
		if err := m.rehearse(ctx, n); err != nil {
			return err
		}
		if err := window(); err != nil {
			return err
		}
	}
	if err := m.meet.Wait(ctx); err != nil {
		return err
	}
	if m.odd { // the host compares copies of the memory
		defer m.garbage.Collect()
		defer debug.SetGCPercent(debug.SetGCPercent(100))
	}
	for _, w := range m.ways {
		copied := n * w.Times
		left, known := m.left[copied]
		if !known {
			left = remaining(m.pieces, copied, m.slots, m.margins.lead)
			m.left[copied] = left
		}
		if err := w.check(m.session, check{Row: m.number, Window: m.windows}, m.nonce, left); err != nil {
			return err
		}
	}
	m.windows++
	m.garbage.Check()
	return nil
}

// A rehearsal copies about rehearsedBytes or, of small copies, as many as its window and at least rehearsed.
const (
	rehearsedBytes = 16 << 20
	rehearsed      = 4
)

// rehearse makes the copies of a window of n, again if there are fewer than rehearsed, up to about rehearsedBytes but at
// least one, to undo the effect of painting and comparing on caches. The copies write other words than the window writes to
// the same places.
func (m *measuring) rehearse(ctx context.Context, n int) (err error) {
	for _, s := range m.work {
		s.other = true
		defer func() { s.other = false }()
	}
	for left := min(max(n, rehearsed), max(1, int(rehearsedBytes/m.bytes))); left > 0 && err == nil; left -= n {
		err = m.untimed(ctx, min(n, left))
	}
	return err
}

// untimed makes n copies as a window does.
func (m *measuring) untimed(ctx context.Context, n int) (err error) {
	if m.test.Swap {
		_, err = m.swaps(n)
	} else if n > 0 {
		_, err = m.hostWindow(ctx, n)
	}
	return err
}

// repaint gives all words a new nonce. No copy may be in flight.
func (b *bench) repaint(ctx context.Context, ways []*way) error {
	if err := b.meet.Wait(ctx); err != nil {
		return err
	}
	if b.nonce++; b.nonce == 0 {
		b.nonce = 1
	}
	for _, w := range ways {
		if err := w.paint(b.nonce); err != nil {
			return err
		}
	}
	return b.meet.Wait(ctx)
}

// together waits for the other ranks that copy at the same time.
func (b *bench) together(ctx context.Context) error {
	if b.acting == nil {
		return nil
	}
	return b.acting.Wait(ctx)
}

// timed returns the work that this rank times, which is all if it only disturbs other ranks, and the work beside it.
func (m *measuring) timed() (timed, beside []*submission) {
	for _, s := range m.work {
		if s.way.Times == 1 {
			timed = append(timed, s)
		} else {
			beside = append(beside, s)
		}
	}
	if timed == nil {
		return beside, nil
	}
	return timed, beside
}

// hostWindow makes n copies of each timed way, beside copies of the others. It returns the interval from the first call
// of a timed way to the end of the streams of all of them.
func (m *measuring) hostWindow(ctx context.Context, n int) (window span, err error) {
	timed, beside := m.timed()
	enqueue := func(all []*submission) error {
		for _, s := range all {
			if err := s.enqueue(n * s.way.Times); err != nil {
				return err
			}
		}
		return nil
	}
	if err := m.together(ctx); err != nil {
		return window, err
	}
	if err := enqueue(beside); err != nil {
		return window, err
	}
	if window.Begin, err = monotonic(); err != nil {
		return window, err
	}
	if err := enqueue(timed); err != nil {
		return window, err
	}
	for _, s := range timed {
		if err := s.synchronize(); err != nil {
			return window, err
		}
	}
	if window.End, err = monotonic(); err != nil {
		return window, err
	}
	for _, s := range beside {
		if err := s.synchronize(); err != nil {
			return window, err
		}
	}
	return window, m.together(ctx)
}

// swaps makes n swaps of blocks, each one slot further than the one before it, which has ended. It returns the
// microseconds of each, from before its first call until the stream has been waited for.
func (m *measuring) swaps(n int) ([]float64, error) {
	s := m.work[0]
	us := make([]float64, n)
	slot := s.first(n)
	for i := range us {
		begin := time.Now()
		if err := s.once(slot); err != nil {
			return nil, err
		}
		if err := s.synchronize(); err != nil {
			return nil, err
		}
		us[i] = float64(time.Since(begin)) / float64(time.Microsecond)
		slot = (slot + 1) % s.slots
	}
	return us, nil
}

// monotonic returns the time of the clock that all processes of a host share, in nanoseconds.
func monotonic() (int64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, fmt.Errorf("read the monotonic clock: %w", err)
	}
	return t.Nano(), nil
}

// gated makes the same copies behind the gate, between two events and beside units of the victim's work. It returns the
// time until the timed copies ended, in microseconds, and when the gate was opened.
func (m *measuring) gated(ctx context.Context, n int, units uint64) (us float64, opened span, err error) {
	defer m.Gate.Open()
	if err := m.gate(n); err != nil {
		return 0, opened, err
	}
	if units > 0 {
		if err := m.bystander.enqueue(m.start, units); err != nil {
			return 0, opened, coded(err)
		}
	}
	if err := m.together(ctx); err != nil {
		return 0, opened, err
	}
	if opened.Begin, err = monotonic(); err != nil {
		return 0, opened, err
	}
	m.Gate.Open()
	if opened.End, err = monotonic(); err != nil {
		return 0, opened, err
	}
	for _, s := range m.work {
		if err := s.synchronize(); err != nil {
			return 0, opened, err
		}
	}
	if units > 0 {
		if err := m.bystander.check(units); err != nil {
			return 0, opened, coded(err)
		}
	}
	if us, err = m.Device.Elapsed(m.start, m.end); err != nil {
		return 0, opened, coded(err)
	}
	return us, opened, m.together(ctx)
}

// gate enqueues n copies behind the gate. All streams start with the first stream, which ends after the last stream of
// the timed ways.
func (m *measuring) gate(n int) error {
	timed, beside := m.timed()
	first := timed[0].streams[0]
	if err := m.Gate.Hold(first); err != nil {
		return coded(err)
	}
	if err := first.Record(m.start); err != nil {
		return coded(err)
	}
	for _, s := range m.work {
		for _, stream := range s.streams {
			if stream == first {
				continue
			}
			if err := stream.Wait(m.start); err != nil {
				return coded(err)
			}
		}
	}
	for _, s := range slices.Concat(timed, beside) {
		if err := s.enqueue(n * s.way.Times); err != nil {
			return err
		}
	}
	ends := m.ends
	for _, s := range timed {
		for _, stream := range s.streams {
			if stream == first {
				continue
			}
			if err := stream.Record(ends[0]); err != nil {
				return coded(err)
			}
			if err := first.Wait(ends[0]); err != nil {
				return coded(err)
			}
			ends = ends[1:]
		}
	}
	return coded(first.Record(m.end))
}
