package runner

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/steps"
)

// Kinds of faults of a rank's steps, for rank.FaultVariable: the program is correct, but the rank's steps deviate from it. They
// are applied before anything runs. A schedule case also has the faults of the collective family.
const (
	FaultSkip   = "skip-step"  // the data of the last receive are dropped
	FaultChunk  = "swap-chunk" // two steps swap their destinations
	FaultDouble = "double-add" // the last addition is made twice
)

// FaultKinds lists the kinds of faults of steps.
func FaultKinds() []string { return []string{FaultSkip, FaultChunk, FaultDouble} }

// Measurer measures schedules.
var Measurer = rank.Measurer{
	Family: steps.Name, Assemble: Assemble, Faults: slices.Concat(runner.FaultKinds(), FaultKinds()), NoEffect: noEffect,
}

func noEffect(f rank.Fault, c *plan.Case) string {
	if f.Kind == FaultDouble && steps.Of(c).Op == string(schedule.AllGather) {
		return "an all_gather adds nothing; inject it into an all_reduce or a reduce_scatter"
	}
	return ""
}

// damage is a kind of fault, or none.
type damage string

// planted returns the fault of this rank.
func planted(s *rank.Session) (damage, error) {
	var out damage
	for _, kind := range FaultKinds() {
		if !s.HasFault(kind) {
			continue
		}
		if out != "" {
			return "", rank.Refused("faults %s and %s: a case takes one fault of its steps for each rank", out, kind)
		}
		out = damage(kind)
	}
	return out, nil
}

// lower is the function lower with the damage applied; done reports whether there was anything to damage.
func (d damage) lower(p program, f runner.Form, rank int, x extent, staged bool) (l *Lowered, done bool, err error) {
	double := -1 // the op whose addition is repeated
	if d == FaultDouble {
		for i := range p.Ops[rank] {
			if k := p.Ops[rank][i].Kind; k == schedule.Reduce || k == schedule.RecvReduce {
				double = i
			}
		}
	}
	if l, err = lower(p, f, rank, x, func(op int) bool { return staged || op == double }); err != nil {
		return nil, false, err
	}
	var receives, writes []*Step // writes are those to the vector
	var adds *Node               // the last one
	for _, nodes := range l.Streams {
		for i := range nodes {
			for j := range nodes[i].Steps {
				step := &nodes[i].Steps[j]
				if step.Kind == Recv || step.Kind == RecvAdd {
					receives = append(receives, step)
				}
				if step.Kind == Add {
					adds = &nodes[i]
				}
				if step.Kind != Send && l.inVector(step.To) {
					writes = append(writes, step)
				}
			}
		}
	}
	switch {
	case d == FaultSkip && len(receives) > 0:
		last := receives[len(receives)-1]
		last.Kind, last.To = Recv, Place{Scratch, l.Scratch}
		l.Scratch += last.Count
		return l, true, nil
	case d == FaultChunk:
		for i, a := range writes {
			for _, b := range writes[i+1:] {
				if a.Count == b.Count && a.To != b.To {
					a.To, b.To = b.To, a.To
					return l, true, nil
				}
			}
		}
	case d == FaultDouble && adds != nil:
		adds.Steps = append(adds.Steps, adds.Steps[len(adds.Steps)-1])
		return l, true, nil
	}
	return l, false, nil
}
