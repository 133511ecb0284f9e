package simulate

import "math/bits"

// event is something that happens to an op or a message. Its rank is, for a message, the node where it
// happens.
type event struct {
	at   Picoseconds
	key  uint64 // the rank, then the op or message; neither is negative
	what uint8
}

func newEvent(at Picoseconds, rank int32, what uint8, item int32) event {
	return event{at, uint64(rank)<<32 | uint64(item), what}
}

func (e *event) rank() int { return int(e.key >> 32) }

// item returns the op or message of the event.
func (e *event) item() int32 { return int32(e.key) }

// before returns 1 if e is before o, and 0 otherwise. Events are ordered by time, then by rank, then by op
// or message, so that their order does not depend on when they were pushed. before avoids branches, which
// the processor could not predict.
func (e *event) before(o *event) int {
	_, less := bits.Sub64(e.key, o.key, 0)
	_, less = bits.Sub64(uint64(e.at), uint64(o.at), less)
	return int(less)
}

// events is a binary heap. container/heap calls through an interface and takes twice the time.
type events []event

// next returns the time of the first event; ok is false if there is none.
func (h events) next() (at Picoseconds, ok bool) {
	if len(h) == 0 {
		return 0, false
	}
	return h[0].at, true
}

func (h *events) push(e event) {
	*h = append(*h, e)
	h.up(len(*h)-1, e)
}

// up puts e at i, or at an ancestor of i if e is before the events there.
func (h events) up(i int, e event) {
	for i > 0 {
		parent := (i - 1) / 2
		if e.before(&h[parent]) == 0 {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

// pop removes and returns the first event. It moves the gap down to a leaf, and then the last event up from
// there. This takes few comparisons, since the last event usually belongs near the leaves.
func (h *events) pop() event {
	q := *h
	first, last := q[0], q[len(q)-1]
	q = q[:len(q)-1]
	*h = q
	if len(q) == 0 {
		return first
	}
	i := 0
	for child := 1; child < len(q); child = 2*i + 1 {
		if child+1 < len(q) {
			child += q[child+1].before(&q[child])
		}
		q[i] = q[child]
		i = child
	}
	q.up(i, last)
	return first
}
