package runner

import (
	"context"
	"slices"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// ordered reports whether all sends of p wait for their receives and no rank accesses the memory of a peer, as in all named
// schedules. Such a program can run on its own streams.
func ordered(p *schedule.Program) bool {
	return p.Buffer == 0 && !slices.ContainsFunc(p.Ops, func(ops []schedule.Op) bool {
		return slices.ContainsFunc(ops, func(o schedule.Op) bool {
			switch o.Kind {
			case schedule.Send, schedule.Recv, schedule.RecvReduce, schedule.Reduce, schedule.Copy:
				return false
			}
			return true
		})
	})
}

// inRounds converts p with the function rounds and verifies the result. Sends and puts end early if the result is then correct.
func inRounds(ctx context.Context, p *schedule.Program) (q *schedule.Program, err error) {
	for early := !ordered(p); ; early = false {
		q = rounds(p, early)
		if _, err = schedule.Verified(ctx, q); err == nil || !early || ctx.Err() != nil {
			return q, err
		}
	}
}

// rounds converts p, which must be verified, to a program with one stream and one channel for each rank. A round has local copies
// and additions, then a group of messages that p allows to start together. The send and the receive of a message are in the same
// round, and all ranks run the rounds in order. Groups therefore cannot wait for each other in a cycle.
//
// A put becomes a send and a receive, and so does a get. Signals, waits and flushes determine the order of rounds and are removed,
// since every access to the memory of a rank becomes an op of its one stream.
//
// If a send does not wait and its receive does not begin in the same round, its data go to a buffer in the scratch memory of the
// receiver. The receive then becomes a copy or an addition from that buffer, as in MSCCL. If early is true, such sends and puts end
// early. The next op of their stream, such as the receive of a ring, can then be in the same round. The result is wrong if that op
// overwrites the data being sent.
func rounds(p *schedule.Program, early bool) *schedule.Program {
	out := *p
	out.Ops, out.Buffer = make([][]schedule.Op, p.Ranks), 0
	r := &rounding{
		Flow: schedule.NewFlow(p), out: &out, early: early,
		leaving: map[end]int{}, late: map[end]int32{}, staged: map[end]schedule.Slot{}, busy: map[stream]int32{},
		slots: make([]int, p.Ranks), free: make([]map[int32][]schedule.Slot, p.Ranks),
	}
	for q := range r.slots {
		r.slots[q], r.free[q] = p.Scratch, map[int32][]schedule.Slot{}
	}
	for r.round = 1; ; r.round++ {
		r.Run(r)
		if len(r.met) == 0 {
			out.Scratch = slices.Max(r.slots)
			return &out
		}
		for _, m := range r.met {
			r.message(m)
		}
		for _, m := range r.met {
			if _, ended := r.leaving[end{m.from, m.send}]; m.send >= 0 && (!ended || !early) {
				r.Complete(m.from, m.send)
			}
			if m.receive >= 0 {
				r.Complete(m.to, m.receive)
			}
		}
		for _, w := range r.waits {
			r.Complete(w.rank, w.op)
		}
		r.met, r.waits = r.met[:0], r.waits[:0]
		clear(r.leaving)
	}
}

// rounding implements the actions of a flow whose messages end with their round.
type rounding struct {
	*schedule.Flow
	out     *schedule.Program
	early   bool
	round   int32
	met     []met
	leaving map[end]int           // index in met of each send or put that departs in this round
	late    map[end]int32         // the round of each signal that follows such an op
	waits   []end                 // waits for such signals of this round
	staged  map[end]schedule.Slot // the buffer of each send that departed in an earlier round
	busy    map[stream]int32      // the last round in which a message of a stream departs
	slots   []int                 // by rank: number of chunk slots in scratch memory
	// free lists buffers whose data have been read, by rank and chunks.
	free []map[int32][]schedule.Slot
}

// end identifies an op of a rank, and stream one of its streams.
type (
	end    struct{ rank, op int }
	stream struct{ rank, stream int }
)

func (r *rounding) stream(rank, op int) stream { return stream{rank, int(r.Ops[rank][op].Stream)} }

// met is a message of a round. receive is −1 for a put, and if the receive does not begin in this round. send is −1 for a get.
type met struct{ from, send, to, receive int }

var _ schedule.Actions = (*rounding)(nil)

// append adds an op of a rank to this round. Messages form a group.
func (r *rounding) append(rank int, o schedule.Op) {
	o.Stream, o.Channel, o.Group = 0, 0, r.round
	if o.Kind == schedule.Reduce || o.Kind == schedule.Copy {
		o.Group = 0
	}
	r.out.Append(rank, o)
}

// message adds the send and the receive of a message to the round.
func (r *rounding) message(m met) {
	if m.send < 0 {
		get := r.Ops[m.to][m.receive]
		kind := schedule.Recv
		if get.Kind == schedule.GetReduce {
			kind = schedule.RecvReduce
		}
		r.append(m.from, schedule.Op{Kind: schedule.Send, Src: get.Src, Count: get.Count, Peer: int32(m.to)})
		r.append(m.to, schedule.Op{Kind: kind, Dst: get.Dst, Count: get.Count, Peer: int32(m.from)})
		return
	}
	send := r.Ops[m.from][m.send]
	receive := schedule.Op{Kind: schedule.Recv, Dst: send.Dst, Count: send.Count, Peer: int32(m.from)}
	switch {
	case m.receive >= 0:
		receive = r.Ops[m.to][m.receive]
	case send.Kind == schedule.Send:
		receive.Dst = r.stage(m.to, send.Count)
		r.staged[end{m.from, m.send}] = receive.Dst
	}
	send.Kind, send.Dst, send.Async = schedule.Send, 0, false
	r.append(m.from, send)
	r.append(m.to, receive)
}

// stage returns a slot for count chunks in the scratch memory of a rank.
func (r *rounding) stage(rank int, count int32) schedule.Slot {
	if free := r.free[rank][count]; len(free) > 0 {
		r.free[rank][count] = free[:len(free)-1]
		return free[len(free)-1]
	}
	r.slots[rank] += int(count)
	return schedule.Scratch(r.slots[rank] - int(count))
}

func (r *rounding) Start(int, int, int) {}

func (r *rounding) End(int, int, int) {}

func (r *rounding) Issue(rank, i int) { r.Post(r, rank, i) }

func (r *rounding) Local(rank, i int) {
	o := r.Ops[rank][i]
	switch o.Kind {
	case schedule.Put:
		r.depart(rank, i)
	case schedule.Get, schedule.GetReduce:
		r.met = append(r.met, met{int(o.Peer), -1, rank, i})
	case schedule.Flush: // if its puts end early, verification finds conflicting accesses
		r.Complete(rank, i)
	default:
		r.append(rank, o)
		r.Complete(rank, i)
	}
}

// depart adds a message whose receive has not begun.
func (r *rounding) depart(from, send int) {
	r.leaving[end{from, send}] = len(r.met)
	r.met = append(r.met, met{from, send, int(r.Ops[from][send].Peer), -1})
	r.busy[r.stream(from, send)] = r.round
	if r.early {
		r.Complete(from, send)
	}
}

func (r *rounding) Meet(from, send, to, receive int) {
	o := r.Ops[to][receive]
	if o.Kind == schedule.Wait {
		if r.late[end{from, send}] == r.round {
			r.waits = append(r.waits, end{to, receive})
		} else {
			r.Complete(to, receive)
		}
		return
	}
	if slot, ok := r.staged[end{from, send}]; ok {
		local := schedule.Op{Kind: schedule.Copy, Src: slot, Dst: o.Dst, Count: o.Count}
		if o.Kind == schedule.RecvReduce {
			local.Kind = schedule.Reduce
		}
		r.append(to, local)
		r.free[to][o.Count] = append(r.free[to][o.Count], slot)
		r.Complete(to, receive)
		return
	}
	if at, ok := r.leaving[end{from, send}]; ok {
		r.met[at].receive = receive
		return
	}
	r.met = append(r.met, met{from, send, to, receive})
}

func (r *rounding) Depart(from, send int) {
	if r.Ops[from][send].Kind == schedule.Send {
		r.depart(from, send)
		return
	}
	if r.busy[r.stream(from, send)] == r.round {
		r.late[end{from, send}] = r.round
	}
	r.Complete(from, send)
}
