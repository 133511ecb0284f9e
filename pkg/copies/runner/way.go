package runner

import (
	"errors"
	"math/rand/v2"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

const (
	wordBytes = 8
	// leadBytes precede and tailBytes follow the data of a buffer. Nothing may write there. With the lead, data begin
	// at a multiple of the largest page of a device.
	leadBytes = 2 << 20
	tailBytes = 4096
)

// piece is a part of a copy, with its offsets in the data of both sides.
type piece struct{ dst, src, bytes int64 }

// cut returns the pieces of a copy by stream: equal shares, each one piece or, if the case has pages, pages in random
// order in the source.
func cut(b *copies.Block, bytes int64, streams int) [][]piece {
	n := b.Pieces(bytes, streams)
	size := bytes / int64(n)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	if b.PageBytes > 0 {
		r := rand.New(rand.NewPCG(b.Seed, uint64(bytes)))
		r.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	out := make([][]piece, streams)
	for i := range n {
		s := i * streams / n
		out[s] = append(out[s], piece{int64(i) * size, int64(order[i]) * size, size})
	}
	return out
}

// spans returns the pieces in words of their buffers, in the order of the destination.
func spans(pieces [][]piece) (out []pool.Span) {
	for _, share := range pieces {
		for _, p := range share {
			out = append(out, pool.Span{
				Dst: int((leadBytes + p.dst) / wordBytes), Src: int((leadBytes + p.src) / wordBytes), N: int(p.bytes / wordBytes),
			})
		}
	}
	return out
}

// way is one direction of a test, in one rank.
type way struct {
	number   int // 0: the direction in the test's name
	acts     bool
	dst, src *Buffer // of this rank; nil: the other rank's
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
	var err error
	if w.dst != nil {
		err = w.dst.Paint(dst.Word(0))
	}
	if w.src != nil && err == nil {
		err = w.src.Paint(src.Word(0))
	}
	return err
}

// check compares every word of this rank's sides after the pieces were copied.
func (w *way) check(s *rank.Session, at check, nonce uint16, pieces [][]piece) error {
	dst, src := w.origins(nonce)
	at.Way = w.number
	if w.dst != nil {
		order := spans(pieces)
		err := pool.Injure(s, dst, src, w.dst.Memory, order)
		if err == nil {
			at.Finding, err = pool.Destination(dst, src, w.dst.Memory, order)
		}
		if err != nil {
			return err
		}
		at.Destination = true
		if err := s.Emit(kindCheck, at); err != nil {
			return err
		}
	}
	if w.src != nil {
		err := pool.Spoil(s, w.src.Memory)
		if err == nil {
			at.Finding, err = pool.Unchanged(src, w.src.Memory, "source")
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

// alone allocates both sides of a way of a test on one device.
func (w *way) alone(m Memory, t copies.Test, memory string, bytes int64) error {
	for _, side := range []struct {
		to   **Buffer
		at   *Place
		host bool
	}{{&w.src, &w.from, t.Memory && t.Out == (w.number == 1)}, {&w.dst, &w.to, t.Memory && t.Out == (w.number == 0)}} {
		var b Buffer
		var err error
		if side.host {
			b, err = m.Host(memory, leadBytes+bytes+tailBytes)
		} else {
			b, err = m.Device(leadBytes + bytes + tailBytes)
		}
		if err != nil {
			return err
		}
		*side.to, *side.at = &b, b.At.Add(leadBytes)
		w.free = append(w.free, b.Free)
	}
	w.acts = true
	return nil
}

// submission enqueues copies of one way.
type submission struct {
	device  accel.Device
	way     *way
	streams []accel.Stream
	pieces  [][]piece
	lists   []list // by stream, for a batch; nil: a call for each piece
}

// list is what one call of a batch copies.
type list struct {
	dst, src []accel.Ptr
	sizes    []uintptr
}

// batch makes the lists of a batch.
func (s *submission) batch() error {
	if _, ok := s.device.(batcher); !ok {
		return rank.Refused("this device does not support batches of copies")
	}
	at := func(p Place) accel.Ptr {
		if p.Host != nil {
			return accel.Ptr(uintptr(p.Host)) // drivers use one address space
		}
		return p.Device
	}
	to, from := at(s.way.to), at(s.way.from)
	s.lists = make([]list, len(s.pieces))
	for i, share := range s.pieces {
		l := &s.lists[i]
		for _, p := range share {
			l.dst, l.src, l.sizes = append(l.dst, to.Add(p.dst)), append(l.src, from.Add(p.src)), append(l.sizes, uintptr(p.bytes))
		}
	}
	return nil
}

// enqueue enqueues n copies.
func (s *submission) enqueue(n int) error {
	for range n {
		for i, stream := range s.streams {
			if s.lists != nil {
				l := &s.lists[i]
				if err := s.device.(batcher).CopyBatch(stream, l.dst, l.src, l.sizes); err != nil {
					return coded(err)
				}
				continue
			}
			for _, p := range s.pieces[i] {
				if err := s.copy(stream, p); err != nil {
					return coded(err)
				}
			}
		}
	}
	return nil
}

func (s *submission) copy(stream accel.Stream, p piece) error {
	to, from := s.way.to.Add(p.dst), s.way.from.Add(p.src)
	switch {
	case to.Host != nil:
		return s.device.CopyOut(stream, to.Host, from.Device, p.bytes)
	case from.Host != nil:
		return s.device.CopyIn(stream, to.Device, from.Host, p.bytes)
	default:
		return s.device.Copy(stream, to.Device, from.Device, p.bytes)
	}
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
