package result

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Validate returns everything that is wrong with a document before it is
// written: its identity must be that of the case it answers, its status must
// follow from its rows, nothing measured may lack its check, and every number
// must be finite.
func Validate(d Document) error {
	if at := nonFinite(reflect.ValueOf(d), ""); at != "" {
		return fmt.Errorf("document of case %s: %s is not a finite number", d.Head().Identity.CaseID, at)
	}
	return judge(d, true)
}

// judge is Validate without a look at every number: those that were read from JSON
// are finite. A document that is not fresh was read, perhaps from an earlier version:
// it may lack what only later versions write.
func judge(d Document, fresh bool) error {
	p := &problems{fresh: fresh}
	p.envelope(d.Head())
	switch doc := d.(type) {
	case *EPDocument:
		p.ep(doc)
	case *CollectiveDocument:
		p.collective(doc)
	default:
		p.add("unknown document type %T", d)
	}
	if len(p.errs) == 0 {
		return nil
	}
	return fmt.Errorf("document of case %s: %w", d.Head().Identity.CaseID, errors.Join(p.errs...))
}

// problems collects what is wrong.
type problems struct {
	fresh bool // see judge
	errs  []error
}

func (p *problems) add(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

func (p *problems) check(ok bool, format string, args ...any) {
	if !ok {
		p.add(format, args...)
	}
}

func (p *problems) envelope(e *Envelope) {
	p.check(!p.fresh && olderRecord(e) || e.RecordType == RecordType(e.Identity.Case), "record_type is %q, documents of the case have %q", e.RecordType, RecordType(e.Identity.Case))
	p.check(e.Version == Version, "version is %d, must be %d", e.Version, Version)
	if at, err := time.Parse(time.RFC3339, e.GeneratedAt); err != nil {
		p.add("generated_at: %w", err)
	} else {
		_, offset := at.Zone()
		p.check(offset == 0, "generated_at %s is not UTC", e.GeneratedAt)
	}
	id := e.Identity
	p.check(id.CaseID != "" && id.CaseID == id.Case.CaseID, "identity.case_id %q is not that of the case (%q)", id.CaseID, id.Case.CaseID)
	c := id.Case
	p.check((c.EP == nil) != (c.Collective == nil), "identity.case has not exactly one family's block")
	p.check(c.Placed(), "identity.case has %d ranks on %d nodes with %d each", c.World, c.Nodes, c.RanksPerNode)
	p.check(id.AttemptOrdinal > 0, "identity.attempt_ordinal is %d, must be positive", id.AttemptOrdinal)
	p.check(id.Repeat > 0 && id.Repeat == id.Case.Repeat, "identity.repeat is %d, the case says %d", id.Repeat, id.Case.Repeat)
	p.check(id.CaseFactors.SKU == id.Case.SKU, "identity.case_factors.sku %q is not that of the case (%q)", id.CaseFactors.SKU, id.Case.SKU)
	if key, err := ComparisonKey(id.Case, e.Provenance.Environment); err != nil {
		p.add("%w", err)
	} else {
		p.check(id.CaseID == id.Case.ID() || olderTrafficID(id), "identity.case_id is %q, the fields of the case make %q", id.CaseID, id.Case.ID())
		p.check(e.ComparisonKey == key || !p.fresh && e.ComparisonKey == olderBalancedKey(e), "comparison_key %q is not that of case and environment (%q)", e.ComparisonKey, key)
	}
	p.check(e.Implementation.Name == id.Case.Backend, "implementation.name %q is not the backend of the case (%q)", e.Implementation.Name, id.Case.Backend)
	p.check(e.Topology.WorldSize == id.Case.World, "topology.world_size is %d, the case says %d", e.Topology.WorldSize, id.Case.World)
	p.check(slices.Contains(vocab.Vendors(), e.Runtime.Vendor), "runtime.vendor %q is none of %s", e.Runtime.Vendor, strings.Join(vocab.Vendors(), ", "))
	p.check(e.Provenance.Generator != "", "provenance.generator is empty")
	if e.Devices != nil {
		p.check(reflect.DeepEqual(e.Devices, NewDevices(e.Devices.Ranks)), "devices say other things together than each of them does")
	}
	p.outcome(e.Outcome)
}

func (p *problems) outcome(o Outcome) {
	switch o.Status {
	case Success:
		p.check(len(o.Reasons) == 0, "outcome is success with reasons %q", o.Reasons)
	case Invalid, Failed, Unsupported:
		p.check(len(o.Reasons) > 0, "outcome is %s without a reason", o.Status)
	default:
		p.add("outcome.status %q is unknown", o.Status)
	}
	p.check(o.Reasons != nil, "outcome.reasons is null, must be a list")
	p.reasons("outcome", o.Reasons)
}

// reasons requires that each is of the closed list.
func (p *problems) reasons(at string, reasons []string) {
	for _, r := range reasons {
		if err := CheckReason(r); err != nil {
			p.add("%s: %w", at, err)
		}
	}
}

func (p *problems) arithmetic(at string, a *Arithmetic) {
	p.reasons(at, a.Reasons)
	p.check(a.Passed == (a.Checked > 0 && a.Wrong == 0), "%s: passed is %v with %d of %d elements wrong", at, a.Passed, a.Wrong, a.Checked)
}

// good requires what a success promises of its rows, each of which passed and
// is complete or not.
func (p *problems) good(status string, rows int, bad []string) {
	if status != Success {
		return
	}
	p.check(rows > 0, "outcome is success without rows")
	for _, b := range bad {
		p.add("outcome is success, but row %s", b)
	}
}

// olderTrafficID reports whether the id differs from the one that the fields of the
// case make only by the name of the traffic. Documents of 6d8324a and before have
// that name in the id alone; later ones have traffic_name too.
func olderTrafficID(id Identity) bool {
	c := id.Case.Collective
	if c == nil || len(c.Traffic) == 0 || c.TrafficName != "" {
		return false
	}
	head, tail, _ := strings.Cut(id.Case.ID(), "-"+c.Op+"-")
	return strings.HasPrefix(id.CaseID, head+"-"+c.Op+"-") && strings.HasSuffix(id.CaseID, "-"+tail)
}

// olderRecord reports whether the record type is that of an EP case in documents of
// 6d8324a and before, which have one for all of them.
func olderRecord(e *Envelope) bool {
	return e.Identity.Case.Family == plan.FamilyEP && e.RecordType == RecordEP
}

// olderBalancedKey returns the comparison key that documents of 6d8324a and before
// have of a case with replicated experts, which does not depend on the ladder; ""
// for any other document.
func olderBalancedKey(e *Envelope) string {
	c := e.Identity.Case
	if !olderRecord(e) || c.BalancedRung() == 0 {
		return ""
	}
	block := *c.EP
	block.Ladder, c.EP = "", &block
	key, err := ComparisonKey(c, e.Provenance.Environment)
	if err != nil {
		return ""
	}
	return key
}

func (p *problems) ep(d *EPDocument) {
	id := d.Identity
	p.check(id.Case.Family == plan.FamilyEP, "an EP document of family %q", id.Case.Family)
	if id.Case.EP == nil {
		return // said by the comparison key
	}
	if f, ok := epFactors(id.CaseFactors.Case); !ok {
		p.add("identity.case_factors.case is a %T, not EP factors", id.CaseFactors.Case)
	} else {
		p.check(sameFactors(f, EPFactorsOf(id.Case, d.Workload.LadderMeasured)),
			"identity.case_factors.case is not the case with the measured ladder")
	}
	m := d.Measurement
	p.check(m.Rows != nil, "measurement.rows is null, must be a list")
	p.check(d.Workload.LadderMeasured != nil && d.Workload.LadderDropped != nil, "workload has a null ladder")
	p.check(m.CombineDType == "bf16" && m.CombineSemantics == "activation-only" && m.PayloadUnit == "token-rank",
		"measurement has other constants than bf16, activation-only, token-rank")
	p.check(m.Sampling == epSampling(id.Case), "measurement.sampling is not the sampling of the case")
	var bad []string
	last := 0
	for _, r := range m.Rows {
		at := fmt.Sprintf("measurement.rows[T=%d]", r.TokensPerRank)
		p.check(r.TokensPerRank > last, "%s: rows do not ascend", at)
		last = r.TokensPerRank
		p.check(r.GlobalTokens == r.TokensPerRank*id.Case.World, "%s: global_tokens is %d", at, r.GlobalTokens)
		p.epRow(at, r)
		if !r.Complete || !r.Correctness.Passed {
			bad = append(bad, fmt.Sprintf("T=%d is complete %v, passed %v", r.TokensPerRank, r.Complete, r.Correctness.Passed))
		}
		if d.Outcome.Status == Success {
			p.check(slices.Contains(d.Workload.LadderMeasured, r.TokensPerRank), "%s is not in workload.ladder_measured", at)
		}
	}
	p.good(d.Outcome.Status, len(m.Rows), bad)
	if d.Outcome.Status == Success {
		p.check(len(m.Rows) == len(d.Workload.LadderMeasured), "%d rows for a measured ladder of %d", len(m.Rows), len(d.Workload.LadderMeasured))
		p.check(d.Workload.CrossRankConsistent, "outcome is success, but the routing traces of the ranks differ")
		p.check(m.DispatchDType != "", "measurement.dispatch_dtype is empty")
		i := d.Implementation
		p.check(i.Maturity != "" && i.KernelGeneration != "" && i.CombineReduction != "" && i.FP8Consume != "" &&
			i.StageExcludedFromRoundtrip != nil && i.ChainedPeriod != nil, "implementation lacks a declaration of the adapter")
		p.check(d.Topology.DeviceProduct != "", "topology.device_product is empty")
	}
}

func (p *problems) epRow(at string, r EPRow) {
	named := []struct {
		name   string
		origin string
		c      Component
		timed  bool // not a difference, which may be 0
	}{
		{"components.dispatch", OriginMeasured, r.Components.Dispatch, true},
		{"components.combine", OriginMeasured, r.Components.Combine, true},
		{"components.roundtrip", OriginMeasured, r.Components.Roundtrip, true},
		{"components.stage", OriginMeasured, r.Components.Stage, true},
		{"components.isolated_sum", OriginPercentileSum, r.Components.IsolatedSum, true},
		{"components.pair_period", OriginChainedMedian, r.Components.PairPeriod, true},
		{"chain_floor_us.dispatch", OriginChainedRankMin, r.ChainFloor.Dispatch, true},
		{"chain_floor_us.combine", OriginChainedRankMin, r.ChainFloor.Combine, true},
		{"chain_health.pair_spread_us", OriginMeasured, r.ChainHealth.PairSpread, false},
		{"chain_health.interpair_gap_us", OriginMeasured, r.ChainHealth.InterpairGap, false},
		{"chain_health.settle_drift_us", OriginMeasured, r.ChainHealth.SettleDrift, false},
		{"cross_rank_min_us.dispatch", OriginMeasured, r.RankMin.Dispatch, true},
		{"cross_rank_min_us.combine", OriginMeasured, r.RankMin.Combine, true},
		{"cross_rank_min_us.roundtrip", OriginMeasured, r.RankMin.Roundtrip, true},
		{"cross_rank_spread_us", OriginMeasured, r.RankSpread, false},
	}
	for _, n := range named {
		if err := n.c.check(n.origin); err != nil {
			p.add("%s.%s: %w", at, n.name, err)
		} else if r.Complete && n.c.Availability == Unavailable && n.name != "components.stage" {
			p.add("%s.%s is unavailable in a complete row", at, n.name)
		}
	}
	p.histograms(at, r)
	p.wireBytes(at, r)
	if r.Complete && r.Correctness.Passed {
		p.check(r.TokenRate != nil, "%s: no token rate in a complete row that passed", at)
		for _, n := range named {
			if n.timed && n.c.Percentiles != nil {
				p.check(n.c.Percentiles.P50 > 0, "%s.%s has a time of %v µs", at, n.name, n.c.Percentiles.P50)
			}
		}
	}
	p.reasons(at+".correctness", r.Correctness.Reasons)
	if a := r.Arithmetic; a != nil {
		p.arithmetic(at+".arithmetic_as_declared", a)
	} else {
		p.check(!p.fresh || !r.Complete, "%s: no arithmetic_as_declared in a complete row", at)
	}
	if r.Correctness.Passed {
		p.check(r.Correctness.MaxRelativeError != nil, "%s.correctness passed without a figure", at)
	}
}

// histograms requires that each histogram can be of the samples of its component.
func (p *problems) histograms(at string, r EPRow) {
	k := r.Components
	components := map[string]Component{
		"dispatch": k.Dispatch, "combine": k.Combine, "roundtrip": k.Roundtrip, "stage": k.Stage, "pair_period": k.PairPeriod,
	}
	for _, name := range slices.Sorted(maps.Keys(r.Histograms)) {
		h, c := r.Histograms[name], components[name]
		if c.Percentiles == nil {
			p.add("%s.histograms.%s: no samples of such a component", at, name)
		} else if err := h.check(c.SampleCount, *c.Percentiles); err != nil {
			p.add("%s.histograms.%s: %w", at, name, err)
		}
	}
}

// wireBytes holds the bytes on the wire to the copies that the row says were sent:
// each copy has the bytes that it has in byte_provenance.
func (p *problems) wireBytes(at string, r EPRow) {
	if r.WireBytes == nil {
		p.check(!p.fresh, "%s: no wire_byte_provenance", at)
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
	want := EPBytes{scaled(r.Bytes.Dispatch), scaled(r.Bytes.Combine), scaled(r.Bytes.Stage), scaled(r.Bytes.Roundtrip)}
	p.check(*r.WireBytes == want, "%s.wire_byte_provenance is not that of %d copies", at, copies)
}

// check holds a component to its form: availability and origin go together,
// a derived one has no samples of its own.
func (c Component) check(origin string) error {
	switch c.Availability {
	case Unavailable:
		if c.Origin != nil || c.Percentiles != nil || c.SampleCount != 0 {
			return errors.New("unavailable with figures")
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
		return c.Percentiles.check()
	default:
		return fmt.Errorf("availability %q", c.Availability)
	}
}

func (q Percentiles) check() error {
	if q.P50 > q.P90 || q.P90 > q.P95 || q.P95 > q.P99 {
		return fmt.Errorf("percentiles do not ascend: %v", q)
	}
	return nil
}

// check requires that the figures of a timing mode can be of the same samples.
func (t *Timing) check() error {
	if err := t.Percentiles.check(); err != nil {
		return err
	}
	if t.Min > t.Percentiles.P50 || t.Percentiles.P99 > t.Max {
		return fmt.Errorf("percentiles %v do not lie between min_us %v and max_us %v", t.Percentiles, t.Min, t.Max)
	}
	if t.Histogram == nil {
		return nil
	}
	return t.Histogram.check(t.SampleCount, t.Percentiles)
}

// check requires that the histogram can be of samples values with percentiles q.
func (h Histogram) check(samples int, q Percentiles) error {
	counted := 0
	for _, n := range h.Counts {
		if n < 0 {
			return fmt.Errorf("histogram counts %d samples in a bin", n)
		}
		counted += n
	}
	if counted != samples {
		return fmt.Errorf("histogram counts %d of %d samples", counted, samples)
	}
	const rounding = 1e-9 // relative, of the width of a bin
	if end := h.Min + h.Width*float64(len(h.Counts)); q.P50 < h.Min || q.P99 > end+rounding*math.Abs(end) {
		return fmt.Errorf("percentiles %v do not lie in the histogram, from %v to %v µs", q, h.Min, end)
	}
	return nil
}

func (p *problems) collective(d *CollectiveDocument) {
	id := d.Identity
	p.check(id.Case.Family == plan.FamilyCollective, "a collective document of family %q", id.Case.Family)
	if id.Case.Collective == nil {
		return
	}
	p.check(isCase(id.CaseFactors.Case, id.Case), "identity.case_factors.case is not the case")
	m := d.Measurement
	p.check(m.Rows != nil, "measurement.rows is null, must be a list")
	p.check(d.Workload.SizesMeasured != nil && d.Workload.SizesDropped != nil && d.Workload.Excluded != nil, "workload has a null list")
	p.check(m.Op == id.Case.Op && m.DType == id.Case.Precision && m.RedOp == id.Case.RedOp && m.Root == id.Case.Root && m.Buffers == id.Case.Buffers,
		"measurement is not of the op, type, reduction, root and buffers of the case")
	if a := m.Arithmetic; a != nil {
		p.arithmetic("measurement.arithmetic_as_declared", a)
		p.check(a.Passed || d.Outcome.Status != Success, "outcome is success, but the arithmetic is not as declared")
	}
	for _, s := range d.Workload.SizesDropped {
		if err := CheckReason(s.Reason); err != nil {
			p.add("workload.sizes_dropped[%d]: %w", s.Bytes, err)
		}
	}
	for _, x := range d.Workload.Excluded {
		if err := CheckReason(x.Reason); err != nil {
			p.add("workload.excluded[%s]: %w", x.What, err)
		}
	}
	var bad []string
	pairwise := id.Case.Pairs() > 0
	for _, r := range m.Rows {
		at := fmt.Sprintf("measurement.rows[%d bytes, %s%s]", r.Bytes, r.Placement, r.between())
		timings := r.timings()
		p.check(pairwise == r.IsOf(id.Case.World), "%s: a row is of two ranks exactly where its operation is", at)
		p.check(slices.Contains(id.Case.Sizes, r.Requested) && r.Bytes <= r.Requested && slices.Contains(id.Case.Placements, r.Placement), "%s was not asked for", at)
		if r.Key != "" {
			key, err := RowKey(d.ComparisonKey, &r)
			p.check(err == nil && r.Key == key, "%s: comparison_key %q is not that of the row (%q)", at, r.Key, key)
		}
		for mode, t := range timings {
			if t == nil {
				continue
			}
			p.check(slices.Contains(id.Case.Modes, mode), "%s: %s was not asked for", at, mode)
			p.check(t.SampleCount > 0, "%s.%s has no samples", at, mode)
			p.check(t.Percentiles.P50 > 0, "%s.%s takes %v µs", at, mode, t.Percentiles.P50)
			if err := t.check(); err != nil {
				p.add("%s.%s: %w", at, mode, err)
			}
		}
		p.reasons(at+".correctness", r.Check.Reasons)
		if r.Check.Passed {
			p.check(len(r.Check.Reasons) == 0, "%s passed with reasons %q", at, r.Check.Reasons)
			p.check(r.Check.Wrong == 0 && (r.Check.Checked > 0 || r.Count == 0), "%s passed with %d of %d elements wrong", at, r.Check.Wrong, r.Check.Checked)
		}
		if !r.Complete || !r.Check.Passed {
			bad = append(bad, fmt.Sprintf("%d bytes %s%s is complete %v, passed %v", r.Bytes, r.Placement, r.between(), r.Complete, r.Check.Passed))
		}
	}
	p.good(d.Outcome.Status, len(m.Rows), bad)
	if d.Outcome.Status == Success {
		p.whole(d)
		p.check(m.CheckedBy != "", "outcome is success, but nothing says where the check ran")
		p.check(d.Topology.DeviceProduct != "", "topology.device_product is empty")
	}
}

// whole holds that a successful document has a row, with every timing mode, for
// all that was asked for and is neither dropped nor excluded.
func (p *problems) whole(d *CollectiveDocument) {
	c, w := d.Identity.Case, d.Workload
	for _, size := range c.Sizes {
		dropped := slices.ContainsFunc(w.SizesDropped, func(s DroppedSize) bool { return s.Bytes == size })
		p.check(dropped != slices.Contains(w.SizesMeasured, size), "size %d has to be either measured or dropped", size)
	}
	kept := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return slices.ContainsFunc(w.Excluded, func(x Exclusion) bool { return x.What == name })
		})
	}
	rows := len(w.SizesMeasured) * len(kept(c.Placements)) * max(1, c.Pairs())
	p.check(len(d.Measurement.Rows) == rows, "outcome is success with %d rows of %d", len(d.Measurement.Rows), rows)
	for _, r := range d.Measurement.Rows {
		timings := r.timings()
		for _, mode := range kept(c.Modes) {
			p.check(timings[mode] != nil, "outcome is success, but %d bytes %s%s has no %s", r.Bytes, r.Placement, r.between(), mode)
		}
	}
}

// isCase reports whether v, a case by value or, after Decode, by pointer, is c.
func isCase(v any, c plan.Case) bool {
	if p, ok := v.(*plan.Case); ok && p != nil {
		v = *p
	}
	return reflect.DeepEqual(v, c)
}

// epFactors returns the EP factors that a document holds by value or, after
// Decode, by pointer.
func epFactors(v any) (EPFactors, bool) {
	switch f := v.(type) {
	case EPFactors:
		return f, true
	case *EPFactors:
		if f != nil {
			return *f, true
		}
	}
	return EPFactors{}, false
}

// sameFactors compares two sets of factors by value.
func sameFactors(a, b EPFactors) bool {
	at, bt := a.ScaleOutTransport, b.ScaleOutTransport
	if (at == nil) != (bt == nil) || (at != nil && *at != *bt) {
		return false
	}
	a.ScaleOutTransport, b.ScaleOutTransport = nil, nil
	return a == b
}
