package runner

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// conditioning is how many untimed pairs come before a rung's first check.
const conditioning = 8

// Runner is the rank half of the family: it measures the cases of a group with one adapter on one
// device.
type Runner struct {
	device  accel.Device
	stream  accel.Stream
	adapter Adapter
	facts   rank.Facts
	data    data // nil before the first case
}

var _ rank.Runner = (*Runner)(nil)

// NewRunner returns a runner over an adapter that works on stream. The runner owns all three and
// closes them.
func NewRunner(device accel.Device, stream accel.Stream, adapter Adapter, facts rank.Facts) *Runner {
	return &Runner{device: device, stream: stream, adapter: adapter, facts: facts}
}

// Close implements rank.Runner.
func (r *Runner) Close() error {
	var err error
	if r.data != nil {
		err = r.data.close()
	}
	return errors.Join(err, r.adapter.Close(), r.stream.Close(), r.device.Close())
}

// Run implements rank.Runner. The contract fixes its order: bring up and judge all rungs, the
// fresh-entry windows, the chains, the alternating passes, judge all rungs again; last, if the case asks
// for it, combine one input repeatedly. Windows and chains
// are judged too: in each trial on an operation at a random place, and in the last one on the state
// that they left.
func (r *Runner) Run(ctx context.Context, s *rank.Session, c plan.Case) error {
	if err := checkCase(c, s.World); err != nil {
		return err
	}
	m := &run{Session: s, device: accel.NewScope(r.device), stream: r.stream, c: c, block: ep.Of(&c)}
	if err := m.prepare(ctx, r); err != nil {
		return errors.Join(err, m.device.Close())
	}
	fresh, chains := func() error { return m.measureFresh(ctx) }, func() error { return m.measureChains(ctx) }
	for _, phase := range []func() error{m.bringUp, fresh, m.checkReplays, chains, m.alternate, m.judgeAfter, m.repeatable} {
		if err := phase(); err != nil {
			return errors.Join(m.adapter.Err(), err, m.device.Close())
		}
	}
	return m.device.Close()
}

// run is one case on one rank.
type run struct {
	*rank.Session
	device  *accel.Scope // of the case
	stream  accel.Stream
	c       plan.Case
	block   *ep.Block // of the case
	d       Description
	adapter Adapter // the runner's, possibly wrapped by a fault
	data    data    // the runner's, with second opinions
	fault   *faulty // nil in normal runs
	points  []*point
	chance  *rand.Rand // the same on all ranks
	rungs   []int      // tokens per rank of the points
	cached  Handle     // dispatch whose layout later ones reuse, under the cached-layout contract
	left    remains
	start   accel.Event // of a fresh-entry window
	end     accel.Event
	came    time.Time  // when this rank began the last warm-up pair
	entry   rank.Entry // to the last fresh-entry window
	// lastOutput is a copy of what the last pair of a chain returned.
	lastOutput accel.Ptr
}

// Emit appends a record to this rank's stream, unless the operations that it reports were aborted.
func (m *run) Emit(kind string, data any) error {
	if err := m.adapter.Err(); err != nil {
		return err
	}
	return m.Session.Emit(kind, data)
}

// describe has the adapter declare the case, and begins the faults of the session.
func (m *run) describe(adapter Adapter) (err error) {
	if m.d, err = adapter.Describe(m.c); err != nil {
		return err
	}
	if err := checkDescription(m.c, m.d); err != nil {
		return err
	}
	if _, ok := adapter.(CachedDispatcher); !ok && m.c.Contract == ep.ContractCachedLayout {
		return rank.Refused("backend %s does not support timing contract cached-layout", m.c.Backend)
	}
	m.adapter = adapter
	if err := m.injectArithmetic(); err != nil {
		return err
	}
	if m.fault, err = injected(m); err != nil {
		return err
	}
	if m.fault.inAdapter() {
		m.adapter = m.fault
	}
	return nil
}

// prepare declares the case, makes the inputs of all rungs, then the adapter's buffers.
func (m *run) prepare(ctx context.Context, r *Runner) (err error) {
	if err := m.describe(r.adapter); err != nil {
		return err
	}
	routing, rungs, err := routingOf(m.c)
	if err != nil {
		return err
	}
	if limit := m.block.LadderCap; limit != nil && (m.d.LadderCap == 0 || *limit < m.d.LadderCap) {
		m.d.LadderCap = *limit
	}
	measured, dropped := clamp(routing, rungs, m.d.LadderCap)
	if len(measured) == 0 {
		return rank.Refused("every rung of ladder %q exceeds the backend's maximum of %d tokens per rank", m.block.Ladder, m.d.LadderCap)
	}
	m.rungs = measured
	if m.start, err = m.device.NewEvent(); err != nil {
		return err
	}
	if m.end, err = m.device.NewEvent(); err != nil {
		return err
	}
	if m.block.TimingMode == vocab.Graph {
		if err := m.replaying(); err != nil {
			return err
		}
	}
	if err := m.checkMemory(routing); err != nil {
		return err
	}
	record := planRecord{
		Description: m.d, ValueBytes: m.d.Codec.ValueBytes(), ScaleBytes: 4 * m.d.Codec.Scales(m.block.Hidden),
		Measured: measured, Dropped: dropped,
	}
	if err := errors.Join(m.Emit(rank.KindFacts, r.facts), m.Emit(kindPlan, record)); err != nil {
		return err
	}
	if r.data == nil {
		if r.data, err = newData(ctx, r.device, r.stream); err != nil {
			return err
		}
	}
	m.data = forCase(r.data, m.block.TopK)
	need := Capacity{Experts: routing.Experts()}
	for _, t := range measured {
		need.Tokens = max(need.Tokens, routing.MaxRankTokens(t))
		p, err := m.newPoint(t, routing.Trace(t))
		if err != nil {
			return fmt.Errorf("rung %d: %w", t, err)
		}
		m.points = append(m.points, p)
	}
	if err = m.newInputs(); err != nil {
		return err
	}
	if m.chance, err = rank.Chance(ctx, m.Session); err != nil {
		return err
	}
	if m.lastOutput, err = m.alloc(2 * need.Tokens * m.block.Hidden); err != nil {
		return err
	}
	if err := m.adapter.Prepare(ctx, m.Session, m.c, need); err != nil {
		return err
	}
	if t, ok := r.adapter.(Tuned); ok && t.Tuning() != nil {
		return m.Emit(kindTuning, t.Tuning())
	}
	return nil
}

// bringUp runs each rung's untimed pairs and judges it for the first time.
func (m *run) bringUp() error {
	m.fault.enter(rank.FaultAtStart)
	for _, p := range m.points {
		if err := m.bind(p); err != nil {
			return err
		}
		for range conditioning {
			if err := m.pair(); err != nil {
				return err
			}
		}
		digest := p.trace.Digest()
		if err := m.Emit(kindPoint, pointRecord{p.TokensPerRank, hex.EncodeToString(digest[:])}); err != nil {
			return err
		}
		if err := m.judge(p, whenBefore, p.oracle, false); err != nil {
			return err
		}
	}
	return nil
}

func (m *run) measureFresh(ctx context.Context) error {
	m.fault.enter(faultAtTimed)
	return m.Trials(ctx, freshTrials, m.block.Timing.TrialsPerPoint, func(trial rank.Trial) error {
		for _, p := range measure.Rotate(m.points, trial.Number) {
			for _, component := range measure.Rotate(m.d.components(), trial.Number) {
				measure := m.enqueueWindow
				if m.d.Replayed {
					measure = m.replayWindow
				}
				if err := measure(p, component, trial); err != nil {
					return fmt.Errorf("rung %d, trial %d, %s: %w", p.TokensPerRank, trial.Number, component, err)
				}
			}
		}
		return nil
	})
}

// enqueueWindow takes the samples of one component of one rung in one trial, and in the last trial
// judges the state after them.
func (m *run) enqueueWindow(p *point, component string, trial rank.Trial) error {
	us, err := m.fresh(p, component, m.drawSample(component))
	if err != nil {
		return err
	}
	return m.endWindow(p, component, trial, us, func() error { return m.judgeWindow(p, component) })
}

// endWindow emits the samples of a window. In the last trial it judges the state after them and emits the
// verdict on the judged samples of all windows, which it emits again after each repetition.
func (m *run) endWindow(p *point, component string, trial rank.Trial, us []float64, judge func() error) error {
	if err := m.Emit(kindFresh, freshRecord{trial.Number, trial.Repeat, p.TokensPerRank, component, m.entry, us}); err != nil {
		return err
	}
	if trial.Repeat == 0 {
		if trial.Number < m.block.Timing.TrialsPerPoint-1 {
			return nil
		}
		if err := judge(); err != nil {
			return err
		}
	}
	return m.emitVerdict(p, timed(component), *p.verdict(component))
}

func (m *run) measureChains(ctx context.Context) error {
	trials := m.block.Timing.ChainTrialsPerPoint
	return m.Trials(ctx, chainTrials, trials, func(trial rank.Trial) error {
		for _, p := range measure.Rotate(m.points, trial.Number) {
			both := []func() error{
				func() error { return m.chainTrial(p, trial) },
				func() error { return m.stopChains(p) },
			}
			m.chance.Shuffle(2, func(i, j int) { both[i], both[j] = both[j], both[i] })
			if err := steps(both).do(); err != nil {
				return fmt.Errorf("rung %d, chain trial %d: %w", p.TokensPerRank, trial.Number, err)
			}
			if trial.Repeat == 0 && trial.Number < trials-1 {
				continue
			}
			if err := m.emitVerdict(p, timed(chain), *p.verdict(chain)); err != nil {
				return err
			}
		}
		return nil
	})
}

// chainTrial times the chains of one rung in one trial, and in the last judges the state after them.
func (m *run) chainTrial(p *point, trial rank.Trial) error {
	record, left, err := m.timeChains(p, trial)
	if err != nil {
		return err
	}
	if err := m.Emit(kindChain, record); err != nil || !m.lastChain(trial) {
		return err
	}
	return m.judgeChain(p, left)
}

// lastChain reports whether the state after the chains of a trial is judged.
func (m *run) lastChain(trial rank.Trial) bool {
	return trial.Repeat == 0 && trial.Number >= m.block.Timing.ChainTrialsPerPoint-1
}

func (m *run) judgeAfter() error {
	for _, p := range m.points {
		if err := m.bind(p); err != nil {
			return err
		}
		if err := m.pair(); err != nil {
			return err
		}
		if err := m.judge(p, whenAfter, p.oracle, false); err != nil {
			return err
		}
	}
	return nil
}
