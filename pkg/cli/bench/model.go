package bench

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/fit"
	"github.com/collectivex/collectivex/pkg/foreign"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Messages says how the messages of a model are measured.
type Messages struct {
	DType  string
	Sizes  []int64 // of messages, in bytes, ascending
	Timing plan.CollectiveTiming
	// Buffers is the state of the buffers in what all ranks do at once: vocab.Fresh or FreshCold.
	// Those of single pairs of ranks are always fresh, since emptying the caches for each pair would
	// take minutes.
	Buffers string
}

// together is the operation in which all ranks send and receive at once.
func together(world int) collective.Op {
	if world == 2 {
		return collective.P2PBidir
	}
	return collective.SendRecv
}

// Operations lists the cases of the collective family that a model needs: messages alone, both
// ways between two ranks, and of all ranks at once, each from a common start with buffers of the
// state that is asked for; and the last of them again, with warm buffers and back to back, too.
func (m *Messages) Operations(world int) []plan.Case {
	ops := []collective.Op{collective.P2P, collective.P2PBidir}
	if world > 2 {
		ops = append(ops, collective.SendRecv)
	}
	var out []plan.Case
	add := func(op collective.Op, buffers string, modes ...string) {
		out = append(out, m.newCase(plan.FamilyCollective, &plan.Collective{
			Op: op.String(), Sizes: m.Sizes, Placements: []string{vocab.OutOfPlace}, Modes: modes,
			Buffers: buffers, Registration: vocab.Unregistered, Measure: m.Timing,
		}))
	}
	for _, op := range ops {
		buffers := vocab.Fresh
		if op == together(world) {
			buffers = m.Buffers
		}
		add(op, buffers, vocab.Blocking)
	}
	add(together(world), vocab.Warm, vocab.Pipelined, vocab.Blocking)
	if inHypercube(world) {
		add(collective.Hypercube, m.Buffers, vocab.Blocking)
		cube := out[len(out)-1].Collective()
		cube.Placements, cube.Sizes = []string{vocab.InPlace}, nil
		for _, n := range m.Sizes[:(len(m.Sizes)+1)/2] {
			cube.Sizes = append(cube.Sizes, n*int64(world))
		}
	}
	return out
}

// inHypercube reports whether messages of so many ranks follow each other in a hypercube, in at
// least two steps.
func inHypercube(world int) bool { return world > 2 && bits.OnesCount(uint(world)) == 1 }

// Schedules lists the cases of the schedule family that a model needs: ring schedules, whose
// times differ by those of sums and copies.
func (m *Messages) Schedules(world int) []plan.Case {
	var out []plan.Case
	for _, c := range []schedule.Collective{schedule.AllGather, schedule.ReduceScatter} {
		s := &plan.Schedule{
			Op: string(c), Algorithm: "ring", RedOp: planner.ScheduleRedOp(string(c)), Placements: []string{vocab.OutOfPlace, vocab.InPlace},
			Modes: []string{vocab.Blocking}, Buffers: m.Buffers, Measure: m.Timing,
		}
		if c == schedule.ReduceScatter {
			s.Placements = s.Placements[1:]
		}
		for _, n := range m.Sizes {
			s.Sizes = append(s.Sizes, n*int64(world))
		}
		out = append(out, m.newCase(plan.FamilySchedule, s))
	}
	return out
}

func (m *Messages) newCase(f plan.Family, b plan.Block) plan.Case {
	return plan.Case{Family: f, Precision: m.DType, Sampling: Name, Contract: vocab.ContractOp, Block: b}
}

// MachineModel returns the model of the machine that the measured cases of Operations and
// Schedules give, from median times. Classes of sizes are the segments of package fit; times are
// whole picoseconds. A rank sends one message at a time.
func MachineModel(backend string, measured []*result.CollectiveDocument) (*simulate.Model, error) {
	b := modelBuilder{times: map[group][]fit.Point{}}
	for _, d := range measured {
		if err := b.add(d); err != nil {
			return nil, err
		}
	}
	d := measured[0]
	world := d.Identity.Case.World
	out := &simulate.Model{
		Origin: fmt.Sprintf("measured: messages of %s alone, both ways and on all of %d ranks at once, sums and copies, %s buffers, backend %s, %s",
			d.Measurement.DType, world, measured[len(measured)-1].Measurement.Buffers, backend, foreign.Line(d.Topology.DeviceProduct)),
		Sharing: string(simulate.Unloaded), Engines: 1,
	}
	start := b.start(world)
	flight := b.flight(together(world), start)
	out.Start, out.Flight = nanoseconds(start), nanoseconds(flight)
	var err error
	if out.Pairs, err = b.pairs(collective.P2P, world, start+flight); err != nil {
		return nil, err
	}
	if out.Both, err = b.pairs(collective.P2PBidir, world, start+flight); err != nil {
		return nil, err
	}
	if world > 2 {
		if out.All, err = classes(less(b.times[group{op: collective.SendRecv.String()}], start+flight)); err != nil {
			return nil, fmt.Errorf("all ranks at once: %w", err)
		}
	}
	steps := float64(world - 1)
	apart, gather := b.times[group{op: string(schedule.AllGather)}], b.times[group{op: string(schedule.AllGather), placement: vocab.InPlace}]
	scatter := b.times[group{op: string(schedule.ReduceScatter), placement: vocab.InPlace}]
	if out.Reduce, err = classes(difference(scatter, gather, float64(world), steps)); err != nil {
		return nil, fmt.Errorf("sums: %w", err)
	}
	if out.Copy, err = classes(difference(apart, gather, float64(world), 1)); err != nil {
		return nil, fmt.Errorf("copies: %w", err)
	}
	return out, nil
}

// group is what the times of a curve have in common.
type group struct {
	op        string
	pair      collective.Pair
	placement string // in place; empty: out of place
	warm      string // the timing mode, of warm buffers; empty: other buffers, one by one
}

// modelBuilder collects median times by what was measured, in ascending order of size.
type modelBuilder struct {
	times map[group][]fit.Point
}

func (b *modelBuilder) add(d *result.CollectiveDocument) error {
	m := &d.Measurement
	for i := range m.Rows {
		r := &m.Rows[i]
		g := group{op: m.Op}
		if r.Src != nil && r.Dst != nil {
			g.pair = collective.Pair{Src: *r.Src, Dst: *r.Dst}
		}
		if r.Placement == vocab.InPlace {
			g.placement = r.Placement
		}
		if r.Blocking == nil || !r.Check.Passed {
			return fmt.Errorf("%s: row of %d bytes without a time or a passed check", m.Op, r.Bytes)
		}
		modes := map[string]*result.Timing{"": r.Blocking}
		if m.Buffers == vocab.Warm {
			modes = map[string]*result.Timing{vocab.Blocking: r.Blocking, vocab.Pipelined: r.Pipelined}
		}
		for mode, t := range modes {
			g.warm = mode
			b.times[g] = append(b.times[g], fit.Point{Bytes: float64(r.Bytes), Us: t.Percentiles.P50})
		}
	}
	return nil
}

// start returns the time from the common start to the first message, in µs: what a message takes
// longer alone than where it follows another, the median over the smaller half of the sizes.
// Messages follow each other in a hypercube, or in an operation that is made back to back. The
// start is at most half of any time of all ranks at once.
func (b *modelBuilder) start(world int) float64 {
	more := b.aloneInCube(world)
	if len(more) == 0 {
		alone, row := b.timesOf(together(world), vocab.Blocking), b.timesOf(together(world), vocab.Pipelined)
		for i := range (len(row) + 1) / 2 {
			more = append(more, alone[i].Us-row[i].Us)
		}
	}
	slices.Sort(more)
	return max(0, min(more[len(more)/2], b.least(together(world))/2))
}

// aloneInCube returns, by size, what each message of a hypercube but one takes longer alone, in
// µs. Step i of a hypercube sends 2^i times as many bytes as the first. There is nothing if
// messages of those sizes were not measured.
func (b *modelBuilder) aloneInCube(world int) (more []float64) {
	single := map[float64]float64{}
	for _, p := range b.times[group{op: collective.SendRecv.String()}] {
		single[p.Bytes] = p.Us
	}
	for _, p := range b.times[group{op: collective.Hypercube.String(), placement: vocab.InPlace}] {
		sum, messages := 0.0, 0
		for n := 1; n < world; n *= 2 {
			us, ok := single[p.Bytes/float64(world)*float64(n)]
			if !ok {
				return more
			}
			sum += us
			messages++
		}
		more = append(more, (sum-p.Us)/float64(messages-1))
	}
	return more
}

// flight returns how long a sender is free for its next message before the last one has arrived, in
// µs: what the smallest messages take back to back. It is at most half of any time of all ranks at
// once, less the start.
func (b *modelBuilder) flight(op collective.Op, start float64) float64 {
	return min(b.timesOf(op, vocab.Pipelined)[0].Us, (b.least(op)-start)/2)
}

// least is the shortest time of an operation whose buffers are not warm, in µs.
func (b *modelBuilder) least(op collective.Op) float64 {
	least := math.Inf(1)
	for _, p := range b.timesOf(op, "") {
		least = min(least, p.Us)
	}
	return least
}

// timesOf returns the times of an operation on warm buffers in a timing mode, or on other buffers
// if there is none, in ascending order of size; of ranks 0 and 1 if it is one of pairs.
func (b *modelBuilder) timesOf(op collective.Op, mode string) []fit.Point {
	pair := collective.Pair{}
	if op.Pairwise() {
		pair.Dst = 1
	}
	return slices.SortedFunc(slices.Values(b.times[group{op: op.String(), pair: pair, warm: mode}]), func(p, q fit.Point) int { return cmp.Compare(p.Bytes, q.Bytes) })
}

// pairs returns the curves of a pairwise operation, each time less without, which is in µs.
func (b *modelBuilder) pairs(op collective.Op, world int, without float64) (pairs []simulate.Pair, err error) {
	for _, at := range op.Pairs(world) {
		p := simulate.Pair{Src: at.Src, Dst: at.Dst}
		if p.Classes, err = classes(less(b.times[group{op: op.String(), pair: at}], without)); err != nil {
			return nil, fmt.Errorf("rank %d to rank %d: %w", at.Src, at.Dst, err)
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// less returns points whose times are shorter by us, and by a half at most: a message of a single
// pair can take less than the start of all ranks.
func less(points []fit.Point, us float64) []fit.Point {
	points = slices.Clone(points)
	for i := range points {
		points[i].Us -= min(us, points[i].Us/2)
	}
	return points
}

// difference returns by how much longer the first of two schedules takes in each of its steps,
// by the size of a rank's part.
func difference(longer, shorter []fit.Point, ranks, steps float64) []fit.Point {
	var out []fit.Point
	for _, p := range longer {
		i := slices.IndexFunc(shorter, func(q fit.Point) bool { return q.Bytes == p.Bytes })
		if i >= 0 {
			out = append(out, fit.Point{Bytes: p.Bytes / ranks, Us: max((p.Us-shorter[i].Us)/steps, leastUs)})
		}
	}
	return out
}

// leastUs is a picosecond, which is less than any difference that can be measured.
const leastUs = 1e-6

// classes splits points where their times break.
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
