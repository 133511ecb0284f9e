package ep

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

func newDocument(head result.Envelope) result.Document {
	d := &Document{Envelope: head}
	d.Measurement = Measurement{
		CombineDType: "bf16", CombineSemantics: "activation-only", PayloadUnit: "token-rank",
		Rows: []Row{}, Sampling: sampling(&head.Identity.Case),
	}
	d.SetLadder(nil, nil, nil)
	return d
}

// SetLadder records which rungs were measured and which were dropped above limit (null: no limit),
// and updates the case factors. If no rung was measured the factors keep the requested ladder.
func (d *Document) SetLadder(measured, dropped []int, limit *int) {
	d.Workload.LadderMeasured = append([]int{}, measured...)
	d.Workload.LadderDropped = append([]int{}, dropped...)
	d.Workload.LadderCap = limit
	d.Identity.CaseFactors = result.CaseFactors{SKU: d.Identity.Case.SKU, Case: FactorsOf(d.Identity.Case, measured)}
}

func sampling(c *plan.Case) SampleCounts {
	t := Of(c).Timing
	return SampleCounts{
		Profile:                 c.Sampling,
		IterationsPerTrial:      t.ItersPerTrial,
		Trials:                  t.TrialsPerPoint,
		SamplesPerComponent:     t.ItersPerTrial * t.TrialsPerPoint,
		WarmupIterations:        t.WarmupItersPerTrial,
		ChainIterationsPerTrial: t.ChainItersPerTrial,
		ChainTrials:             t.ChainTrialsPerPoint,
		ChainDrop:               t.ChainDrop,
	}
}

// FactorsOf returns the twenty factors of an EP case. A non-empty measured replaces the requested
// ladder.
func FactorsOf(c plan.Case, measured []int) Factors {
	b := Of(&c)
	ladder := b.Ladder
	if len(measured) > 0 {
		ladder = measured
	}
	return Factors{
		Backend: c.Backend, EP: b.EPSize, Experts: b.Experts, GPUsPerNode: c.GPUsPerNode,
		Hidden: b.Hidden, Ladder: ladder, Mode: b.Mode, Nodes: c.Nodes, Phase: b.Phase,
		Precision: c.Precision, Routing: b.Routing, ScaleUpDomain: c.ScaleUpDomain,
		ScaleUpTransport: c.ScaleUpTransport, ScaleOutTransport: c.ScaleOutTransport,
		Scope: c.Scope, Suite: c.Suite, TopK: b.TopK, TopologyClass: c.TopologyClass,
		Transport: c.Transport, Workload: b.Workload,
	}
}

// Factors returns the factors of an EP document, or the zero value if it has none.
func (d *Document) Factors() Factors {
	f, _ := factors(d.Identity.CaseFactors.Case)
	return f
}

// compared is the part of a case that two documents must share to be compared. It has no ladder, because rows
// are matched one by one, and of the other rungs a row has only their buffers: every window begins with a bind
// and a warm-up of its own, and inputs are sized rung by rung. Libraries size their buffers for the largest
// rung, and place rows in them by that size: DeepEP, UCCL, NCCL EP and FlashInfer in normal mode, MoRI above 256
// tokens. BufferedTokens is therefore here, unless it is that of bufferedOf.
type compared struct {
	Workload string `json:"workload"`
	Mode     string `json:"mode"`
	Phase    string `json:"phase"`
	Routing  string `json:"routing"`
	Hidden   int    `json:"hidden"`
	TopK     int    `json:"topk"`
	Experts  int    `json:"experts"`
	Seed     uint64 `json:"seed"`
	// BalancedRung decides where replicated experts are; see Block.BalancedRung.
	BalancedRung  int     `json:"balanced_rung,omitempty"`
	RoutingSHA256 string  `json:"routing_sha256,omitempty"` // of a routing from a file
	Timing        Timing  `json:"timing"`
	TimingMode    string  `json:"timing_mode,omitempty"` // see Block.TimingMode
	Tuning        *Tuning `json:"tuning,omitempty"`
	Layout        string  `json:"layout,omitempty"` // empty: expert-major, or no choice

	BufferedTokens int `json:"buffered_tokens,omitempty"` // see Block.BufferedTokens
}

// bufferedOf has the buffered tokens of CollectiveX's own ladders, by phase, in normal mode. Documents with
// these ladders have the keys of earlier versions.
var bufferedOf = map[string]int{"decode": 512, "prefill": 8192}

func comparison(c *plan.Case) any {
	b := Of(c)
	buffered := b.BufferedTokens()
	if b.Mode == ModeLowLatency && buffered == leastBuffered || b.Mode == ModeNormal && buffered == bufferedOf[b.Phase] {
		buffered = 0
	}
	layout := b.Layout
	if layout == ExpertMajor { // plans may omit it
		layout = ""
	}
	return compared{
		Workload: b.Workload, Mode: b.Mode, Phase: b.Phase, Routing: b.Routing,
		Hidden: b.Hidden, TopK: b.TopK, Experts: b.Experts, Seed: b.Seed, BalancedRung: b.BalancedRung(), RoutingSHA256: b.RoutingSHA256, Timing: b.Timing, TimingMode: b.TimingMode, Tuning: b.Tuning,
		Layout: layout, BufferedTokens: buffered,
	}
}

// older returns the rules for earlier documents: their comparison keys have no buffered tokens. Up to 6d8324a
// they have one record type for all EP cases, and the key of a case with replicated experts does not depend on
// the ladder.
func older(e *result.Envelope) result.Older {
	old := result.Older{RecordType: result.RecordUpstream}
	c := e.Identity.Case
	block := *Of(&c)
	if e.RecordType == result.RecordUpstream {
		block.Ladder = nil
	}
	block.LadderCap, c.Block = new(int), &block // buffers of no rung
	if key, err := result.ComparisonKey(c, e.Provenance.Environment); err == nil {
		old.ComparisonKey = key
	}
	return old
}

func check(p *result.Problems, doc result.Document) {
	d := doc.(*Document)
	id := d.Identity
	if f, ok := factors(id.CaseFactors.Case); !ok {
		p.Add("identity.case_factors.case is a %T, not EP factors", id.CaseFactors.Case)
	} else {
		p.Check(reflect.DeepEqual(f, FactorsOf(id.Case, d.Workload.LadderMeasured)),
			"identity.case_factors.case is not the case with the measured ladder")
	}
	if err := Of(&id.Case).CheckRecorded(); err != nil {
		p.Add("identity.case: %w", err)
	}
	m := d.Measurement
	p.Check(m.Rows != nil, "measurement.rows is null, must be a list")
	checkLadder(p, d)
	if e := d.Workload.EPLB; e != nil {
		b, c := Of(&id.Case), &id.Case
		p.Check(b.BalancedRung() > 0 && e.Slots >= b.Experts && e.Slots%c.World == 0 && e.ImbalanceBefore >= 1 && e.ImbalanceAfter >= 1 && max(e.ImbalanceBefore, e.ImbalanceAfter) <= float64(c.World),
			"workload.eplb: slots %d of %d experts on %d ranks, imbalance_before %v and imbalance_after %v of the mean load", e.Slots, b.Experts, c.World, e.ImbalanceBefore, e.ImbalanceAfter)
	}
	p.Check(d.Workload.LadderMeasured != nil && d.Workload.LadderDropped != nil, "workload has a null ladder")
	p.Check(m.CombineDType == "bf16" && m.CombineSemantics == "activation-only" && m.PayloadUnit == "token-rank",
		"measurement must have the constants bf16, activation-only and token-rank")
	p.Check(m.Sampling == sampling(&id.Case), "measurement.sampling is not the sampling of the case")
	if i := d.Implementation; i.CUDAGraphReplay != nil {
		p.Check(*i.CUDAGraphReplay == (Of(&id.Case).TimingMode == vocab.Graph), "implementation.cuda_graph_replay does not match the timing mode of the case")
	}
	p.Check(d.Implementation.ChainedPeriod == nil || *d.Implementation.ChainedPeriod, "implementation.chained_period is false, but every pair period is of a chain")
	var bad []string
	last := 0
	for i := range m.Rows {
		r := &m.Rows[i]
		at := fmt.Sprintf("measurement.rows[T=%d]", r.TokensPerRank)
		p.Check(r.TokensPerRank > last, "%s: rows do not ascend", at)
		last = r.TokensPerRank
		p.Check(r.GlobalTokens == r.TokensPerRank*id.Case.World, "%s: global_tokens is %d", at, r.GlobalTokens)
		checkRow(p, at, r, Of(&id.Case))
		checkCounts(p, at, &id.Case, r)
		checkTimes(p, at, Of(&id.Case), r)
		hoisted := d.Implementation.StageExcludedFromRoundtrip
		p.Check(hoisted == nil || !r.Good() || *hoisted == (r.Correctness.ChainLastOutputPassed == nil),
			"%s.correctness.chain_last_output_passed does not match implementation.stage_excluded_from_roundtrip", at)
		if !r.Good() {
			bad = append(bad, fmt.Sprintf("T=%d is complete %v, passed %v", r.TokensPerRank, r.Complete, r.Correctness.Passed))
		}
		if d.Outcome.Status == result.Success {
			p.Check(slices.Contains(d.Workload.LadderMeasured, r.TokensPerRank), "%s is not in workload.ladder_measured", at)
		}
	}
	p.Outcome(d.Outcome, len(m.Rows), bad, func(p *result.Problems) {
		p.Check(len(m.Rows) == len(d.Workload.LadderMeasured), "%d rows for a measured ladder of %d rungs", len(m.Rows), len(d.Workload.LadderMeasured))
		p.Check(d.Workload.CrossRankConsistent, "outcome is success, but workload.cross_rank_consistent is false")
		p.Check(m.DispatchDType != "", "measurement.dispatch_dtype is empty")
		i := d.Implementation
		p.Check(i.Maturity != "" && i.KernelGeneration != "" && i.CombineReduction != "" && i.FP8Consume != "" &&
			i.StageExcludedFromRoundtrip != nil && i.ChainedPeriod != nil, "implementation lacks a declaration of the adapter")
		p.Check(d.Topology.DeviceProduct != "", "topology.device_product is empty")
	})
}

// checkLadder checks that each requested rung of a successful document was either measured or dropped.
func checkLadder(p *result.Problems, d *Document) {
	w, b := &d.Workload, Of(&d.Identity.Case)
	if d.Outcome.Status != result.Success {
		return
	}
	rungs := slices.Sorted(slices.Values(slices.Concat(w.LadderMeasured, w.LadderDropped)))
	p.Check(slices.Equal(rungs, b.Ladder), "workload: ladder_measured %v and ladder_dropped %v are not the ladder of the case, %v", w.LadderMeasured, w.LadderDropped, []int(b.Ladder))
	if w.LadderCap != nil && len(w.LadderMeasured) > 0 {
		p.Check(slices.Max(w.LadderMeasured) <= *w.LadderCap && (b.LadderCap == nil || *w.LadderCap <= *b.LadderCap),
			"workload.ladder_cap is %d, below ladder_measured %v or above the cap of the case", *w.LadderCap, w.LadderMeasured)
	}
}

// checkRow checks a row of a case.
func checkRow(p *result.Problems, at string, r *Row, b *Block) {
	replayed := b.TimingMode == vocab.Graph // its fresh entries are graph launches
	entries := OriginMeasured
	if replayed {
		entries = OriginGraphReplay
	}
	for i := range components {
		n := &components[i]
		c, origin := n.of(r), cmp.Or(n.origin, entries)
		tailed := origin != OriginGraphReplay && (origin != OriginPercentileSum || !replayed)
		if err := c.check(origin, tailed); err != nil {
			p.Add("%s.%s: %w", at, n.at, err)
		} else if c.Percentiles != nil && !n.each && c.Percentiles.P50 < 0 {
			p.Add("%s.%s: percentiles_us are below 0: %v", at, n.at, c.Percentiles)
		} else if r.Complete && c.Availability == Unavailable && n.figure != "stage" && (p.Fresh() || !n.added) {
			p.Add("%s.%s is unavailable in a complete row", at, n.at)
		}
		if r.Good() && !n.signed && c.Percentiles != nil {
			p.Check(c.Percentiles.P50 > 0, "%s.%s has a time of %v µs", at, n.at, c.Percentiles.P50)
		}
	}
	checkRouting(p, at+".routing", r.RoutingStats)
	histograms(p, at, r)
	wireBytes(p, at, r)
	if r.Good() {
		p.Check(r.TokenRate != nil && r.TokenRate.Tailed() != replayed, "%s: token_rate_at_latency_percentile is missing in a complete row that passed, or has the wrong percentiles", at)
	}
	p.Reasons(at+".correctness", r.Correctness.Reasons)
	if a := r.Arithmetic; a != nil {
		p.Arithmetic(at+".arithmetic_as_declared", a)
		p.Check(a.Bound == nil || *a.Bound == ArithmeticBound, "%s.arithmetic_as_declared: bound is not %v", at, ArithmeticBound)
	} else {
		p.Check(!p.Fresh() || !r.Complete, "%s: no arithmetic_as_declared in a complete row", at)
	}
	repeatable(p, at, b, r)
	if c := &r.Correctness; c.Passed {
		p.Check(len(c.Reasons) == 0, "%s.correctness passed with reasons %q", at, c.Reasons)
		p.Check(c.PostChainPassed && (c.ChainLastOutputPassed == nil || *c.ChainLastOutputPassed),
			"%s.correctness passed, but post_chain_state_passed or chain_last_output_passed is false", at)
		p.Check(c.MaxRelativeError != nil, "%s.correctness passed without max_relative_error", at)
		for _, e := range []struct {
			name  string
			value *float64
		}{{"max_relative_error", c.MaxRelativeError}, {"chain_last_output_error", c.ChainLastOutputError}, {"cuda_graph_last_output_error", c.GraphOutputError}} {
			p.Check(e.value == nil || *e.value < Tolerance, "%s.correctness passed with %s not below %v", at, e.name, Tolerance)
		}
	}
	oracle(p, at+".correctness", r.Correctness)
	replays(p, at+".correctness", r.Correctness, replayed)
}

// repeatable checks that exactly the complete rows of a case with repeated combines have what these found.
func repeatable(p *result.Problems, at string, b *Block, r *Row) {
	v := r.Repeatable
	if v == nil {
		p.Check(b.Repeatable == 0 || !r.Complete, "%s: no repeatable in a complete row", at)
		return
	}
	p.Repeatability(at, v, b.Repeatable, b.EPSize)
	p.Check(v.Compared <= int64(r.GlobalTokens)*int64(b.Hidden) && (v.First == nil) == (v.AsDeclared == nil), "%s: repeatable %+v contradicts the row", at, *v)
	if f := v.First; f != nil {
		p.Check(f.Token != nil && 0 <= *f.Token && *f.Token < int64(r.GlobalTokens) && f.Element < int64(b.Hidden) && f.Bit < 16, "%s: repeatable.first %+v is in no result of the row", at, *f)
	}
}

// replays checks that exactly the rows that passed in graph mode have the graph checks.
func replays(p *result.Problems, at string, c Check, replayed bool) {
	rewritten, passed := c.GraphRewritten, c.GraphOutputPassed
	if !replayed {
		p.Check(rewritten == nil && passed == nil && c.GraphOutputError == nil, "%s has checks of graphs that were not replayed", at)
		return
	}
	good := rewritten != nil && *rewritten && passed != nil && *passed && c.GraphOutputError != nil
	p.Check(good || !c.Passed, "%s passed although the checks of its graphs did not", at)
}

// checkForm matches the name of a check.
var checkForm = regexp.MustCompile(`^[a-z][a-z_]*$`)

// oracle checks that the oracle's verdicts agree with its failed checks and the row's verdict.
func oracle(p *result.Problems, at string, c Check) {
	passed, failed := c.OraclePassed, c.OracleFailed
	if passed == nil || failed == nil {
		p.Check(!p.Fresh() && passed == nil && failed == nil, "%s: oracle_passed or oracle_failed_checks is missing", at)
		return
	}
	all := true
	for _, m := range []struct {
		name   string
		passed bool
		failed []string
	}{{"pre", passed.Pre, failed.Pre}, {"chained", passed.Chained, failed.Chained}, {"post", passed.Post, failed.Post}} {
		all = all && m.passed
		p.Check(!m.passed || len(m.failed) == 0, "%s.oracle_passed.%s is true in spite of failed checks", at, m.name)
		p.Check(slices.IsSorted(m.failed) && !slices.ContainsFunc(m.failed, func(name string) bool { return !checkForm.MatchString(name) }),
			"%s.oracle_failed_checks.%s are not names of checks, sorted", at, m.name)
	}
	p.Check(all || !c.Passed, "%s passed although its oracle did not", at)
	p.Check(c.PostChainPassed || !passed.Chained, "%s.oracle_passed.chained is true, but post_chain_state_passed is false", at)
}

// histograms checks that each histogram is consistent with the samples of its component.
func histograms(p *result.Problems, at string, r *Row) {
	for _, name := range slices.Sorted(maps.Keys(r.Histograms)) {
		h, c := r.Histograms[name], &Component{}
		if i := slices.IndexFunc(components, func(c component) bool { return c.at == "components."+name }); i >= 0 {
			c = components[i].of(r)
		}
		if c.Percentiles == nil || c.SampleCount == 0 {
			p.Add("%s.histograms.%s: the row has no samples of this component", at, name)
		} else if err := h.Check(c.SampleCount, *c.Percentiles); err != nil {
			p.Add("%s.histograms.%s: %w", at, name, err)
		}
	}
}

// wireBytes checks the bytes on the wire against the copies that the row reports: each copy has
// the size that it has in byte_provenance.
func wireBytes(p *result.Problems, at string, r *Row) {
	if r.WireBytes == nil {
		p.Check(!p.Fresh(), "%s: no wire_byte_provenance", at)
		return
	}
	if r.LogicalCopies.Routed == 0 {
		return
	}
	copies := r.LogicalCopies.Routed
	if r.LogicalCopies.Wire == WirePerAssignment {
		copies = r.LogicalCopies.Assignments
	}
	scaled := func(c ByteCount) ByteCount {
		times := func(bytes int64) int64 { return bytes / r.LogicalCopies.Routed * copies }
		return ByteCount{times(c.Activation), times(c.Scale), times(c.Total)}
	}
	want := Bytes{scaled(r.Bytes.Dispatch), scaled(r.Bytes.Combine), scaled(r.Bytes.Stage), scaled(r.Bytes.Roundtrip)}
	p.Check(*r.WireBytes == want, "%s.wire_byte_provenance does not match %d copies", at, copies)
}

// check requires availability and origin to agree; a derived component has no samples of its
// own.
func (c Component) check(origin string, tailed bool) error {
	switch c.Availability {
	case Unavailable:
		if c.Origin != nil || c.Percentiles != nil || c.SampleCount != 0 {
			return errors.New("availability is unavailable, but the component has figures")
		}
		return nil
	case Measured, Derived:
		want := Measured
		if origin == OriginPercentileSum {
			want = Derived
		}
		if c.Availability != want || c.Origin == nil || *c.Origin != origin {
			return fmt.Errorf("must be %s with origin %s", want, origin)
		}
		if c.Percentiles == nil || (c.SampleCount > 0) != (c.Availability == Measured) {
			return fmt.Errorf("%s with %d samples and percentiles %v", c.Availability, c.SampleCount, c.Percentiles)
		}
		return c.Percentiles.Check(tailed, c.SampleCount)
	default:
		return fmt.Errorf("unknown availability %q", c.Availability)
	}
}

// factors returns the EP factors that a document holds by value or, after
// Decode, by pointer.
func factors(v any) (Factors, bool) {
	switch f := v.(type) {
	case Factors:
		return f, true
	case *Factors:
		if f != nil {
			return *f, true
		}
	}
	return Factors{}, false
}
