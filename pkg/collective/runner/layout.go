package runner

import (
	"fmt"
	"hash/fnv"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// limits are what bounds the buffers of a case, the same on all ranks.
type limits struct {
	Bytes    int64 `json:"bytes"`     // device memory for buffers
	Cache    int64 `json:"cache"`     // last level cache
	NoGraphs bool  `json:"no_graphs"` // the device cannot capture
	Untimed  int64 `json:"untimed"`   // of a size, moved and checked beside the timed windows
}

// unknownCache stands for a last level cache whose size the device does not tell.
const unknownCache = 64 << 20

// meet returns what suits both.
func (l limits) meet(o limits) limits {
	return limits{
		Bytes: min(l.Bytes, o.Bytes), Cache: max(l.Cache, o.Cache), NoGraphs: l.NoGraphs || o.NoGraphs,
		Untimed: min(l.Untimed, o.Untimed),
	}
}

// rung is one size, placement and pair of ranks with its place in memory. The send
// buffer of slot i begins at i·stride, its receive buffer at recvAt + i·recvStride
// where they are apart.
//
// Out of place, the operations of a window that share a slot write their results
// markBytes apart, so that the beginning of each result is still there when the
// window has ended.
type rung struct {
	Requested int64
	Extent
	Placement  string
	Pair       Pair // none but for pairwise operations
	Slots      int
	rounds     int  // operations of a window that share a slot; in place 1
	untimed    int  // operations of the untimed window
	repeats    bool // the untimed window begins with the operations of a timed one
	stride     int64
	recvAt     int64
	recvStride int64
	// exchange and settle are the addresses of what calls of the rung, and of its
	// settling, list; see bench.listExchanges.
	exchange, settle uintptr
}

// ladder is what of a case is measured, in order, and what is not.
type ladder struct {
	rungs    []rung
	bytes    int64 // of the largest rung
	settle   int64 // of each of the two buffers that settle takes
	flush    int64 // bytes written before a window to empty the caches
	modes    []string
	dropped  []collective.DroppedSize
	excluded []collective.Exclusion
}

// settleMost is how large the operations are at most that settle runs: beyond
// it, what a first operation costs more is nothing beside what it takes.
const settleMost = 1 << 20

// slotAlign keeps buffers at the alignment that libraries like best.
const slotAlign = 512

// markBytes is the distance between the results of operations that share a
// slot, and thus what stays of each but the last.
const markBytes = slotAlign

// layOut decides what is measured within the limits.
func (s spec) layOut(l limits) ladder {
	var out ladder
	for _, mode := range s.block.Modes {
		if mode == vocab.Graph && l.NoGraphs {
			out.exclude(mode, "the device has no graphs")
			continue
		}
		out.modes = append(out.modes, mode)
	}
	var placements []string
	for _, p := range s.block.Placements {
		if p == vocab.InPlace && !s.op.InPlace() {
			out.exclude(p, "%s has no in-place form", s.op)
			continue
		}
		placements = append(placements, p)
	}
	if vocab.CachesEmptied(s.block.Buffers) {
		out.flush = 2 * l.Cache
	}
	room := l.Bytes - out.flush - 2*align(s.unaligned()) - 2*settleMost
	span := s.span(room)
	for _, size := range s.block.Sizes {
		e := s.form(Pair{}).Extent(size)
		if e.Count == 0 {
			out.dropped = append(out.dropped, collective.DroppedSize{Bytes: size, Reason: result.ReasonSizeTooSmall.With("%d ranks of %s take at least %d bytes", s.World, s.dtype, s.form(Pair{}).least())})
			continue
		}
		var rungs []rung
		fits := true
		for _, p := range placements {
			r, need := s.rung(size, e, p, room, l.Cache, span)
			if need > room {
				out.dropped = append(out.dropped, collective.DroppedSize{Bytes: size, Reason: result.ReasonMemoryForSize.With("takes %d bytes of memory, and %d may be used", need+l.Bytes-room, l.Bytes)})
				fits = false
				break
			}
			r.untimed, r.repeats = s.untimed(r, l.Untimed)
			for _, r.Pair = range s.op.Pairs(s.World) {
				r.Extent = s.form(r.Pair).Extent(size)
				rungs = append(rungs, r)
			}
			out.bytes = max(out.bytes, need, min(s.apartBytes(r), batchBytes, room))
			out.settle = max(out.settle, align(min(e.Bytes, settleMost)))
		}
		if fits {
			out.rungs = append(out.rungs, rungs...)
		}
	}
	return out
}

func (l *ladder) exclude(what, format string, args ...any) {
	l.excluded = append(l.excluded, collective.Exclusion{What: what, Reason: result.ReasonRefused.With(format, args...)})
}

// operations is how many operations a window enqueues, or captures.
func (s spec) operations() int {
	return s.block.Measure.Iterations * s.block.Measure.Aggregate
}

// unaligned is the bytes by which all buffers are off their alignment.
func (s spec) unaligned() int64 { return s.block.Unalign * int64(s.dtype.Size()) }

// shares is the number of results for which a slot has room that n operations
// share: launches of a graph before the last one leave theirs elsewhere.
func (s spec) shares(n int) int64 {
	if s.block.Measure.Launches > 1 {
		n *= 2
	}
	return int64(n)
}

// slack is the upper bound, in bytes, of what the marks of a rung take.
func (s spec) slack() int64 { return 2 * s.shares(s.operations()) * markBytes }

// span is what shifted buffers shift over: the largest size of which a send and
// a receive buffer fit into room.
func (s spec) span(room int64) int64 {
	var span int64
	for _, size := range s.block.Sizes {
		if bytes := s.form(Pair{}).Extent(size).Bytes; 2*align(bytes)+s.slack() <= room {
			span = max(span, bytes)
		}
	}
	return span
}

// rung lays out one size and placement and returns the bytes it needs. In
// place, the last slot is kept for the last operation, since an operation
// overwrites its own input.
func (s spec) rung(size int64, e Extent, placement string, room, cache, span int64) (rung, int64) {
	element := int64(s.dtype.Size())
	r := rung{Requested: size, Extent: e, Placement: placement, stride: align(e.Bytes), rounds: 1}
	apart := placement == vocab.OutOfPlace
	n := int64(s.operations())
	switch {
	case s.block.Buffers == vocab.Shifted:
		r.stride = e.Bytes
	case apart:
		r.recvAt = align(e.Send * element)
		r.stride = r.recvAt + align(e.Recv*element+s.slack())
	}
	slots := int64(1)
	switch s.block.Buffers {
	case vocab.Shifted:
		slots = max(1, min(span/e.Bytes, n))
	case vocab.Cold, vocab.FreshCold:
		slots = max(min(2*cache/r.stride+1, n, room/r.stride), min(2, n))
	}
	if !apart && n*int64(s.block.Measure.Launches) > 1 {
		slots = max(slots, 2)
	}
	r.Slots = int(slots)
	r.recvStride = r.stride
	if apart {
		r.rounds = (int(n) + r.Slots - 1) / r.Slots
	}
	if s.block.Buffers == vocab.Shifted && apart {
		r.recvAt = align(max(span, e.Bytes))
		r.recvStride += (s.shares(r.rounds) - 1) * markBytes
		return r, r.recvAt + align(slots*r.recvStride)
	}
	return r, align(slots * r.stride)
}

func align(n int64) int64 { return (n + slotAlign - 1) / slotAlign * slotAlign }

// place is where an operation finds its input and leaves its result.
type place struct{ slot, round int }

// place is that of operation i of n.
func (r rung) place(i, n int) place {
	switch {
	case r.Placement == vocab.OutOfPlace:
		return place{i % r.Slots, i / r.Slots}
	case r.Slots == 1:
		return place{}
	case i == n-1:
		return place{slot: r.Slots - 1}
	}
	return place{slot: i % (r.Slots - 1)}
}

// mark is what is left, after a window, of the result of an operation on
// untouched input: all of it, or its first markBytes.
type mark struct {
	place
	whole bool
}

// marks lists what is left of the operations of a window. Out of place it is
// something of each, in place all of those alone that had a slot of their own: a
// second operation on a slot finds the result of the first.
func (s spec) marks(r rung) []mark {
	n := s.operations()
	shared := make([]int, r.Slots)
	for i := range n {
		shared[r.place(i, n).slot]++
	}
	var marks []mark
	for i := range n {
		p := r.place(i, n)
		kept := shared[p.slot] == 1 && (s.block.Measure.Launches == 1 || p.slot == r.Slots-1)
		if kept || r.Placement == vocab.OutOfPlace {
			marks = append(marks, mark{p, kept || i+r.Slots >= n})
		}
	}
	return marks
}

// seed is a number of its own for every buffer of every window of every case.
func seed(caseID string, w window, slot int) uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s %d %s %s %d %d %d %d", caseID, w.Requested, w.Placement, w.Mode, w.Trial, slot, w.Pair.Src, w.Pair.Dst)
	return h.Sum32()
}
