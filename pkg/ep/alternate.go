package ep

import (
	"errors"
	"fmt"
	"slices"
)

// The oracle judges only a few calls of a rung. An operation that does nothing on every
// k-th call can pass it, because earlier calls have left the right results. An
// alternating pass makes many calls in a row under one binding, alternates between two
// inputs and compares the full result of each call: a call that does nothing leaves the
// result of the other input.

// side is one of the two inputs of a pass, with the results of it that the oracle
// accepted.
type side struct {
	oracle   oracle
	expected func() message // what combine gets
	prepare  func() error   // makes the input that of the next call
	received *Received
	output   []uint16
}

// judgeReceived judges what a dispatch delivered. It accepts what equals an accepted
// delivery, and judges nothing after a failure, because the oracle takes longer than the
// calls.
func (s *side) judgeReceived(v *Verdict, rx *Received) {
	if !v.Passed || s.received != nil && s.received.equal(rx) {
		return
	}
	_, judged := s.oracle.received(rx)
	if judged.Passed {
		s.received = rx
	}
	v.add(judged)
}

// judgeOutput does the same with the output of a combine.
func (s *side) judgeOutput(v *Verdict, output []uint16) {
	if !v.Passed || s.output != nil && slices.Equal(s.output, output) {
		return
	}
	judged := Verdict{Passed: true}
	s.oracle.combinedValues(&judged, output, s.expected())
	if judged.Passed {
		s.output = output
	}
	v.add(judged)
}

// equal reports whether other is the same, row by row.
func (rx *Received) equal(other *Received) bool {
	return slices.Equal(rx.Payload, other.Payload) && slices.Equal(rx.Expert, other.Expert) &&
		slices.Equal(rx.Weight, other.Weight) && slices.Equal(rx.Counts, other.Counts)
}

// alternate runs the alternating passes of all rungs.
func (m *run) alternate() error {
	for _, p := range m.points {
		for _, component := range m.d.alternated() {
			when := alternating(component)
			v, err := m.alternateCalls(p, component)
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
		if err := m.alternateCall(p, component, s, &v); err != nil {
			return v, err
		}
	}
	return v, nil
}

// inputSides returns other inputs in the buffers of the binding, and the inputs that the
// contract specifies as the second side.
func (m *run) inputSides(p *point) [2]side {
	of := func(o oracle) side {
		x, weights := p.activations(o), p.weights(o)
		return side{oracle: o, expected: o.asReceived, prepare: func() error {
			return errors.Join(m.write(&p.inputs[inputX], x), m.write(&p.inputs[inputWeight], weights))
		}}
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
	messages, judged := p.oracle.received(rx)
	v.add(judged)
	if messages == nil { // judged; the peers wait for the combine all the same
		messages = make([]uint16, len(rx.Payload))
	}
	return [2]side{
		{oracle: p.oracle, expected: p.oracle.transformed, prepare: m.stageRows(messages)},
		{oracle: p.oracle, expected: p.oracle.asReceived, prepare: m.stage},
	}, nil
}

// alternateCall makes a component's call as its windows do, with the combine that its
// dispatch may need, and judges it.
func (m *run) alternateCall(p *point, component string, s *side, v *Verdict) error {
	calls := steps{m.pair}
	switch component {
	case compCombine:
		calls = steps{m.combine, m.device.Synchronize}
	case compDispatch:
		rx, err := m.inspected()
		if err != nil {
			return err
		}
		s.judgeReceived(v, rx)
		if !m.d.FreshPair {
			return nil
		}
		calls = steps{m.stage, m.combine, m.device.Synchronize}
	}
	if err := calls.do(); err != nil {
		return err
	}
	output, err := m.output(p)
	if err != nil {
		return err
	}
	s.judgeOutput(v, output)
	return nil
}
