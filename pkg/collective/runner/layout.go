package runner

import (
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// limits restrict the buffers of a case. All ranks agree on them.
type limits struct {
	Bytes    int64 `json:"bytes"`     // device memory for buffers
	Cache    int64 `json:"cache"`     // bytes of the last-level cache
	NoGraphs bool  `json:"no_graphs"` // the device cannot capture
	Untimed  int64 `json:"untimed"`   // bytes that the untimed window of a size moves and checks
	// Draw is random; where truncated windows end follows from that of all ranks.
	Draw uint64 `json:"draw"`
}

// unknownCache is the assumed size, in bytes, of a last-level cache that the device does not report.
const unknownCache = 64 << 20

// meet returns the stricter of both limits.
func (l limits) meet(o limits) limits {
	return limits{
		Bytes: min(l.Bytes, o.Bytes), Cache: max(l.Cache, o.Cache), NoGraphs: l.NoGraphs || o.NoGraphs,
		Untimed: min(l.Untimed, o.Untimed), Draw: l.Draw ^ o.Draw,
	}
}

// rung is one size, placement and pair of ranks with its memory layout. The send buffer of slot i begins
// at i·stride; out of place, its receive buffer begins at recvAt + i·recvStride.
//
// Out of place, the operations of a window that share a slot write their results markBytes apart, so
// that the beginning of each result is preserved until the window ends.
type rung struct {
	Requested int64
	Extent
	Placement  string
	Pair       Pair // zero except for pairwise operations
	Slots      int
	rounds     int // operations of a window that share a slot; 1 in place
	untimed    int // operations of the untimed window
	truncated  int // truncated windows
	stride     int64
	recvAt     int64
	recvStride int64
	// exchange and settle are the addresses of Form.Exchange for the rung's calls and for settle; see
	// bench.listExchanges.
	exchange, settle uintptr
}

// ladder lists the rungs of a case that are measured, in order, and those that are not.
type ladder struct {
	rungs    []rung
	bytes    int64 // memory of the largest rung
	settle   int64 // bytes of each of the two buffers of settle
	flush    int64 // bytes written before a window to empty the caches
	modes    []string
	dropped  []collective.DroppedSize
	excluded []collective.Exclusion
	draw     uint64
}

// maxSettle is the maximum size, in bytes, of an operation that settle runs. For larger operations, the
// extra time of the first one is negligible.
const maxSettle = 1 << 20

// Enqueued returns the sizes, in bytes, of all operations that a runner enqueues for a case with the
// given sizes and element type. Besides the measured operations, these are the operations of settle, of
// the arithmetic pass and of the barrier.
func Enqueued(sizes []int64, t numeric.Type) (all []int64) {
	for _, size := range append(slices.Clone(sizes), syncCount*int64(t.Size())) {
		all = append(all, size, min(size, maxSettle), min(size, maxArithmetic))
	}
	return all
}

// slotAlign is the alignment of buffers, in bytes, at which libraries are fastest.
const slotAlign = 512

// markBytes is the distance, in bytes, between the results of operations that share a slot. Each later
// result overwrites all of the previous one except its first markBytes.
const markBytes = slotAlign

// layOut returns the ladder of the case within the limits.
func (s spec) layOut(l limits) ladder {
	out := ladder{draw: l.Draw}
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
	room := l.Bytes - out.flush - 2*align(s.unaligned()) - 2*maxSettle
	span := s.span(room)
	for _, size := range s.block.Sizes {
		e := s.form(Pair{}).Extent(size)
		if e.Count == 0 && size > 0 {
			out.dropped = append(out.dropped, collective.DroppedSize{Bytes: size, Reason: result.ReasonSizeTooSmall.With("%d ranks of %s take at least %d bytes", s.World, s.dtype, s.form(Pair{}).minBytes())})
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
			r.untimed = s.untimed(r, l.Untimed)
			r.truncated = s.truncated(r)
			for _, r.Pair = range s.op.Pairs(s.World) {
				r.Extent = s.form(r.Pair).Extent(size)
				rungs = append(rungs, r)
			}
			out.bytes = max(out.bytes, need, min(s.apartBytes(r), batchBytes, room))
			out.settle = max(out.settle, align(min(e.Bytes, maxSettle)))
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

// operations returns the number of operations that a window enqueues or captures.
func (s spec) operations() int {
	return s.block.Measure.Iterations * s.block.Measure.Aggregate
}

// unaligned returns the offset, in bytes, of all buffers from their alignment.
func (s spec) unaligned() int64 { return s.block.Unalign * int64(s.dtype.Size()) }

// shares returns the number of results in a slot that n operations share. It is twice n with several
// launches of a graph, since launches before the last one write their results elsewhere.
func (s spec) shares(n int) int64 {
	if s.block.Measure.Launches > 1 {
		n *= 2
	}
	return int64(n)
}

// slack returns an upper bound, in bytes, for the marks of a rung.
func (s spec) slack() int64 { return 2 * s.shares(s.operations()) * markBytes }

// span returns the size, in bytes, of the memory over which shifted buffers move: the largest size of
// the case for which a send and a receive buffer fit into room.
func (s spec) span(room int64) int64 {
	var span int64
	for _, size := range s.block.Sizes {
		if bytes := s.form(Pair{}).Extent(size).Bytes; 2*align(bytes)+s.slack() <= room {
			span = max(span, bytes)
		}
	}
	return span
}

// rung lays out one size and placement and returns the bytes that it needs. In place, the last slot is
// reserved for the last operation, since an operation overwrites its own input.
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
		slots = max(1, min(span/max(1, e.Bytes), n))
	case vocab.Cold, vocab.FreshCold:
		slots = max(min(2*cache/max(1, r.stride)+1, n, room/max(1, r.stride)), min(2, n))
	}
	if !apart && n*int64(s.block.Measure.Launches) > 1 {
		slots = max(slots, 2)
	}
	if apart { // a library may run the operations of a group call in any order
		slots = max(slots, min(int64(s.block.Measure.Aggregate), n))
	}
	r.Slots = int(slots)
	r.recvStride = r.stride
	if apart {
		r.rounds = (int(n) + r.Slots - 1) / r.Slots
	}
	if s.block.Buffers == vocab.Shifted && apart {
		r.recvAt = align(max(span, slots*r.stride))
		r.recvStride += (s.shares(r.rounds) - 1) * markBytes
		return r, r.recvAt + align(slots*r.recvStride)
	}
	return r, align(slots * r.stride)
}

func align(n int64) int64 { return (n + slotAlign - 1) / slotAlign * slotAlign }

// place locates the input and the result of an operation.
type place struct{ slot, round int }

// place returns the place of operation i of n.
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

// mark is the part of an operation's result that a window leaves in memory: the whole result or its
// first markBytes.
type mark struct {
	place
	whole bool
}

// places returns the places of the n operations of a window.
func (r rung) places(n int) []place {
	places := make([]place, n)
	for i := range places {
		places[i] = r.place(i, n)
	}
	return places
}

// left lists the results of operations at places, run in this order, that can be checked after them.
// Out of place, each result leaves a mark. In place, only operations with a slot of their own do, since
// a second operation on a slot has the result of the first as its input.
func (r rung) left(places []place) (marks []mark) {
	shared, last := make([]int, r.Slots), make([]int, r.Slots)
	for i, p := range places {
		shared[p.slot]++
		last[p.slot] = i
	}
	for i, p := range places {
		if shared[p.slot] == 1 || r.Placement == vocab.OutOfPlace {
			marks = append(marks, mark{p, i == last[p.slot]})
		}
	}
	return marks
}

// marks lists the results of a timed window that can be checked after it. In place, only the last slot
// has results of the last launch alone.
func (s spec) marks(r rung) []mark {
	marks := r.left(r.places(s.operations()))
	if r.Placement == vocab.InPlace && s.block.Measure.Launches > 1 {
		return slices.DeleteFunc(marks, func(m mark) bool { return m.slot != r.Slots-1 })
	}
	return marks
}

// seed returns a unique number for every buffer of every window of every case.
func seed(caseID string, w window, slot int) uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s %d %s %s %d %d %d %d %d", caseID, w.Requested, w.Placement, w.Mode, w.Trial, w.Repeat, slot, w.Pair.Src, w.Pair.Dst)
	return h.Sum32()
}
