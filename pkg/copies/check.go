package copies

import (
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/result"

	"github.com/collectivex/collectivex/pkg/plan"
)

// payloadUnit is the payload unit of copies.
const payloadUnit = "bytes-per-copy"

func newDocument(head result.Envelope) result.Document {
	b := Of(&head.Identity.Case)
	t := b.Timing
	return &Document{
		Envelope:    head,
		Measurement: Measurement{PayloadUnit: payloadUnit, Sampling: SampleCounts{t.Warmup, t.Reps, t.Trials}, Rows: []Row{}, Excluded: ExcludedOf(b)},
	}
}

// compared is what copies have in common with those that they are compared with. Swaps have one grid: suites ask for the
// same swaps in several.
type compared struct {
	Test       string           `json:"test"`
	HostMemory string           `json:"host_memory"`
	Submission string           `json:"submission"`
	PageBytes  int64            `json:"page_bytes"`
	Victim     bool             `json:"victim,omitempty"`
	Each       bool             `json:"each,omitempty"`
	Layout     string           `json:"layout,omitempty"`
	BlockBytes []int64          `json:"block_bytes,omitempty"`
	NumBlocks  []int            `json:"num_blocks,omitempty"`
	MaxPayload int64            `json:"max_payload_bytes,omitempty"`
	Seed       uint64           `json:"seed"`
	Timing     plan.Repetitions `json:"timing"`
}

func comparison(c *plan.Case) any {
	b := Of(c)
	return compared{b.Test, b.HostMemory, b.Submission, b.PageBytes, b.Victim, b.Each, b.Layout, b.BlockBytes, b.NumBlocks, b.MaxPayload, b.Seed, b.Timing}
}

// Asked returns the rows of a case, without their figures.
func Asked(c *plan.Case) []Row { return Of(c).Rows(c.World) }

// Rows returns the rows of the block on a world of ranks, without their figures: by size, turn and streams, or by size and
// number of blocks.
func (b *Block) Rows(world int) (rows []Row) {
	for _, bytes := range b.BlockBytes {
		for _, n := range b.NumBlocks {
			if b.asks(bytes, n) {
				rows = append(rows, Row{Bytes: bytes * int64(n), Streams: 1, Pieces: n, BlockBytes: bytes})
			}
		}
	}
	t := TestOf(b.Test)
	for _, size := range b.Sizes {
		for _, turn := range b.Turns(world) {
			r := Row{Bytes: size}
			switch {
			case t.Ranks == 2 && b.Each:
				flow := t.Flows(world, turn)[0]
				r.Src, r.Dst = &flow.Src.Rank, &flow.Dst.Rank
			case t.Ranks == All || b.Each:
				r.Target = &turn.One
			}
			if t.Chase {
				r.Accesses = int(size / ChaseBytes)
			}
			if n := t.Copies(world); n > 1 {
				r.Copies = n
			}
			for _, r.Streams = range b.Streams {
				r.Pieces = b.Pieces(size, r.Streams)
				rows = append(rows, r)
			}
		}
	}
	return rows
}

// asks reports whether a point of the grid is a row: its payload does not exceed the maximum.
func (b *Block) asks(bytes int64, n int) bool { return n > 0 && bytes <= b.MaxPayload/int64(n) }

// ExcludedOf returns the points of the case's grid that are not rows.
func ExcludedOf(b *Block) (out []Excluded) {
	for _, bytes := range b.BlockBytes {
		for _, n := range b.NumBlocks {
			if !b.asks(bytes, n) {
				out = append(out, Excluded{bytes, n, exceedsPayload})
			}
		}
	}
	return out
}

func check(p *result.Problems, doc result.Document) {
	d := doc.(*Document)
	id := d.Identity
	b := Of(&id.Case)
	m := &d.Measurement
	p.Check(m.Rows != nil, "measurement.rows is null")
	p.Check(m.Sampling == SampleCounts{b.Timing.Warmup, b.Timing.Reps, b.Timing.Trials}, "measurement.sampling does not match the timing of the case")
	p.Check(slices.Equal(m.Excluded, ExcludedOf(b)), "measurement.excluded[] are %v, want %v by the case", m.Excluded, ExcludedOf(b))
	asked := Asked(&id.Case)
	rows := map[string]*Row{}
	for i := range asked {
		rows[asked[i].Name()] = &asked[i]
	}
	var bad []string
	seen := map[string]bool{}
	for i := range m.Rows {
		r := &m.Rows[i]
		at := "measurement.rows[" + r.Name() + "]"
		p.Check(!seen[r.Name()], "%s appears twice", at)
		seen[r.Name()] = true
		p.Check(rows[r.Name()].is(r), "%s was not asked for", at)
		test := TestOf(b.Test)
		if test.Swap {
			checkLatency(p, at+".latency", r, b)
		}
		p.Check((r.Host == nil) == test.Swap, "%s has no time by the host's clock, or is a swap with one", at)
		for name, clock := range map[string]*Clock{"device": r.Device, "host": r.Host} {
			if clock != nil {
				checkClock(p, at+"."+name, clock, b, r)
			}
		}
		if both := r.Both; both != nil {
			p.Check(both.Overlap >= 0 && both.Overlap <= 1 && (both.GBps > 0) == (both.Overlap >= result.MinCoverage),
				"%s.both: overlap is %v and gbps %v: want gbps exactly if overlap is at least %v, and overlap from 0 to 1", at, both.Overlap, both.GBps, result.MinCoverage)
		}
		p.Check(!p.Fresh() || !r.Complete || (r.Both != nil) == (test.Both && test.Ranks > 1), "%s: both is present: %v, in test %s", at, r.Both != nil, b.Test)
		p.Check(r.Covered == nil || *r.Covered >= 0 && *r.Covered <= 1, "%s.covered is not from 0 to 1", at)
		p.Check((r.Covered != nil) == test.Disturbed() || !r.Complete, "%s: covered is present: %v, in test %s", at, r.Covered != nil, b.Test)
		p.Check(b.Victim == (r.Victim != nil) || !r.Complete, "%s: victim is present: %v, requested by the case: %v", at, r.Victim != nil, b.Victim)
		if r.Victim != nil {
			checkVictim(p, at+".victim", r.Victim, b, r)
		}
		p.Verdict(at+".verify", &r.Verify)
		if !r.Good() {
			bad = append(bad, r.Name()+": "+r.Verify.Detail)
		}
	}
	p.Outcome(d.Outcome, len(m.Rows), bad, func(p *result.Problems) {
		p.Check(len(m.Rows) == len(asked), "outcome is success with %d rows of %d", len(m.Rows), len(asked))
		p.Check(m.CheckedBy != "", "outcome is success, but measurement.checked_by is empty")
		p.Check(d.Topology.DeviceProduct != "", "topology.device_product is empty")
	})
}

// checkLatency checks the times of a swap. The row's case has one window.
func checkLatency(p *result.Problems, at string, r *Row, b *Block) {
	l := r.Latency
	if l == nil {
		p.Add("%s is missing", at)
		return
	}
	samples := b.Timing.Reps * b.Timing.Trials
	p.Check(l.SampleCount > 0 && (l.SampleCount == samples || l.SampleCount < samples && !r.Complete), "%s.sample_count is %d of %d", at, l.SampleCount, samples)
	err := l.Micros.Check(true, l.SampleCount)
	p.Check(err == nil && l.Micros.P50 > 0, "%s: %v, or p50 is not above 0", at, err)
	if err != nil {
		return
	}
	for name, of := range map[string]func(q result.Percentiles) *float64{
		"p50": func(q result.Percentiles) *float64 { return &q.P50 },
		"p90": func(q result.Percentiles) *float64 { return q.P90 },
		"p95": func(q result.Percentiles) *float64 { return q.P95 },
		"p99": func(q result.Percentiles) *float64 { return q.P99 },
	} {
		want := float64(r.Bytes) / *of(l.Micros) / 1e3
		got := of(l.GBps)
		p.Check(got != nil && math.Abs(*got-want) <= 1e-6*want, "%s.payload_gbps_at_latency_percentile.%s does not follow from bytes and time: want %v", at, name, want)
	}
}

func checkClock(p *result.Problems, at string, c *Clock, b *Block, r *Row) {
	p.Burst(at+".us_per_copy", c.Micros, b.Timing.Trials, r.Complete)
	if c.Micros.P50 > 0 {
		want := r.Rate(c.Micros.P50)
		p.Check(math.Abs(c.GBps-want) <= 1e-6*want, "%s: gbps is %v, want %v from bytes and time", at, c.GBps, want)
	}
	p.Check(result.Near(c.Nanos, r.PerAccess(c.Micros.P50)), "%s: ns_per_access is %v, want %v", at, c.Nanos, r.PerAccess(c.Micros.P50))
	test := TestOf(b.Test)
	p.Check((c.OppositeGBps > 0) == (test.Both && test.Ranks > 1) || !r.Complete, "%s: opposite_gbps is %v in test %s", at, c.OppositeGBps, b.Test)
}

func checkVictim(p *result.Problems, at string, v *Victim, b *Block, r *Row) {
	for name, burst := range map[string]result.Burst{"alone_us": v.Alone, "beside_us": v.Beside, "copy_beside_us": v.CopyBeside} {
		p.Burst(at+"."+name, burst, b.Timing.Trials, r.Complete)
	}
	p.Check(v.Units > 0, "%s.units is %d", at, v.Units)
	for name, part := range map[string]float64{"coverage": v.Coverage, "copy_coverage": v.CopyCoverage} {
		p.Check(part >= 0 && part <= 1, "%s.%s is %v, want 0 to 1", at, name, part)
	}
	want := v.Figures(r.Device)
	p.Check(result.BothNear(v.Slowdown, want.Slowdown) && result.BothNear(v.CopySlowdown, want.CopySlowdown), "%s: slowdowns do not follow from the medians", at)
}
