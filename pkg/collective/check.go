package collective

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// NewDocument returns the document of a collective case without rows.
func NewDocument(head result.Envelope) *Document {
	c := &head.Identity.Case
	b := Of(c)
	return &Document{
		Envelope: head,
		Workload: Workload{SizesMeasured: []int64{}, SizesDropped: []DroppedSize{}, Excluded: []Exclusion{}},
		Measurement: Measurement{
			Op: b.Op, DType: c.Precision, RedOp: b.RedOp, Root: b.Root,
			Buffers: b.Buffers, Registration: b.Registration, Rows: []Row{},
			Warmup: b.Measure.Warmup, Iterations: b.Measure.Iterations, Trials: b.Measure.Trials,
			SamplingProfile: c.Sampling,
		},
	}
}

type comparison struct {
	Op           string    `json:"op"`
	RedOp        string    `json:"redop"`
	Root         int       `json:"root"`
	Buffers      string    `json:"buffers"`
	Registration string    `json:"registration"`
	Unalign      int64     `json:"unalign"`
	NullStream   bool      `json:"null_stream,omitempty"`
	Traffic      [][]int64 `json:"traffic,omitempty"`
	Groups       [][]int   `json:"groups,omitempty"`
	Algorithm    string    `json:"algorithm,omitempty"`
	CTAs         int       `json:"ctas,omitempty"`
	Measure      Counts    `json:"measure"`
}

func comparisonOf(c *plan.Case) any {
	b := Of(c)
	return comparison{
		Op: b.Op, RedOp: b.RedOp, Root: b.Root, Buffers: b.Buffers,
		Registration: b.Registration, Unalign: b.Unalign, NullStream: b.NullStream, Traffic: b.Traffic, Groups: b.Groups, Algorithm: b.Algorithm, CTAs: b.CTAs, Measure: b.Measure.Timed(),
	}
}

// RowKey returns a key that is equal for two rows exactly if they may be compared, timing mode by
// timing mode. It is the first 32 hexadecimal digits of the SHA-256 of a JSON object with the document's
// comparison key, the requested bytes, the placement, the ranks of a pairwise operation or of a group and the buffer
// slots. The document's key does not determine the slots, which depend on the device's caches and memory
// and, for shifted buffers, on the case's largest size.
func RowKey(comparisonKey string, r *Row) (string, error) {
	text, err := json.Marshal(struct {
		Key       string `json:"comparison_key"`
		Requested int64  `json:"requested_bytes"`
		Placement string `json:"placement"`
		Src       *int   `json:"src,omitempty"`
		Dst       *int   `json:"dst,omitempty"`
		Group     []int  `json:"group,omitempty"`
		Slots     int    `json:"buffer_slots"`
	}{comparisonKey, r.Requested, r.Placement, r.Src, r.Dst, r.Group, r.Slots})
	return result.Hashed(text), err
}

// older returns the rules for earlier documents. In those up to 6d8324a the name of the traffic is only
// in the id. Later ones have traffic_name too.
func older(e *result.Envelope) result.Older {
	id := e.Identity
	b := Of(&id.Case)
	if len(b.Traffic) == 0 || b.TrafficName != "" {
		return result.Older{}
	}
	head, tail, _ := strings.Cut(id.Case.ID(), "-"+b.Op+"-")
	if strings.HasPrefix(id.CaseID, head+"-"+b.Op+"-") && strings.HasSuffix(id.CaseID, "-"+tail) {
		return result.Older{CaseID: id.CaseID}
	}
	return result.Older{}
}

// CheckDocument reports problems of a document beyond its envelope.
func CheckDocument(p *result.Problems, d *Document) {
	id := d.Identity
	b := Of(&id.Case)
	m := d.Measurement
	p.Check(m.Rows != nil, "measurement.rows is null, must be a list")
	p.Check(d.Workload.SizesMeasured != nil && d.Workload.SizesDropped != nil && d.Workload.Excluded != nil, "workload has a null list")
	p.Check(m.Op == b.Op && m.DType == id.Case.Precision && m.RedOp == b.RedOp && m.Root == b.Root && m.Buffers == b.Buffers,
		"measurement: op, dtype, redop, root or buffers differ from the case")
	if a := m.Arithmetic; a != nil {
		p.Arithmetic("measurement.arithmetic_as_declared", a)
	}
	p.Check(m.Warmup == b.Measure.Warmup && m.Iterations == b.Measure.Iterations && m.Trials == b.Measure.Trials && m.SamplingProfile == id.Case.Sampling,
		"measurement: warmup, iterations, trials or sampling_profile differ from the case")
	p.Check(!m.RegistrationHandle || b.Registration != vocab.Unregistered, "measurement.registration_handle is true, but the case registers no memory")
	for _, size := range d.Workload.SizesMeasured {
		p.Check(slices.Contains(b.Sizes, size), "workload.sizes_measured has %d, which was not asked for", size)
	}
	for _, s := range d.Workload.SizesDropped {
		if err := s.Reason.Check(); err != nil {
			p.Add("workload.sizes_dropped[%d]: %w", s.Bytes, err)
		}
	}
	for _, x := range d.Workload.Excluded {
		if err := x.Reason.Check(); err != nil {
			p.Add("workload.excluded[%s]: %w", x.What, err)
		}
	}
	var bad []string
	pairwise := b.Pairs(id.Case.World) > 0
	for i := range m.Rows {
		r := &m.Rows[i]
		at := fmt.Sprintf("measurement.rows[%d bytes, %s%s]", r.Bytes, r.Placement, r.between())
		p.Check(slices.Contains(d.Workload.SizesMeasured, r.Requested), "%s: requested_bytes %d is not in workload.sizes_measured", at, r.Requested)
		if t, err := numeric.ParseType(id.Case.Precision); err == nil {
			p.Check(r.Bytes == r.Count*int64(t.Size())*Parts(b.Op, b.Width(id.Case.World)), "%s: count %d of %s is not %d bytes", at, r.Count, t, r.Bytes)
		}
		p.Check(pairwise == r.IsOf(id.Case.World), "%s: src and dst must be two ranks of the case for a pairwise operation, and missing for others", at)
		p.Check(len(b.Groups) == 0 && r.Group == nil || slices.ContainsFunc(b.Groups, func(g []int) bool { return slices.Equal(g, r.Group) }), "%s: group is not one of the case", at)
		p.Check(slices.Contains(b.Sizes, r.Requested) && r.Bytes <= r.Requested && slices.Contains(b.Placements, r.Placement), "%s was not asked for", at)
		if r.Key != "" {
			key, err := RowKey(d.ComparisonKey, r)
			p.Check(err == nil && r.Key == key, "%s: comparison_key %q does not match the row (want %q)", at, r.Key, key)
		}
		for _, mode := range vocab.TimingModes() {
			t := *r.Timing(mode)
			if t == nil {
				continue
			}
			p.Check(slices.Contains(b.Modes, mode), "%s: %s was not asked for", at, mode)
			p.Check(t.SampleCount > 0, "%s.%s has no samples", at, mode)
			p.Check(t.Percentiles.P50 > 0, "%s.%s: p50 is %v µs, must be positive", at, mode, t.Percentiles.P50)
			if err := cmp.Or(t.check(), t.derived(&id.Case, mode, r)); err != nil {
				p.Add("%s.%s: %w", at, mode, err)
			}
		}
		if _, err := time.Parse(time.RFC3339, r.EndedAt); err != nil && r.EndedAt != "" {
			p.Add("%s: ended_at %q: want a time (ISO 8601)", at, r.EndedAt)
		}
		p.Reasons(at+".correctness", r.Check.Reasons)
		p.Check(0 <= r.CTAs && (b.CTAs == 0 || r.CTAs <= b.CTAs), "%s: ctas is %d, but the case limits it to %d", at, r.CTAs, b.CTAs)
		if v := r.Repeatable; v != nil {
			p.Repeatability(at, v, b.Measure.Repeatable, id.Case.World)
		}
		p.Check(r.Check.ToleranceULP == 0 || r.Check.ToleranceULP == 1 && b.RedOp == "avg", "%s: tolerance_ulp is %d, and only averages are not exact", at, r.Check.ToleranceULP)
		if r.Check.Passed {
			p.Check(len(r.Check.Reasons) == 0, "%s passed with reasons %q", at, r.Check.Reasons)
			p.Check(r.Check.Wrong == 0 && (r.Check.Checked > 0 || r.Count == 0), "%s passed with wrong_elements %d of checked_elements %d", at, r.Check.Wrong, r.Check.Checked)
		}
		if !r.Good() {
			bad = append(bad, fmt.Sprintf("%d bytes %s%s is complete %v, passed %v", r.Bytes, r.Placement, r.between(), r.Complete, r.Check.Passed))
		}
	}
	p.Outcome(d.Outcome, len(m.Rows), bad, func(p *result.Problems) { whole(p, d) })
}

// whole checks that a successful document has a row for each requested size and placement that was
// neither dropped nor excluded, and that each row has all timing modes.
func whole(p *result.Problems, d *Document) {
	c, w := d.Identity.Case, d.Workload
	b := Of(&c)
	for _, size := range b.Sizes {
		dropped := slices.ContainsFunc(w.SizesDropped, func(s DroppedSize) bool { return s.Bytes == size })
		p.Check(dropped != slices.Contains(w.SizesMeasured, size), "size %d must be either in sizes_measured or in sizes_dropped", size)
	}
	kept := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return slices.ContainsFunc(w.Excluded, func(x Exclusion) bool { return x.What == name })
		})
	}
	a := d.Measurement.Arithmetic
	p.Check(a == nil || a.Passed, "outcome is success, but the arithmetic is not as declared")
	p.Check(d.Measurement.CheckedBy != "", "outcome is success, but measurement.checked_by is empty")
	p.Check(d.Topology.DeviceProduct != "", "topology.device_product is empty")
	rows := len(w.SizesMeasured) * len(kept(b.Placements)) * max(1, b.Pairs(c.World)) * max(1, len(b.Groups))
	p.Check(len(d.Measurement.Rows) == rows, "outcome is success with %d rows of %d", len(d.Measurement.Rows), rows)
	for _, r := range d.Measurement.Rows {
		p.Check(b.Measure.Repeatable == 0 || !vocab.Op(b.Op).Reduces || r.Repeatable != nil, "outcome is success, but %d bytes %s has no repeatable", r.Bytes, r.Placement)
		for _, mode := range kept(b.Modes) {
			p.Check(*r.Timing(mode) != nil, "outcome is success, but %d bytes %s%s has no %s", r.Bytes, r.Placement, r.between(), mode)
		}
	}
}

// check requires that the figures of a timing mode are consistent with each other.
func (t *Timing) check() error {
	if err := t.Percentiles.Check(true, t.SampleCount); err != nil {
		return err
	}
	if t.Min > t.Percentiles.P50 || *t.Percentiles.P99 > t.Max {
		return fmt.Errorf("percentiles_us %v do not lie between min_us %v and max_us %v", t.Percentiles, t.Min, t.Max)
	}
	if t.Histogram == nil {
		return nil
	}
	h := t.Histogram
	if end := h.Min + h.Width*float64(len(h.Counts)); h.Min != t.Min || !result.Near(end, t.Max) {
		return fmt.Errorf("histogram is from min_us %v in bins of width_us %v to %v, but min_us is %v and max_us %v", h.Min, h.Width, end, t.Min, t.Max)
	}
	return h.Check(t.SampleCount, t.Percentiles)
}

// derived requires that the figures of a timing mode follow from its times.
func (t *Timing) derived(c *plan.Case, mode string, r *Row) error {
	b, p50 := Of(c), t.Percentiles.P50
	world := b.Width(c.World)
	alg := float64(r.Bytes) / p50 / 1e3 * AlgFactor(b.Op, world)
	for _, f := range []struct {
		name      string
		has, want float64
	}{{"algbw_gbps", t.AlgBW, alg}, {"busbw_gbps", t.BusBW, alg * BusFactor(b.Op, world)}} {
		if math.Abs(f.has-f.want) > 1e-6*f.want {
			return fmt.Errorf("%s is %v, want %v from bytes and p50", f.name, f.has, f.want)
		}
	}
	samples := b.Measure.Samples(mode)
	if t.SampleCount > samples || r.Complete && t.SampleCount != samples {
		return fmt.Errorf("sample_count is %d, want %d by the case", t.SampleCount, samples)
	}
	ascends := func(values ...float64) bool {
		return slices.IsSortedFunc(values, func(a, b float64) int {
			if result.Near(a, b) {
				return 0
			}
			return cmp.Compare(a, b)
		})
	}
	if !ascends(t.Min, t.Mean, t.Max) {
		return fmt.Errorf("mean_us %v does not lie between min_us %v and max_us %v", t.Mean, t.Min, t.Max)
	}
	for _, of := range append(slices.Clone(t.RankP50), t.RankMean) {
		if !ascends(t.RankMin, of, p50) {
			return fmt.Errorf("rank_p50_us or cross_rank_mean_p50_us %v does not lie between cross_rank_min_p50_us %v and p50 %v", of, t.RankMin, p50)
		}
	}
	if mode == vocab.Pipelined && !ascends(t.Enqueue, p50) || t.Enqueue > 0 && (mode == vocab.Blocking || mode == vocab.PerIteration) {
		return fmt.Errorf("enqueue_p50_us is %v, above p50 %v, or of operations that are timed one by one", t.Enqueue, p50)
	}
	return nil
}

// Parts returns the number of parts of count elements in the size of an operation.
func Parts(op string, world int) int64 {
	switch op {
	case "all_gather", "reduce_scatter", "alltoall", "gather", "scatter", "hypercube":
		return int64(world)
	case "halo":
		return 2
	default:
		return 1
	}
}

// AlgFactor returns the fraction of the size that nccl-tests counts for algbw. For a hypercube that is the part
// that a rank receives.
func AlgFactor(op string, world int) float64 {
	if op == "hypercube" {
		return float64(world-1) / float64(world)
	}
	return 1
}

// BusFactor returns the ratio of busbw to algbw, as in nccl-tests: the fraction of the data that must cross each
// rank's link.
func BusFactor(op string, world int) float64 {
	n := float64(world)
	switch op {
	case "all_reduce":
		return 2 * (n - 1) / n
	case "all_gather", "reduce_scatter", "alltoall", "alltoallv", "gather", "scatter":
		return (n - 1) / n
	default: // broadcast, reduce, sendrecv, halo, hypercube, p2p (in either direction)
		return 1
	}
}
