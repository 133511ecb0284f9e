package bench

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	collectives "github.com/collectivex/collectivex/pkg/collective/bench"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/fit"
	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/sanitize"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/steps"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Messages describes how the messages of a model are measured.
type Messages struct {
	DType  string
	Sizes  []int64 // of messages, in bytes, ascending
	Timing collective.Counts
	// Buffers is the state of the buffers in operations of all ranks at once: vocab.Fresh or FreshCold. Single pairs of
	// ranks always have fresh buffers, since emptying the caches for each pair would take minutes.
	Buffers string
}

// MessagesOf returns how to measure the messages of the model that a request selects.
func MessagesOf(r *collectives.Request) *Messages {
	m := &Messages{DType: r.DType, Sizes: r.Shape.Sizes, Timing: r.Shape.Measure, Buffers: vocab.Fresh}
	if r.Shape.Buffers == vocab.FreshCold {
		m.Buffers = vocab.FreshCold
	}
	return m
}

// together returns the operation in which all ranks send and receive at once.
func together(world int) runner.Op {
	if world == 2 {
		return runner.P2PBidir
	}
	return runner.SendRecv
}

// Runs returns how often to measure each case of a model with a backend, and each measurement that is compared with a
// model. On a host it is more than once, since times vary more between runs than within a run.
func Runs(backend string) int {
	if backend == bench.HostBackend {
		return 3
	}
	return 1
}

// Operations lists the cases of the collective family that a model needs. Each operation begins at a common start.
//
//   - Messages between two ranks, in one direction and in both, have fresh buffers.
//   - Messages of all ranks at once have buffers of state m.Buffers. With more than two ranks, they are also measured
//     with fresh buffers, and in the successive steps of a hypercube.
//   - Messages of all ranks at once are measured again with warm buffers, one by one and back to back.
func (m *Messages) Operations(world int) []plan.Case {
	out := []plan.Case{m.operation(runner.P2P, vocab.Fresh, vocab.Blocking)}
	states := []string{m.Buffers}
	if world > 2 {
		out = append(out, m.operation(runner.P2PBidir, vocab.Fresh, vocab.Blocking))
		if m.Buffers != vocab.Fresh {
			states = append(states, vocab.Fresh)
		}
	}
	for _, buffers := range states {
		out = append(out, m.operation(together(world), buffers, vocab.Blocking))
		if inHypercube(world) {
			c := m.operation(runner.Hypercube, buffers, vocab.Blocking)
			cube := collective.Of(&c)
			cube.Placements, cube.Sizes = []string{vocab.InPlace}, nil
			for _, n := range m.Sizes[:(len(m.Sizes)+1)/2] {
				cube.Sizes = append(cube.Sizes, n*int64(world))
			}
			out = append(out, c)
		}
	}
	return append(out, m.operation(together(world), vocab.Warm, vocab.Pipelined, vocab.Blocking))
}

func (m *Messages) operation(op runner.Op, buffers string, modes ...string) plan.Case {
	return m.newCase(collective.Name, &collective.Block{
		Op: op.String(), Sizes: m.Sizes, Placements: []string{vocab.OutOfPlace}, Modes: modes,
		Buffers: buffers, Registration: vocab.Unregistered, Measure: m.Timing,
	})
}

// inHypercube reports whether an operation on world ranks has at least two successive messages in a hypercube.
func inHypercube(world int) bool {
	return world > 2 && collective.WrongWorld(runner.Hypercube.String(), world) == ""
}

// Schedules lists the cases of the schedule family that a model needs. They are ring schedules whose times differ by the
// times of sums and copies.
func (m *Messages) Schedules(world int) []plan.Case {
	var out []plan.Case
	for _, c := range []schedule.Collective{schedule.AllGather, schedule.ReduceScatter} {
		s := &steps.Block{
			Op: string(c), Algorithm: "ring", RedOp: schedule.RedOp(string(c)), Placements: []string{vocab.OutOfPlace, vocab.InPlace},
			Modes: []string{vocab.Blocking}, Buffers: m.Buffers, Measure: m.Timing,
		}
		if c == schedule.ReduceScatter {
			s.Placements = s.Placements[1:]
		}
		for _, n := range m.Sizes {
			s.Sizes = append(s.Sizes, n*int64(world))
		}
		out = append(out, m.newCase(steps.Name, s))
	}
	return out
}

func (m *Messages) newCase(f plan.Family, b plan.Block) plan.Case {
	return plan.Case{Family: f, Precision: m.DType, Sampling: bench.Name, Contract: collective.Contract, Block: b}
}

// MachineModel computes the model of the machine from measured cases of Operations and Schedules. It uses the median over
// runs of each median time. Classes of sizes are the segments of package fit. Times are rounded to picoseconds. In the
// model a rank sends one message at a time.
func MachineModel(backend string, measured []*collective.Document) (*simulate.Model, error) {
	last := measured[len(measured)-1]
	b := modelBuilder{world: last.Identity.Case.World, buffers: last.Measurement.Buffers, times: map[group]map[float64][]float64{}}
	for _, d := range measured {
		if err := b.add(d); err != nil {
			return nil, err
		}
	}
	situations := "alone and both ways between 2 ranks"
	if b.world > 2 {
		situations = fmt.Sprintf("alone, both ways and on all of %d ranks at once", b.world)
	}
	out := &simulate.Model{
		Origin: fmt.Sprintf("measured: messages of %s %s, sums and copies, %s buffers, backend %s, %s",
			last.Measurement.DType, situations, b.buffers, backend, sanitize.Line(last.Topology.DeviceProduct)),
		Sharing: string(simulate.Unloaded), Engines: 1,
	}
	start := b.start(b.buffers)
	flight := b.flight(start)
	out.Start, out.Flight = nanoseconds(start), nanoseconds(flight)
	var err error
	if out.Pairs, err = b.pairs(runner.P2P, start+flight); err != nil {
		return nil, err
	}
	if out.Both, err = b.pairs(runner.P2PBidir, start+flight); err != nil {
		return nil, err
	}
	steps := float64(b.world - 1)
	scatter := b.curve(group{op: string(schedule.ReduceScatter), placement: vocab.InPlace, buffers: b.buffers})
	gather := b.curve(group{op: string(schedule.AllGather), placement: vocab.InPlace, buffers: b.buffers})
	unsummed := gather // the time of the reduce_scatter without its sums
	if b.world > 2 {
		if out.All, err = classes(less(b.together(b.buffers), start+flight)); err != nil {
			return nil, fmt.Errorf("all ranks at once: %w", err)
		}
	}
	if b.world > 2 && b.buffers != vocab.Fresh {
		cached := less(b.together(vocab.Fresh), b.start(vocab.Fresh)+flight)
		for i, p := range cached { // a step of a reduce_scatter is a message and a sum
			for _, q := range scatter {
				if q.Bytes == p.Bytes*float64(b.world) {
					cached[i].Us = max(minUs, min(p.Us, (q.Us-start)/steps-flight))
				}
			}
		}
		if out.Cached, err = classes(cached); err != nil {
			return nil, fmt.Errorf("all ranks at once, in caches: %w", err)
		}
		unsummed = nil
		for _, p := range cached {
			unsummed = append(unsummed, fit.Point{Bytes: p.Bytes * float64(b.world), Us: start + steps*(p.Us+flight)})
		}
	}
	if out.Reduce, err = classes(difference(scatter, unsummed, float64(b.world), steps)); err != nil {
		return nil, fmt.Errorf("sums: %w", err)
	}
	apart := b.curve(group{op: string(schedule.AllGather), buffers: b.buffers})
	if out.Copy, err = classes(difference(apart, gather, float64(b.world), 1)); err != nil {
		return nil, fmt.Errorf("copies: %w", err)
	}
	return out, nil
}

// group identifies the times of a curve.
type group struct {
	op        string
	pair      runner.Pair
	placement string // vocab.InPlace, or "" for out of place
	buffers   string
	pipelined bool
}

// modelBuilder collects median times in µs by group and size, one per run.
type modelBuilder struct {
	world   int
	buffers string // in operations of all ranks at once
	times   map[group]map[float64][]float64
}

func (b *modelBuilder) add(d *collective.Document) error {
	m := &d.Measurement
	for i := range m.Rows {
		r := &m.Rows[i]
		g := group{op: m.Op, buffers: m.Buffers}
		if r.Src != nil && r.Dst != nil {
			g.pair = runner.Pair{Src: *r.Src, Dst: *r.Dst}
		}
		if r.Placement == vocab.InPlace {
			g.placement = r.Placement
		}
		if r.Blocking == nil || !r.Check.Passed {
			return fmt.Errorf("%s: the row of %d bytes has no time or did not pass its check", m.Op, r.Bytes)
		}
		b.put(g, r.Bytes, r.Blocking)
		if r.Pipelined != nil {
			g.pipelined = true
			b.put(g, r.Bytes, r.Pipelined)
		}
	}
	return nil
}

func (b *modelBuilder) put(g group, bytes int64, t *collective.Timing) {
	if b.times[g] == nil {
		b.times[g] = map[float64][]float64{}
	}
	b.times[g][float64(bytes)] = append(b.times[g][float64(bytes)], t.Percentiles.P50)
}

// curve returns the times of a group, in ascending order of size.
func (b *modelBuilder) curve(g group) []fit.Point {
	var out []fit.Point
	for _, bytes := range slices.Sorted(maps.Keys(b.times[g])) {
		out = append(out, fit.Point{Bytes: bytes, Us: measure.LowerMedian(b.times[g][bytes])})
	}
	return out
}

// together returns the times of messages that all ranks send at once. Times that decrease with size are averaged with
// their neighbours.
func (b *modelBuilder) together(buffers string) []fit.Point {
	out := b.curve(b.atOnce(buffers))
	for last := range out {
		mean, first := out[last].Us, last
		for first > 0 && out[first-1].Us > mean {
			first--
			mean += (out[first].Us - mean) / float64(last-first+1)
		}
		for i := first; i <= last; i++ {
			out[i].Us = mean
		}
	}
	return out
}

// atOnce returns the group of messages that all ranks send at once.
func (b *modelBuilder) atOnce(buffers string) group {
	g := group{op: together(b.world).String(), buffers: buffers}
	if b.world == 2 {
		g.pair.Dst = 1
	}
	return g
}

// start returns the time from the common start to the first message, in µs, with buffers of a state. It is the extra time
// of a single message over a message that follows another one in a hypercube or back to back. It is at least 0, and at
// most half of any time of all ranks at once.
func (b *modelBuilder) start(buffers string) float64 {
	more := b.aloneInCube(buffers)
	if len(more) == 0 {
		g := b.atOnce(vocab.Warm)
		alone := b.curve(g)
		g.pipelined = true
		for i, p := range b.curve(g)[:(len(alone)+1)/2] {
			more = append(more, excess{us: alone[i].Us - p.Us, time: alone[i].Us})
		}
	}
	return max(0, min(meanExcess(more), b.together(buffers)[0].Us/2))
}

// excess is by how much a time exceeds another one, both in µs.
type excess struct{ us, time float64 }

// meanExcess returns the weighted mean of us. Weights are the inverse squares of the times, because errors grow with the
// times.
func meanExcess(all []excess) float64 {
	sum, weights := 0.0, 0.0
	for _, e := range all {
		w := 1 / (e.time * e.time)
		sum += w * e.us
		weights += w
	}
	return sum / weights
}

// aloneInCube returns, by size, the extra time of a single message over a message within a hypercube. Step i of a
// hypercube sends 2^i times as many bytes as step 0. The result ends before the first size whose messages were not all
// measured.
func (b *modelBuilder) aloneInCube(buffers string) (more []excess) {
	single := map[float64]float64{}
	for _, p := range b.together(buffers) {
		single[p.Bytes] = p.Us
	}
	for _, p := range b.curve(group{op: runner.Hypercube.String(), placement: vocab.InPlace, buffers: buffers}) {
		sum, messages := 0.0, 0
		for n := 1; n < b.world; n *= 2 {
			us, ok := single[p.Bytes/float64(b.world)*float64(n)]
			if !ok {
				return more
			}
			sum += us
			messages++
		}
		more = append(more, excess{us: (sum - p.Us) / float64(messages-1), time: p.Us})
	}
	return more
}

// flight returns how long before the arrival of a message its sender is free for the next one, in µs. It is the shortest
// time of a message back to back, and at most half of any time of all ranks at once without the start.
func (b *modelBuilder) flight(start float64) float64 {
	g := b.atOnce(vocab.Warm)
	g.pipelined = true
	shortest := slices.MinFunc(b.curve(g), func(p, q fit.Point) int { return cmp.Compare(p.Us, q.Us) })
	return min(shortest.Us, (b.together(b.buffers)[0].Us-start)/2)
}

// pairs returns the curves of a pairwise operation, each time reduced by without, in µs.
func (b *modelBuilder) pairs(op runner.Op, without float64) (pairs []simulate.Pair, err error) {
	buffers := vocab.Fresh
	if op == together(b.world) {
		buffers = b.buffers
	}
	for _, at := range op.Pairs(b.world) {
		p := simulate.Pair{Src: at.Src, Dst: at.Dst}
		if p.Classes, err = classes(less(b.curve(group{op: op.String(), pair: at, buffers: buffers}), without)); err != nil {
			return nil, fmt.Errorf("rank %d to rank %d: %w", at.Src, at.Dst, err)
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// less returns points with times reduced by us, but by at most nine tenths. The limit is for messages of a single pair,
// which can take less than the start and the flight of all ranks.
func less(points []fit.Point, us float64) []fit.Point {
	points = slices.Clone(points)
	for i := range points {
		points[i].Us -= min(us, points[i].Us*9/10)
	}
	return points
}

// difference returns the time difference per step of two schedules, by the size of a rank's part.
func difference(longer, shorter []fit.Point, ranks, steps float64) []fit.Point {
	var out []fit.Point
	for _, p := range longer {
		i := slices.IndexFunc(shorter, func(q fit.Point) bool { return q.Bytes == p.Bytes })
		if i >= 0 {
			out = append(out, fit.Point{Bytes: p.Bytes / ranks, Us: max((p.Us-shorter[i].Us)/steps, minUs)})
		}
	}
	return out
}

// minUs is the minimum time of a message, sum or copy: a picosecond, in µs.
const minUs = 1e-6

// classes splits points at breaks in their times.
func classes(points []fit.Point) ([]simulate.Class, error) {
	fitted := fit.Fit(points)
	if fitted.Why != "" {
		return nil, fmt.Errorf("%s", fitted.Why)
	}
	var out []simulate.Class
	for _, s := range fitted.Segments {
		var c simulate.Class
		for _, x := range points {
			if x.Bytes >= s.FirstBytes && x.Bytes <= s.LastBytes {
				c.Points = append(c.Points, simulate.Point{Bytes: int64(x.Bytes), Nanoseconds: nanoseconds(x.Us)})
			}
		}
		slices.SortFunc(c.Points, func(a, b simulate.Point) int { return cmp.Compare(a.Bytes, b.Bytes) })
		out = append(out, c)
	}
	return out, nil
}

// nanoseconds rounds a time in µs to whole picoseconds.
func nanoseconds(us float64) float64 { return math.Round(1e6*us) / 1e3 }
