package runner

import (
	"errors"
	"runtime/debug"
	"time"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep"
)

// remains is what the last calls of the adapter's operations left: each operation
// works on what the ones before it left, and leaves its own result.
type remains struct {
	handle   Handle
	staged   Staged   // nil: nothing was staged since the window began
	rows     messages // that are staged, unless StageRows wrote others
	out      accel.Ptr
	combined bool // out is the combine of the last dispatch
}

// steps are calls that are made in order, until one fails.
type steps []func() error

func (s steps) do() error {
	for _, step := range s {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// bind makes p the problem and forgets the cached layout of another.
func (m *run) bind(p *point) error {
	m.cached = nil
	return m.adapter.Bind(p.Problem)
}

// dispatch is the dispatch of the case's contract. Under the cached-layout
// contract the first one after a bind, which is never timed, makes the layout.
func (m *run) dispatch() (err error) {
	m.left.combined = false
	if m.cached != nil {
		m.left.handle, err = m.adapter.(CachedDispatcher).DispatchCached(m.cached)
		return err
	}
	m.left.handle, err = m.adapter.Dispatch()
	if m.c.Contract == ep.ContractCachedLayout {
		m.cached = m.left.handle
	}
	return err
}

// stage stages what the last dispatch delivered, each row as it is.
func (m *run) stage() (err error) {
	m.left.rows = asReceived
	m.left.staged, err = m.adapter.Stage(m.left.handle)
	return err
}

// stageRows is a stage of the rows that fill writes instead.
func (m *run) stageRows(fill func(to []Rows) error) func() error {
	return func() (err error) {
		m.left.staged, err = m.adapter.StageRows(m.left.handle, fill)
		return err
	}
}

// combine combines what is staged for the last dispatch.
func (m *run) combine() (err error) {
	m.left.combined = true
	m.left.out, err = m.adapter.Combine(m.left.handle, m.left.staged)
	return err
}

// roundtrip is the operations of a timed pair. Where staging is hoisted they
// reuse what was staged before.
func (m *run) roundtrip() steps {
	if m.d.Hoisted() {
		return steps{m.dispatch, m.combine}
	}
	return steps{m.dispatch, m.stage, m.combine}
}

// pair is a whole untimed dispatch, stage and combine, synchronised.
func (m *run) pair() error {
	return steps{m.dispatch, m.stage, m.combine, m.device.Synchronize}.do()
}

// hoist is the untimed pair whose staged rows the pairs behind it reuse. A library may
// place the rows of each dispatch in another order, so that the rows it stages are the same
// in every place where an expert's, or a rank's, may stand: what combine returns of them
// can be judged.
func (m *run) hoist(p *point) error {
	received, err := m.inspected()
	if err != nil {
		return err
	}
	o := &p.oracle
	stage := m.stageRows(m.transform(o, received, o.constants(received)))
	err = steps{stage, m.combine, m.device.Synchronize, m.settle}.do()
	m.left.rows = constant
	return err
}

// inspected is an untimed dispatch, synchronised; it returns what was delivered.
func (m *run) inspected() (*Received, error) {
	if err := (steps{m.dispatch, m.stream.Synchronize}).do(); err != nil {
		return nil, err
	}
	return m.adapter.Inspect(m.left.handle)
}

// settle brings the stream into the state in which all windows begin, by a copy to the
// device. After a copy to the host, as judgements make them, a low-latency pair of DeepEP
// takes 6 µs more on an H200, in its own Python too, until the next copy to the device
// (studies/results/variants.csv).
func (m *run) settle() error {
	return accel.Write(m.device, m.stream, m.lastOutput, make([]byte, 4))
}

// warmUp binds p and runs the warm-up pairs, each synchronised. Where staging
// is hoisted they reuse what the first staged, unless each has to stage.
func (m *run) warmUp(p *point, stageEach bool) error {
	if err := errors.Join(m.bind(p), m.settle()); err != nil {
		return err
	}
	again := append(m.roundtrip(), m.device.Synchronize)
	if stageEach {
		again = steps{m.pair}
	}
	m.came = time.Now()
	err := m.pair()
	for i := 1; i < m.block.Timing.WarmupItersPerTrial && err == nil; i++ {
		m.came = time.Now()
		err = again.do()
	}
	return err
}

// quietly runs f without garbage collection.
func quietly(f func() error) error {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	return f()
}

// newEvents returns n events of a scope.
func newEvents(d *accel.Scope, n int) (events []accel.Event, err error) {
	for len(events) < n && err == nil {
		var e accel.Event
		e, err = d.NewEvent()
		events = append(events, e)
	}
	return events, err
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
