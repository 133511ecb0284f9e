package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// Version is the version of the simulator. Increment it with every change that can alter a result, so that
// studies do not reuse earlier rows.
const Version = 1

// Result is the result of a simulation.
type Result struct {
	Makespan Picoseconds   // from the common start of the ranks to the end of the last rank
	Ends     []Picoseconds // by rank
	Messages int           // number of messages with data
}

// Run simulates a program. The whole vector has the given number of elements of size bytes each, and
// all ranks start at time 0. Run fails if ctx ends, if the machine does not fit the program or its table lacks a
// needed time, and if the program has gets, fails Program.Check or never ends.
func Run(ctx context.Context, p *schedule.Program, m Machine, elements, size int64) (*Result, error) {
	s, err := simulated(ctx, p, m, elements, size, nil)
	if err != nil {
		return nil, err
	}
	return &s.result, nil
}

// simulated runs a simulation to its end, and returns it. If trace is not nil, it receives the times of all
// ops.
func simulated(ctx context.Context, p *schedule.Program, m Machine, elements, size int64, trace [][]Times) (*simulation, error) {
	if elements < 0 || size < 1 {
		return nil, fmt.Errorf("invalid size: %d elements of %d bytes", elements, size)
	}
	if err := m.check(p.Ranks); err != nil {
		return nil, err
	}
	if t := max(float64(m.Latency), float64(m.Memory.Setup), float64(m.Network.Latency), float64(elements)*float64(size)*max(m.PerByte, m.Network.PerByte, m.ReduceByte, m.CopyByte, m.Memory.PerByte)); t > 1e15 {
		return nil, errors.New("a step can take more than 1,000 s: use fewer bytes, a higher bandwidth or a lower latency")
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	for r, ops := range p.Ops {
		for i := range ops {
			if k := ops[i].Kind; k == schedule.Get || k == schedule.GetReduce {
				return nil, fmt.Errorf("program %s has a %s (op %d of rank %d): the simulator does not model reads of another rank's memory", p.Name, k, i, r)
			}
		}
	}
	s := &simulation{Machine: m, Flow: schedule.NewFlow(p), elements: elements, size: size, flying: map[opOf]int32{}, trace: trace}
	if err := s.covered(); err != nil {
		return nil, err
	}
	s.result.Ends = make([]Picoseconds, p.Ranks)
	s.sending, s.queued = make([]int, 2*p.Ranks), make([][]int32, 2*p.Ranks)
	if m.Sharing == FIFO {
		s.links = make([]link, m.Topology.links)
	}
	s.flows, s.now = newFlows(&s.Machine), m.Start
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	for _, end := range s.result.Ends {
		s.result.Makespan = max(s.result.Makespan, end)
	}
	return s, nil
}

// covered returns an error if the machine has a table that lacks the time of an op.
func (s *simulation) covered() error {
	if s.Table == nil {
		return nil
	}
	for r, ops := range s.Ops {
		for i := range ops {
			o := &ops[i]
			var err error
			switch o.Kind {
			case schedule.Send, schedule.Put, schedule.Signal:
				err = s.Table.covers(int32(r), o.Peer, s.dataOf(o), s.added(int32(r), int32(i)))
			case schedule.Reduce, schedule.RecvReduce:
				err = s.Table.reduce.handles("adding", s.changed(o))
			case schedule.Copy:
				err = s.Table.copies.handles("copying", s.changed(o))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// simulation is the state of a simulation; it implements schedule.Actions.
type simulation struct {
	Machine
	*schedule.Flow
	elements, size int64
	now            Picoseconds
	events         events
	messages       []message
	unused         []int32        // indices in messages that can be reused
	flying         map[opOf]int32 // by send: departed messages without a posted receive
	sending        []int          // by pool: number of engines in use
	begun          []begun        // messages that began at the current time and need an engine
	queued         [][]int32      // by pool: messages that wait for an engine
	links          []link         // under FIFO
	flows          *flows
	trace          [][]Times // by rank and op; nil if not requested
	result         Result
}

// link is the state of a link: whether it carries a message, and the first and last message that wait for it.
type link struct {
	busy, queued bool
	first, last  int32
}

// message is a message under way. It takes half a cache line, since there can be a million at once.
type message struct {
	from, to      int32
	send, receive int32 // its ops; receive can be none or early
	at            int32 // its current node, under FIFO
	behind        int32 // the next message that waits for the same link
	bytes         int64
}

// begun is a message that needs an engine. Its key sorts by rank, then by op.
type begun struct {
	key     int64
	message int32
}

// Values of message.receive without an op.
const (
	none  = -1 // the receive is not posted, or there is none
	early = -2 // the receive is not posted, and the message has landed
)

// opOf identifies an op of a rank.
type opOf struct{ rank, op int32 }

// run advances the time from event to event until all ops have ended.
func (s *simulation) run(ctx context.Context) error {
	s.Run(s)
	s.engage()
	s.flows.settle(s.now)
	for turns := 0; s.Left() > 0; turns++ {
		if turns%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		before := s.now
		at, next := s.events.next()
		if ends, any := s.flows.next(); any && (!next || ends <= at) {
			s.now = ends
			for _, i := range s.flows.finished(s.now) {
				s.left(i)
				s.at(s.now+s.flight(s.messages[i].from, s.messages[i].to), s.messages[i].to, lands, i)
			}
		} else if !next {
			return errors.New("the program never ends: its ops wait for each other; verify it for details")
		} else {
			s.now = at
		}
		if s.now < before { // a sum overflowed; event.before sorts negative times last
			return errors.New("the schedule takes more than 106 days: use fewer bytes, a higher bandwidth or a lower latency")
		}
		for at, ok := s.events.next(); ok && at == s.now; at, ok = s.events.next() {
			s.happen(s.events.pop())
			s.Run(s)
		}
		s.Run(s)
		s.engage()
		s.flows.settle(s.now)
	}
	return nil
}

// Kinds of events.
const (
	posted  = iota // an op is posted
	ended          // an op ends
	leaves         // the sender's overhead for a message is over
	through        // the last byte of a message has left its current link
	reaches        // a message reaches a node
	left           // the last byte of a message has left its rank
	lands          // the last byte of a message has reached the receiver's rank
	arrived        // the receiver has processed a message
)

// happen handles an event.
func (s *simulation) happen(e event) {
	i := e.item()
	switch e.what {
	case posted:
		s.post(e.rank(), int(i))
	case ended:
		s.complete(e.rank(), int(i))
	case leaves:
		s.leave(i)
	case through:
		s.passed(i)
	case reaches:
		s.forward(i)
	case left: // precedes lands, even if the latency is 0
		s.left(i)
		s.at(s.now+s.flight(s.messages[i].from, s.messages[i].to), s.messages[i].to, lands, i)
	case lands:
		s.landed(i)
	case arrived:
		s.arrive(i)
	}
}

// at adds an event at time t.
func (s *simulation) at(t Picoseconds, rank int32, what uint8, item int32) {
	s.events.push(newEvent(t, rank, what, item))
}

// Start and End implement schedule.Actions.
func (s *simulation) Start(int, int, int) {}

func (s *simulation) End(r, _, _ int) { s.result.Ends[r] = s.now }

func (s *simulation) Issue(r, i int) {
	if s.trace != nil {
		s.trace[r][i].Ready = s.now
	}
	if s.Machine.Issue == 0 {
		s.post(r, i)
		return
	}
	issued := Picoseconds(1) // ops of the node up to and including i
	for k := i; k > 0 && s.Ops[r][i].Group != 0 && s.Ops[r][k-1].Group == s.Ops[r][i].Group; k-- {
		issued++
	}
	s.at(s.now+issued*s.Machine.Issue, int32(r), posted, int32(i))
}

func (s *simulation) post(r, i int) {
	if s.trace != nil {
		s.trace[r][i].Posted = s.now
	}
	s.Post(s, r, i)
}

func (s *simulation) complete(r, i int) {
	if s.trace != nil {
		s.trace[r][i].End = s.now
	}
	s.Complete(r, i)
}

// dataOf returns the bytes of the message of a send, put or signal; 0 for a signal.
func (s *simulation) dataOf(o *schedule.Op) int64 {
	if o.Count == 0 {
		return 0
	}
	return s.Bytes(o.Src, o.Count, s.elements, s.size)
}

// changed returns the bytes that an op writes on its rank.
func (s *simulation) changed(o *schedule.Op) int64 {
	return s.Bytes(o.Dst, o.Count, s.elements, s.size)
}

func (s *simulation) Local(r, i int) {
	o := &s.Ops[r][i]
	switch o.Kind {
	case schedule.Put:
		s.send(message{from: int32(r), to: o.Peer, send: int32(i), receive: none})
		return
	case schedule.Flush: // earlier puts of the stream have ended: a put ends when its last byte has left
		s.at(s.now, int32(r), ended, int32(i))
		return
	}
	n := s.changed(o)
	s.at(s.now+s.onRank(o.Kind, n)+s.Memory.take(accesses(o.Kind), n), int32(r), ended, int32(i))
}

func (s *simulation) Depart(r, send int) {
	if s.trace != nil {
		s.trace[r][send].Departed = s.now
	}
	i := s.send(message{from: int32(r), to: s.Ops[r][send].Peer, send: int32(send), receive: none})
	s.flying[opOf{int32(r), int32(send)}] = i
}

func (s *simulation) Meet(r, send, q, receive int) {
	at := opOf{int32(r), int32(send)}
	i, departed := s.flying[at]
	if !departed {
		s.send(message{from: int32(r), to: int32(q), send: int32(send), receive: int32(receive)})
		return
	}
	delete(s.flying, at)
	m := &s.messages[i]
	landed := m.receive == early
	if m.receive = int32(receive); landed {
		s.received(i)
	}
}

// send adds a message that begins now; engage gives it an engine.
func (s *simulation) send(m message) int32 {
	o := &s.Ops[m.from][m.send]
	m.at, m.bytes = m.from, s.dataOf(o)
	if o.Count > 0 {
		s.result.Messages++
	}
	i := s.message(m)
	s.begun = append(s.begun, begun{int64(m.from)<<32 | int64(m.send), i})
	return i
}

// engage gives free engines to the messages that began at the current time, or queues them. Messages of a
// rank get engines in the order of its ops, not in the order in which their receivers were ready.
func (s *simulation) engage() {
	slices.SortFunc(s.begun, func(a, b begun) int { return cmp.Compare(a.key, b.key) })
	for _, b := range s.begun {
		pool, engines := s.pool(b.message)
		switch {
		case engines == 0:
		case s.sending[pool] == engines:
			s.queued[pool] = append(s.queued[pool], b.message)
			continue
		default:
			s.sending[pool]++
		}
		s.engaged(b.message)
	}
	s.begun = s.begun[:0]
}

// pool returns the pool of engines that a message uses, and its size (0: no limit). Rank r has pool r for
// messages inside its host, and pool Ranks+r for messages over the network.
func (s *simulation) pool(i int32) (pool int32, engines int) {
	m := &s.messages[i]
	if s.Topology.leaves(m.from, m.to) {
		return int32(s.Topology.Ranks) + m.from, s.NetworkEngines
	}
	return m.from, s.Engines
}

// message stores a message and returns its index in messages.
func (s *simulation) message(m message) int32 {
	if n := len(s.unused); n > 0 {
		i := s.unused[n-1]
		s.unused = s.unused[:n-1]
		s.messages[i] = m
		return i
	}
	if len(s.messages) == cap(s.messages) { // append would grow the list by a quarter
		s.messages = slices.Grow(s.messages, len(s.messages)+1)
	}
	s.messages = append(s.messages, m)
	return int32(len(s.messages) - 1)
}

// engaged begins a message that has an engine.
func (s *simulation) engaged(i int32) {
	if s.trace != nil {
		s.trace[s.messages[i].from][s.messages[i].send].Granted = s.now
	}
	if before := s.Overhead + s.Memory.take(1, s.messages[i].bytes); before > 0 {
		s.at(s.now+before, s.messages[i].from, leaves, i)
		return
	}
	s.leave(i)
}

// leave begins to send the bytes of a message.
func (s *simulation) leave(i int32) {
	m := &s.messages[i]
	switch s.Sharing {
	case FIFO:
		s.forward(i)
	case Fair:
		s.flows.start(i, m.from, m.to, m.bytes, false)
	default:
		if s.Table != nil {
			s.flows.start(i, m.from, m.to, m.bytes, s.added(m.from, m.send))
			return
		}
		s.at(s.now+s.unloaded(m.from, m.to, m.bytes), m.from, left, i)
	}
}

// added reports whether the receiver of op i of rank r adds the data to its own.
func (s *simulation) added(r, i int32) bool {
	o, receive := &s.Ops[r][i], s.Partner(int(r), int(i))
	return o.Kind == schedule.Send && receive >= 0 && s.Ops[o.Peer][receive].Kind == schedule.RecvReduce
}

// left frees the engine of a message whose last byte has left, and ends its send.
func (s *simulation) left(i int32) {
	m := &s.messages[i]
	s.complete(int(m.from), int(m.send))
	pool, engines := s.pool(i)
	if waiting := s.queued[pool]; len(waiting) > 0 {
		s.queued[pool] = waiting[1:]
		s.engaged(waiting[0])
	} else if engines > 0 {
		s.sending[pool]--
	}
}

// forward sends a message over its next link, under FIFO, or queues it there.
func (s *simulation) forward(i int32) {
	m := &s.messages[i]
	if m.at == m.to {
		s.landed(i)
		return
	}
	link, _ := s.Topology.next(m.at, m.to)
	l := &s.links[link]
	switch {
	case !l.busy:
		l.busy = true
		s.at(s.now+s.onLink(link, m.bytes), m.at, through, i)
	case l.queued:
		s.messages[l.last].behind, l.last = i, i
	default:
		l.queued, l.first, l.last = true, i, i
	}
}

// passed moves a message to the node at the end of its link. The link begins to carry the next message.
func (s *simulation) passed(i int32) {
	m := &s.messages[i]
	number, node := s.Topology.next(m.at, m.to)
	l := &s.links[number]
	if l.queued {
		next := &s.messages[l.first]
		s.at(s.now+s.onLink(number, next.bytes), m.at, through, l.first)
		l.queued, l.first = l.first != l.last, next.behind
	} else {
		l.busy = false
	}
	if m.at == m.from {
		s.left(i)
	}
	m.at = node
	s.at(s.now+s.linkCost(number).Latency, node, reaches, i)
}

// landed handles the arrival of a message's last byte. Its receive begins to process it, if already posted. A
// put has no receive.
func (s *simulation) landed(i int32) {
	m := &s.messages[i]
	switch {
	case m.receive >= 0:
		s.received(i)
	case s.Ops[m.from][m.send].Kind == schedule.Put:
		s.unused = append(s.unused, i)
	default:
		m.receive = early
	}
}

// received begins the work of the receiver: overhead, memory and sum.
func (s *simulation) received(i int32) {
	m := &s.messages[i]
	if s.trace != nil {
		s.trace[m.to][m.receive].Landed = s.now
	}
	kind := s.Ops[m.to][m.receive].Kind
	after := s.Overhead + s.Memory.take(accesses(kind), m.bytes)
	if kind == schedule.RecvReduce {
		after += s.onRank(kind, m.bytes)
	}
	if after == 0 {
		s.arrive(i)
		return
	}
	s.at(s.now+after, m.to, arrived, i)
}

// arrive ends the receive of a message.
func (s *simulation) arrive(i int32) {
	m := &s.messages[i]
	s.complete(int(m.to), int(m.receive))
	s.unused = append(s.unused, i)
}
