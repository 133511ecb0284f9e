package ep

import (
	"errors"
	"fmt"
)

// No verdict binds again: whatever the windows or the chain left is still there,
// and what is judged is the next call of the sequence that was timed.

// judgeWindow judges what the window of a component left, then the operation with
// other inputs in the same buffers.
func (m *run) judgeWindow(p *point, component string) error {
	when := afterWindow(component)
	v, err := m.judgeRemains(p)
	if err != nil {
		return fmt.Errorf("rung %d, oracle %s: %w", p.TokensPerRank, when, err)
	}
	if err := m.emitVerdict(p, when, v); err != nil {
		return err
	}
	return m.judgeChanged(p, when, component == compCombine && !m.d.FreshPair)
}

// judgeRemains judges the output of the last combine of a window. Where the
// window ends without one, it judges what the last dispatch brought and combines
// that first.
func (m *run) judgeRemains(p *point) (v Verdict, err error) {
	v.Passed = true
	if !m.left.combined {
		received, err := m.adapter.Inspect(m.left.handle)
		if err != nil {
			return v, err
		}
		_, v = p.oracle.received(received)
		finish := steps{m.combine, m.device.Synchronize}
		if m.left.staged == nil {
			finish = steps{m.stage, m.combine, m.device.Synchronize}
		}
		if err := finish.do(); err != nil {
			return v, err
		}
	}
	out, err := m.output(p)
	if err != nil {
		return v, err
	}
	p.oracle.combinedValues(&v, out, p.oracle.asReceived())
	return v, nil
}

// judgeChain judges what the period chain left, then the operation as the chain left
// it, with the same inputs, with other ones, and its arithmetic.
func (m *run) judgeChain(p *point, end chainEnd) error {
	_, v := p.oracle.received(end.received)
	p.oracle.combinedValues(&v, end.out, p.oracle.asReceived())
	if err := m.emitVerdict(p, whenChainOutput, v); err != nil {
		return err
	}
	if err := m.judge(p, whenPostChain, p.oracle, false); err != nil {
		return err
	}
	if err := m.judgeChanged(p, whenPostChain, false); err != nil {
		return err
	}
	return m.judgeArithmetic(p)
}

// judgeArithmetic sends chosen rows back to combine and judges their sums.
func (m *run) judgeArithmetic(p *point) error {
	received, err := m.inspected()
	if err != nil {
		return err
	}
	if err := (steps{m.stageRows(p.oracle.chosenFor(received)), m.combine, m.device.Synchronize}).do(); err != nil {
		return err
	}
	values, err := m.output(p)
	if err != nil {
		return err
	}
	worst, wrong := p.oracle.declared(values)
	return m.Emit(kindArithmetic, arithmeticRecord{p.TokensPerRank, finite(worst), len(values), wrong})
}

// judgeChanged writes other inputs into the buffers of the bound problem, judges
// the operation and restores them. An operation that does nothing any more would
// pass with the inputs of the calls before.
func (m *run) judgeChanged(p *point, when string, again bool) error {
	x, weights := &p.inputs[inputX], &p.inputs[inputWeight]
	made, parts := x.made, weights.made
	if err := errors.Join(m.write(x, p.activations(p.changed)), m.write(weights, p.weights(p.changed))); err != nil {
		return err
	}
	if err := m.judge(p, changed(when), p.changed, again); err != nil {
		return err
	}
	return errors.Join(m.write(x, made), m.write(weights, parts))
}

// judge runs the full oracle on a rung and emits its verdict.
func (m *run) judge(p *point, when string, o oracle, again bool) error {
	v, err := m.fullOracle(p, o, again)
	if err != nil {
		return fmt.Errorf("rung %d, oracle %s: %w", p.TokensPerRank, when, err)
	}
	return m.emitVerdict(p, when, v)
}

// emitVerdict completes a verdict with the comparison of the inputs with what
// they were made as.
func (m *run) emitVerdict(p *point, when string, v Verdict) error {
	differ, err := m.inputsChanged(p)
	if err != nil {
		return err
	}
	v.require(CheckInputs, !differ)
	return m.Emit(kindVerdict, verdictRecord{p.TokensPerRank, when, v})
}

// fullOracle dispatches, judges what arrived, sends back what the experts make of
// it and judges what combine returns. With again, that is the second combine of
// its handle. Where a row tells no source, the pair is still completed, so that
// no peer waits for ever.
func (m *run) fullOracle(p *point, o oracle, again bool) (v Verdict, err error) {
	received, err := m.inspected()
	if err != nil {
		return v, err
	}
	messages, v := o.received(received)
	rest := steps{m.stageRows(messages), m.combine, m.device.Synchronize}
	if messages == nil {
		rest[0] = m.stage
	}
	if again {
		rest = append(steps{m.stage, m.combine}, rest...)
	}
	if err := rest.do(); err != nil || messages == nil {
		return v, err
	}
	values, err := m.output(p)
	if err != nil {
		return v, err
	}
	o.combinedValues(&v, values, o.transformed())
	return v, nil
}
