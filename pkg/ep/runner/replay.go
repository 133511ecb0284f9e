package runner

import (
	"errors"
	"slices"
	"time"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/rank"
)

// In timing mode vocab.Graph the operations are captured into graphs whose launches are timed.
// Every graph begins with Capturer.Align, so that the ranks enter its first operation together.
// Times come from events inside the graph.
//
// A launch that does nothing leaves the results of the previous one. Before a judged launch, all
// of its output memory is therefore overwritten with NaN. This cannot overwrite data of a faster
// peer: the peer's Align does not end before this rank's launch has begun.

// Capturer is an Adapter whose dispatch, stage and combine can be captured into a graph where its
// Description says so. A captured operation reads the memory of the bound problem at each launch.
type Capturer interface {
	Adapter
	// Align enqueues an operation that ends on each rank only after it has begun on all.
	Align() error
}

// CaptureObserver is a Capturer that must learn when a capture begins and ends, for example because its
// library allocates memory meanwhile, which must last as long as the graph.
type CaptureObserver interface {
	Capturer
	// Capturing is called before a capture begins and after it has ended.
	Capturing(begins bool) error
}

// graphSuffix ends the kernel generation of replayed operations.
const graphSuffix = "-cudagraph"

// replaying switches the case to replayed graphs, or refuses it.
func (m *run) replaying() error {
	if _, ok := m.adapter.(Capturer); !ok || !m.d.Capturable {
		return rank.Refused("backend %s cannot be captured into graphs in mode %s", m.c.Backend, m.d.Mode)
	}
	err := m.stream.BeginCapture()
	if err == nil {
		err = m.stream.RecordExternal(m.start)
		g, ended := m.stream.EndCapture()
		if ended == nil {
			ended = g.Close()
		}
		err = errors.Join(err, ended)
	}
	if errors.Is(err, accel.ErrUnsupported) {
		return rank.Refused("this device does not support events inside graphs, which timing mode graph needs: %w", err)
	}
	m.d.Replayed = true
	m.d.KernelGeneration += graphSuffix
	return err
}

// captured returns a graph of an Align followed by the work.
func (m *run) captured(work func() error) (accel.Graph, error) {
	o, observes := m.adapter.(CaptureObserver)
	if !observes {
		return m.capture(work)
	}
	if err := o.Capturing(true); err != nil {
		return nil, err
	}
	g, err := m.capture(work)
	if ended := o.Capturing(false); ended != nil && err == nil {
		return nil, errors.Join(ended, g.Close())
	}
	return g, err
}

func (m *run) capture(work func() error) (accel.Graph, error) {
	if err := m.stream.BeginCapture(); err != nil {
		return nil, err
	}
	failed := steps{m.adapter.(Capturer).Align, work}.do()
	g, err := m.stream.EndCapture()
	if failed == nil {
		return g, err
	}
	if err == nil { // a failed capture reports only its own error
		failed = errors.Join(failed, g.Close())
	}
	return nil, failed
}

// markInside records an event at each launch of the graph being captured.
func (m *run) markInside(e accel.Event) func() error {
	return func() error { return m.stream.RecordExternal(e) }
}

// replay launches a graph and waits for it.
func (m *run) replay(g accel.Graph) error {
	if !m.fault.skipsReplay() {
		if err := g.Launch(m.stream); err != nil {
			return err
		}
	}
	return m.device.Synchronize()
}

// replayPair returns a pair to capture, with marks around the operations of a component.
func (m *run) replayPair(component string) steps {
	none := func() error { return nil }
	var dispatched, combined [2]func() error
	for i := range 2 {
		dispatched[i], combined[i] = none, none
	}
	from, to := m.markInside(m.start), m.markInside(m.end)
	switch component {
	case compRoundtrip:
		dispatched[0], combined[1] = from, to
	case compDispatch:
		dispatched[0], dispatched[1] = from, to
	case compCombine:
		combined[0], combined[1] = from, to
	}
	all := steps{dispatched[0], m.dispatch, dispatched[1], m.stage, combined[0], m.combine, combined[1]}
	if m.d.Hoisted() {
		all = slices.Delete(all, 3, 4)
	}
	return all
}

// replayWindow takes the samples of one component of one rung in one trial, and in the last trial
// judges launches after them.
func (m *run) replayWindow(p *point, component string, trial rank.Trial) (err error) {
	if err := errors.Join(m.renew(p), m.warmUp(p, false)); err != nil {
		return err
	}
	t, at := m.newTurn(p), m.drawSample(component)
	m.left = remains{}
	if m.d.Hoisted() {
		if err := m.hoist(p); err != nil {
			return err
		}
	}
	g, err := m.captured(m.replayPair(component).do)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	for range m.block.Timing.WarmupItersPerTrial {
		m.came = time.Now()
		if err := m.replay(g); err != nil {
			return err
		}
	}
	us := make([]float64, m.block.Timing.ItersPerTrial)
	m.entry = m.enter()
	err = withoutGC(func() (err error) {
		for i := range us {
			m.fault.sample(i == len(us)-1)
			if err = t.load(i); err == nil {
				err = m.replay(g)
			}
			if err == nil {
				us[i], err = m.device.Elapsed(m.start, m.end)
			}
			if err == nil && i == at {
				err = m.judgeTimed(p, component, func() (Verdict, error) { return m.judgeLeft(p.now(), p.now()) }, nil)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.endWindow(p, component, trial, us, func() error { return m.judgeReplays(p, afterWindow(component), g) })
}

// judgeReplays judges another launch, and one with other inputs in the same memory.
func (m *run) judgeReplays(p *point, when string, g accel.Graph) error {
	if err := m.judgeReplay(p, when, g, p.now()); err != nil {
		return err
	}
	if err := m.send(p, p.changed); err != nil {
		return err
	}
	if err := m.judgeReplay(p, changed(when), g, &p.changed); err != nil {
		return err
	}
	return m.send(p, p.oracle)
}

// judgeReplay judges a launch with the inputs of o: what arrived and the result of combine.
func (m *run) judgeReplay(p *point, when string, g accel.Graph, o *oracle) error {
	if err := m.replayOverNaN(p, g); err != nil {
		return err
	}
	v, err := m.judgeLeft(o, o)
	if err != nil {
		return err
	}
	return m.emitVerdict(p, when, v)
}

// replayOverNaN overwrites the previous results, replays the graph, and records whether the whole
// output was written again.
func (m *run) replayOverNaN(p *point, g accel.Graph) error {
	if err := m.overwrite(p); err != nil {
		return err
	}
	if err := m.replay(g); err != nil {
		return err
	}
	out, err := accel.Read[uint16](m.device, m.stream, m.left.out, p.oracle.values())
	if err != nil {
		return err
	}
	const exponent = 0x7f80
	if slices.ContainsFunc(out, func(b uint16) bool { return b&exponent == exponent }) {
		p.notRewritten = true
	}
	return nil
}

// overwrite fills the received rows and the last output with 0xff bytes, which are NaN in bf16 and
// float32.
func (m *run) overwrite(p *point) error {
	received, err := m.adapter.Inspect(m.left.handle)
	if err != nil {
		return err
	}
	ones := func(at accel.Ptr, rows int, bytes, stride int64) error {
		if rows == 0 || bytes == 0 {
			return nil
		}
		if bytes == stride {
			rows, bytes = 1, bytes*int64(rows)
		}
		for i := range int64(rows) {
			if err := m.device.Set(m.stream, at.Add(i*stride), 0xff, bytes); err != nil {
				return err
			}
		}
		return nil
	}
	for _, r := range received.Payload {
		if err := ones(r.Values, r.Count, int64(p.Hidden*received.Codec.ValueBytes()), r.Stride); err != nil {
			return err
		}
		if n := received.Codec.Scales(p.Hidden); n > 0 {
			if err := ones(r.Scales, r.Count, int64(4*n), r.ScaleStride); err != nil {
				return err
			}
		}
	}
	return ones(m.left.out, 1, int64(2*p.oracle.values()), 0)
}

// checkReplays compares, for each rung, a replayed pair with an eager one.
func (m *run) checkReplays() error {
	if !m.d.Replayed {
		return nil
	}
	for _, p := range m.points {
		if err := m.checkReplay(p); err != nil {
			return err
		}
	}
	return nil
}

func (m *run) checkReplay(p *point) error {
	g, err := m.wholePair(p)
	if err != nil {
		return err
	}
	n := p.oracle.values()
	err = m.replay(g)
	if err == nil {
		err = m.replayOverNaN(p, g)
	}
	if err == nil && n > 0 {
		err = m.device.Copy(m.stream, m.lastOutput, m.left.out, int64(2*n))
	}
	if err = errors.Join(err, g.Close()); err != nil {
		return err
	}
	if err := m.pair(); err != nil {
		return err
	}
	worst, err := m.data.compare(m.lastOutput, m.left.out, n)
	if err != nil {
		return err
	}
	return m.Emit(kindReplay, replayRecord{p.TokensPerRank, !p.notRewritten, within(worst), finite(worst)})
}

// wholePair returns the graph of a pair including its stage, after a warm-up.
func (m *run) wholePair(p *point) (accel.Graph, error) {
	if err := m.warmUp(p, true); err != nil {
		return nil, err
	}
	return m.captured(steps{m.dispatch, m.stage, m.combine}.do)
}

// replayChain captures a chain as one graph and launches it twice. Only the second launch is
// timed, and has other inputs.
func (m *run) replayChain(p *point, chain func() error) error {
	g, err := m.captured(chain)
	if err != nil {
		return err
	}
	err = steps{func() error { return m.replay(g) }, func() error { return m.renew(p) }, func() error { return m.replayOverNaN(p, g) }}.do()
	return errors.Join(err, g.Close())
}

// alternateReplays replays one graph with alternating inputs and judges each launch.
func (m *run) alternateReplays(p *point) (v Verdict, err error) {
	v.Passed = true
	g, err := m.wholePair(p)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	sides := m.inputSides(p)
	for i := range m.block.AlternatingCalls(p.TokensPerRank) {
		s := &sides[i%2]
		if err := s.prepare(); err != nil {
			return v, err
		}
		if err := m.replay(g); err != nil {
			return v, err
		}
		received, err := m.adapter.Inspect(m.left.handle)
		if err != nil {
			return v, err
		}
		if err := s.judgeReceived(m.data, &v, received); err != nil {
			return v, err
		}
		if err := s.judgeOutput(m.data, &v, m.left.out); err != nil {
			return v, err
		}
	}
	return v, nil
}
