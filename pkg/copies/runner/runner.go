package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/sysfs"
)

// Runner is the rank half of the family, over the parts of one backend.
type Runner struct{ parts Parts }

var _ rank.Runner = (*Runner)(nil)

// NewRunner returns a runner that owns p.
func NewRunner(p Parts) *Runner { return &Runner{p} }

// Close implements rank.Runner.
func (r *Runner) Close() error { return r.parts.Memory.Close() }

// disturbance is the number of copies in the untimed direction for each timed copy, so that the untimed direction
// outlasts the timed one. nvbandwidth uses the same factor.
const disturbance = 2

// queued is the maximum number of pieces that a window enqueues behind the gate. A device queues about a thousand. The
// next call would wait for the gate, and never return, since the same thread opens the gate.
const queued = 512

// Run implements rank.Runner: for each size and number of streams, windows by each clock. Before each window the sides
// are painted anew; after it, every word of them is compared.
func (r *Runner) Run(ctx context.Context, s *rank.Session, c plan.Case) error {
	block := copies.Of(&c)
	if block == nil || s.World != copies.TestOf(block.Test).Ranks || c.Nodes != 1 {
		return rank.Refused("%d ranks on %d nodes cannot run the copies of this case", s.World, c.Nodes)
	}
	if err := s.Emit(rank.KindFacts, r.parts.Facts); err != nil {
		return err
	}
	if err := s.RefuseIdle(&c, Measurer.Idle); err != nil {
		return err
	}
	// Collections happen only between cases.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	b := &bench{Parts: r.parts, own: accel.NewScope(r.parts.Device), session: s, block: block, test: copies.TestOf(block.Test)}
	var err error
	if b.meet, err = rendezvous.OpenSpin(ctx, s.Store, s.Scope+"/meet", s.Rank, s.World); err != nil {
		return err
	}
	return errors.Join(b.run(ctx), b.close())
}

// bench is one case in one rank.
type bench struct {
	Parts
	session    *rank.Session
	own        *accel.Scope // of streams and events
	block      *copies.Block
	test       copies.Test
	meet       *rendezvous.Spin
	streams    []accel.Stream
	start, end accel.Event
	ends       []accel.Event // by stream
	bystander  *bystander    // nil: this rank runs no victim
	nonce      uint16
	margins    margins // of the buffers of the current size
	odd        bool    // its pieces do not begin and end with words
}

func (b *bench) close() error {
	return errors.Join(b.meet.Close(), coded(b.own.Close()), b.bystander.close())
}

// run measures the rows of the case.
func (b *bench) run(ctx context.Context) error {
	if err := b.open(ctx); err != nil {
		return err
	}
	asked := copies.Asked(b.block)
	for i := 0; i < len(asked); i += len(b.block.Streams) {
		b.margins, b.odd = marginsOf(asked[i].BlockBytes), asked[i].BlockBytes%wordBytes != 0
		ways, err := b.ways(ctx, asked[i].Bytes)
		if err == nil {
			err = b.size(ctx, i, asked[i:][:len(b.block.Streams)], ways)
		}
		if err != nil {
			return errors.Join(err, b.drain(), closed(ways))
		}
		if err := b.shut(ctx, ways); err != nil {
			return err
		}
	}
	return nil
}

// size measures the rows of one size, the first of which is row number.
func (b *bench) size(ctx context.Context, number int, rows []copies.Row, ways []*way) error {
	if number == 0 {
		if err := b.begin(ways); err != nil {
			return err
		}
	}
	for i, asked := range rows {
		if err := b.row(ctx, number+i, asked, ways); err != nil {
			return fmt.Errorf("%s: %w", asked.Name(), err)
		}
	}
	return nil
}

// drain waits for work enqueued before a failure, since its memory is about to be freed.
func (b *bench) drain() (err error) {
	for _, s := range b.streams {
		err = errors.Join(err, coded(s.Synchronize()))
	}
	return errors.Join(err, b.bystander.drain())
}

// begin emits what is known before the first row.
func (b *bench) begin(ways []*way) error {
	by := "host"
	for _, w := range ways {
		for _, side := range []*Buffer{w.dst, w.src} {
			if side != nil && side.At.Host == nil {
				by = side.CheckedBy()
			}
		}
	}
	out := setup{Checked: by}
	if b.Engines != nil {
		out.Engines = b.Engines()
	}
	return b.session.Emit(kindSetup, out)
}

// open creates the streams and events: for each way the maximum number of streams of any row.
func (b *bench) open(ctx context.Context) (err error) {
	most := 0
	for _, n := range b.block.Streams {
		most = max(most, n)
	}
	if b.test.Both {
		most *= 2
	}
	for range most {
		s, err := b.own.NewStream()
		if err != nil {
			return coded(err)
		}
		b.streams = append(b.streams, s)
		e, err := b.own.NewEvent()
		if err != nil {
			return coded(err)
		}
		b.ends = append(b.ends, e)
	}
	for _, e := range []*accel.Event{&b.start, &b.end} {
		if *e, err = b.own.NewEvent(); err != nil {
			return coded(err)
		}
	}
	if b.block.Victim && b.session.Rank == b.test.Ranks-1 {
		b.bystander, err = newBystander(ctx, b.session, b.Device)
	}
	return err
}

// ways allocates the memory of the test's directions. The result must be closed, even on error.
func (b *bench) ways(ctx context.Context, bytes int64) ([]*way, error) {
	ways := []*way{{number: 0}}
	if b.test.Both {
		ways = append(ways, &way{number: 1})
	}
	if err := b.room(ctx, bytes, len(ways)); err != nil {
		return nil, err
	}
	for _, w := range ways {
		var err error
		w.odd = b.odd
		if b.test.Ranks == 1 {
			err = w.alone(b.Memory, b.test, b.block.HostMemory, bytes, b.margins)
		} else {
			err = b.between(ctx, w, bytes)
		}
		if err != nil {
			return ways, err
		}
	}
	return ways, nil
}

// room returns an error if the host has too little memory for the sides of ways directions. No rank
// allocates memory before all ranks have checked.
func (b *bench) room(ctx context.Context, bytes int64, ways int) error {
	buffers := 0 // of this rank, in the host's memory
	switch shared := b.Device.Info().SharedHostMem; {
	case shared && b.test.Ranks == 1:
		buffers = 2 * ways
	case shared, b.test.Memory:
		buffers = ways
	}
	if err := room(sysfs.Here(), buffers, bytes, b.margins, b.session.World); err != nil {
		return err
	}
	return b.meet.Wait(ctx)
}

// between allocates this rank's side of a way of a test on two devices. The acting rank reads or
// writes its peer's memory. In the direction of the test's name, rank 1 acts.
func (b *bench) between(ctx context.Context, w *way, bytes int64) error {
	own, handle, err := b.Memory.Shared(b.margins.buffer(bytes))
	if err != nil {
		return err
	}
	w.free = append(w.free, own.Free)
	handles, err := rank.Gather(ctx, b.session, fmt.Sprintf("memory-%d-%d", bytes, w.number), handle)
	if err != nil {
		return err
	}
	w.acts = b.session.Rank == 1-w.number
	mine, theirs := own.At, Place{}
	if w.acts {
		at, shut, err := b.Memory.Open(handles[1-b.session.Rank])
		if err != nil {
			return err
		}
		w.shut, theirs = shut, Place{Device: at}
	}
	if b.test.Out == w.acts {
		w.src, w.from, w.to = &own, mine.Add(b.margins.lead), theirs.Add(b.margins.lead)
	} else {
		w.dst, w.to, w.from = &own, mine.Add(b.margins.lead), theirs.Add(b.margins.lead)
	}
	return nil
}

// shut frees the memory of ways. It unmaps memory of the other rank before its owner frees it.
func (b *bench) shut(ctx context.Context, ways []*way) error {
	for _, w := range ways {
		if err := w.release(); err != nil {
			return err
		}
	}
	if err := b.meet.Wait(ctx); err != nil {
		return err
	}
	return closed(ways)
}

// closed frees the memory of ways.
func closed(ways []*way) (err error) {
	for _, w := range ways {
		err = errors.Join(err, w.close())
	}
	return err
}

// told is what the copying rank of a row tells the other one.
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
	pieces  [][]piece
	slots   int
	work    []*submission // of the ways for which this rank copies
	told    told          // by the copying rank
	out     row
	windows int             // checked so far
	left    map[int]remains // by number of copies
	waste   int             // parts compared since the last collection
}

// row measures one size on a number of streams.
func (b *bench) row(ctx context.Context, number int, asked copies.Row, ways []*way) error {
	m := &measuring{bench: b, number: number, bytes: asked.Bytes, ways: ways, out: row{Row: number}, left: map[int]remains{}}
	m.pieces, m.slots = cut(b.block, asked), slotsOf(b.block, asked.Pieces)
	for _, w := range ways {
		if !w.acts {
			continue
		}
		s := &submission{device: b.Device, way: w, streams: b.streams[len(m.work)*asked.Streams:][:asked.Streams], pieces: m.pieces, slots: m.slots}
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
	m.told = all[b.test.Ranks-1]
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
	total := t.Reps * pieces
	switch {
	case len(m.work) > 1:
		total += disturbance * total
	case m.bystander != nil:
		total *= disturbance
	}
	m.told.Gated = m.Gate != nil && !m.test.Swap && m.block.HostMemory != copies.Pageable && total <= queued
	if m.bystander != nil && !m.told.Gated {
		return rank.Refused("a window beside a victim needs %d pieces, but a device queues at most %d: choose fewer streams, copies of a window or pages", total, queued)
	}
	if len(m.work) == 0 {
		return nil // only the other rank copies
	}
	if m.test.Swap {
		_, err := m.swaps(t.Warmup)
		return err
	}
	if t.Warmup > 0 {
		if _, err := m.hostWindow(ctx, t.Warmup); err != nil {
			return err
		}
	}
	if m.bystander == nil {
		return nil
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
		return m.checked(ctx, n, func() error {
			us, err := m.swaps(n)
			m.out.Each = append(m.out.Each, us)
			return err
		})
	}
	if m.told.Gated {
		if err := m.checked(ctx, n, func() error {
			us, err := m.gated(ctx, n, 0)
			m.out.Device = append(m.out.Device, us/float64(n))
			return err
		}); err != nil {
			return err
		}
	}
	if err := m.checked(ctx, n, func() error {
		window, err := m.hostWindow(ctx, n)
		m.out.Host = append(m.out.Host, float64(window.End-window.Begin)/1e3/float64(n))
		if m.test.Both && m.session.World > 1 {
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
	for i, w := range m.ways {
		copied := n
		if i > 0 && m.test.Ranks == 1 {
			copied *= disturbance
		}
		left, known := m.left[copied]
		if !known {
			left = remaining(m.pieces, copied, m.slots, m.margins.lead)
			m.left[copied] = left
		}
		if err := w.check(m.session, check{Row: m.number, Window: m.windows}, m.nonce, left); err != nil {
			return err
		}
		m.waste += len(left.spans) + len(left.parts)
	}
	m.windows++
	if m.waste > 1<<20 { // checks allocate memory for each span
		m.waste = 0
		runtime.GC()
	}
	return nil
}

// rehearsedBytes is about how much a rehearsal copies.
const rehearsedBytes = 16 << 20

// rehearse makes the copies of a window of n, up to about rehearsedBytes but at least one, to undo the effect of painting
// and comparing on caches. The copies write other words than the window writes to the same places.
func (m *measuring) rehearse(ctx context.Context, n int) error {
	for _, s := range m.work {
		s.other = true
		defer func() { s.other = false }()
	}
	_, err := m.hostWindow(ctx, min(n, max(1, int(rehearsedBytes/m.bytes))))
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

// together waits for the other rank if it copies at the same time.
func (b *bench) together(ctx context.Context) error {
	if !b.test.Both {
		return nil
	}
	return b.meet.Wait(ctx)
}

// hostWindow makes n copies of the first way, interleaved with copies of the second way if there is one. It returns
// the interval from the first call of the first way to the end of its streams.
func (m *measuring) hostWindow(ctx context.Context, n int) (window span, err error) {
	if err := m.together(ctx); err != nil {
		return window, err
	}
	for _, other := range m.work[1:] {
		if err := other.enqueue(disturbance * n); err != nil {
			return window, err
		}
	}
	if window.Begin, err = monotonic(); err != nil {
		return window, err
	}
	if err := m.work[0].enqueue(n); err != nil {
		return window, err
	}
	if err := m.work[0].synchronize(); err != nil {
		return window, err
	}
	if window.End, err = monotonic(); err != nil {
		return window, err
	}
	for _, other := range m.work[1:] {
		if err := other.synchronize(); err != nil {
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
// time until the copies of the first way ended, in microseconds.
func (m *measuring) gated(ctx context.Context, n int, units uint64) (float64, error) {
	defer m.Gate.Open()
	if err := m.gate(n); err != nil {
		return 0, err
	}
	if units > 0 {
		if err := m.bystander.enqueue(m.start, units); err != nil {
			return 0, coded(err)
		}
	}
	if err := m.together(ctx); err != nil {
		return 0, err
	}
	m.Gate.Open()
	for _, s := range m.work {
		if err := s.synchronize(); err != nil {
			return 0, err
		}
	}
	if units > 0 {
		if err := m.bystander.check(units); err != nil {
			return 0, coded(err)
		}
	}
	us, err := m.Device.Elapsed(m.start, m.end)
	if err != nil {
		return 0, coded(err)
	}
	return us, m.together(ctx)
}

// gate enqueues n copies behind the gate. All streams start with the first stream, which ends after the last stream of
// its way.
func (m *measuring) gate(n int) error {
	first := m.work[0].streams[0]
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
	for i, s := range m.work {
		copies := n
		if i > 0 {
			copies *= disturbance
		}
		if err := s.enqueue(copies); err != nil {
			return err
		}
	}
	for i, stream := range m.work[0].streams[1:] {
		if err := stream.Record(m.ends[i]); err != nil {
			return coded(err)
		}
		if err := first.Wait(m.ends[i]); err != nil {
			return coded(err)
		}
	}
	return coded(first.Record(m.end))
}
