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

// fresh takes the samples of one component of one rung in one trial. Nothing synchronises between
// pre and the start event: stream order already excludes pre from the window, and a synchronise
// would include the launch of op and spread the ranks apart. So would garbage collection between
// the warm-up and the first sample.
func (m *run) fresh(p *point, component string) (us []float64, err error) {
	err = withoutGC(func() error {
		us, err = m.samples(p, component)
		return err
	})
	return us, err
}

func (m *run) samples(p *point, component string) ([]float64, error) {
	if err := m.warmUp(p, component == compStage); err != nil {
		return nil, err
	}
	w, err := m.window(p, component)
	if err != nil {
		return nil, err
	}
	sample := slices.Concat(w.pre, steps{m.mark(m.start)}, w.op, steps{m.mark(m.end), m.device.Synchronize})
	us := make([]float64, m.block.Timing.ItersPerTrial)
	m.entry = m.enter()
	for i := range us {
		if err := sample.do(); err != nil {
			return us, err
		}
		if us[i], err = m.device.Elapsed(m.start, m.end); err != nil {
			return us, err
		}
		if err := w.post.do(); err != nil {
			return us, err
		}
	}
	return us, nil
}

// enter returns how this rank enters a window. Ranks of several nodes have met in the last warm-up
// pair: a rank needs the counts of all ranks to end a dispatch, except with a cached layout.
func (m *run) enter() rank.Entry {
	if m.c.Nodes == 1 || m.c.Contract == ep.ContractCachedLayout {
		return rank.Enter(time.Time{})
	}
	return rank.Enter(m.came)
}

// chains runs the two sibling chains of one rung and one drained pair. Each chain
// issues its pairs back to back. The first has events around each op. The second has
// events only around each pair, because events around each op lengthen the pair by
// their host time. A replayed chain is one graph of all its pairs. Of the last trial it returns the
// verdict on what the second chain left.
func (m *run) chains(p *point, trial int) (r chainRecord, left Verdict, err error) {
	r = chainRecord{Trial: trial, TokensPerRank: p.TokensPerRank}
	if err := m.warmUp(p, false); err != nil {
		return r, left, err
	}
	var stage steps
	if !m.d.Hoisted() {
		stage = steps{m.stage}
	} else if err := m.hoist(p); err != nil {
		return r, left, err
	}
	n := m.block.Timing.ChainItersPerTrial
	scope := accel.NewScope(m.device.Device)
	defer func() { err = errors.Join(err, scope.Close()) }() // after the graphs that contain the events
	all, err := newEvents(scope, 6*n)
	if err != nil {
		return r, left, err
	}
	events := slices.Collect(slices.Chunk(all, n))
	dispatched, combined, paired := events[0:2], events[2:4], events[4:6]

	i := 0 // index of the pair
	record, finish := m.stream.Record, steps{m.dispatch, m.device.Synchronize}
	if m.d.Replayed {
		record, finish = m.stream.RecordExternal, nil
	}
	mark := func(events []accel.Event) func() error {
		return func() error { return record(events[i]) }
	}
	chain := func(pair, last steps) error {
		pairs := func() error {
			began := time.Now()
			for i = range n {
				if err := pair.do(); err != nil {
					return err
				}
			}
			r.Enqueue = float64(time.Since(began)) / float64(n) / float64(time.Microsecond)
			return nil
		}
		if m.d.Replayed {
			return m.replayChain(p, pairs)
		}
		return withoutGC(append(steps{pairs}, last...).do)
	}
	m.fault.enter(faultAtChain)
	floors := slices.Concat(
		steps{mark(dispatched[0]), m.dispatch, mark(dispatched[1])}, stage,
		steps{mark(combined[0]), m.combine, mark(combined[1])})
	if err := chain(floors, steps{m.device.Synchronize}); err != nil {
		return r, left, err
	}
	r.Began = time.Now().UTC()
	period := slices.Concat(steps{mark(paired[0])}, m.roundtrip(), steps{mark(paired[1])})
	if err := chain(period, finish); err != nil {
		return r, left, err
	}
	if left, err = m.endChains(p, &r); err != nil {
		return r, left, err
	}
	err = m.chainTimes(&r, dispatched, combined, paired)
	return r, left, err
}

// endChains judges what the second chain left, makes the ranks meet again, and compares the last
// output of the chain with the output of a single pair.
func (m *run) endChains(p *point, r *chainRecord) (left Verdict, err error) {
	if left, err = m.judgeChainEnd(p, r.Trial); err != nil {
		return left, err
	}
	if n := p.oracle.values(); n > 0 && !m.d.Hoisted() {
		if err := m.device.Copy(m.stream, m.lastOutput, m.left.out, int64(2*n)); err != nil {
			return left, err
		}
	}
	if !m.d.Replayed { // otherwise nothing was dispatched since the last pair
		if err := (steps{m.stage, m.combine, m.device.Synchronize}).do(); err != nil {
			return left, err
		}
	}
	m.fault.leave(faultAtChain)
	if err := m.pair(); err != nil {
		return left, err
	}
	if !m.d.Hoisted() {
		worst, err := m.data.compare(m.lastOutput, m.left.out, p.oracle.values())
		if err != nil {
			return left, err
		}
		passed := within(worst)
		r.OutputPassed, r.OutputError = &passed, finite(worst)
	}
	return left, nil
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

// judgeChainEnd judges, in the last trial, the output of the last pair of a chain, and what an
// untimed dispatch right after it delivered: inspecting the timed pairs' deliveries would need a
// wait in the chain. A replayed chain is one launch; its last delivery is still in memory.
func (m *run) judgeChainEnd(p *point, trial int) (v Verdict, err error) {
	if trial < m.block.Timing.ChainTrialsPerPoint-1 {
		return v, nil
	}
	return m.judgeLeft(&p.oracle)
}
