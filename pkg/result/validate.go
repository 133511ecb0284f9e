package result

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Validate returns all problems of a document before it is written: its identity must match its case, its
// status must follow from its rows, every measurement must have its check, and every number must be finite.
func Validate(d Document) error {
	if at := nonFinite(d); at != "" {
		return fmt.Errorf("document of case %s: %s is not a finite number", d.Head().Identity.CaseID, at)
	}
	return judge(d, true)
}

// judge is Validate without the check that numbers are finite, as they are in JSON. A document that is not
// fresh was read, perhaps from an earlier version: it may lack members of later versions.
func judge(d Document, fresh bool) error {
	p := &Problems{fresh: fresh}
	c := &d.Head().Identity.Case
	family, err := familyOf(c)
	switch {
	case err != nil:
		p.Add("%w", err)
	case reflect.TypeOf(d).Elem() != reflect.TypeOf(family.Document):
		p.Add("a document of type %T for a case of family %q", d, c.Family)
	default:
		p.envelope(d, family)
		family.Check(p, d)
	}
	err = errors.Join(p.errs...)
	switch n := len(p.errs); {
	case n == 0:
		return nil
	case n > 1 && !fresh: // a line for a person; one wrong member often contradicts several others
		err = fmt.Errorf("%w (and %s)", p.errs[0], plural.Count(n-1, "further contradiction", "further contradictions"))
	}
	return fmt.Errorf("document of case %s: %w", d.Head().Identity.CaseID, err)
}

// Problems collects the problems of a document.
type Problems struct {
	fresh bool // see judge
	errs  []error
}

// Fresh reports whether the document was just made. One that was read may lack members of later versions.
func (p *Problems) Fresh() bool { return p.fresh }

// Add adds a problem.
func (p *Problems) Add(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

// Check adds a problem unless ok.
func (p *Problems) Check(ok bool, format string, args ...any) {
	if !ok {
		p.Add(format, args...)
	}
}

func (p *Problems) envelope(d Document, family *Family) {
	e := d.Head()
	c := e.Identity.Case
	same := func(is, want string, older func(o Older) string) bool {
		return is == want || is != "" && !p.fresh && family.Older != nil && is == older(family.Older(e))
	}
	record := family.recordType(&c)
	p.Check(same(e.RecordType, record, func(o Older) string { return o.RecordType }), "record_type is %q, documents of the case have %q", e.RecordType, record)
	p.Check(e.Version == Version, "version is %d, must be %d", e.Version, Version)
	if at, err := time.Parse(time.RFC3339, e.GeneratedAt); err != nil {
		p.Add("generated_at: %w", err)
	} else {
		_, offset := at.Zone()
		p.Check(offset == 0, "generated_at %s is not UTC", e.GeneratedAt)
	}
	id := e.Identity
	p.Check(id.CaseID != "" && id.CaseID == id.Case.CaseID, "identity.case_id is %q, must be %q as in the case", id.CaseID, id.Case.CaseID)
	p.Check(c.Placed(), "identity.case has %d ranks on %d nodes with %d each", c.World, c.Nodes, c.RanksPerNode)
	p.Check(id.AttemptOrdinal > 0, "identity.attempt_ordinal is %d, must be positive", id.AttemptOrdinal)
	p.Check(id.Repeat > 0 && id.Repeat == id.Case.Repeat, "identity.repeat is %d, the case says %d", id.Repeat, id.Case.Repeat)
	p.Check(id.CaseFactors.SKU == id.Case.SKU, "identity.case_factors.sku is %q, must be %q as in the case", id.CaseFactors.SKU, id.Case.SKU)
	made := c.ID()
	p.Check(same(id.CaseID, made, func(o Older) string { return o.CaseID }), "identity.case_id is %q, the fields of the case make %q", id.CaseID, made)
	if key, err := ComparisonKey(Settled(d), e.Provenance.Environment); err != nil {
		p.Add("%w", err)
	} else {
		p.Check(same(e.ComparisonKey, key, func(o Older) string { return o.ComparisonKey }), "comparison_key is %q, must be %q for this case and environment", e.ComparisonKey, key)
	}
	p.Check(e.Implementation.Name == id.Case.Backend, "implementation.name is %q, must be the backend of the case, %q", e.Implementation.Name, id.Case.Backend)
	p.topology(e, &c)
	p.Check(slices.Contains(vocab.Vendors(), e.Runtime.Vendor), "runtime.vendor %q is not one of %s", e.Runtime.Vendor, strings.Join(vocab.Vendors(), ", "))
	p.Check(e.Provenance.Generator != "", "provenance.generator is empty")
	if e.Devices != nil {
		p.Check(reflect.DeepEqual(e.Devices, NewDevices(e.Devices.Ranks)), "devices: the summary does not follow from the states of the ranks' devices")
	}
	trials := 0
	if family.Trials != nil {
		trials = family.Trials(&c)
	}
	p.clocks(e, trials)
	if s := e.EntrySkew; s != nil {
		p.Check(s.Windows > 0 && s.P50 >= 0 && s.Max >= s.P50, "entry_skew: %d windows with a median of %v us and a maximum of %v us", s.Windows, s.P50, s.Max)
		p.Check(s.Bound == (c.Nodes > 1), "entry_skew.bound is %v on %d nodes", s.Bound, c.Nodes)
	}
	p.limits(e)
	p.outcome(e.Outcome)
	if _, is := family.Factors.(plan.Case); is {
		p.Check(isCase(id.CaseFactors.Case, id.Case), "identity.case_factors.case is not the case")
	}
}

// topology checks that the topology of a document is that of its case.
func (p *Problems) topology(e *Envelope, c *plan.Case) {
	t := &e.Topology
	gpus, domain := c.GPUsPerNode, c.ScaleUpDomain
	if e.Runtime.Vendor == vocab.Host && (p.fresh || t.GPUsPerNode == 0) { // the first versions repeat the case's
		gpus, domain = 0, 0
	}
	for _, f := range []struct {
		name      string
		has, want int
	}{
		{"world_size", t.WorldSize, c.World},
		{"nodes", t.Nodes, c.Nodes},
		{"gpus_per_node", t.GPUsPerNode, gpus},
		{"scale_up_domain", t.ScaleUpDomain, domain},
		{"ranks_per_node", cmp.Or(t.RanksPerNode, c.RanksPerNode), c.RanksPerNode},
	} {
		p.Check(f.has == f.want, "topology.%s is %d, want %d by the case", f.name, f.has, f.want)
	}
	p.Check(t.ScaleUpTransport == c.ScaleUpTransport && Text(t.ScaleOutTransport) == Text(c.ScaleOutTransport) &&
		t.Scope == c.Scope && t.TopologyClass == c.TopologyClass && t.Transport == c.Transport, "topology: scope, class or transports differ from the case")
	last := -1
	for _, r := range t.Ranks {
		p.Check(last < r.Rank && r.Rank < c.World && r.NUMANode >= -1, "topology.ranks: rank %d on numa_node %d, want ranks below %d in order", r.Rank, r.NUMANode, c.World)
		last = r.Rank
	}
	last = -1
	if e.Devices != nil {
		for _, r := range e.Devices.Ranks {
			p.Check(last < r.Rank && r.Rank < c.World, "devices.ranks: rank %d, want ranks below %d in order", r.Rank, c.World)
			last = r.Rank
		}
	}
}

// MaxRepeats is the maximum number of repetitions of a trial in which a clock was capped.
const MaxRepeats = 3

// clocks checks the readings of the ranks' clocks, and the counts of trials that were repeated because of them, of
// a case with a number of trials that can be.
func (p *Problems) clocks(e *Envelope, trials int) {
	if e.Devices == nil || len(e.Devices.Ranks) == 0 {
		return
	}
	first := e.Devices.Ranks[0]
	for _, r := range e.Devices.Ranks {
		if c := r.Clocks; c != nil {
			p.Check(c.Readings > 0 && c.Capped <= c.Readings && c.LowestMHz > 0 && (c.Capped > 0) == (len(c.CappedBy) > 0) && slices.IsSorted(c.CappedBy),
				"devices.ranks: clocks of rank %d: %d of %d readings capped, by %q, the lowest_mhz %d", r.Rank, c.Capped, c.Readings, c.CappedBy, c.LowestMHz)
		}
		p.Check(MaxRepeats*r.TrialsCapped <= r.TrialsRepeated && r.TrialsRepeated <= MaxRepeats*trials && (r.TrialsRepeated == 0 || e.Devices.Capped() || e.Outcome.Status != Success),
			"devices.ranks: rank %d has trials_repeated %d and trials_capped %d, of %d trials repeated up to %d times each after a capped clock", r.Rank, r.TrialsRepeated, r.TrialsCapped, trials, MaxRepeats)
		same := r.TrialsRepeated == first.TrialsRepeated && r.TrialsCapped == first.TrialsCapped
		p.Check(same || e.Outcome.Status != Success, "devices.ranks: trials_repeated and trials_capped of rank %d are not those of rank %d", r.Rank, first.Rank)
	}
}

// limits checks that each limit is the peak that a rank reported: for a network, of one of its nodes.
func (p *Problems) limits(e *Envelope) {
	if p.fresh && e.Devices == nil {
		return // the shard adds devices last
	}
	for _, l := range e.Limits {
		reported := e.Devices != nil && slices.ContainsFunc(e.Devices.Ranks, func(r RankDevice) bool {
			return slices.ContainsFunc(r.Limits, func(of Limit) bool {
				nodes := 1.0
				if l.Of == LimitNetwork && of.GBps > 0 {
					nodes = max(1, math.Round(l.GBps/of.GBps))
				}
				return of.Of == l.Of && Near(of.GBps*nodes, l.GBps) && nodes <= float64(e.Identity.Case.Nodes)
			})
		})
		p.Check(reported, "limits: no rank reported %v gbps of its %s", l.GBps, l.Of)
	}
}

func (p *Problems) outcome(o Outcome) {
	switch o.Status {
	case Success:
		p.Check(len(o.Reasons) == 0, "outcome is success with reasons %q", o.Reasons)
	case Invalid, Failed:
		p.Check(len(o.Reasons) > 0, "outcome is %s without a reason", o.Status)
	case Unsupported:
		p.Add("outcome.status is %s: only the matrix says which cases are", o.Status)
	default:
		p.Add("outcome.status %q is unknown", o.Status)
	}
	p.Check(o.Reasons != nil, "outcome.reasons is null, must be a list")
	p.Reasons("outcome", o.Reasons)
}

// Reasons checks that each reason is in the closed list.
func (p *Problems) Reasons(at string, reasons Reasons) {
	for _, r := range reasons {
		if err := r.Check(); err != nil {
			p.Add("%s: %w", at, err)
		}
	}
}

// Arithmetic checks that a verdict on sums follows from its counts.
func (p *Problems) Arithmetic(at string, a *Arithmetic) {
	p.Reasons(at, a.Reasons)
	p.Check(a.Passed == (a.Checked > 0 && a.Wrong == 0), "%s: passed is %v with wrong_elements %d of checked_elements %d", at, a.Passed, a.Wrong, a.Checked)
	p.Check(!a.Passed || a.MaxError == nil || a.Bound == nil || *a.MaxError <= *a.Bound, "%s passed with a max_error above its bound", at)
}

// Outcome checks the rows of a document against its outcome. bad are the rows that are incomplete or failed, and
// whole adds the other problems of a document that claims success. A document that has none of these problems is
// not invalid, unless its times are implausible or a check did not run.
func (p *Problems) Outcome(o Outcome, rows int, bad []string, whole func(p *Problems)) {
	success := func(p *Problems) {
		p.Check(rows > 0, "outcome.status is success without rows")
		for _, b := range bad {
			p.Add("outcome.status is success, but row %s", b)
		}
		whole(p)
	}
	switch o.Status {
	case Success:
		success(p)
	case Invalid:
		found := &Problems{fresh: p.fresh}
		success(found)
		p.Check(len(found.errs) > 0 || o.Code() == ReasonImplausible || o.Code() == ReasonUnchecked, "outcome.status is invalid, but every row is complete and passed")
	}
}

// Check requires ascending tails if tailed, and no tails otherwise. Percentiles of samples values that are one and
// the same value must be equal; 0 samples mean that it is unknown how many there are.
func (q Percentiles) Check(tailed bool, samples int) error {
	all, n := q.named()
	for i := 1; i < n && samples > 0; i++ {
		for _, o := range all[:i] {
			if p := all[i]; nearest(p.q, samples) == nearest(o.q, samples) && p.us != o.us {
				return fmt.Errorf("percentiles_us: %s and %s of %d samples are of one sample, but %v and %v", o.name, p.name, samples, o.us, p.us)
			}
		}
	}
	switch {
	case !tailed && q.P90 == nil && q.P95 == nil && q.P99 == nil:
		return nil
	case !tailed:
		return errors.New("percentiles_us: tails that are not published")
	case !q.Tailed():
		return errors.New("percentiles_us without tails")
	case q.P50 > *q.P90 || *q.P90 > *q.P95 || *q.P95 > *q.P99:
		return fmt.Errorf("percentiles_us do not ascend: %v", q)
	}
	return nil
}

func (q Percentiles) String() string {
	if !q.Tailed() {
		return fmt.Sprintf("{%v}", q.P50)
	}
	return fmt.Sprintf("{%v %v %v %v}", q.P50, *q.P90, *q.P95, *q.P99)
}

// Check requires that the histogram is consistent with samples values with percentiles q.
func (h Histogram) Check(samples int, q Percentiles) error {
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
	all, n := q.named()
	for _, p := range all[:n] {
		if low, high := h.bin(nearest(p.q, samples)); p.us < low || p.us > high {
			return fmt.Errorf("histogram: %s %v is not in its bin, from %v to %v", p.name, p.us, low, high)
		}
	}
	return nil
}

// bin returns the range of the bin that holds the k-th smallest sample, from 1, allowing for rounding.
func (h Histogram) bin(k int) (low, high float64) {
	i := 0
	for counted := 0; i < len(h.Counts)-1; i++ {
		if counted += h.Counts[i]; counted >= k {
			break
		}
	}
	rounding := 1e-9 * (h.Min + h.Width*float64(len(h.Counts)))
	low = h.Min + h.Width*float64(i)
	return low - rounding, low + h.Width + rounding
}

// nearest returns which sample, from 1 in ascending order, is percentile q of n.
func nearest(q, n int) int { return max(1, (q*n+99)/100) }

// percentile is one of Percentiles.
type percentile struct {
	name string
	q    int
	us   float64
}

// named returns the percentiles, in ascending order.
func (q Percentiles) named() (all [4]percentile, n int) {
	all[0] = percentile{"p50", 50, q.P50}
	if !q.Tailed() {
		return all, 1
	}
	all[1], all[2], all[3] = percentile{"p90", 90, *q.P90}, percentile{"p95", 95, *q.P95}, percentile{"p99", 99, *q.P99}
	return all, 4
}

// Below reports whether no percentile is above the one of o, within the precision of documents.
func (q Percentiles) Below(o Percentiles) bool {
	below, n := q.named()
	above, m := o.named()
	for i := range min(n, m) {
		if below[i].us > above[i].us && !Near(below[i].us, above[i].us) {
			return false
		}
	}
	return true
}

// isCase reports whether v, a case or (after Decode) a pointer to one, is c.
func isCase(v any, c plan.Case) bool {
	if p, ok := v.(*plan.Case); ok && p != nil {
		v = *p
	}
	return reflect.DeepEqual(v, c)
}
