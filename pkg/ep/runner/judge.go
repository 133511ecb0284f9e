package runner

import (
	"fmt"
	"time"

	"github.com/collectivex/collectivex/pkg/workload"
)

// A verdict does not bind the problem again. It judges the next call of the timed sequence, on the
// state that the windows or the chain left.
//
// A verdict waits for the stream only, not for the device. The events of a window do not cover work
// that a library leaves on its own stream; the results of such work come too late here, and fail.

// judgeWindow judges the state after the window of a component, then the operation with other
// inputs in the same buffers.
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

// judgeRemains judges the output of the last combine of a window. If the window ends without one,
// it judges what the last dispatch delivered and then combines it.
func (m *run) judgeRemains(p *point) (v Verdict, err error) {
	v.Passed = true
	if !m.left.combined {
		if v, err = m.judgeDelivered(p.now()); err != nil {
			return v, err
		}
		finish := steps{m.combine, m.stream.Synchronize}
		if m.left.staged == nil {
			finish = steps{m.stage, m.combine, m.stream.Synchronize}
		}
		if err := finish.do(); err != nil {
			return v, err
		}
	}
	err = p.now().combinedValues(m.data, &v, m.left.out, m.left.rows)
	return v, err
}

// judgeLeft judges what the last dispatch delivered and what the last combine returned. After a replayed
// pair, no peer waits for this rank's combine, and some libraries write the rows of their next dispatch
// over the received ones. So the ranks meet when all have judged.
func (m *run) judgeLeft(dispatched, combined *oracle) (v Verdict, err error) {
	if v, err = m.judgeDelivered(dispatched); err == nil {
		err = combined.combinedValues(m.data, &v, m.left.out, m.left.rows)
	}
	if err == nil && m.d.Replayed {
		err = steps{m.adapter.(Capturer).Align, m.stream.Synchronize}.do()
	}
	return v, err
}

// judgeDelivered judges what the last dispatch delivered.
func (m *run) judgeDelivered(o *oracle) (v Verdict, err error) {
	received, err := m.adapter.Inspect(m.left.handle)
	if err == nil {
		_, v, err = o.received(m.data, received)
	}
	return v, err
}

// judgeChain reports the verdict on the state after the period chain, then judges the operation
// with the same inputs and with other inputs, and its arithmetic.
func (m *run) judgeChain(p *point, left Verdict) error {
	if err := m.emitVerdict(p, whenChainOutput, left); err != nil {
		return err
	}
	if err := m.judge(p, whenPostChain, *p.now(), false); err != nil {
		return err
	}
	if err := m.judgeChanged(p, whenPostChain, false); err != nil {
		return err
	}
	return m.judgeArithmetic(p)
}

// judgeArithmetic sends chosen rows back to combine and judges their sums.
func (m *run) judgeArithmetic(p *point) error {
	o := &p.oracle
	if err := m.stageChosen(o); err != nil {
		return err
	}
	if err := (steps{m.combine, m.stream.Synchronize}).do(); err != nil {
		return err
	}
	worst, wrong, err := m.data.declared(o, m.left.out)
	if err != nil {
		return err
	}
	return m.Emit(kindArithmetic, arithmeticRecord{p.TokensPerRank, finite(worst), o.values(), wrong})
}

// stageChosen dispatches, and stages the chosen rows instead of what arrived.
func (m *run) stageChosen(o *oracle) error {
	received, err := m.inspected()
	if err != nil {
		return err
	}
	tokens, err := m.data.sources(o, received)
	if err != nil {
		return err
	}
	return m.stageRows(func(to []Rows) error { return m.data.choose(o, o.chosenFor(received, tokens), to) })()
}

// judgeChanged writes other inputs into the buffers of the bound problem, judges the operation and
// restores them. Without other inputs, an operation that no longer does anything would pass.
func (m *run) judgeChanged(p *point, when string, again bool) error {
	if err := m.send(p, p.changed); err != nil {
		return err
	}
	if err := m.judge(p, changed(when), p.changed, again); err != nil {
		return err
	}
	return m.send(p, p.oracle)
}

// judge runs the full oracle on a rung and emits its verdict.
func (m *run) judge(p *point, when string, o oracle, again bool) error {
	v, err := m.fullOracle(o, again)
	if err != nil {
		return fmt.Errorf("rung %d, oracle %s: %w", p.TokensPerRank, when, err)
	}
	return m.emitVerdict(p, when, v)
}

// emitVerdict completes a verdict with the check that the inputs are unchanged.
func (m *run) emitVerdict(p *point, when string, v Verdict) error {
	differ, err := m.inputsChanged(p)
	if err != nil {
		return err
	}
	v.require(CheckInputs, !differ)
	return m.Emit(kindVerdict, verdictRecord{p.TokensPerRank, when, time.Now().UTC(), v})
}

// fullOracle dispatches, judges what arrived, returns the experts' outputs and judges the result
// of combine. With again, it judges the second combine of its handle. If a row names no source, the
// pair is still completed, so that no peer hangs.
func (m *run) fullOracle(o oracle, again bool) (v Verdict, err error) {
	received, err := m.inspected()
	if err != nil {
		return v, err
	}
	by, v, err := o.received(m.data, received)
	if err != nil {
		return v, err
	}
	rest := steps{m.stageRows(m.transform(&o, received, by)), m.combine, m.stream.Synchronize}
	if by == nil {
		rest[0] = m.stage
	}
	if again {
		rest = append(steps{m.stage, m.combine}, rest...)
	}
	if err := rest.do(); err != nil || by == nil {
		return v, err
	}
	err = o.combinedValues(m.data, &v, m.left.out, transformed)
	return v, err
}

// transform returns a function that writes the transformed rows.
func (m *run) transform(o *oracle, rx *Received, by []workload.Affine) func(to []Rows) error {
	return func(to []Rows) error { return m.data.transform(o, rx, by, to) }
}
