package runner

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/steps"
)

// Kinds of faults of a rank's steps, for rank.FaultVariable. The program is correct, but the rank's steps deviate from it. Faults
// are applied before the steps are loaded. Schedule cases also have the faults of the collective family.
const (
	FaultSkip   = "skip-step"  // the data of the last receive are discarded
	FaultChunk  = "swap-chunk" // the destinations of two steps are swapped
	FaultDouble = "double-add" // the last addition runs twice
)

// FaultKinds lists the kinds of faults of steps.
func FaultKinds() []string { return []string{FaultSkip, FaultChunk, FaultDouble} }

// Measurer measures schedules.
var Measurer = rank.Measurer{
	Family: steps.Name, Assemble: Assemble, Faults: slices.Concat(runner.FaultKinds(), FaultKinds()), NoEffect: noEffect,
}

func noEffect(f rank.Fault, c *plan.Case) string {
	if op := steps.Of(c).Op; f.Kind == FaultDouble && schedule.RedOp(op) == "" {
		return op + " has no additions; inject it into an all_reduce or a reduce_scatter"
	}
	return ""
}

// damage is a kind of fault, or "" for none.
type damage string

// planted returns the fault that is injected into this rank. More than one is an error.
func planted(s *rank.Session) (damage, error) {
	var out damage
	for _, kind := range FaultKinds() {
		if !s.HasFault(kind) {
			continue
		}
		if out != "" {
			return "", rank.Refused("faults %s and %s: inject at most one fault of steps into a rank", out, kind)
		}
		out = damage(kind)
	}
	return out, nil
}

// lower is the function lower with the fault applied. done reports whether the fault had an effect.
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
	var receives, writes []*Step // writes are steps that write to the vector
	var adds *Node               // the last node with an addition
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
