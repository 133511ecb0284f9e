package ep

import (
	"errors"
	"runtime/debug"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// bind makes p the problem and forgets the cached layout of another.
func (m *run) bind(p *point) error {
	m.cached = nil
	return m.adapter.Bind(p.Problem)
}

// dispatch is the dispatch of the case's contract. Under the cached-layout
// contract the first one after a bind, which is never timed, makes the layout.
func (m *run) dispatch() (Handle, error) {
	if m.cached != nil {
		return m.adapter.(CachedDispatcher).DispatchCached(m.cached)
	}
	h, err := m.adapter.Dispatch()
	if m.c.Contract == vocab.ContractCachedLayout {
		m.cached = h
	}
	return h, err
}

// inspected is an untimed dispatch, synchronised, with what it delivered.
func (m *run) inspected() (Handle, *Received, error) {
	h, err := m.dispatch()
	if err != nil {
		return nil, nil, err
	}
	if err := m.device.Synchronize(); err != nil {
		return nil, nil, err
	}
	received, err := m.adapter.Inspect(h)
	return h, received, err
}

// pair is a whole untimed dispatch, stage and combine, synchronised.
func (m *run) pair() (staged Staged, out accel.Ptr, err error) {
	h, err := m.dispatch()
	if err != nil {
		return nil, 0, err
	}
	if staged, err = m.adapter.Stage(h); err != nil {
		return nil, 0, err
	}
	if out, err = m.adapter.Combine(h, staged); err != nil {
		return nil, 0, err
	}
	return staged, out, m.device.Synchronize()
}

// warmUp binds p and runs the warm-up pairs, each synchronised. Where staging
// is hoisted they reuse what the first staged, unless each has to stage.
func (m *run) warmUp(p *point, stageEach bool) error {
	if err := m.bind(p); err != nil {
		return err
	}
	staged, _, err := m.pair()
	for i := 1; i < m.c.EP().Timing.WarmupItersPerTrial && err == nil; i++ {
		if stageEach || !m.d.Hoisted() {
			_, _, err = m.pair()
			continue
		}
		var h Handle
		if h, err = m.dispatch(); err != nil {
			break
		}
		if _, err = m.adapter.Combine(h, staged); err != nil {
			break
		}
		err = m.device.Synchronize()
	}
	return err
}

// window is one kind of fresh-entry sample. Only op is between the events; a
// nil pre or post does nothing.
type window struct{ pre, op, post func() error }

// inOrder returns a function that does all of steps.
func inOrder(steps ...func() error) func() error {
	return func() error {
		for _, step := range steps {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	}
}

// window returns the window of a component, after the untimed work that it
// does once for all its samples.
func (m *run) window(component string) (w window, err error) {
	m.left = remains{}
	left := &m.left
	dispatch := func() (err error) {
		left.combined = false
		left.handle, err = m.dispatch()
		return err
	}
	stage := func() (err error) {
		left.staged, err = m.adapter.Stage(left.handle)
		return err
	}
	combine := func() (err error) {
		left.combined = true
		left.out, err = m.adapter.Combine(left.handle, left.staged)
		return err
	}
	switch {
	case component == compRoundtrip && m.d.Hoisted():
		w.op = inOrder(dispatch, combine)
		left.staged, _, err = m.pair()
	case component == compRoundtrip:
		w.op = inOrder(dispatch, stage, combine)
	case component == compDispatch:
		w.op = dispatch
		if m.d.FreshPair {
			w.post = inOrder(stage, combine)
		}
	case component == compCombine:
		w.op = combine
		if m.d.FreshPair {
			w.pre = inOrder(dispatch, stage)
		} else {
			err = inOrder(dispatch, stage, m.device.Synchronize)()
		}
	case component == compStage:
		w.pre, w.op = dispatch, stage
		if m.d.FreshPair {
			w.post = combine
		}
	}
	return w, err
}

// fresh takes the samples of one component of one rung in one trial.
func (m *run) fresh(p *point, component string) ([]float64, error) {
	if err := m.warmUp(p, component == compStage); err != nil {
		return nil, err
	}
	w, err := m.window(component)
	if err != nil {
		return nil, err
	}
	us := make([]float64, m.c.EP().Timing.ItersPerTrial)
	err = quietly(func() (err error) {
		for i := range us {
			if us[i], err = m.sample(w); err != nil {
				return err
			}
		}
		return nil
	})
	return us, err
}

// sample takes one sample. Nothing synchronises between pre and the start
// event: the stream's order keeps pre out of the window already, and a
// synchronise would put the launch of op into it and pull the ranks apart.
func (m *run) sample(w window) (us float64, err error) {
	if w.pre != nil {
		if err := w.pre(); err != nil {
			return 0, err
		}
	}
	if err := m.stream.Record(m.start); err != nil {
		return 0, err
	}
	if err := w.op(); err != nil {
		return 0, err
	}
	if err := m.stream.Record(m.end); err != nil {
		return 0, err
	}
	if err := m.device.Synchronize(); err != nil {
		return 0, err
	}
	if us, err = m.device.Elapsed(m.start, m.end); err != nil {
		return 0, err
	}
	if w.post != nil {
		if err := w.post(); err != nil {
			return 0, err
		}
		return us, m.device.Synchronize()
	}
	return us, nil
}

// quietly runs f without garbage collection.
func quietly(f func() error) error {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	return f()
}

// chainEnd is what the second chain of a rung left.
type chainEnd struct {
	out []uint16 // of its last pair
	// received is what one more, untimed dispatch right after the last pair delivered.
	// What the timed pairs delivered cannot be read without a wait in the chain.
	received *Received
}

// chains runs the two sibling chains of one rung and one drained pair. They
// are separate because events around each op lengthen the pair by their host
// time.
func (m *run) chains(p *point, trial int) (r chainRecord, end chainEnd, err error) {
	r = chainRecord{Trial: trial, TokensPerRank: p.TokensPerRank}
	if err := m.warmUp(p, false); err != nil {
		return r, end, err
	}
	var staged Staged
	if m.d.Hoisted() {
		if staged, _, err = m.pair(); err != nil {
			return r, end, err
		}
	}
	n := m.c.EP().Timing.ChainItersPerTrial
	events, err := m.newEvents(6, n)
	if err != nil {
		return r, end, err
	}
	defer func() { err = errors.Join(err, events.close()) }()
	dispatched, combined, paired := events[0:2], events[2:4], events[4:6]

	m.fault.enter(faultAtChain)
	if err := quietly(func() error { return m.floorsChain(n, staged, dispatched, combined) }); err != nil {
		return r, end, err
	}
	var out accel.Ptr
	var next Handle
	if err := quietly(func() (err error) {
		out, next, err = m.periodChain(n, staged, paired)
		return err
	}); err != nil {
		return r, end, err
	}
	if end.out, err = m.output(p, out); err != nil {
		return r, end, err
	}
	if end.received, err = m.adapter.Inspect(next); err != nil {
		return r, end, err
	}
	if staged, err = m.adapter.Stage(next); err != nil {
		return r, end, err
	}
	if _, err = m.adapter.Combine(next, staged); err != nil {
		return r, end, err
	}
	if err = m.device.Synchronize(); err != nil {
		return r, end, err
	}
	m.fault.leave(faultAtChain)
	_, out, err = m.pair()
	if err != nil {
		return r, end, err
	}
	if !m.d.Hoisted() {
		drained, err := m.output(p, out)
		if err != nil {
			return r, end, err
		}
		worst := compareOutputs(end.out, drained)
		passed := within(worst)
		r.OutputPassed, r.OutputError = &passed, finite(worst)
	}

	kept := m.c.EP().Timing.ChainDrop
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
			return r, end, err
		}
	}
	return r, end, nil
}

// floorsChain issues n pairs back to back with events around each op.
func (m *run) floorsChain(n int, staged Staged, dispatched, combined eventArrays) error {
	for i := range n {
		if err := m.stream.Record(dispatched[0][i]); err != nil {
			return err
		}
		h, err := m.dispatch()
		if err != nil {
			return err
		}
		if err := m.stream.Record(dispatched[1][i]); err != nil {
			return err
		}
		if !m.d.Hoisted() {
			if staged, err = m.adapter.Stage(h); err != nil {
				return err
			}
		}
		if err := m.stream.Record(combined[0][i]); err != nil {
			return err
		}
		if _, err := m.adapter.Combine(h, staged); err != nil {
			return err
		}
		if err := m.stream.Record(combined[1][i]); err != nil {
			return err
		}
	}
	return m.device.Synchronize()
}

// periodChain issues n pairs back to back with events around each pair alone, and
// one more dispatch after them. It returns the output of the last pair and the handle of
// that dispatch.
func (m *run) periodChain(n int, staged Staged, paired eventArrays) (out accel.Ptr, next Handle, err error) {
	for i := range n {
		if err := m.stream.Record(paired[0][i]); err != nil {
			return 0, nil, err
		}
		h, err := m.dispatch()
		if err != nil {
			return 0, nil, err
		}
		if !m.d.Hoisted() {
			if staged, err = m.adapter.Stage(h); err != nil {
				return 0, nil, err
			}
		}
		if out, err = m.adapter.Combine(h, staged); err != nil {
			return 0, nil, err
		}
		if err := m.stream.Record(paired[1][i]); err != nil {
			return 0, nil, err
		}
	}
	if next, err = m.dispatch(); err != nil {
		return 0, nil, err
	}
	return out, next, m.device.Synchronize()
}

// eventArrays are events by array and iteration.
type eventArrays [][]accel.Event

func (m *run) newEvents(arrays, n int) (eventArrays, error) {
	events := make(eventArrays, arrays)
	for a := range events {
		for range n {
			e, err := m.device.NewEvent()
			if err != nil {
				return nil, errors.Join(err, events.close())
			}
			events[a] = append(events[a], e)
		}
	}
	return events, nil
}

func (a eventArrays) close() (err error) {
	for _, events := range a {
		for _, e := range events {
			err = errors.Join(err, e.Close())
		}
	}
	return err
}

// elapsed returns the microseconds from each event of from to that of to.
func (m *run) elapsed(from, to []accel.Event) (us []float64, err error) {
	us = make([]float64, len(from))
	for i := range us {
		if us[i], err = m.device.Elapsed(from[i], to[i]); err != nil {
			return nil, err
		}
	}
	return us, nil
}
