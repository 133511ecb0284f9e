package ep

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
)

// conditioning is how many untimed pairs come before a rung's first check.
const conditioning = 8

// Runner is the rank half of the family: it measures the cases of a group with
// one adapter on one device.
type Runner struct {
	device  accel.Device
	stream  accel.Stream
	adapter Adapter
	facts   rank.Facts
}

var _ rank.Runner = (*Runner)(nil)

// NewRunner returns a runner over an adapter whose work goes to stream. The
// runner owns all three and closes them.
func NewRunner(device accel.Device, stream accel.Stream, adapter Adapter, facts rank.Facts) *Runner {
	return &Runner{device: device, stream: stream, adapter: adapter, facts: facts}
}

// Close implements rank.Runner.
func (r *Runner) Close() error {
	return errors.Join(r.adapter.Close(), r.stream.Close(), r.device.Close())
}

// Run implements rank.Runner. Its order is that of the contract: all rungs are
// brought up and judged, then the fresh-entry windows, then the chains, then
// all rungs are judged again.
func (r *Runner) Run(ctx context.Context, s *rank.Session, c plan.Case) error {
	if err := checkCase(c, s.World); err != nil {
		return err
	}
	m := &run{Session: s, device: r.device, stream: r.stream, c: c}
	if err := m.prepare(ctx, r); err != nil {
		return errors.Join(err, m.free())
	}
	for _, phase := range []func() error{m.bringUp, m.measureFresh, m.measureChains, m.judgeAfter} {
		if err := phase(); err != nil {
			return errors.Join(err, m.free())
		}
	}
	return m.free()
}

// run is one case on one rank.
type run struct {
	*rank.Session
	device  accel.Device
	stream  accel.Stream
	c       plan.Case
	d       Description
	adapter Adapter // the runner's, or a faulty one around it
	fault   *faulty // nil in every honest run
	points  []*point
	rungs   []int       // tokens per rank of the points
	cached  Handle      // whose layout dispatches reuse, under the cached-layout contract
	start   accel.Event // of a fresh-entry window
	end     accel.Event
	buffers []accel.Ptr
}

// prepare declares the case and makes the inputs of all rungs, then the
// adapter's buffers.
func (m *run) prepare(ctx context.Context, r *Runner) (err error) {
	if m.d, err = r.adapter.Describe(m.c); err != nil {
		return err
	}
	if err := checkDescription(m.c, m.d); err != nil {
		return err
	}
	if _, ok := r.adapter.(CachedDispatcher); !ok && m.c.Contract == plan.ContractCachedLayout {
		return refused("backend %s has no dispatch with a cached layout", m.c.Backend)
	}
	m.adapter = r.adapter
	if m.fault, err = injected(m); err != nil {
		return err
	}
	if m.fault != nil {
		m.adapter = m.fault
	}
	routing, rungs, err := routingOf(m.c)
	if err != nil {
		return err
	}
	if limit := m.c.LadderCap; limit != nil && (m.d.LadderCap == 0 || *limit < m.d.LadderCap) {
		m.d.LadderCap = *limit
	}
	measured, dropped := clamp(routing, rungs, m.d.LadderCap)
	if len(measured) == 0 {
		return refused("every rung of ladder %q is above the cap of %d tokens", m.c.Ladder, m.d.LadderCap)
	}
	m.rungs = measured
	if err := m.checkMemory(routing); err != nil {
		return err
	}
	record := planRecord{
		Description: m.d, ValueBytes: m.d.Codec.ValueBytes(), ScaleBytes: 4 * m.d.Codec.Scales(m.c.Hidden),
		Measured: measured, Dropped: dropped,
	}
	if err := errors.Join(m.Emit(rank.KindFacts, r.facts), m.Emit(kindPlan, record)); err != nil {
		return err
	}
	if m.start, err = m.device.NewEvent(); err != nil {
		return err
	}
	if m.end, err = m.device.NewEvent(); err != nil {
		return err
	}
	need := Capacity{Experts: routing.Experts()}
	for _, t := range measured {
		need.Tokens = max(need.Tokens, routing.MaxRankTokens(t))
		p, err := m.newPoint(t, routing.Trace(t))
		if err != nil {
			return fmt.Errorf("rung %d: %w", t, err)
		}
		m.points = append(m.points, p)
	}
	return m.adapter.Prepare(ctx, m.Session, m.c, need)
}

// free gives back what the case took of the device.
func (m *run) free() (err error) {
	for _, b := range m.buffers {
		err = errors.Join(err, m.device.Free(b))
	}
	for _, e := range []accel.Event{m.start, m.end} {
		if e != nil {
			err = errors.Join(err, e.Close())
		}
	}
	return err
}

// bringUp conditions each rung and judges it for the first time.
func (m *run) bringUp() error {
	if err := m.fault.enter(rank.FaultAtStart); err != nil {
		return err
	}
	for _, p := range m.points {
		if err := m.bind(p); err != nil {
			return err
		}
		for range conditioning {
			if _, _, err := m.pair(); err != nil {
				return err
			}
		}
		digest := p.trace.Digest()
		if err := m.Emit(kindPoint, pointRecord{p.TokensPerRank, hex.EncodeToString(digest[:])}); err != nil {
			return err
		}
		if err := m.judge(p, whenBefore); err != nil {
			return err
		}
	}
	return nil
}

func (m *run) measureFresh() error {
	if err := m.fault.enter(faultAtTimed); err != nil {
		return err
	}
	components := []string{compRoundtrip, compDispatch, compCombine}
	if m.d.StageWorks {
		components = append(components, compStage)
	}
	for trial := range m.c.Timing.TrialsPerPoint {
		for _, p := range measure.Rotate(m.points, trial) {
			for _, component := range measure.Rotate(components, trial) {
				us, err := m.fresh(p, component)
				if err != nil {
					return fmt.Errorf("rung %d, trial %d, %s: %w", p.TokensPerRank, trial, component, err)
				}
				if err := m.Emit(kindFresh, freshRecord{trial, p.TokensPerRank, component, us}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (m *run) measureChains() error {
	trials := m.c.Timing.ChainTrialsPerPoint
	for trial := range trials {
		for _, p := range measure.Rotate(m.points, trial) {
			record, err := m.chains(p, trial)
			if err != nil {
				return fmt.Errorf("rung %d, chain trial %d: %w", p.TokensPerRank, trial, err)
			}
			if err := m.Emit(kindChain, record); err != nil {
				return err
			}
			if trial < trials-1 {
				continue
			}
			if err := m.judge(p, whenPostChain); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *run) judgeAfter() error {
	for _, p := range m.points {
		if err := m.judge(p, whenAfter); err != nil {
			return err
		}
	}
	return nil
}

// judge runs the full oracle on a rung and compares the inputs with what they
// were made as: after the first oracle, before the last.
func (m *run) judge(p *point, when string) error {
	changed := false
	compare := func(at string) (err error) {
		if at == when {
			changed, err = m.inputsChanged(p)
		}
		return err
	}
	if err := compare(whenAfter); err != nil {
		return err
	}
	v, err := m.oracle(p)
	if err != nil {
		return fmt.Errorf("rung %d, oracle %s: %w", p.TokensPerRank, when, err)
	}
	if err := compare(whenBefore); err != nil {
		return err
	}
	v.require(CheckInputs, !changed)
	return m.Emit(kindVerdict, verdictRecord{p.TokensPerRank, when, v})
}

// oracle dispatches, judges what arrived, sends back what the experts make of
// it and judges what combine returns. Where a row tells no source, the pair is
// still completed, so that no peer waits for ever.
func (m *run) oracle(p *point) (v Verdict, err error) {
	if err := m.bind(p); err != nil {
		return v, err
	}
	h, err := m.adapter.Dispatch()
	if err != nil {
		return v, err
	}
	if err := m.device.Synchronize(); err != nil {
		return v, err
	}
	received, err := m.adapter.Inspect(h)
	if err != nil {
		return v, err
	}
	messages, v := p.oracle.received(received)
	var staged Staged
	if messages == nil {
		staged, err = m.adapter.Stage(h)
	} else {
		staged, err = m.adapter.StageRows(h, messages)
	}
	if err != nil {
		return v, err
	}
	out, err := m.adapter.Combine(h, staged)
	if err != nil {
		return v, err
	}
	if err := m.device.Synchronize(); err != nil || messages == nil {
		return v, err
	}
	values, err := m.output(p, out)
	if err != nil {
		return v, err
	}
	p.oracle.combinedValues(&v, values)
	return v, nil
}
