// Package resulttest makes valid cases and documents for tests of the packages
// that read or write them.
package resulttest

import (
	"slices"
	"strings"
	"time"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/simulation"
	"github.com/collectivex/collectivex/pkg/steps"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// At is when the documents of this package were made.
var At = time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)

// EPCase returns a case of two ranks on the host backend.
func EPCase() plan.Case {
	return plantest.EP(2, func(c *plan.Case) {
		e := ep.Of(c)
		e.Workload, e.Hidden, e.TopK, e.Experts, e.Ladder = "deepseek-v3", 7168, 8, 256, plan.Ladder{1, 2, 4}
		e.Timing = ep.Timing{
			ItersPerTrial: 8, TrialsPerPoint: 4, WarmupItersPerTrial: 2,
			ChainItersPerTrial: 16, ChainTrialsPerPoint: 2, ChainDrop: 4,
		}
	})
}

// CollectiveCase returns a float all_reduce of two ranks on the host backend.
func CollectiveCase() plan.Case {
	return plantest.Collective(2, func(c *plan.Case) { collective.Of(c).Sizes = []int64{8, 1024, 1 << 20} })
}

// Attempt returns the description of the run in the documents of this package.
func Attempt() result.Attempt {
	return result.Attempt{
		RunID: "4711", RunAttempt: "1", SourceSHA: strings.Repeat("ab", 20), Ordinal: 1, At: At,
		Vendor: "host", Generator: "cxrun devel (source dev)",
		Environment: map[string]string{"NCCL_ALGO": "Ring"},
	}
}

// New is result.New; it panics on an error.
func New(c plan.Case, a result.Attempt) result.Document {
	d, err := result.New(c, a)
	if err != nil {
		panic(err)
	}
	return d
}

// Successful returns a successful document of a case of any family.
func Successful(c plan.Case, a result.Attempt) result.Document {
	switch c.Family {
	case ep.Name:
		return EP(c, a)
	case transfer.Name:
		return Transfer(c, a)
	case steps.Name:
		return Schedule(c, a)
	case copies.Name:
		return Copy(c, a)
	case overlap.Name:
		return Overlap(c, a)
	case simulation.Name:
		return Simulation(c, a)
	default:
		return Collective(c, a)
	}
}

// Partial keeps only the first row of d, which becomes incomplete unless d is of a simulation, and
// gives d a failed outcome like Fail.
func Partial(d result.Document, reasons ...string) result.Document {
	switch d := d.(type) {
	case *ep.Document:
		first(&d.Measurement.Rows).Complete = false
	case *collective.Document:
		first(&d.Measurement.Rows).Complete = false
	case *transfer.Document:
		first(&d.Measurement.Rows).Complete = false
	case *steps.Document:
		first(&d.Measurement.Rows).Complete = false
	case *copies.Document:
		first(&d.Measurement.Rows).Complete = false
	case *overlap.Document:
		first(&d.Measurement.Rows).Complete = false
	case *simulation.Document:
		first(&d.Simulation.Rows)
	}
	return Fail(d, reasons...)
}

// first removes all rows but the first, which it returns.
func first[Row any](rows *[]Row) *Row {
	*rows = (*rows)[:1]
	return &(*rows)[0]
}

// EP returns a successful document of c, one row per rung of its ladder up to its
// cap, with figures that grow with the rung.
func EP(c plan.Case, a result.Attempt) *ep.Document {
	d := New(c, a).(*ep.Document)
	var measured, dropped []int
	for _, t := range ep.Of(&c).Ladder {
		if ep.Of(&c).LadderCap != nil && t > *ep.Of(&c).LadderCap {
			dropped = append(dropped, t)
			continue
		}
		measured = append(measured, t)
		d.Measurement.Rows = append(d.Measurement.Rows, EPRow(c, t))
	}
	d.SetLadder(measured, dropped, ep.Of(&c).LadderCap)
	d.Workload.CrossRankConsistent = true
	d.Measurement.DispatchDType = "bf16"
	no, yes := false, true
	d.Implementation.Maturity = "reference"
	d.Implementation.KernelGeneration = "host"
	d.Implementation.CombineReduction = "domain-fp32"
	d.Implementation.FP8Consume = "native"
	d.Implementation.StageExcludedFromRoundtrip = &no
	d.Implementation.ChainedPeriod = &yes
	succeed(&d.Envelope)
	return d
}

// EPRow returns a complete row of t tokens per rank.
func EPRow(c plan.Case, t int) ep.Row {
	timing := ep.Of(&c).Timing
	fresh := timing.ItersPerTrial * timing.TrialsPerPoint
	chain := (timing.ChainItersPerTrial - timing.ChainDrop) * timing.ChainTrialsPerPoint
	base := 10 + float64(t)
	middle := component(ep.Measured, ep.OriginChainedMiddle, 1.5*base, chain)
	measured := func(us float64, n int) ep.Component {
		return component(ep.Measured, ep.OriginMeasured, us, n)
	}
	floor := func(us float64) ep.Component {
		return component(ep.Measured, ep.OriginChainedRankMin, us, chain)
	}
	failure := 0.001
	copies := int64(2 * t * c.World)
	bytes := copies * int64(ep.Of(&c).Hidden) * 2
	count := ep.Bytes{
		Dispatch:  ep.ByteCount{Activation: bytes, Total: bytes},
		Combine:   ep.ByteCount{Activation: bytes, Total: bytes},
		Roundtrip: ep.ByteCount{Activation: 2 * bytes, Total: 2 * bytes},
	}
	row := ep.Row{
		TokensPerRank: t, GlobalTokens: t * c.World, Complete: true,
		Components: ep.Components{
			Dispatch: measured(base, fresh), Combine: measured(base, fresh), Roundtrip: measured(2*base, fresh),
			Stage:       ep.Component{Availability: ep.Unavailable},
			IsolatedSum: component(ep.Derived, ep.OriginPercentileSum, 2*base, 0),
			PairPeriod:  component(ep.Measured, ep.OriginChainedMedian, 1.5*base, chain),
		},
		PairMiddle: &middle,
		ChainFloor: ep.Ops{Dispatch: floor(base / 2), Combine: floor(base / 2)},
		ChainHealth: ep.Health{
			PairSpread: measured(1, chain), InterpairGap: measured(0.5, timing.ChainTrialsPerPoint),
			SettleDrift: measured(0.1, timing.ChainTrialsPerPoint),
		},
		RankMin:    ep.Fresh{Dispatch: measured(base-1, fresh), Combine: measured(base-1, fresh), Roundtrip: measured(2*base-1, fresh)},
		RankSpread: measured(1, fresh),
		Correctness: ep.Check{
			Passed: true, MaxRelativeError: &failure, PostChainPassed: true,
			ChainLastOutputPassed: &[]bool{true}[0], ChainLastOutputError: &failure,
			OraclePassed: &ep.OraclePassed{Pre: true, Chained: true, Post: true},
			OracleFailed: &ep.OracleFailed{Pre: []string{}, Chained: []string{}, Post: []string{}},
		},
		Arithmetic: &result.Arithmetic{
			Passed: true, Accumulation: "domain-fp32", Checked: int64(t * c.World * ep.Of(&c).Hidden),
			MaxError: &[]float64{0.5}[0], Bound: &[]float64{0.5}[0],
		},
		Bytes:         count,
		WireBytes:     &count,
		LogicalCopies: ep.Copies{Routed: copies, Assignments: int64(t * c.World * ep.Of(&c).TopK), Wire: ep.WirePerRank},
		Receive:       ep.Receive{Min: t, Mean: float64(copies) / float64(c.World), Max: 2 * t, Total: int(copies)},
		RoutingStats: ep.Routing{
			FanoutHistogram:      []int{0, t * c.World},
			PayloadCopiesPerRank: []int64{copies / 2, copies / 2}, ExpertAssignmentsPerRank: []int64{copies, copies},
			ExpertLoadMin: 1, ExpertLoadMax: 1, ExpertLoadMean: 1,
			Locality: ep.Locality{
				Placement: "packed", LocalRankFraction: 0.5, SameNodeFraction: 1, SameScaleUpDomain: 1,
				GPUsPerNode: c.GPUsPerNode, ScaleUpDomain: c.ScaleUpDomain, Copies: copies,
			},
		},
	}
	row.Components.IsolatedSum.Percentiles = row.Components.Sum()
	row.TokenRate = new(row.Components.Roundtrip.Percentiles.Map(func(us float64) float64 { return float64(t*c.World) / (us * 1e-6) }))
	row.RoutingStats.Derive()
	if ep.Of(&c).TimingMode == vocab.Graph {
		replay(&row)
	}
	return row
}

// replay makes the fresh entries of a row entries of replayed graphs.
func replay(r *ep.Row) {
	yes, none, origin := true, 0.0, ep.OriginGraphReplay
	k := &r.Components
	for _, c := range []*ep.Component{&k.Dispatch, &k.Combine, &k.Roundtrip, &r.RankMin.Dispatch, &r.RankMin.Combine, &r.RankMin.Roundtrip, &k.IsolatedSum} {
		c.Percentiles = &result.Percentiles{P50: c.Percentiles.P50}
		if c != &k.IsolatedSum {
			c.Origin = &origin
		}
	}
	r.TokenRate = &result.Percentiles{P50: r.TokenRate.P50}
	r.Correctness.GraphRewritten, r.Correctness.GraphOutputPassed, r.Correctness.GraphOutputError = &yes, &yes, &none
}

// Collective returns a successful document of c: one row per size, placement and
// pair of ranks, with the timing modes of c.
func Collective(c plan.Case, a result.Attempt) *collective.Document {
	d := New(c, a).(*collective.Document)
	setSizes(d)
	for _, size := range d.Workload.SizesMeasured {
		for _, placement := range collective.Of(&c).Placements {
			d.Measurement.Rows = append(d.Measurement.Rows, collectiveRows(c, size, placement)...)
		}
	}
	d.Measurement.CheckedBy = "host"
	d.Measurement.Path = "native"
	succeed(&d.Envelope)
	return d
}

// TransferCase returns a small transfer between two ranks of the host backend.
func TransferCase() plan.Case { return plantest.Transfer() }

// UpstreamTransferCase returns a transfer as CollectiveX itself plans them.
func UpstreamTransferCase() plan.Case {
	return plantest.Transfer(func(c *plan.Case) {
		t := transfer.Of(c)
		c.Suite, c.Backend, c.Precision, t.Workload, t.Mode = "kv-transfer", "nixl", "fp8", "kv-dsv4", "rdma"
		c.Nodes, c.RanksPerNode, c.GPUsPerNode, c.ScaleOutTransport = 2, 1, 1, &t.Mode
	})
}

// Transfer returns a successful document of c: a row for each operation and point, with
// figures that grow with the bytes.
func Transfer(c plan.Case, a result.Attempt) *transfer.Document {
	d := New(c, a).(*transfer.Document)
	m, t := &d.Measurement, transfer.Of(&c)
	verify := result.Verify{Passed: true, Detail: "6 checks of 512 words", Checks: 6, Checked: 512}
	samples := func(ms float64, n int) result.Burst {
		return result.Burst{P50: ms, P95: ms, Min: ms, Max: 2 * ms, N: n}
	}
	n := t.Timing.Reps * t.Timing.Trials
	for _, r := range d.Asked() {
		bytes := float64(r.ReqBytes) * float64(r.Batch)
		ms := 1 + bytes/1e7
		r.DescsMerged, r.Complete, r.Verify = r.Descs, true, verify
		r.Latency, r.Request, r.GBps, r.GBpsPrepared = samples(ms, n), samples(ms, n*r.Batch), bytes/ms/1e6, bytes/ms/1e6
		m.Rows = append(m.Rows, r)
	}
	m.Lane, m.Transport, m.CheckedBy = t.Mode, t.Handle, "host"
	m.Setup = &transfer.Setup{PoolBytes: 1 << 20, RegisterMillis: 1, RegisterMillisPerGiB: 1024, ConnectMillis: 1}
	seconds := max(1, float64(t.SustainMillis)/1e3)
	for _, op := range t.Ops {
		m.First = append(m.First, transfer.First{Op: op, Bytes: 8, Millis: samples(0.01, n), Verify: &verify})
		first := &m.Rows[slices.IndexFunc(m.Rows, func(r transfer.Row) bool { return r.Op == op })]
		bytes := 4 * first.ReqBytes * int64(first.Batch)
		m.Sustained = append(m.Sustained, transfer.Sustained{
			Op: op, InFlight: 1, Bursts: 4, Bytes: bytes, Seconds: seconds, GBps: float64(bytes) / 1e9 / seconds, CPU: 0.5, CPUPoster: 0.25, Verify: verify,
		})
		m.Released = append(m.Released, transfer.Released{Op: op, Verify: verify})
	}
	succeed(&d.Envelope)
	return d
}

// Copy returns a successful document of c: a row for each size and number of streams, with
// times that grow with the bytes.
func Copy(c plan.Case, a result.Attempt) *copies.Document {
	d := New(c, a).(*copies.Document)
	b := copies.Of(&c)
	for _, r := range copies.Asked(&c) {
		us := 1 + float64(r.Bytes)/1e5
		t := copies.TestOf(b.Test)
		if t.Swap {
			samples := b.Timing.Reps * b.Timing.Trials
			r.Latency, r.Complete = copies.NewLatency(r.Bytes, samples, *result.PercentilesOf(us, us, us, us)), true
			r.Verify = result.Verify{Passed: true, Detail: "2 checks, 512 words", Checks: 2, Checked: 512}
			d.Measurement.Rows = append(d.Measurement.Rows, r)
			continue
		}
		clock := copies.Clock{Micros: result.Burst{P50: us, P95: us, Min: us, Max: us, N: b.Timing.Trials}, GBps: r.Rate(us), Nanos: r.PerAccess(us)}
		if t.Disturbed() {
			r.Covered = new(1.0)
		}
		if t.Both && t.Ranks > 1 {
			clock.OppositeGBps = clock.GBps
			r.Both = &copies.Both{Overlap: 1, GBps: 2 * clock.GBps}
		}
		r.Device, r.Host, r.Complete = &clock, &clock, true
		if b.Victim {
			r.Victim = &copies.Victim{Units: 4096, Alone: clock.Micros, Beside: clock.Micros, Coverage: 1, CopyBeside: clock.Micros, CopyCoverage: 0.5}
			r.Victim.VictimFigures = r.Victim.Figures(r.Device)
		}
		r.Verify = result.Verify{Passed: true, Detail: "4 checks, 512 words", Checks: 4, Checked: 512}
		d.Measurement.Rows = append(d.Measurement.Rows, r)
	}
	d.Measurement.CheckedBy = "device"
	succeed(&d.Envelope)
	return d
}

// Overlap returns a successful document of c: a row for each size, in which half of the
// communication is hidden.
func Overlap(c plan.Case, a result.Attempt) *overlap.Document {
	d := New(c, a).(*overlap.Document)
	b := overlap.Of(&c)
	took := func(us float64) result.Burst {
		return result.Burst{P50: us, P95: us, Min: us, Max: us, N: b.Timing.Iterations}
	}
	for _, r := range overlap.Asked(&c) {
		us := 10 + float64(r.Bytes)/1e5
		r.Compute, r.Communication, r.Together, r.Serial = took(2*us), took(us), took(2.5*us), took(3*us)
		if b.Form != overlap.Beside {
			compute, communication := took(1.9*us), took(0.8*us)
			r.WholeCompute, r.WholeCommunication = &compute, &communication
		}
		r.ComputeInside, r.CommunicationInside = took(2.2*us), took(1.2*us)
		r.ComputeCoverage, r.CommunicationCoverage, r.Complete = 0.5, 1, true
		r.Figures = r.Derive(b.Form, c.World)
		r.Verify = overlap.Verify{Passed: true, Detail: "4 checks, 512 elements of products, 512 communicated", Checks: 4, Products: 512, Communicated: 512}
		d.Measurement.Rows = append(d.Measurement.Rows, r)
	}
	d.Measurement.CommunicationPath, d.Measurement.CheckedBy = "native", "device"
	d.Measurement.Program = OverlapProgram(&c)
	if b.Compute == overlap.ComputeAuto {
		d.Measurement.Compute = overlap.ComputeKernel
		key, err := result.ComparisonKey(result.Settled(d), a.Environment)
		if err != nil {
			panic(err)
		}
		d.ComparisonKey = key
	}
	succeed(&d.Envelope)
	return d
}

// OverlapProgram returns the program of an overlap case, nil where it has none.
func OverlapProgram(c *plan.Case) *result.Program {
	if b := overlap.Of(c); b.Algorithm == "" && b.Form != overlap.LinearRotation {
		return nil
	}
	return program(c)
}

func program(c *plan.Case) *result.Program {
	return &result.Program{SHA256: strings.Repeat("0", 64), Chunks: c.World, Streams: 1, Messages: c.World, SameOrder: true}
}

// Schedule returns a successful document of c: the rows of the collective case that is
// measured in the same way.
func Schedule(c plan.Case, a result.Attempt) *steps.Document {
	d := New(c, a).(*steps.Document)
	rows := d.Collective()
	setSizes(rows)
	for _, size := range rows.Workload.SizesMeasured {
		for _, placement := range steps.Of(&c).Placements {
			rows.Measurement.Rows = append(rows.Measurement.Rows, collectiveRow(rows.Identity.Case, size, placement))
		}
	}
	rows.Measurement.CheckedBy, rows.Measurement.Path = "host", "steps"
	succeed(&rows.Envelope)
	d.SetCollective(rows)
	d.Measurement.Program = program(&c)
	return d
}

// Simulation returns a successful document of c: times that grow with the bytes, half of them
// on links.
func Simulation(c plan.Case, a result.Attempt) *simulation.Document {
	d := New(c, a).(*simulation.Document)
	d.Simulation.Verification = simulation.Symbolic
	d.Simulation.Program = program(&c)
	for _, size := range simulation.Of(&c).Sizes {
		half := 1e6 + 10*size
		d.Simulation.Rows = append(d.Simulation.Rows, simulation.Row{
			Bytes: size, Makespan: 2 * half, Messages: c.World, Path: simulation.CriticalPath{Ops: 2, Latency: half, Bytes: half},
		})
	}
	d.Outcome = result.Outcome{Status: result.Success, Reasons: result.Reasons{}}
	return d
}

// collectiveRows returns the complete rows of a size and placement: one, or of a
// pairwise operation one for each pair, or one for each group.
func collectiveRows(c plan.Case, size int64, placement string) []collective.Row {
	var rows []collective.Row
	for _, group := range collective.Of(&c).Groups {
		row := collectiveRow(c, size, placement)
		row.Group = group
		rows = append(rows, row)
	}
	switch {
	case rows != nil:
		return rows
	case collective.Of(&c).Pairs(c.World) == 0:
		return []collective.Row{collectiveRow(c, size, placement)}
	}
	bothWays := collective.Of(&c).Pairs(c.World) < c.World*(c.World-1)
	for src := range c.World {
		for dst := range c.World {
			if src != dst && (src < dst || !bothWays) {
				row := collectiveRow(c, size, placement)
				row.Src, row.Dst = &src, &dst
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// setSizes sets the sizes of a document: those that leave no rank without an element are measured.
func setSizes(d *collective.Document) {
	c := &d.Identity.Case
	_, least := leastBytes(c)
	d.Workload.SizesMeasured = nil
	for _, size := range collective.Of(c).Sizes {
		if size >= least {
			d.Workload.SizesMeasured = append(d.Workload.SizesMeasured, size)
			continue
		}
		why := result.ReasonSizeTooSmall.With("%d ranks of %s take at least %d bytes", c.World, c.Precision, least)
		d.Workload.SizesDropped = append(d.Workload.SizesDropped, collective.DroppedSize{Bytes: size, Reason: why})
	}
}

// leastBytes returns the bytes of an element of a collective case, and its smallest size.
func leastBytes(c *plan.Case) (element, least int64) {
	element = 4
	if t, err := numeric.ParseType(c.Precision); err == nil {
		element = int64(t.Size())
	}
	return element, element * collective.Parts(collective.Of(c).Op, collective.Of(c).Width(c.World))
}

func collectiveRow(c plan.Case, size int64, placement string) collective.Row {
	us := 2 + float64(size)/10e3
	b := collective.Of(&c)
	element, least := leastBytes(&c)
	requested, count := size, size/least
	size = count * least
	row := collective.Row{
		Requested: requested, Bytes: size, Count: count, Placement: placement, Slots: 1, Complete: true,
		Check: collective.Check{Passed: true, Checked: 2 * size / element},
	}
	for _, mode := range b.Modes {
		samples := b.Measure.Trials
		if mode == vocab.Blocking || mode == vocab.PerIteration {
			samples *= b.Measure.Iterations
		}
		*row.Timing(mode) = Timing(&c, size, us, samples)
	}
	return row
}

// Timing returns the figures of samples that take us microseconds each for size
// bytes of a collective case. The last sample of several takes a tenth longer.
func Timing(c *plan.Case, size int64, us float64, samples int) *collective.Timing {
	slowest := us
	if samples > 1 {
		slowest *= 1.1
	}
	q := *result.PercentilesOf(us, us, us, us)
	if samples < 100 {
		q = *result.PercentilesOf(us, us, us, slowest)
	}
	if samples < 20 {
		*q.P95 = slowest
	}
	if samples < 10 {
		*q.P90 = slowest
	}
	op, width := collective.Of(c).Op, collective.Of(c).Width(c.World)
	rate := float64(size) / us / 1e3 * collective.AlgFactor(op, width)
	return &collective.Timing{
		Percentiles: q,
		Min:         us, Mean: us + (slowest-us)/float64(samples), Max: slowest, SampleCount: samples,
		RankMin: us, RankMean: us, RankP50: []float64{us, us},
		AlgBW: rate, BusBW: rate * collective.BusFactor(op, width),
		Histogram: &result.Histogram{Min: us, Width: slowest - us, Counts: []int{samples}},
	}
}

// Reasons returns the reasons that documents write as these texts.
func Reasons(texts ...string) result.Reasons {
	reasons := result.Reasons{}
	for _, text := range texts {
		var r result.Reason
		_ = r.UnmarshalText([]byte(text)) // takes any text
		reasons = append(reasons, r)
	}
	return reasons
}

// Fail gives d a failed outcome, with reasons as documents write them.
func Fail(d result.Document, reasons ...string) result.Document {
	d.Head().Outcome = result.Outcome{Status: result.Failed, Reasons: Reasons(reasons...)}
	return d
}

func succeed(e *result.Envelope) {
	e.Topology.DeviceProduct = "Host CPU"
	e.Runtime.Framework = "host"
	e.Runtime.AcceleratorRuntime = "host"
	if e.Runtime.Vendor != "host" {
		e.Runtime.CollectiveLibrary = &result.CollectiveLibrary{Kind: "nccl"}
	}
	e.Outcome = result.Outcome{Status: result.Success, Reasons: result.Reasons{}}
}

func component(availability, origin string, us float64, n int) ep.Component {
	q := *result.PercentilesOf(us, us*1.1, us*1.2, us*1.5)
	if n > 0 {
		q = measure.Percentiles(samples(q, n))
	}
	return ep.Component{Availability: availability, Origin: &origin, SampleCount: n, Percentiles: &q}
}

// samples returns n samples with these percentiles, of which the higher ones win if they are of one sample.
func samples(q result.Percentiles, n int) (us []float64) {
	for i := range n {
		switch at := float64(i) / float64(n); {
		case at < 0.5:
			us = append(us, q.P50)
		case at < 0.9:
			us = append(us, *q.P90)
		case at < 0.95:
			us = append(us, *q.P95)
		default:
			us = append(us, *q.P99)
		}
	}
	us[n-1] = *q.P99
	return us
}

// Histogram returns the histogram of n samples with these percentiles.
func Histogram(q result.Percentiles, n, bins int) result.Histogram {
	return measure.Histogram(samples(q, n), bins)
}
