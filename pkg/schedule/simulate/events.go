package simulate

// event is something that happens at a time, on a rank, to an op or a message.
type event struct {
	at   Picoseconds
	rank int32
	of   int32
	what uint8
}

// before orders events by time, then by rank, then by what they are of: an order that does
// not depend on how they came about.
func (e *event) before(o *event) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	if e.rank != o.rank {
		return e.rank < o.rank
	}
	return e.of < o.of
}

// events is a heap. container/heap calls through an interface, which takes twice the time.
type events []event

func (h events) next() (at Picoseconds, ok bool) {
	if len(h) == 0 {
		return 0, false
	}
	return h[0].at, true
}

func (h *events) push(e event) {
	*h = append(*h, e)
	q := *h
	i := len(q) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(&q[parent]) {
			break
		}
		q[i] = q[parent]
		i = parent
	}
	q[i] = e
}

func (h *events) pop() event {
	q := *h
	first, last := q[0], q[len(q)-1]
	q = q[:len(q)-1]
	*h = q
	if len(q) == 0 {
		return first
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(q) {
			break
		}
		if child+1 < len(q) && q[child+1].before(&q[child]) {
			child++
		}
		if !q[child].before(&last) {
			break
		}
		q[i] = q[child]
		i = child
	}
	q[i] = last
	return first
}
