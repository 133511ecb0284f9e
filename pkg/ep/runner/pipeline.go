package runner

import (
	"errors"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep"
)

// remains holds the results of the adapter's last calls. Each operation uses these results and adds
// its own.
type remains struct {
	handle   Handle
	staged   Staged   // nil: nothing staged since the window began
	rows     messages // the staged rows, unless StageRows wrote others
	out      accel.Ptr
	combined bool // out is the result of combining the last dispatch
}

// steps are calls made in order, until one fails.
type steps []func() error

func (s steps) do() error {
	for _, step := range s {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// bind makes p the problem, with the input that the contract names, and drops the cached layout.
func (m *run) bind(p *point) error {
	m.cached = nil
	p.Problem.choose(0)
	return m.adapter.Bind(p.Problem)
}

// dispatch dispatches under the case's contract. Under the cached-layout contract the first one
// after a bind, which is never timed, computes the layout.
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

// stage stages what the last dispatch delivered, unchanged.
func (m *run) stage() (err error) {
	m.left.rows = asReceived
	m.left.staged, err = m.adapter.Stage(m.left.handle)
	return err
}

// stageRows returns a step that stages the rows that fill writes.
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

// roundtrip returns the operations of a timed pair. With hoisted staging they reuse previously
// staged rows.
func (m *run) roundtrip() steps {
	if m.d.Hoisted() {
		return steps{m.dispatch, m.combine}
	}
	return steps{m.dispatch, m.stage, m.combine}
}

// pair runs an untimed dispatch, stage and combine, and synchronises.
func (m *run) pair() error {
	return steps{m.dispatch, m.stage, m.combine, m.device.Synchronize}.do()
}

// hoist runs the untimed pair whose staged rows later pairs reuse. A library may order the rows of
// each dispatch differently, so hoist stages equal rows for each expert or rank; the result of
// combine can then be judged.
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

// inspected runs an untimed dispatch, synchronises, and returns what was delivered.
func (m *run) inspected() (*Received, error) {
	if err := (steps{m.dispatch, m.stream.Synchronize}).do(); err != nil {
		return nil, err
	}
	return m.adapter.Inspect(m.left.handle)
}

// settle puts the stream into the state in which all windows begin, by a copy to the device. After
// a copy to the host, as judging makes, a low-latency pair of DeepEP takes 6 µs longer on an H200,
// also from its own Python interface, until the next copy to the device
// (studies/results/variants.csv).
func (m *run) settle() error {
	return accel.Write(m.device, m.stream, m.lastOutput, make([]byte, 4))
}

// warmUp binds p and runs the warm-up pairs, each synchronised. With hoisted staging they reuse
// the rows staged by the first pair, unless stageEach.
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

// withoutGC runs f with the garbage collector off.
func withoutGC(f func() error) error {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	return f()
}

// withGC runs f with the garbage collector on and then collects, for callers that turned it off.
func withGC(f func() error) error {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	defer runtime.GC()
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

// elapsed returns the microseconds between corresponding events.
func (m *run) elapsed(from, to []accel.Event) (us []float64, err error) {
	us = make([]float64, len(from))
	for i := range us {
		if us[i], err = m.device.Elapsed(from[i], to[i]); err != nil {
			return nil, err
		}
	}
	return us, nil
}
