package schedule

import "slices"

// actions is what happens while a program flows. Ops from to to−1 of a rank are a node: one
// op, or those of a group.
type actions interface {
	start(r int, from, to int)
	local(r, i int)
	meet(r, send, q, receive int) // the send of rank r meets the receive of rank q
	end(r int, from, to int)
}

// flow runs the ops of a program in an order that its streams, dependencies, groups and
// messages allow.
type flow struct {
	*Program
	streams [][]stream // by rank
	done    [][]bool   // by rank and op
	posted  map[channel]*queue
	ready   []place // streams to look at
	left    int     // ops that have not ended
}

// stream is the ops of a stream in its order, and how far it is.
type stream struct {
	ops     []int32
	next    int // in ops: of the first op that has not ended
	open    int // ops of the node that has started and not ended; 0 is none
	pending int // of these, those that wait for a peer
}

type place struct{ rank, stream int }

// channel is where sends meet receives.
type channel struct {
	from, to int32
	number   uint8
}

// channel returns the channel of a send or a receive of rank r.
func (o *Op) channel(r int) channel {
	if o.sends() {
		return channel{int32(r), o.Peer, o.Channel}
	}
	return channel{o.Peer, int32(r), o.Channel}
}

// queue is the sends or the receives of a channel that wait for the other side.
type queue struct {
	ops   []endpoint
	sends bool
}

type endpoint struct {
	op     int32
	stream uint8
}

func newFlow(p *Program) *flow {
	f := &flow{Program: p, streams: make([][]stream, p.Ranks), done: make([][]bool, p.Ranks), posted: map[channel]*queue{}}
	for r, ops := range p.Ops {
		f.done[r] = make([]bool, len(ops))
		f.left += len(ops)
		for i := range ops {
			s := int(ops[i].Stream)
			for len(f.streams[r]) <= s {
				f.streams[r] = append(f.streams[r], stream{})
			}
			f.streams[r][s].ops = append(f.streams[r][s].ops, int32(i))
		}
		for s := range f.streams[r] {
			f.ready = append(f.ready, place{r, s})
		}
	}
	return f
}

// run runs ops until none can start or end; left is then what has not ended.
func (f *flow) run(a actions) {
	for len(f.ready) > 0 {
		at := f.ready[len(f.ready)-1]
		f.ready = f.ready[:len(f.ready)-1]
		for f.advance(a, at) {
		}
	}
}

// node returns how many ops the next node of a stream has.
func (f *flow) node(r int, s *stream) int {
	n := 1
	first := &f.Ops[r][s.ops[s.next]]
	for first.Group != 0 && s.next+n < len(s.ops) && f.Ops[r][s.ops[s.next+n]].Group == first.Group {
		n++
	}
	return n
}

// advance starts the next node of a stream, or ends the one that is open. It reports
// whether something happened.
func (f *flow) advance(a actions, at place) bool {
	s := &f.streams[at.rank][at.stream]
	if s.open > 0 {
		if s.pending > 0 {
			return false
		}
		f.finish(a, at, s)
		return true
	}
	if s.next == len(s.ops) {
		return false
	}
	n := f.node(at.rank, s)
	nodes := s.ops[s.next : s.next+n]
	for _, i := range nodes {
		for _, d := range f.Deps(&f.Ops[at.rank][i]) {
			if !f.done[at.rank][d] {
				return false
			}
		}
	}
	s.open = n
	a.start(at.rank, int(nodes[0]), int(nodes[n-1])+1)
	for _, i := range nodes {
		if o := &f.Ops[at.rank][i]; o.sends() || o.receives() {
			s.pending++
		}
	}
	for _, i := range nodes {
		if o := &f.Ops[at.rank][i]; o.sends() || o.receives() {
			f.post(a, at, i)
		} else {
			a.local(at.rank, int(i))
		}
	}
	return true
}

// post offers one end of a message to the other.
func (f *flow) post(a actions, at place, i int32) {
	o := &f.Ops[at.rank][i]
	ch := o.channel(at.rank)
	q := f.posted[ch]
	if q == nil {
		q = &queue{}
		f.posted[ch] = q
	}
	mine := endpoint{i, o.Stream}
	if len(q.ops) == 0 || q.sends == o.sends() {
		q.sends = o.sends()
		q.ops = append(q.ops, mine)
		return
	}
	theirs := q.ops[0]
	q.ops = append(q.ops[:0], q.ops[1:]...)
	peer := place{int(o.Peer), int(theirs.stream)}
	if o.sends() {
		a.meet(at.rank, int(i), peer.rank, int(theirs.op))
	} else {
		a.meet(peer.rank, int(theirs.op), at.rank, int(i))
	}
	f.met(at)
	f.met(peer)
}

func (f *flow) met(at place) {
	s := &f.streams[at.rank][at.stream]
	if s.pending--; s.pending == 0 {
		f.ready = append(f.ready, at)
	}
}

// finish ends the open node of a stream.
func (f *flow) finish(a actions, at place, s *stream) {
	nodes := s.ops[s.next : s.next+s.open]
	a.end(at.rank, int(nodes[0]), int(nodes[len(nodes)-1])+1)
	for _, i := range nodes {
		f.done[at.rank][i] = true
	}
	f.left -= len(nodes)
	s.next, s.open = s.next+len(nodes), 0
	for other := range f.streams[at.rank] { // which may depend on what has ended
		if other != at.stream {
			f.ready = append(f.ready, place{at.rank, other})
		}
	}
}

// waiting returns the ops of a rank that have started and wait for a peer.
func (f *flow) waiting(r int) (ops []int) {
	for ch, q := range f.posted {
		for _, e := range q.ops {
			if q.sends && int(ch.from) == r || !q.sends && int(ch.to) == r {
				ops = append(ops, int(e.op))
			}
		}
	}
	slices.Sort(ops)
	return ops
}

// comes reports whether the peer of an op still has an op that meets it: as many as wait
// for it.
func (f *flow) comes(r int, o *Op) bool {
	ch, left := o.channel(r), 0
	for s := range f.streams[o.Peer] {
		st := &f.streams[o.Peer][s]
		for _, i := range st.ops[st.next+st.open:] {
			if p := &f.Ops[o.Peer][i]; (p.sends() && o.receives() || p.receives() && o.sends()) && p.channel(int(o.Peer)) == ch {
				left++
			}
		}
	}
	return left >= len(f.posted[ch].ops)
}
