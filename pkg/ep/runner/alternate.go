package runner

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/workload"
)

// The oracle judges only a few calls of a rung. An operation that does nothing on every
// k-th call can pass it, because earlier calls have left the right results. An
// alternating pass makes many calls in a row under one binding, alternates between two
// inputs and compares the full result of each call: a call that does nothing leaves the
// result of the other input.

// side is one of the two inputs of a pass.
type side struct {
	oracle   oracle
	expected messages     // expected input of combine
	prepare  func() error // writes the input of the next call
}

// newSide returns a side with its own cache of accepted results.
func newSide(o oracle, expected messages, prepare func() error) side {
	o.accepted = &accepted{}
	return side{o, expected, prepare}
}

// judgeReceived judges what a dispatch delivered, unless an earlier step failed.
func (s *side) judgeReceived(d data, v *Verdict, rx *Received) error {
	if !v.Passed {
		return nil
	}
	_, judged, err := s.oracle.received(d, rx)
	v.add(judged)
	return err
}

// judgeOutput judges the output of a combine, unless an earlier step failed.
func (s *side) judgeOutput(d data, v *Verdict, out accel.Ptr) error {
	if !v.Passed {
		return nil
	}
	judged := Verdict{Passed: true}
	err := s.oracle.combinedValues(d, &judged, out, s.expected)
	v.add(judged)
	return err
}

// alternate runs the alternating passes of all rungs.
func (m *run) alternate() error {
	for _, p := range m.points {
		for _, component := range m.d.alternated() {
			when := alternating(component)
			var v Verdict
			var err error
			if m.d.Replayed {
				v, err = m.alternateReplays(p)
			} else {
				v, err = m.alternateCalls(p, component)
			}
			if err != nil {
				return fmt.Errorf("rung %d, %s: %w", p.TokensPerRank, when, err)
			}
			if err := m.emitVerdict(p, when, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// alternateCalls makes the calls of one component's windows, alternates between two
// inputs and judges each call.
func (m *run) alternateCalls(p *point, component string) (v Verdict, err error) {
	v.Passed = true
	if err := m.warmUp(p, true); err != nil {
		return v, err
	}
	sides := m.inputSides(p) // the warm-up and the last call use the second input
	if component == compCombine {
		if sides, err = m.stagedSides(p, &v); err != nil {
			return v, err
		}
	}
	for i := range m.block.AlternatingCalls(p.TokensPerRank) {
		s := &sides[i%2]
		if err := s.prepare(); err != nil {
			return v, err
		}
		if err := m.alternateCall(component, s, &v); err != nil {
			return v, err
		}
	}
	return v, nil
}

// inputSides returns other inputs in the buffers of the binding, and the inputs that the
// contract specifies as the second side.
func (m *run) inputSides(p *point) [2]side {
	of := func(o oracle) side {
		return newSide(o, asReceived, func() error { return m.send(p, o) })
	}
	return [2]side{of(p.changed), of(p.oracle)}
}

// stagedSides makes one dispatch and returns two inputs of its combine: the rows as the
// experts transform them, and the rows as they arrived.
func (m *run) stagedSides(p *point, v *Verdict) (sides [2]side, err error) {
	rx, err := m.inspected()
	if err != nil {
		return sides, err
	}
	by, judged, err := p.oracle.received(m.data, rx)
	if err != nil {
		return sides, err
	}
	v.add(judged)
	if by == nil { // already judged; complete the pair, since the peers wait for the combine
		by = make([]workload.Affine, rx.rows())
	}
	return [2]side{
		newSide(p.oracle, transformed, m.stageRows(m.transform(&p.oracle, rx, by))),
		newSide(p.oracle, asReceived, m.stage),
	}, nil
}

// alternateCall makes a component's call as its windows do, with the combine that its
// dispatch may need, and judges it.
func (m *run) alternateCall(component string, s *side, v *Verdict) error {
	calls := steps{m.pair}
	switch component {
	case compCombine:
		calls = steps{m.combine, m.device.Synchronize}
	case compDispatch:
		rx, err := m.inspected()
		if err != nil {
			return err
		}
		if err := s.judgeReceived(m.data, v, rx); err != nil {
			return err
		}
		if !m.d.FreshPair {
			return nil
		}
		calls = steps{m.stage, m.combine, m.device.Synchronize}
	}
	if err := calls.do(); err != nil {
		return err
	}
	return s.judgeOutput(m.data, v, m.left.out)
}
