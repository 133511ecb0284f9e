package simulate

import (
	"context"
	"slices"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// Timeline is the result of a simulation, with the times of every op.
type Timeline struct {
	Result
	Program *schedule.Program
	Ops     [][]Times // by rank and op
	machine Machine
	flow    *schedule.Flow
	bytes   func(o *schedule.Op) int64 // the bytes of a message
	local   func(o *schedule.Op) int64 // the bytes of a sum or a copy
}

// Times are the times of an op.
type Times struct {
	Ready  Picoseconds // its node starts
	Posted Picoseconds // it has been issued
	// Granted is when a send, put or signal receives an engine. Landed is when a receive or wait begins to
	// process the data: it has been posted, and its message has arrived.
	Granted, Landed Picoseconds
	Departed        Picoseconds // a send that does not wait for its receive has room in the buffer
	End             Picoseconds
}

// Parts split a time into components, whose sum is the time.
type Parts struct {
	Start    Picoseconds `json:"start_ns"`    // from the common start of the ranks to their first ops
	Issue    Picoseconds `json:"issue_ns"`    // issuing ops
	Overhead Picoseconds `json:"overhead_ns"` // overhead of senders and receivers
	Memory   Picoseconds `json:"memory_ns"`   // reading and writing the memory of ranks
	Latency  Picoseconds `json:"latency_ns"`  // of links
	Bytes    Picoseconds `json:"bytes_ns"`    // data on links, at their full rate; with a table, whole messages
	Reduce   Picoseconds `json:"reduce_ns"`   // adding
	Copy     Picoseconds `json:"copy_ns"`     // copying on a rank
	// Waits for an engine of the sender, for links that carry other messages, and for room in the buffer of
	// a connection. With a table there are no links: LinkWait is the time by which other messages slow a
	// message down.
	EngineWait Picoseconds `json:"engine_wait_ns"`
	LinkWait   Picoseconds `json:"link_wait_ns"`
	BufferWait Picoseconds `json:"buffer_wait_ns"`
}

// Part is one of the Parts, with its name for display.
type Part struct {
	Name string
	Time Picoseconds
}

// List returns the parts in the order of their fields.
func (p *Parts) List() []Part {
	return []Part{
		{"start", p.Start},
		{"issue", p.Issue},
		{"overhead", p.Overhead},
		{"memory", p.Memory},
		{"latency", p.Latency},
		{"bytes", p.Bytes},
		{"reduce", p.Reduce},
		{"copy", p.Copy},
		{"wait for engines", p.EngineWait},
		{"wait for links", p.LinkWait},
		{"wait for buffers", p.BufferWait},
	}
}

// Total returns the sum of the parts.
func (p *Parts) Total() (t Picoseconds) {
	for _, part := range p.List() {
		t += part.Time
	}
	return t
}

// Path is a critical path: the chain of ops that determines the makespan. Each op begins when the previous op
// ends.
type Path struct {
	Parts
	Steps []Step // in the order of time
}

// Step is an op on a path. A message has two ops and is one step: the op after which the path continues.
type Step struct{ Rank, Op int }

// Trace simulates a program as Run does, and keeps the times of all ops.
func Trace(ctx context.Context, p *schedule.Program, m Machine, elements, size int64) (*Timeline, error) {
	t := &Timeline{Program: p, machine: m, Ops: make([][]Times, len(p.Ops))}
	for r := range p.Ops {
		t.Ops[r] = make([]Times, len(p.Ops[r]))
	}
	s, err := simulated(ctx, p, m, elements, size, t.Ops)
	if err != nil {
		return nil, err
	}
	t.Result, t.flow = s.result, s.Flow
	t.bytes, t.local = s.dataOf, s.changed
	return t, nil
}

// CriticalPath walks back from the end of the last rank to the common start. The sum of its
// parts is the makespan.
func (t *Timeline) CriticalPath() Path {
	path := Path{Parts: Parts{Start: t.machine.Start}}
	r := slices.Index(t.Ends, t.Makespan)
	i := slices.IndexFunc(t.Ops[r], func(x Times) bool { return x.End == t.Makespan })
	for i >= 0 {
		path.Steps = append(path.Steps, Step{r, i})
		r, i = t.through(&path.Parts, r, i)
		x := &t.Ops[r][i]
		path.Issue += x.Posted - x.Ready
		i = t.cause(r, i)
	}
	slices.Reverse(path.Steps)
	return path
}

// through adds the parts of op i of rank r, from the time when its message could begin to the end of the op.
// It returns the op that the message waited for last: op i itself or its other end.
func (t *Timeline) through(parts *Parts, r, i int) (rank, op int) {
	o, x, m := &t.Program.Ops[r][i], &t.Ops[r][i], &t.machine
	switch o.Kind {
	case schedule.Reduce, schedule.Copy:
		memory := m.Memory.take(accesses(o.Kind), t.local(o))
		part := &parts.Reduce
		if o.Kind == schedule.Copy {
			part = &parts.Copy
		}
		parts.Memory += memory
		*part += x.End - x.Posted - memory
		return r, i
	case schedule.Put:
		t.carry(parts, r, i, x.Posted, x.End, m.sent)
		return r, i
	case schedule.Flush:
		return r, i
	}
	eager := t.flow.Eager(o)
	q, k := int(o.Peer), t.flow.Partner(r, i)
	begin := x.Departed
	if !eager {
		begin = max(x.Posted, t.Ops[q][k].Posted)
	}
	if o.Kind == schedule.Send || o.Kind == schedule.Signal {
		t.carry(parts, r, i, begin, x.End, m.sent)
		if eager {
			parts.BufferWait += begin - x.Posted
			return r, i
		}
	} else {
		data, reduce := t.bytes(&t.Program.Ops[q][k]), Picoseconds(0)
		if o.Kind == schedule.RecvReduce {
			reduce = m.onRank(o.Kind, data)
		}
		memory := m.Memory.take(accesses(o.Kind), data)
		parts.Reduce += reduce
		parts.Memory += memory
		parts.Overhead += x.End - x.Landed - reduce - memory
		if eager && x.Landed == x.Posted {
			return r, i // the data had arrived before the op was posted
		}
		send := &t.Ops[q][k]
		if eager {
			begin = send.Departed
			parts.BufferWait += begin - send.Posted
		}
		latency := m.flight(int32(q), int32(r))
		parts.Latency += latency
		t.carry(parts, q, k, begin, x.Landed-latency, m.forwarded)
		if eager {
			return q, k
		}
	}
	if x.Posted == begin {
		return r, i
	}
	return q, k
}

// carry adds the parts of a message from the time begin until the time through, when its last byte has passed
// the links. bytes returns how long the bytes take if the message is alone.
func (t *Timeline) carry(parts *Parts, r, i int, begin, through Picoseconds, bytes func(from, to int32, n int64) Picoseconds) {
	o, x := &t.Program.Ops[r][i], &t.Ops[r][i]
	data := t.bytes(o)
	memory := t.machine.Memory.take(1, data)
	parts.EngineWait += x.Granted - begin
	parts.Overhead += t.machine.Overhead
	parts.Memory += memory
	total := through - x.Granted - t.machine.Overhead - memory
	moving := min(total, bytes(int32(r), o.Peer, data))
	parts.Bytes += moving
	parts.LinkWait += total - moving
}

// cause returns the op of rank r whose end allowed the node of op i to start, or −1 if the node could start
// at once.
func (t *Timeline) cause(r, i int) int {
	ops, ready := t.Program.Ops[r], t.Ops[r][i].Ready
	if ready == t.machine.Start {
		return -1
	}
	first, last := node(ops, i)
	for k := first; k < last; k++ {
		for _, d := range t.Program.Deps(&ops[k]) {
			from, to := node(ops, int(d)) // the dependency ends with its node
			for j := from; j < to; j++ {
				if t.Ops[r][j].End == ready {
					return j
				}
			}
		}
	}
	for k := first - 1; k >= 0; k-- { // the op of the stream's previous node that ended last
		if ops[k].Stream == ops[i].Stream && t.Ops[r][k].End == ready {
			return k
		}
	}
	return -1
}

// node returns the range of the ops in the node of op i.
func node(ops []schedule.Op, i int) (first, last int) {
	first = i
	for ops[i].Group != 0 && first > 0 && ops[first-1].Group == ops[i].Group {
		first--
	}
	return first, schedule.NodeEnd(ops, i)
}
