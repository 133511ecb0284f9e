package schedule

import "slices"

// Actions are the callbacks of a Flow. A node is one op, or the ops of a group: ops from to to−1 of
// rank r.
type Actions interface {
	// Start is called when a node starts, and End when it ends.
	Start(r int, from, to int)
	End(r int, from, to int)
	// Issue is called for each op of a started node. It must call Flow.Post for the op, at once or
	// later.
	Issue(r, i int)
	// Local begins an op that does not wait for an op of another rank. Meet begins a message whose send,
	// of rank r, and receive, of rank q, have both been posted.
	Local(r, i int)
	Meet(r, send, q, receive int)
	// Depart begins a send or signal that does not wait for its receive. Meet follows once the
	// receive has been posted, and then begins only the receive.
	//
	// Flow.Complete must be called for every op that Local, Meet or Depart began, when the op ends.
	Depart(r, send int)
}

// Flow runs the ops of a program in an order that its streams, dependencies, groups and
// messages allow.
type Flow struct {
	*Program
	streams [][]stream // by rank
	state   [][]state  // by rank and op
	// partner is, by rank and op, the receive that meets a send and the send that meets a receive;
	// −1 if there is none.
	partner [][]int32
	// turn is, by rank and op, the receive that must end before a buffered send may depart and, for
	// that receive, the send; −1 if there is none. It is nil if sends are not buffered.
	turn  [][]int32
	ready []streamID // streams that may be able to advance
	left  int        // ops that have not ended
	stop  bool
}

// state is the progress of an op.
type state uint8

const (
	waits    state = iota // it waits for earlier ops
	posted                // it has started; a message waits for its other end
	departed              // it is a send that does not wait for its receive, and is under way
	ended
)

// stream is the ops of a stream in order, and its progress.
type stream struct {
	ops     []int32
	next    int // index in ops of the first op that has not ended
	open    int // number of ops in the open node, which has started and not ended; 0: no open node
	pending int // number of its ops that have not completed
}

type streamID struct{ rank, stream int }

// channel identifies the sends and receives that meet each other, in order.
type channel struct {
	from, to int32
	number   uint8
	signals  bool
}

// channel returns the channel of a send or a receive of rank r.
func (o *Op) channel(r int) channel {
	if o.sends() {
		return channel{int32(r), o.Peer, o.Channel, o.signals()}
	}
	return channel{o.Peer, int32(r), o.Channel, o.signals()}
}

// NewFlow returns a flow of p. Program.Check must accept p.
func NewFlow(p *Program) *Flow {
	f := &Flow{Program: p, streams: make([][]stream, p.Ranks), state: make([][]state, p.Ranks)}
	f.match()
	for r, ops := range p.Ops {
		f.state[r] = make([]state, len(ops))
		f.left += len(ops)
		var sizes []int // by stream
		for i := range ops {
			for len(sizes) <= int(ops[i].Stream) {
				sizes = append(sizes, 0)
			}
			sizes[ops[i].Stream]++
		}
		f.streams[r] = make([]stream, len(sizes))
		for s, n := range sizes {
			f.streams[r][s].ops = make([]int32, 0, n)
		}
		for i := range ops {
			s := &f.streams[r][ops[i].Stream]
			s.ops = append(s.ops, int32(i))
		}
		for s := range f.streams[r] {
			f.ready = append(f.ready, streamID{r, s})
		}
	}
	return f
}

// match sets partner and turn: on each channel, the first send meets the first receive, and so on.
func (f *Flow) match() {
	p := f.Program
	partner := make([][]int32, p.Ranks)
	f.partner = partner
	if p.Buffer > 0 {
		f.turn = make([][]int32, p.Ranks)
		for r, ops := range p.Ops {
			f.turn[r] = slices.Repeat([]int32{-1}, len(ops))
		}
	}
	sends := make([][]uint64, p.Ranks) // by peer and channel, then in the order of the list
	for r, ops := range p.Ops {
		partner[r] = slices.Repeat([]int32{-1}, len(ops))
		sends[r] = keys(nil, ops, (*Op).sends)
	}
	var list []uint64
	for r, ops := range p.Ops {
		list = keys(list, ops, (*Op).receives)
		for from, to := 0, 0; from < len(list); from = to {
			o := &ops[op(list[from])]
			for to = from; to < len(list) && list[to]>>opBits == list[from]>>opBits; to++ {
			}
			theirs := Op{Kind: o.Kind, Peer: int32(r), Channel: o.Channel}
			meets := theirs.key(0)
			first, _ := slices.BinarySearch(sends[o.Peer], meets)
			for k, key := range sends[o.Peer][first:] {
				if from+k == to || key>>opBits != meets>>opBits {
					break
				}
				receive, send := op(list[from+k]), op(key)
				partner[r][receive], partner[o.Peer][send] = send, receive
				if before := k - p.Buffer; f.turn != nil && before >= 0 && !o.signals() {
					f.turn[o.Peer][send], f.turn[r][op(list[from+before])] = op(list[from+before]), send
				}
			}
		}
	}
}

// opBits is the number of bits of an op's index in its key.
const opBits = 24

// key returns a number that sorts ends of messages by peer and channel, then by their index i in the list.
func (o *Op) key(i int) uint64 {
	return uint64(o.Peer)<<(opBits+9) | uint64(o.line())<<opBits | uint64(i)
}

// op returns the index in a key.
func op(key uint64) int32 { return int32(key & (1<<opBits - 1)) }

// keys returns the sorted keys of the ops for which are is true. It reuses the memory of list.
func keys(list []uint64, ops []Op, are func(o *Op) bool) []uint64 {
	n := 0
	for i := range ops {
		if are(&ops[i]) {
			n++
		}
	}
	list = slices.Grow(list[:0], n)
	for i := range ops {
		if are(&ops[i]) {
			list = append(list, ops[i].key(i))
		}
	}
	slices.Sort(list)
	return list
}

// line returns a number for the op's channel to its peer: channels of data first, then of signals.
func (o *Op) line() int {
	if o.signals() {
		return 256 + int(o.Channel)
	}
	return int(o.Channel)
}

// Partner returns the index, in the list of its peer, of the receive that meets send i of rank r, or of the
// send that meets receive i; −1 if there is none.
func (f *Flow) Partner(r, i int) int { return int(f.partner[r][i]) }

// Run starts and ends nodes until none can start or end before another call of Complete.
func (f *Flow) Run(a Actions) {
	for len(f.ready) > 0 && !f.stop {
		at := f.ready[len(f.ready)-1]
		f.ready = f.ready[:len(f.ready)-1]
		for !f.stop && f.advance(a, at) {
		}
	}
}

// Stop makes this and every later call of Run return before the next node.
func (f *Flow) Stop() { f.stop = true }

// Left returns the number of ops that have not ended. If it is not 0 and no op is under way, the
// program waits forever.
func (f *Flow) Left() int { return f.left }

// node returns the number of ops in the next node of a stream.
func (f *Flow) node(r int, s *stream) int {
	first := int(s.ops[s.next])
	return NodeEnd(f.Ops[r], first) - first
}

// advance starts the next node of a stream, or ends its open node. It reports whether it did either.
func (f *Flow) advance(a Actions, at streamID) bool {
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
		if f.waitsForOp(at.rank, int(i)) >= 0 {
			return false
		}
	}
	s.open, s.pending = n, n
	a.Start(at.rank, int(nodes[0]), int(nodes[n-1])+1)
	for _, i := range nodes {
		a.Issue(at.rank, int(i))
	}
	return true
}

// Post begins an issued op. An op without a message begins at once, and a send that does not wait for
// its receive as soon as the buffer has room. Any other message begins when both of its ends are posted.
func (f *Flow) Post(a Actions, r, i int) {
	o := &f.Ops[r][i]
	if !o.sends() && !o.receives() {
		a.Local(r, i)
		return
	}
	f.state[r][i] = posted
	peer, other := int(o.Peer), int(f.partner[r][i])
	if f.Eager(o) && o.sends() {
		f.depart(a, r, i)
		return
	}
	switch {
	case other < 0 || f.state[peer][other] < f.met(o):
	case o.sends():
		a.Meet(r, i, peer, other)
	default:
		a.Meet(peer, other, r, i)
	}
}

// Eager reports whether an op is an end of a message whose send does not wait for the receive.
func (f *Flow) Eager(o *Op) bool { return f.Buffer > 0 || o.signals() }

// met returns the state that the other end of an op must have reached for the op to begin.
func (f *Flow) met(o *Op) state {
	if f.Eager(o) {
		return departed
	}
	return posted
}

// depart begins a posted send that does not wait for its receive, if the buffer has room.
func (f *Flow) depart(a Actions, r, i int) {
	peer, other := int(f.Ops[r][i].Peer), int(f.partner[r][i])
	if f.turn != nil && f.turn[r][i] >= 0 && f.state[peer][f.turn[r][i]] != ended {
		return
	}
	f.state[r][i] = departed
	a.Depart(r, i)
	if other >= 0 && f.state[peer][other] == posted {
		a.Meet(r, i, peer, other)
	}
}

// Complete ends an op. Run ends its node after the last of the node's ops.
func (f *Flow) Complete(r, i int) {
	at := streamID{rank: r}
	if len(f.streams[r]) > 1 { // otherwise avoid reading the op, which is not in a cache
		at.stream = int(f.Ops[r][i].Stream)
	}
	s := &f.streams[at.rank][at.stream]
	if s.pending--; s.pending == 0 {
		f.ready = append(f.ready, at)
	}
}

// finish ends the open node of a stream.
func (f *Flow) finish(a Actions, at streamID, s *stream) {
	nodes := s.ops[s.next : s.next+s.open]
	a.End(at.rank, int(nodes[0]), int(nodes[len(nodes)-1])+1)
	for _, i := range nodes {
		f.state[at.rank][i] = ended
	}
	f.left -= len(nodes)
	s.next, s.open = s.next+len(nodes), 0
	if f.turn != nil {
		f.release(a, at.rank, nodes)
	}
	for other := range f.streams[at.rank] { // other streams may depend on the ended ops
		if other != at.stream {
			f.ready = append(f.ready, streamID{at.rank, other})
		}
	}
}

// release begins sends that waited until receives, among ops, had freed room in a buffer.
func (f *Flow) release(a Actions, r int, ops []int32) {
	for _, i := range ops {
		o, send := &f.Ops[r][i], int(f.turn[r][i])
		if o.receives() && send >= 0 && f.state[o.Peer][send] == posted {
			f.depart(a, int(o.Peer), send)
		}
	}
}

// waiting returns the started ops of a rank that wait for their peers.
func (f *Flow) waiting(r int) (ops []int) {
	for s := range f.streams[r] {
		st := &f.streams[r][s]
		for _, i := range st.ops[st.next : st.next+st.open] {
			if f.waitsForPeer(r, int(i)) {
				ops = append(ops, int(i))
			}
		}
	}
	return ops
}

// waitsForPeer reports whether an op has started and waits for its peer.
func (f *Flow) waitsForPeer(r, i int) bool {
	o, other := &f.Ops[r][i], f.partner[r][i]
	return f.state[r][i] == posted && (other < 0 || f.state[o.Peer][other] < f.met(o))
}

// waitsForOp returns a dependency of an op that has not ended; −1 if there is none.
func (f *Flow) waitsForOp(r, i int) int {
	for _, d := range f.Deps(&f.Ops[r][i]) {
		if f.state[r][d] != ended {
			return int(d)
		}
	}
	return -1
}
