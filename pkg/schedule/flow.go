package schedule

import "slices"

// Actions is what a Flow does with a program. Ops from to to−1 of a rank are a node: one op,
// or those of a group.
type Actions interface {
	// Start begins a node, and End ends it.
	Start(r int, from, to int)
	End(r int, from, to int)
	// Issue is called for each op of a node that has started. It calls Post, at once or
	// later.
	Issue(r, i int)
	// Local and Meet begin an op on its rank, and a message whose send, of rank r, and
	// receive, of rank q, have been posted. When an op ends, Complete is called for it.
	Local(r, i int)
	Meet(r, send, q, receive int)
}

// Flow runs the ops of a program in an order that its streams, dependencies, groups and
// messages allow.
type Flow struct {
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
	pending int // of these, those that have not completed
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
	ops   []int32
	sends bool
}

// NewFlow returns a flow of p, which has passed Check.
func NewFlow(p *Program) *Flow {
	f := &Flow{Program: p, streams: make([][]stream, p.Ranks), done: make([][]bool, p.Ranks), posted: map[channel]*queue{}}
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

// Run starts and ends all nodes that can, and returns when Complete has to be called before
// more can.
func (f *Flow) Run(a Actions) {
	for len(f.ready) > 0 {
		at := f.ready[len(f.ready)-1]
		f.ready = f.ready[:len(f.ready)-1]
		for f.advance(a, at) {
		}
	}
}

// Left is how many ops have not ended. Where it is not 0 when nothing is under way, the
// program waits for ever.
func (f *Flow) Left() int { return f.left }

// node returns how many ops the next node of a stream has.
func (f *Flow) node(r int, s *stream) int {
	n := 1
	first := &f.Ops[r][s.ops[s.next]]
	for first.Group != 0 && s.next+n < len(s.ops) && f.Ops[r][s.ops[s.next+n]].Group == first.Group {
		n++
	}
	return n
}

// advance starts the next node of a stream, or ends the one that is open. It reports
// whether something happened.
func (f *Flow) advance(a Actions, at place) bool {
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
	s.open, s.pending = n, n
	a.Start(at.rank, int(nodes[0]), int(nodes[n-1])+1)
	for _, i := range nodes {
		a.Issue(at.rank, int(i))
	}
	return true
}

// Post begins an op that was issued: one on its rank at once, a message as soon as both of
// its ends are posted.
func (f *Flow) Post(a Actions, r, i int) {
	o := &f.Ops[r][i]
	if !o.sends() && !o.receives() {
		a.Local(r, i)
		return
	}
	ch := o.channel(r)
	q := f.posted[ch]
	if q == nil {
		q = &queue{}
		f.posted[ch] = q
	}
	if len(q.ops) == 0 || q.sends == o.sends() {
		q.sends = o.sends()
		q.ops = append(q.ops, int32(i))
		return
	}
	first := int(q.ops[0])
	q.ops = append(q.ops[:0], q.ops[1:]...)
	if o.sends() {
		a.Meet(r, i, int(o.Peer), first)
	} else {
		a.Meet(int(o.Peer), first, r, i)
	}
}

// Complete ends an op. Its node ends with the last of its ops, in Run.
func (f *Flow) Complete(r, i int) {
	at := place{r, int(f.Ops[r][i].Stream)}
	s := &f.streams[at.rank][at.stream]
	if s.pending--; s.pending == 0 {
		f.ready = append(f.ready, at)
	}
}

// finish ends the open node of a stream.
func (f *Flow) finish(a Actions, at place, s *stream) {
	nodes := s.ops[s.next : s.next+s.open]
	a.End(at.rank, int(nodes[0]), int(nodes[len(nodes)-1])+1)
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
func (f *Flow) waiting(r int) (ops []int) {
	for ch, q := range f.posted {
		if q.sends && int(ch.from) != r || !q.sends && int(ch.to) != r {
			continue
		}
		for _, i := range q.ops {
			ops = append(ops, int(i))
		}
	}
	slices.Sort(ops)
	return ops
}

// comes reports whether the peer of an op still has an op that meets it: as many as wait
// for it.
func (f *Flow) comes(r int, o *Op) bool {
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
