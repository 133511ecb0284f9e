package runner

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

const (
	wordBytes = 8
	// stepBytes is the distance in the destination from the start of a copy to the start of the next copy of the
	// window. Each copy therefore changes every word of its destination, and its first stepBytes remain. The distance
	// keeps the alignment that copies depend on, and does not change their time.
	stepBytes = 256
	// maxSlots is the maximum number of slots: the places in the destination where the copies of a window begin in turn.
	// slackBytes is the memory that they need behind the share of a stream.
	maxSlots   = 64
	slackBytes = maxSlots * stepBytes
	// leadBytes precede and tailBytes follow the data of a buffer. With the lead, data begin at a multiple of the
	// largest page of a device. The tail has the slack of the maximum number of streams, and a page where nothing may
	// write.
	leadBytes = 2 << 20
	tailBytes = 64*slackBytes + 4096
)

// margins are the bytes of a buffer before and after its data.
type margins struct{ lead, tail int64 }

// marginsOf returns the margins of the copies of a case, or of swaps of blocks of a size, which have at least a block on
// each side.
func marginsOf(block int64) margins {
	return margins{max(1, (block+leadBytes-1)/leadBytes) * leadBytes, tailBytes + block}
}

// buffer returns the size of a buffer for data, in whole words.
func (m margins) buffer(data int64) int64 {
	return (m.lead + data + m.tail + wordBytes - 1) / wordBytes * wordBytes
}

// piece is a part of a copy, with its offsets in the data of both sides.
type piece struct{ dst, src, bytes int64 }

// cut returns the pieces of a copy by stream: equal shares, each one piece or, if the case has pages, pages in random
// order in the source. The blocks of a swap are in the order of the source, and in the case's layout in the destination.
// Shares have slack between them in the destination, since streams do not wait for each other.
func cut(b *copies.Block, row copies.Row) [][]piece {
	n, streams := row.Pieces, row.Streams
	size := row.Bytes / int64(n)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	if b.PageBytes > 0 || b.Layout == copies.Random {
		r := rand.New(rand.NewPCG(b.Seed, uint64(row.Bytes)))
		r.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	out := make([][]piece, streams)
	for i := range n {
		s := i * streams / n
		p := piece{int64(i)*size + int64(s)*slackBytes, int64(order[i]) * size, size}
		if b.Layout != "" {
			p = piece{int64(order[i]) * size, int64(i) * size, size}
		}
		out[s] = append(out[s], p)
	}
	return out
}

// chased returns the words that a chase of the pieces copies, as pieces.
func chased(pieces [][]piece) [][]piece {
	out := make([][]piece, len(pieces))
	for i, share := range pieces {
		for _, p := range share {
			for at := int64(0); at < p.bytes; at += copies.ChaseBytes {
				out[i] = append(out[i], piece{p.dst + at, p.src + at, wordBytes})
			}
		}
	}
	return out
}

// remains are the parts of a destination that the copies of a window leave, in its order: in words or, if a part does
// not begin and end with words, in bytes.
type remains struct {
	spans []pool.Span
	parts []pool.Part
}

// remaining returns what remains of pieces after n copies, each one slot further: the first step of the copy in each
// slot, and all of the last copy. The data of the buffers begin at lead.
func remaining(pieces [][]piece, n, slots int, lead int64) remains {
	var parts []pool.Part
	last := min(n, slots) - 1
	for _, share := range pieces {
		share = slices.SortedFunc(slices.Values(share), func(a, b piece) int { return cmp.Compare(a.dst, b.dst) })
		for slot := range last + 1 {
			for _, p := range share {
				bytes := p.bytes
				if into := p.dst - share[0].dst; slot < last {
					if bytes = min(bytes, stepBytes-into); bytes <= 0 {
						break
					}
				}
				parts = append(parts, pool.Part{Dst: lead + p.dst + int64(slot)*stepBytes, Src: lead + p.src, N: bytes})
			}
		}
	}
	if spans, whole := pool.Spans(parts); whole {
		return remains{spans: spans}
	}
	return remains{parts: parts}
}

// find applies the data faults of a destination, normally none, and checks it.
func (r remains) find(s *rank.Session, dst, src pool.Origin, memory pool.Memory) (pool.Finding, error) {
	if r.parts != nil {
		if err := pool.InjureParts(s, dst, src, memory, r.parts); err != nil {
			return pool.Finding{}, err
		}
		return pool.DestinationParts(dst, src, memory, r.parts)
	}
	if err := pool.Injure(s, dst, src, memory, r.spans); err != nil {
		return pool.Finding{}, err
	}
	return pool.Destination(dst, src, memory, r.spans)
}

// way is a flow of a test, in one rank.
type way struct {
	copies.Flow
	number   int  // of the flow
	odd      bool // pieces do not begin and end with words
	acts     bool
	dst, src *Buffer // of this rank; nil: another rank's
	to, from Place   // of the data, if this rank copies
	free     []func() error
	shut     func() error // unmaps the other rank's side, if this rank copies
}

// origins returns the origins of the words of both sides.
func (w *way) origins(nonce uint16) (dst, src pool.Origin) {
	return pool.Origin{Pool: pool.Of(2*w.number + 1), Nonce: nonce}, pool.Origin{Pool: pool.Of(2 * w.number), Nonce: nonce}
}

// paint writes its origin to each word of this rank's sides.
func (w *way) paint(nonce uint16) error {
	dst, src := w.origins(nonce)
	paint := func(o pool.Origin, side *Buffer) error {
		switch {
		case side == nil:
			return nil
		case w.odd:
			return pool.PaintMixed(o, side.Memory)
		default:
			return side.Paint(o.Word(0))
		}
	}
	return errors.Join(paint(dst, w.dst), paint(src, w.src))
}

// check compares every word of this rank's sides after copies that leave the given parts.
func (w *way) check(s *rank.Session, at check, nonce uint16, left remains) error {
	dst, src := w.origins(nonce)
	at.Way = w.number
	if w.dst != nil {
		var err error
		if at.Finding, err = left.find(s, dst, src, w.dst.Memory); err != nil {
			return err
		}
		at.Destination = true
		if err := s.Emit(kindCheck, at); err != nil {
			return err
		}
	}
	if w.src != nil {
		unchanged := pool.Unchanged
		if w.odd {
			unchanged = pool.UnchangedMixed
		}
		err := pool.Spoil(s, w.src.Memory)
		if err == nil {
			at.Finding, err = unchanged(src, w.src.Memory, "source")
		}
		if err != nil {
			return err
		}
		at.Destination = false
		return s.Emit(kindCheck, at)
	}
	return nil
}

// release unmaps the other rank's side.
func (w *way) release() error {
	if w.shut == nil {
		return nil
	}
	err := w.shut()
	w.shut = nil
	return err
}

// close frees the sides.
func (w *way) close() error {
	err := w.release()
	for _, free := range w.free {
		err = errors.Join(err, free())
	}
	w.free = nil
	return err
}

// sides calls f for both sides of the way: its buffer and place, and whose memory it is.
func (w *way) sides(f func(to **Buffer, at *Place, of copies.Side) error) error {
	if err := f(&w.src, &w.from, w.Src); err != nil {
		return err
	}
	return f(&w.dst, &w.to, w.Dst)
}

// own allocates the sides of the way that are of a rank, and returns the handle of one that another rank opens.
func (w *way) own(m Memory, rank int, kind string, bytes int64, around margins) (handle []byte, err error) {
	between := w.Src.Rank != w.Dst.Rank
	err = w.sides(func(to **Buffer, at *Place, of copies.Side) error {
		if of.Rank != rank {
			return nil
		}
		var b Buffer
		var err error
		switch bytes := around.buffer(bytes); {
		case of.Host:
			b, err = m.Host(kind, bytes)
		case between:
			b, handle, err = m.Shared(bytes)
		default:
			b, err = m.Device(bytes)
		}
		if err != nil {
			return err
		}
		*to, *at = &b, b.At.Add(around.lead)
		w.free = append(w.free, b.Free)
		return nil
	})
	return handle, err
}

// open opens the side of another rank by its handle, if this rank copies.
func (w *way) open(m Memory, around margins, handle func(owner int) []byte) error {
	if !w.acts || w.Src.Rank == w.Dst.Rank {
		return nil
	}
	return w.sides(func(_ **Buffer, place *Place, of copies.Side) error {
		if of.Rank == w.Acts {
			return nil
		}
		at, shut, err := m.Open(of.Rank, handle(of.Rank))
		if err != nil {
			return err
		}
		w.shut, *place = shut, Place{Device: at}.Add(around.lead)
		return nil
	})
}

// submission enqueues copies of one way.
type submission struct {
	device  accel.Device
	way     *way
	streams []accel.Stream
	pieces  [][]piece
	slots   int
	lists   map[shift][]list // by stream, for a batch; nil: a call for each piece
	other   bool             // copy other words of the source
	chase   chaser           // nil: each piece is copied
}

// shift is the distance in bytes from where the pieces begin to where a copy of them begins.
type shift struct{ dst, src int64 }

// list is what one call of a batch copies.
type list struct {
	dst, src []accel.Ptr
	sizes    []uintptr
}

// maxListed is the approximate maximum number of pieces in the lists of a batch, over all slots.
const maxListed = 1 << 19

// slotsOf returns the number of slots for copies of the given number of pieces.
func slotsOf(b *copies.Block, pieces int) int {
	if b.Submission == copies.Batch {
		return max(2, min(maxSlots, maxListed/pieces))
	}
	return maxSlots
}

// batch makes the lists of a batch.
func (s *submission) batch() error {
	if _, ok := s.device.(batcher); !ok {
		return rank.Refused("this device does not support batches of copies")
	}
	to, from := s.way.to.Ptr(), s.way.from.Ptr()
	s.lists = map[shift][]list{}
	for i := range 2 * s.slots { // for the words of a window, and the other ones
		by := shift{int64(i/2) * stepBytes, int64(i%2) * slackBytes}
		for _, share := range s.pieces {
			var l list
			for _, p := range share {
				l.dst, l.src, l.sizes = append(l.dst, to.Add(p.dst+by.dst)), append(l.src, from.Add(p.src+by.src)), append(l.sizes, uintptr(p.bytes))
			}
			s.lists[by] = append(s.lists[by], l)
		}
	}
	return nil
}

// first returns the slot of the first of n copies, so that the last one has the last slot of a window.
func (s *submission) first(n int) int {
	if n <= s.slots {
		return 0
	}
	return (s.slots - n%s.slots) % s.slots
}

// enqueue enqueues n copies, each one slot further than the one before it.
func (s *submission) enqueue(n int) error {
	slot := s.first(n)
	for range n {
		if err := s.once(slot); err != nil {
			return err
		}
		slot = (slot + 1) % s.slots
	}
	return nil
}

// once enqueues a copy that begins in a slot.
func (s *submission) once(slot int) error {
	by := shift{dst: int64(slot) * stepBytes}
	if s.other {
		by.src = slackBytes
	}
	lists := s.lists[by]
	for i, stream := range s.streams {
		if lists != nil {
			l := &lists[i]
			if err := s.device.(batcher).CopyBatch(stream, l.dst, l.src, l.sizes); err != nil {
				return coded(err)
			}
			continue
		}
		for _, p := range s.pieces[i] {
			if err := s.copy(stream, p, by); err != nil {
				return err
			}
		}
	}
	return nil
}

// copy enqueues the copy of a piece.
func (s *submission) copy(stream accel.Stream, p piece, by shift) error {
	to, from := s.way.to.Add(p.dst+by.dst), s.way.from.Add(p.src+by.src)
	var err error
	switch {
	case s.chase != nil:
		err = s.chase.Chase(stream, to.Ptr(), from.Ptr(), p.bytes)
	case to.Host != nil:
		err = s.device.CopyOut(stream, to.Host, from.Device, p.bytes)
	case from.Host != nil:
		err = s.device.CopyIn(stream, to.Device, from.Host, p.bytes)
	default:
		err = s.device.Copy(stream, to.Device, from.Device, p.bytes)
	}
	return coded(err)
}

// synchronize waits for the streams.
func (s *submission) synchronize() error {
	for _, stream := range s.streams {
		if err := stream.Synchronize(); err != nil {
			return coded(err)
		}
	}
	return nil
}

func coded(err error) error {
	if errors.Is(err, accel.ErrUnsupported) {
		return rank.Refused("%v", err)
	}
	return rank.Coded(result.ReasonDevice, err)
}
