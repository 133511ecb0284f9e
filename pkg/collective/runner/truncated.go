package runner

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
	"github.com/collectivex/collectivex/pkg/workload"
)

// A truncated window begins like a timed window, with the same operations on the same buffers in the same
// order. It ends after a random number of operations or graph launches. New data is written before its
// last operations, in the order of the stream, and their results are compared in full. A library that
// enqueues an operation therefore cannot know whether its result will be compared. If timed operations
// take much less time than operations with new data, their times are implausible.

const (
	// A rung has one truncated window per untimedPerTruncated operations of its untimed window, or per
	// requestedPerTruncated checks that the sampling profile requests, whichever gives more. If a library
	// does a fraction f of the operations incompletely, the probability of detection is 1 − (1−f)^windows.
	untimedPerTruncated   = 16
	requestedPerTruncated = 32

	// A time is implausible if an operation with new data takes longer than factor × time + freshSlack, in
	// µs. The factor is deviceFactor, or hostFactor where a host compares. The largest measured factors
	// are 1.11 on two H200, and 2.05 on a host with four ranks.
	deviceFactor = 2
	hostFactor   = 4
	freshSlack   = 100
	// doubts is the maximum number of times that a case repeats truncated windows of rungs with implausible
	// times. Each time it repeats this number of windows of each such rung.
	doubts  = 3
	repeats = 6

	// changedElements is the minimum size of an input that a reduction is expected to change somewhere.
	changedElements = 64
)

// minTruncated is the minimum number of truncated windows of a rung. Tests of the order of operations set
// it to 0.
var minTruncated = 1

// truncated returns the number of truncated windows of a rung. A window of one operation cannot be
// truncated, and is compared in full.
func (s spec) truncated(r rung) int {
	if m := s.block.Measure; m.Iterations == 1 && m.Launches == 1 {
		return 0
	}
	return max(minTruncated, r.untimed/untimedPerTruncated, s.checks()/requestedPerTruncated)
}

// truncated is the record of the truncated windows of a rung on one rank, with their state.
type truncated struct {
	Window  window           `json:"window"`  // the untimed window of the rung and pass
	Windows int              `json:"windows"` // windows that were checked
	Check   workload.Verdict `json:"check"`
	// Fresh is the minimum time, in µs, of an operation with new data, outside of graphs; 0 if it is unknown, or if load
	// on the machine explains it.
	Fresh float64 `json:"fresh_us,omitempty"`

	ends  []ending
	short int                  // iterations of graphs.short
	order []int                // order in which graphs are captured
	timed map[string][]float64 // samples by mode
	runs  int
	last  window // identifies the data of the last truncated window
	// fresh has the times of operations with new data, and same those of repeated windows on the data of the window
	// before.
	fresh, same []float64
}

// took records the time of an operation with new data; 0 if unknown.
func (t *truncated) took(us float64) {
	if us > 0 {
		t.fresh = append(t.fresh, us)
		t.Fresh = slices.Min(t.fresh)
	}
}

// fresh returns truncated.Fresh by rung.
func (b *bench) fresh() []float64 {
	us := make([]float64, len(b.truncated))
	for i, t := range b.truncated {
		us[i] = t.Fresh
	}
	return us
}

// ending determines the timed window beside which a truncated window runs, and where it ends.
type ending struct {
	trial      int
	after      bool // else before
	iterations int
	launches   int  // of graphs
	again      bool // the last launch uses graphs.again
	same       bool // on the data of the truncated window before
	enqueued   bool // without graphs, in a pass with graphs
}

// drawEnd draws an ending. The window is never after the last timed window, which the untimed window
// follows.
func (b *bench) drawEnd(again bool) ending {
	m := b.spec.block.Measure
	e := ending{trial: b.draw.IntN(m.Trials), iterations: b.drawIterations(), again: again && m.Launches > 1}
	e.after = b.draw.IntN(2) == 1 && e.trial < m.Trials-1
	e.launches = m.Launches
	if e.again {
		e.launches--
	}
	e.launches = 1 + b.draw.IntN(e.launches)
	return e
}

// drawIterations draws fewer iterations than a timed window has, but at least 1.
func (b *bench) drawIterations() int {
	return 1 + b.draw.IntN(max(1, b.spec.block.Measure.Iterations-1))
}

// drawEnds draws the truncated windows of all rungs. fresh is from the pass before; nil if there was none.
func (b *bench) drawEnds(fresh []float64) {
	for n, r := range b.ladder.rungs {
		t := truncated{Check: workload.Verdict{First: -1}, timed: map[string][]float64{}, order: []int{0, 1, 2}}
		if fresh != nil {
			t.took(fresh[n])
		}
		if r.truncated > 0 {
			t.short, t.order = b.drawIterations(), b.draw.Perm(3)
		}
		for i, odd := 0, b.draw.IntN(2); i < r.truncated; i++ {
			t.ends = append(t.ends, b.drawEnd(i%2 == odd))
		}
		b.truncated = append(b.truncated, t)
	}
}

// truncate runs the truncated windows that belong before or after a timed window of the current rung.
func (b *bench) truncate(ctx context.Context, t *truncated, mode string, trial int, after bool) error {
	if mode != untimedMode(b.modes) {
		return nil
	}
	for _, e := range t.ends {
		if e.trial != trial || e.after != after {
			continue
		}
		us, err := b.endAt(ctx, t, e)
		if err != nil {
			return fmt.Errorf("%s, truncated: %w", mode, err)
		}
		t.took(us)
	}
	return nil
}

// endAt runs and checks one truncated window of the current rung. It returns the time, in µs, of an operation
// with new data, or with the same data if e says so; 0 if unknown.
func (b *bench) endAt(ctx context.Context, t *truncated, e ending) (float64, error) {
	w := t.last
	if !e.same {
		w = b.named(untimedMode(b.modes), -2*t.runs-2) // data of its own
		t.runs++
	}
	if b.idle() {
		t.Windows++
		t.last = w
		_, err := b.attend(ctx, w, e.iterations)
		return 0, err
	}
	if err := b.ready(ctx, w); err != nil {
		return 0, err
	}
	run := b.stop
	if w.Mode == vocab.Graph && !e.enqueued {
		run = b.replay
	}
	last, places, us, err := run(ctx, w, e)
	if err != nil {
		return 0, err
	}
	t.last = last
	if err := ctx.Err(); err != nil { // see window
		return 0, err
	}
	marks := b.known(places)
	v, err := b.check(last, marks)
	if err != nil {
		return 0, err
	}
	if v.Checked == b.compared(b.rung, marks) {
		t.Windows++
	}
	if len(marks) == 0 {
		if v, err = b.unchanged(last, places[len(places)-1]); err != nil {
			return 0, err
		}
	}
	t.Check.Add(v)
	return us, nil
}

// stop runs a window without graphs. It returns the window and the places of the last operations, one for
// each buffer, and the time of one of them. The window identifies their data.
func (b *bench) stop(ctx context.Context, w window, e ending) (last window, places []place, us float64, err error) {
	n := e.iterations * b.spec.block.Measure.Aggregate
	head := b.head(n)
	if err := b.issue(ctx, w, 0, head, nil); err != nil {
		return w, nil, 0, err
	}
	if head > 0 {
		if !e.same {
			w.Trial-- // new data
		}
		if err := b.fillAll(w); err != nil {
			return w, nil, 0, err
		}
	}
	if err := b.issue(ctx, w, head, n, &us); err != nil {
		return w, nil, 0, err
	}
	return w, b.rung.places(len(b.calls))[head:n], us / float64(n-head), b.wait(ctx)
}

// head returns the number of operations, of the first n of a window, before the last ones on each buffer.
func (b *bench) head(n int) int {
	m, slots := b.spec.block.Measure.Aggregate, b.rung.Slots
	if b.rung.Placement == vocab.InPlace && slots > 1 {
		slots-- // the last one is for the last operation
	}
	return max(0, min(n-slots+m-1, n-1)/m*m)
}

// issue runs the operations from first to last−1 as the window's mode does, or as in pipelined mode for graphs. If us is
// not nil, it waits for them and stores their total time.
func (b *bench) issue(ctx context.Context, w window, first, last int, us *float64) error {
	m := b.spec.block.Measure.Aggregate
	if one, _ := b.spec.oneByOne(w.Mode); one {
		total := 0.0
		for ; first < last; first += m {
			one, err := b.block(ctx, w, first/m)
			if err != nil {
				return err
			}
			total += one * float64(m)
		}
		if us != nil {
			*us = total
		}
		return nil
	}
	if first == last {
		return nil
	}
	if us == nil {
		return b.backend.Comm.Enqueue(b.stream, b.calls[first:last], m)
	}
	if err := b.enqueueTimed(0, b.calls[first:last]); err != nil {
		return err
	}
	if err := b.wait(ctx); err != nil {
		return err
	}
	var err error
	*us, err = b.backend.Device.Elapsed(b.starts[0], b.ends[0])
	return rank.Coded(result.ReasonDevice, err)
}

// short returns a function that enqueues the operations of graphs.short, or nil if the rung has no
// truncated windows. In place, where operations overwrite their input, the graph also has kernels that
// write new data.
func (b *bench) short(t *truncated, g *graphs) func() error {
	if len(t.ends) == 0 {
		return nil
	}
	m := b.spec.block.Measure.Aggregate
	g.operations = t.short * m
	head := b.head(g.operations)
	g.refilled = head > 0 && b.rung.Placement == vocab.InPlace && b.backend.Data.CheckedBy() == "device"
	if !g.refilled {
		head = 0
	}
	return func() error {
		if g.refilled {
			if err := b.backend.Comm.Enqueue(b.stream, b.calls[:head], m); err != nil {
				return err
			}
			if err := b.fillAll(b.named(vocab.Graph, -1)); err != nil {
				return err
			}
		}
		return b.backend.Comm.Enqueue(b.stream, b.calls[head:g.operations], m)
	}
}

// replay runs a window of graph launches: those that precede the last one, new data, and the last one.
func (b *bench) replay(ctx context.Context, w window, e ending) (last window, places []place, us float64, err error) {
	for range e.launches - 1 {
		if err := b.graphs.again.Launch(b.stream); err != nil {
			return w, nil, 0, rank.Coded(result.ReasonDevice, err)
		}
	}
	if e.launches > 1 {
		w.Trial--
		if err := b.fillAll(w); err != nil {
			return w, nil, 0, err
		}
	}
	graph := b.graphs.short
	switch places = b.rung.places(len(b.calls))[:b.graphs.operations]; {
	case e.again:
		graph, places = b.graphs.again, b.again()
	case b.graphs.refilled:
		w, places = b.named(vocab.Graph, -1), places[b.head(b.graphs.operations):]
	}
	if err := graph.Launch(b.stream); err != nil {
		return w, nil, 0, rank.Coded(result.ReasonDevice, err)
	}
	return w, places, 0, b.wait(ctx)
}

// known lists the results of operations at places whose values are known: their marks or, in place if
// there are none, the last result of a copy, minimum or maximum, which repetition does not change.
func (b *bench) known(places []place) []mark {
	if marks := b.rung.left(places); len(marks) > 0 || b.spec.op.Reduces() && b.spec.redop != workload.Min && b.spec.redop != workload.Max {
		return marks
	}
	return []mark{{places[len(places)-1], true}}
}

// unchanged checks that reductions in place changed the input at a place. If all of it is unchanged, all
// of it is wrong.
func (b *bench) unchanged(w window, at place) (workload.Verdict, error) {
	in := b.spec.form(b.rung.Pair).Inputs(b.rung.Extent, b.spec.seat)
	if len(b.outputs(b.rung)) == 0 || b.spec.World == 1 || end(in) < changedElements {
		return workload.Verdict{First: -1}, nil
	}
	send, _ := b.buffers(at)
	v, err := b.backend.Data.Check(b.stream, b.spec.pattern(w, at.slot), send, in)
	if v.Wrong > 0 {
		return workload.Verdict{Checked: v.Checked, First: -1}, err
	}
	return workload.Verdict{Checked: v.Checked, Wrong: v.Checked}, err
}

// conclude repeats truncated windows of rungs with times that all ranks suspect, since other load on the
// machine may have slowed down operations with new data. Without graphs, each repetition is followed by a window that
// writes the same data again, which such load slows down as much. Only if most of those are fast, the times remain
// suspect. The times of graphs remain suspect if each operation with new data takes much longer outside of graphs.
func (b *bench) conclude(ctx context.Context) error {
	for n := range doubts {
		rungs, err := b.suspicious(ctx, n)
		if err != nil {
			return err
		}
		if len(rungs) == 0 {
			break
		}
		for _, i := range rungs {
			b.enter(b.ladder.rungs[i])
			if err := b.repeat(ctx, &b.truncated[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// repeat repeats truncated windows of the current rung; see conclude.
func (b *bench) repeat(ctx context.Context, t *truncated) error {
	graph := untimedMode(b.modes) == vocab.Graph
	for range repeats {
		e := b.drawEnd(false)
		e.enqueued = graph
		us, err := b.endAt(ctx, t, e)
		if err != nil {
			return b.at(err)
		}
		if t.took(us); graph {
			continue
		}
		e.same = true
		if us, err = b.endAt(ctx, t, e); err != nil {
			return b.at(err)
		}
		if us > 0 {
			t.same = append(t.same, us)
		}
	}
	fast := t.fastest()
	if len(t.same) > 0 {
		fast = measure.Percentile(t.same, 50)
	}
	if !tooFast(b.backend.Data.CheckedBy(), fast, t.Fresh) {
		t.Fresh = 0
	}
	return b.session.Emit(kindTruncated, *t)
}

// suspicious returns the indices of the rungs for which all ranks that take part, or all of a group, consider the timed
// operations too fast. n numbers the calls.
func (b *bench) suspicious(ctx context.Context, n int) ([]int, error) {
	mine := []int{}
	for i, r := range b.ladder.rungs {
		t := &b.truncated[i]
		if b.spec.form(r.Pair).Idle(b.spec.seat) || tooFast(b.backend.Data.CheckedBy(), t.fastest(), t.Fresh) {
			mine = append(mine, i)
		}
	}
	all, err := rank.Gather(ctx, b.session, fmt.Sprintf("suspicious-%s-%d", trialsOf(b.modes[0]), n), mine)
	if err != nil {
		return nil, err
	}
	var rungs []int
	for i := range b.ladder.rungs {
		trusting := map[int]bool{} // groups with a rank that does not suspect the rung
		for r, list := range all {
			if group, _ := b.spec.block.Seat(r); !slices.Contains(list, i) {
				trusting[group] = true
			}
		}
		if len(trusting) < max(1, len(b.spec.block.Groups)) {
			rungs = append(rungs, i)
		}
	}
	return rungs, nil
}

// fastest returns the smallest median over the modes of the timed windows.
func (t *truncated) fastest() float64 {
	us := math.Inf(1)
	for _, samples := range t.timed {
		if len(samples) > 0 {
			us = min(us, measure.Percentile(samples, 50))
		}
	}
	return us
}

// tooFast reports whether timed operations are implausibly fast, given the time of operations with new
// data. checkedBy is from Data.CheckedBy.
func tooFast(checkedBy string, timed, fresh float64) bool {
	factor := float64(hostFactor)
	if checkedBy == "device" {
		factor = deviceFactor
	}
	return fresh > factor*timed+freshSlack
}
