package runner

import (
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/schedule"
)

// Kind is the kind of a step.
type Kind int32

// Kinds of steps. C code of the libraries uses the same values.
const (
	Copy    Kind = iota // From to To
	Add                 // From is added to To
	Send                // From to Peer
	Recv                // from Peer to To
	RecvAdd             // from Peer, added to To
)

// Buffer is one of the buffers of a call.
type Buffer int32

// Buffers of a call. C code of the libraries uses the same values.
const (
	SendBuffer Buffer = iota
	RecvBuffer
	Scratch // of the rank, shared by all calls
)

// Place is an element of a buffer.
type Place struct {
	Buffer  Buffer
	Element int64
}

// Step is one op of a rank with its places in memory.
type Step struct {
	Kind          Kind
	Peer, Channel int
	// Turn numbers the steps with the same peer, channel and direction, from 0. A send matches the peer's receive with the same
	// turn.
	Turn     int
	From, To Place
	Count    int64 // elements, at least one
}

// Node holds steps that start and end together, after the nodes in After have ended.
type Node struct {
	Steps []Step
	After []NodeID
}

// NodeID identifies a node of a stream.
type NodeID struct{ Stream, Node int }

// Lowered holds one rank's steps for a call of one size and placement. Before runs first, then all streams at the same time, each
// in order, then After.
type Lowered struct {
	Before, After []Step
	Streams       [][]Node
	Channels      int   // of the program
	Scratch       int64 // elements

	vector   Place // start of the vector
	elements int64 // length of the vector
}

// inVector reports whether a place is in the vector.
func (l *Lowered) inVector(p Place) bool {
	return p.Buffer == l.vector.Buffer && p.Element >= l.vector.Element && p.Element < l.vector.Element+l.elements
}

// extent describes a call to be lowered.
type extent struct {
	count   int64 // as in runner.Call
	inPlace bool
}

// program is the program of a case.
type program struct {
	*schedule.Program
	// alike means that all chunks have the same number of elements, as plan files assume. Vectors of other sizes are padded in
	// scratch memory.
	alike bool
}

// parts returns the number of parts of the vector and the number of chunks of each. There is one part for each rank, or a single
// part for an all_reduce.
func (p program) parts() (count, chunks int) {
	if p.Collective == schedule.AllReduce {
		return 1, p.Chunks
	}
	return p.Ranks, p.Chunks / p.Ranks
}

// lowering lays out the ops of one rank.
type lowering struct {
	program
	rank     int
	elements int64 // elements of the vector
	part     int64 // elements of a part of the vector
	chunk    int64 // elements of a chunk in scratch memory
	vector   Place
	input    Buffer            // the input of a program that works out of place
	staged   func(op int) bool // reports whether an op receives into scratch memory and adds from there
	staging  int64             // first element of scratch memory for such ops
	out      *Lowered
	ends     map[int]NodeID // of ops
}

// lower lays out the ops of rank for a call. A receive for which staged is true receives into scratch memory and adds from
// there.
func lower(p program, f runner.Form, rank int, x extent, staged func(op int) bool) (*Lowered, error) {
	count, chunks := p.parts()
	l := &lowering{program: p, rank: rank, staged: staged, part: x.count, out: &Lowered{}, ends: map[int]NodeID{}}
	if p.alike {
		l.part = (x.count + int64(chunks) - 1) / int64(chunks) * int64(chunks)
	}
	l.elements = l.part * int64(count)
	for r := range count {
		if first, _ := schedule.Chunk(l.elements, p.Chunks, r*chunks); first != int64(r)*l.part {
			return nil, fmt.Errorf("%d elements of each rank cannot be divided into %d chunks: choose sizes that are multiples", x.count, chunks)
		}
	}
	l.chunk = (l.elements + int64(p.Chunks) - 1) / int64(p.Chunks)
	l.staging = int64(p.Scratch) * l.chunk
	if p.Input > 0 && x.inPlace {
		return nil, fmt.Errorf("program %s does not support in-place operations", p.Name)
	}
	l.buffers(f.Op, x)
	l.out.Scratch, l.out.vector, l.out.elements = l.staging, l.vector, l.elements
	if err := l.streams(); err != nil {
		return nil, err
	}
	return l.out, nil
}

// buffers places the vector and the input of a call. Where they are not in the call's buffers, it adds copies from and to these.
func (l *lowering) buffers(op runner.Op, x extent) {
	send, recv := Place{Buffer: SendBuffer}, Place{Buffer: RecvBuffer}
	gathers, scatters := op == runner.AllGather, op == runner.ReduceScatter
	mine := int64(l.rank) * l.part
	// The input must not change.
	padded, apart := l.part != x.count, scatters && !x.inPlace && l.Input == 0
	if padded || apart {
		l.vector = Place{Scratch, l.staging}
		l.staging += l.elements
		l.out.After = l.copies(recv, l.vector, x.count, mine, scatters)
		for i := range l.out.After {
			s := &l.out.After[i]
			s.From, s.To = s.To, s.From
		}
	} else if l.vector = recv; scatters && l.Input == 0 {
		l.vector = send
	} else if scatters {
		l.vector.Element = -mine // recv holds only this rank's part
	}
	switch {
	case l.Input == 0 && (padded || apart || !x.inPlace):
		l.out.Before = l.copies(send, l.vector, x.count, mine, gathers)
	case l.Input == 0:
	case padded || l.writesInput():
		l.input = Scratch
		l.out.Before = l.copies(send, Place{Buffer: Scratch}, x.count, 0, gathers)
	default:
		l.input = SendBuffer
	}
}

// copies returns steps that copy a buffer of a call to a vector. The buffer has count elements of each part. If one is true, only
// the part at element at of the vector is copied.
func (l *lowering) copies(buffer, vector Place, count, at int64, one bool) (all []Step) {
	parts, _ := l.parts()
	if one {
		vector.Element += at
		parts = 1
	}
	size := l.part
	if size == count { // parts are contiguous in both
		size, count, parts = size*int64(parts), count*int64(parts), 1
	}
	for range parts {
		if count > 0 {
			all = append(all, Step{Kind: Copy, From: buffer, To: vector, Count: count})
		}
		buffer.Element += count
		vector.Element += size
	}
	return all
}

// writesInput reports whether an op or a message writes to the rank's input.
func (l *lowering) writesInput() bool {
	return slices.ContainsFunc(l.Ops[l.rank], func(o schedule.Op) bool {
		j, ok := o.Dst.InScratch()
		return o.Kind != schedule.Send && ok && j < l.Input
	})
}

// at returns the place of element i of the vector.
func (l *lowering) at(i int64) Place { return Place{l.vector.Buffer, l.vector.Element + i} }

// place returns the start of a chunk slot.
func (l *lowering) place(s schedule.Slot) Place {
	if j, ok := s.InScratch(); ok && j < l.Input {
		return Place{l.input, int64(j) * l.chunk}
	} else if ok {
		return Place{Scratch, int64(j) * l.chunk}
	}
	first, _ := schedule.Chunk(l.elements, l.Chunks, int(s))
	return l.at(first)
}

// line identifies the messages between this rank and a peer over a channel, in one direction.
type line struct {
	peer    int32
	channel uint8
	sends   bool
}

// streams lays out the nodes. A receive has the size of its matching send.
func (l *lowering) streams() error {
	coming := map[line][]int64{}
	for r, ops := range l.Ops {
		for i := range ops {
			o := &ops[i]
			l.out.Channels = max(l.out.Channels, int(o.Channel)+1)
			if o.Kind == schedule.Send && int(o.Peer) == l.rank {
				at := line{peer: int32(r), channel: o.Channel}
				coming[at] = append(coming[at], l.Bytes(o.Src, o.Count, l.elements, 1))
			}
		}
	}
	turns := map[line]int{}
	ops := l.Ops[l.rank]
	for from := 0; from < len(ops); {
		to := schedule.NodeEnd(ops, from)
		var node Node
		var adds []Node // after it, one for each staged receive
		staging := l.staging
		for i := from; i < to; i++ {
			o := &ops[i]
			for _, d := range l.Deps(o) {
				if end := l.ends[int(d)]; !slices.Contains(node.After, end) {
					node.After = append(node.After, end)
				}
			}
			at := line{o.Peer, o.Channel, o.Kind == schedule.Send}
			s := l.step(o)
			if o.Kind == schedule.Recv || o.Kind == schedule.RecvReduce {
				if len(coming[at]) == 0 {
					return fmt.Errorf("rank %d, op %d (%s): rank %d sends nothing for it", l.rank, i, o, o.Peer)
				}
				s.Count, coming[at] = coming[at][0], coming[at][1:]
			}
			if s.Count == 0 {
				continue // the peer omits it too
			}
			if s.Kind == RecvAdd && l.staged(i) {
				add := Step{Kind: Add, From: Place{Scratch, staging}, To: s.To, Count: s.Count}
				s.Kind, s.To = Recv, add.From
				staging += s.Count
				adds = append(adds, Node{Steps: []Step{add}})
			}
			if s.Kind != Add && s.Kind != Copy {
				s.Turn = turns[at]
				turns[at]++
			}
			node.Steps = append(node.Steps, s)
		}
		l.out.Scratch = max(l.out.Scratch, staging)
		end := l.append(int(ops[from].Stream), append([]Node{node}, adds...))
		for i := from; i < to; i++ {
			l.ends[i] = end
		}
		from = to
	}
	return nil
}

// step returns the step of an op of the rank, without the count of a receive.
func (l *lowering) step(o *schedule.Op) Step {
	s := Step{Peer: int(o.Peer), Channel: int(o.Channel)}
	switch o.Kind {
	case schedule.Copy:
		s.Kind, s.From, s.To, s.Count = Copy, l.place(o.Src), l.place(o.Dst), l.Bytes(o.Src, o.Count, l.elements, 1)
	case schedule.Reduce:
		s.Kind, s.From, s.To, s.Count = Add, l.place(o.Src), l.place(o.Dst), l.Bytes(o.Dst, o.Count, l.elements, 1)
	case schedule.Send:
		s.Kind, s.From, s.Count = Send, l.place(o.Src), l.Bytes(o.Src, o.Count, l.elements, 1)
	case schedule.Recv:
		s.Kind, s.To = Recv, l.place(o.Dst)
	case schedule.RecvReduce:
		s.Kind, s.To = RecvAdd, l.place(o.Dst)
	}
	return s
}

// append adds nodes to a stream and returns the last one.
func (l *lowering) append(stream int, nodes []Node) NodeID {
	for len(l.out.Streams) <= stream {
		l.out.Streams = append(l.out.Streams, nil)
	}
	l.out.Streams[stream] = append(l.out.Streams[stream], nodes...)
	return NodeID{stream, len(l.out.Streams[stream]) - 1}
}
