package runner

import (
	"errors"
	"slices"
	"time"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/rank"
)

// window is one kind of fresh-entry sample. Only op is between the events.
type window struct{ pre, op, post steps }

// window returns the window of a component, after the untimed work needed once for all its
// samples.
func (m *run) window(p *point, component string) (w window, err error) {
	m.left = remains{}
	switch component {
	case compRoundtrip:
		w.op = m.roundtrip()
		if m.d.Hoisted() {
			err = m.hoist(p)
		}
	case compDispatch:
		w.op = steps{m.dispatch}
		if m.d.FreshPair {
			w.post = steps{m.stage, m.combine, m.device.Synchronize}
		}
	case compCombine:
		w.op = steps{m.combine}
		if m.d.FreshPair {
			w.pre = steps{m.dispatch, m.stage}
		} else {
			err = steps{m.dispatch, m.stage, m.device.Synchronize}.do()
		}
	case compStage:
		w.pre, w.op = steps{m.dispatch}, steps{m.stage}
		if m.d.FreshPair {
			w.post = steps{m.combine, m.device.Synchronize}
		}
	}
	return w, err
}

// mark records an event.
func (m *run) mark(e accel.Event) func() error {
	return func() error { return m.stream.Record(e) }
}

// fresh takes the samples of one component of one rung in one trial, and judges the sample with
// index at. Nothing synchronises between pre and the start event: stream order already excludes pre
// from the window, and a synchronise would include the launch of op and spread the ranks apart. So
// would garbage collection between the warm-up and the first sample.
func (m *run) fresh(p *point, component string, at int) (us []float64, err error) {
	if err := m.renew(p); err != nil {
		return nil, err
	}
	err = withoutGC(func() error {
		us, err = m.samples(p, component, at)
		return err
	})
	return us, err
}

func (m *run) samples(p *point, component string, at int) ([]float64, error) {
	if err := m.warmUp(p, component == compStage); err != nil {
		return nil, err
	}
	t := m.newTurn(p)
	if err := t.choose(0); err != nil {
		return nil, err
	}
	w, err := m.window(p, component)
	if err != nil {
		return nil, err
	}
	before := t.choose
	if m.d.repeats(component) { // all samples combine one dispatch
		before = func(i int) error { return m.spoil(p, i == at) }
	}
	sample := slices.Concat(w.pre, steps{m.mark(m.start)}, w.op, steps{m.mark(m.end), m.device.Synchronize})
	us := make([]float64, m.block.Timing.ItersPerTrial)
	m.entry = m.enter()
	for i := range us {
		m.fault.sample(i == len(us)-1)
		if err := before(i); err != nil {
			return us, err
		}
		if err := sample.do(); err != nil {
			return us, err
		}
		if us[i], err = m.device.Elapsed(m.start, m.end); err != nil {
			return us, err
		}
		after := w.post.do
		if i == at {
			after = func() error { return m.judgeSample(p, component, t, i) }
		}
		if err := after(); err != nil {
			return us, err
		}
	}
	return us, nil
}

// judgeSample judges the state after sample i. After a roundtrip, it also dispatches the next input and
// judges what that delivers. It completes the pair.
func (m *run) judgeSample(p *point, component string, t turn, i int) error {
	meet := steps{m.pair}
	switch {
	case component == compRoundtrip:
		meet = append(m.roundtrip(), m.device.Synchronize)
	case component == compDispatch:
		m.left.staged = nil // of the sample before
	case m.d.repeats(component):
		meet = steps{m.combine, m.device.Synchronize}
	}
	return m.judgeTimed(p, component, func() (v Verdict, err error) {
		if v, err = m.judgeRemains(p); err != nil || component != compRoundtrip {
			return v, err
		}
		if err := (steps{func() error { return t.choose(i + 1) }, m.dispatch, m.stream.Synchronize}).do(); err != nil {
			return v, err
		}
		delivered, err := m.judgeDelivered(p.now())
		v.add(delivered)
		return v, errors.Join(err, append(m.roundtrip()[1:], m.device.Synchronize).do())
	}, meet)
}

// spoil overwrites the output of the last combine with NaN, so that the next one cannot leave it.
func (m *run) spoil(p *point, now bool) error {
	n := p.oracle.values()
	if !now || n == 0 || m.left.out == 0 {
		return nil
	}
	return errors.Join(m.device.Set(m.stream, m.left.out, 0xff, int64(2*n)), m.device.Synchronize())
}

// enter returns how this rank enters a window. Ranks of several nodes have met in the last warm-up
// pair: a rank needs the counts of all ranks to end a dispatch, except with a cached layout.
func (m *run) enter() rank.Entry {
	if m.c.Nodes == 1 || m.c.Contract == ep.ContractCachedLayout {
		return rank.Enter(time.Time{})
	}
	return rank.Enter(m.came)
}

// chains are the two sibling chains of one rung. Each issues its pairs back to back. The first, of
// floors, has events around each op. The second, of periods, has events only around each pair,
// because events around each op lengthen the pair by their host time. A replayed chain is one graph
// of all its pairs. Both have n pairs, unless they stop at a random one to be judged there.
type chains struct {
	*run
	p                            *point
	n                            int
	scope                        *accel.Scope
	dispatched, combined, paired [][]accel.Event
	turn                         turn      // of the last chain
	length                       int       // of the last chain
	i                            int       // index of the pair
	enqueue                      float64   // host time of a pair of the last chain, in microseconds
	began                        time.Time // when the last chain began
}

// newChains binds p, runs the warm-up, and stages the rows that hoisted pairs reuse.
func (m *run) newChains(p *point) (c *chains, err error) {
	if err := errors.Join(m.renew(p), m.warmUp(p, false)); err != nil {
		return nil, err
	}
	if m.d.Hoisted() {
		if err := m.hoist(p); err != nil {
			return nil, err
		}
	}
	c = &chains{run: m, p: p, n: m.block.Timing.ChainItersPerTrial, scope: accel.NewScope(m.device.Device)}
	all, err := newEvents(c.scope, 6*c.n)
	if err != nil {
		return nil, errors.Join(err, c.scope.Close())
	}
	events := slices.Collect(slices.Chunk(all, c.n))
	c.dispatched, c.combined, c.paired = events[0:2], events[2:4], events[4:6]
	return c, nil
}

// mark records the event of the current pair.
func (c *chains) mark(events []accel.Event) func() error {
	record := c.stream.Record
	if c.d.Replayed {
		record = c.stream.RecordExternal
	}
	return func() error { return record(events[c.i]) }
}

// until runs the chains and stops after stop of their 2n pairs.
func (c *chains) until(stop int) error {
	var stage steps
	if !c.d.Hoisted() {
		stage = steps{c.stage}
	}
	c.fault.enter(faultAtChain)
	floors := slices.Concat(
		steps{c.mark(c.dispatched[0]), c.dispatch, c.mark(c.dispatched[1])}, stage,
		steps{c.mark(c.combined[0]), c.combine, c.mark(c.combined[1])})
	if err := c.chain(floors, min(stop, c.n), stop <= c.n); err != nil || stop <= c.n {
		return err
	}
	if err := errors.Join(c.renew(c.p), c.settle()); err != nil {
		return err
	}
	period := slices.Concat(steps{c.mark(c.paired[0])}, c.roundtrip(), steps{c.mark(c.paired[1])})
	return c.chain(period, stop-c.n, true)
}

// chain runs n pairs. If no chain follows, it then dispatches the next input, whose delivery is judged:
// to inspect the delivery of a timed pair, the chain would have to wait. A replayed chain is one
// launch, and its last delivery is still in memory.
func (c *chains) chain(pair steps, n int, last bool) error {
	c.turn, c.length, c.began = c.newTurn(c.p), n, time.Now()
	next := func() error { return c.turn.choose(c.i) }
	pair = append(steps{next}, pair...)
	pairs := func() error {
		began := time.Now()
		for c.i = range n {
			if err := pair.do(); err != nil {
				return err
			}
		}
		c.i = n
		c.enqueue = float64(time.Since(began)) / float64(n) / float64(time.Microsecond)
		return nil
	}
	if c.d.Replayed {
		c.p.notRewritten = false // of graphs that are reported
		err := c.replayChain(c.p, pairs)
		c.p.verdict(chain).require(CheckCombine, !c.p.notRewritten)
		return err
	}
	end := steps{c.device.Synchronize}
	if last {
		end = steps{next, c.dispatch, c.device.Synchronize}
	}
	return withoutGC(append(steps{pairs}, end...).do)
}

// last returns the input of the last pair.
func (c *chains) last() int { return c.turn.input(c.length - 1) }

// judge judges what the last pair and the dispatch behind it left.
func (c *chains) judge() (Verdict, error) { return c.judgeLeft(c.p.now(), &c.p.sent[c.last()]) }

// complete completes the dispatch behind the last pair.
func (c *chains) complete() error {
	defer c.fault.leave(faultAtChain)
	if c.d.Replayed { // nothing was dispatched since the last pair
		return nil
	}
	return steps{c.stage, c.combine, c.device.Synchronize}.do()
}

// timeChains times the chains of one rung in one trial. In the last trial it returns the verdict on
// the state after the second chain.
func (m *run) timeChains(p *point, trial rank.Trial) (r chainRecord, left Verdict, err error) {
	r = chainRecord{Trial: trial.Number, Repeat: trial.Repeat, TokensPerRank: p.TokensPerRank}
	c, err := m.newChains(p)
	if err != nil {
		return r, left, err
	}
	defer func() { err = errors.Join(err, c.scope.Close()) }() // after the graphs that contain the events
	if err := c.until(2 * c.n); err != nil {
		return r, left, err
	}
	r.Began, r.Enqueue = c.began.UTC(), c.enqueue
	if m.lastChain(trial) {
		if left, err = c.judge(); err != nil {
			return r, left, err
		}
	}
	if err := c.end(&r); err != nil {
		return r, left, err
	}
	err = m.chainTimes(&r, c.dispatched, c.combined, c.paired)
	return r, left, err
}

// end makes the ranks meet again, and compares the last output of the chain with the output of a
// single pair with the same input.
func (c *chains) end(r *chainRecord) error {
	n := c.p.oracle.values()
	if n > 0 && !c.d.Hoisted() {
		if err := c.device.Copy(c.stream, c.lastOutput, c.left.out, int64(2*n)); err != nil {
			return err
		}
	}
	if err := (steps{c.complete, func() error { return c.choose(c.p, c.last()) }, c.pair}).do(); err != nil || c.d.Hoisted() {
		return err
	}
	worst, err := c.data.compare(c.lastOutput, c.left.out, n)
	if err != nil {
		return err
	}
	r.OutputPassed, r.OutputError = new(within(worst)), finite(worst)
	return nil
}

// stopChains runs the chains again, up to a random pair, and judges the state after it.
func (m *run) stopChains(p *point) (err error) {
	c, err := m.newChains(p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.scope.Close()) }()
	if err := c.until(1 + m.chance.IntN(2*c.n)); err != nil {
		return err
	}
	return m.judgeTimed(p, chain, c.judge, steps{c.complete, m.pair})
}

// chainTimes reads the events of the pairs that are kept.
func (m *run) chainTimes(r *chainRecord, dispatched, combined, paired [][]accel.Event) (err error) {
	kept, n := m.block.Timing.ChainDrop, m.block.Timing.ChainItersPerTrial
	for _, part := range []struct {
		us       *[]float64
		from, to []accel.Event
	}{
		{&r.Dispatch, dispatched[0][kept:], dispatched[1][kept:]},
		{&r.Combine, combined[0][kept:], combined[1][kept:]},
		{&r.Pair, paired[0][kept:], paired[1][kept:]},
		{&r.StartToStart, paired[0][kept : n-1], paired[0][kept+1:]},
	} {
		if *part.us, err = m.elapsed(part.from, part.to); err != nil {
			return err
		}
	}
	return nil
}
