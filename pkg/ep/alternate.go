package ep

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/accel"
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
	output   []byte
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
func (s *side) judgeOutput(v *Verdict, output []byte) {
	if !v.Passed || s.output != nil && bytes.Equal(s.output, output) {
		return
	}
	judged := Verdict{Passed: true}
	s.oracle.combinedValues(&judged, bf16s(output), s.expected())
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
	var sides [2]side // the warm-up and the last call use the second input
	call := func(s *side) error { return m.alternatePair(p, s, &v) }
	switch component {
	case compDispatch:
		sides = m.inputSides(p)
		call = func(s *side) error { return m.alternateDispatch(p, s, &v) }
	case compCombine:
		var h Handle
		var staged Staged
		if h, sides, err = m.stagedSides(p, &staged, &v); err != nil {
			return v, err
		}
		call = func(s *side) error { return m.alternateCombine(p, h, staged, s, &v) }
	default:
		sides = m.inputSides(p)
	}
	for i := range m.c.EP().AlternatingCalls(p.TokensPerRank) {
		s := &sides[i%2]
		if err := s.prepare(); err != nil {
			return v, err
		}
		if err := call(s); err != nil {
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

// stagedSides makes one dispatch and returns its handle with two inputs of its combine:
// the rows as the experts transform them, and the rows as they arrived.
func (m *run) stagedSides(p *point, staged *Staged, v *Verdict) (h Handle, sides [2]side, err error) {
	h, rx, err := m.inspected()
	if err != nil {
		return nil, sides, err
	}
	messages, judged := p.oracle.received(rx)
	v.add(judged)
	sides = [2]side{
		{oracle: p.oracle, expected: p.oracle.transformed, prepare: func() (err error) {
			if messages == nil { // judged; the peers wait for the combine all the same
				messages = make([]uint16, len(rx.Payload))
			}
			*staged, err = m.adapter.StageRows(h, messages)
			return err
		}},
		{oracle: p.oracle, expected: p.oracle.asReceived, prepare: func() (err error) {
			*staged, err = m.adapter.Stage(h)
			return err
		}},
	}
	return h, sides, nil
}

// alternatePair makes a pair, as in a roundtrip.
func (m *run) alternatePair(p *point, s *side, v *Verdict) error {
	_, out, err := m.pair()
	if err != nil {
		return err
	}
	return m.judgeSide(p, s, v, out)
}

// alternateDispatch makes a dispatch, and the combine that it may need.
func (m *run) alternateDispatch(p *point, s *side, v *Verdict) error {
	h, rx, err := m.inspected()
	if err != nil {
		return err
	}
	s.judgeReceived(v, rx)
	if !m.d.FreshPair {
		return nil
	}
	staged, err := m.adapter.Stage(h)
	if err != nil {
		return err
	}
	return m.alternateCombine(p, h, staged, s, v)
}

// alternateCombine combines what is staged.
func (m *run) alternateCombine(p *point, h Handle, staged Staged, s *side, v *Verdict) error {
	out, err := m.adapter.Combine(h, staged)
	if err != nil {
		return err
	}
	if err := m.device.Synchronize(); err != nil {
		return err
	}
	return m.judgeSide(p, s, v, out)
}

func (m *run) judgeSide(p *point, s *side, v *Verdict, out accel.Ptr) error {
	output, err := m.download(out, p.outputBytes())
	if err != nil {
		return err
	}
	s.judgeOutput(v, output)
	return nil
}
