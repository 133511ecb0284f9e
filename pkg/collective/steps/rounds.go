package steps

import "github.com/collectivex/collectivex/pkg/schedule"

// rounds is p on one stream and one channel of each rank. A round is what the rank adds,
// then a group of the messages that nothing of p keeps from going at the same time. Both ends
// of a message are in the same round, and the ranks go through the rounds in order, so that
// groups that start and end together cannot wait for each other in a circle. p is verified
// and does not buffer sends.
func rounds(p *schedule.Program) *schedule.Program {
	out := *p
	out.Ops = make([][]schedule.Op, p.Ranks)
	r := &rounding{Flow: schedule.NewFlow(p), out: &out}
	for r.round = 1; ; r.round++ {
		r.Run(r)
		if len(r.met) == 0 {
			return &out
		}
		for _, m := range r.met {
			r.append(m.from, m.send)
			r.append(m.to, m.receive)
		}
		for _, m := range r.met {
			r.Complete(m.from, m.send)
			r.Complete(m.to, m.receive)
		}
		r.met = r.met[:0]
	}
}

// rounding is the actions of a flow whose messages end with their round.
type rounding struct {
	*schedule.Flow
	out   *schedule.Program
	round int32
	met   []met
}

// met is a message both of whose ends have been posted.
type met struct{ from, send, to, receive int }

var _ schedule.Actions = (*rounding)(nil)

// append adds op i of rank r to the program of rounds.
func (r *rounding) append(rank, i int) {
	o := r.Ops[rank][i]
	o.Stream, o.Channel, o.Group = 0, 0, r.round
	if o.Kind == schedule.Reduce {
		o.Group = 0
	}
	r.out.Append(rank, o)
}

// Start implements schedule.Actions.
func (r *rounding) Start(int, int, int) {}

// End implements schedule.Actions.
func (r *rounding) End(int, int, int) {}

// Issue implements schedule.Actions.
func (r *rounding) Issue(rank, i int) { r.Post(r, rank, i) }

// Local implements schedule.Actions.
func (r *rounding) Local(rank, i int) {
	r.append(rank, i)
	r.Complete(rank, i)
}

// Meet implements schedule.Actions.
func (r *rounding) Meet(from, send, to, receive int) {
	r.met = append(r.met, met{from, send, to, receive})
}

// Depart implements schedule.Actions: no send of a program that does not buffer departs.
func (r *rounding) Depart(int, int) {}
