package result

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/plan"
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
	if len(p.errs) == 0 {
		return nil
	}
	return fmt.Errorf("document of case %s: %w", d.Head().Identity.CaseID, errors.Join(p.errs...))
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
	var older Older
	if !p.fresh && family.Older != nil {
		older = family.Older(e)
	}
	same := func(is, want, older string) bool { return is == want || is != "" && is == older }
	record := family.recordType(&c)
	p.Check(same(e.RecordType, record, older.RecordType), "record_type is %q, documents of the case have %q", e.RecordType, record)
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
	p.Check(same(id.CaseID, c.ID(), older.CaseID), "identity.case_id is %q, the fields of the case make %q", id.CaseID, c.ID())
	if key, err := ComparisonKey(Settled(d), e.Provenance.Environment); err != nil {
		p.Add("%w", err)
	} else {
		p.Check(same(e.ComparisonKey, key, older.ComparisonKey), "comparison_key is %q, must be %q for this case and environment", e.ComparisonKey, key)
	}
	p.Check(e.Implementation.Name == id.Case.Backend, "implementation.name is %q, must be the backend of the case, %q", e.Implementation.Name, id.Case.Backend)
	p.Check(e.Topology.WorldSize == id.Case.World, "topology.world_size is %d, the case says %d", e.Topology.WorldSize, id.Case.World)
	p.Check(slices.Contains(vocab.Vendors(), e.Runtime.Vendor), "runtime.vendor %q is not one of %s", e.Runtime.Vendor, strings.Join(vocab.Vendors(), ", "))
	p.Check(e.Provenance.Generator != "", "provenance.generator is empty")
	if e.Devices != nil {
		p.Check(reflect.DeepEqual(e.Devices, NewDevices(e.Devices.Ranks)), "devices: the summary does not follow from the states of the ranks' devices")
	}
	if s := e.EntrySkew; s != nil {
		p.Check(s.Windows > 0 && s.P50 >= 0 && s.Max >= s.P50, "entry_skew: %d windows with a median of %v us and a maximum of %v us", s.Windows, s.P50, s.Max)
	}
	p.outcome(e.Outcome)
	if _, is := family.Factors.(plan.Case); is {
		p.Check(isCase(id.CaseFactors.Case, id.Case), "identity.case_factors.case is not the case")
	}
}

func (p *Problems) outcome(o Outcome) {
	switch o.Status {
	case Success:
		p.Check(len(o.Reasons) == 0, "outcome is success with reasons %q", o.Reasons)
	case Invalid, Failed, Unsupported:
		p.Check(len(o.Reasons) > 0, "outcome is %s without a reason", o.Status)
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
	p.Check(a.Passed == (a.Checked > 0 && a.Wrong == 0), "%s: passed is %v with %d of %d elements wrong", at, a.Passed, a.Wrong, a.Checked)
}

// Good checks the rows of a document with the given status; bad are the rows that are incomplete or failed.
func (p *Problems) Good(status string, rows int, bad []string) {
	if status != Success {
		return
	}
	p.Check(rows > 0, "outcome is success without rows")
	for _, b := range bad {
		p.Add("outcome is success, but row %s", b)
	}
}

// Check requires ascending tails if tailed, and no tails otherwise.
func (q Percentiles) Check(tailed bool) error {
	switch {
	case !tailed && q.P90 == nil && q.P95 == nil && q.P99 == nil:
		return nil
	case !tailed:
		return errors.New("tails that are not published")
	case !q.Tailed():
		return errors.New("percentiles without tails")
	case q.P50 > *q.P90 || *q.P90 > *q.P95 || *q.P95 > *q.P99:
		return fmt.Errorf("percentiles do not ascend: %v", q)
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
	const rounding = 1e-9 // relative to the width of a bin
	if end := h.Min + h.Width*float64(len(h.Counts)); q.P50 < h.Min || q.P99 != nil && *q.P99 > end+rounding*math.Abs(end) {
		return fmt.Errorf("percentiles %v do not lie in the histogram, from %v to %v µs", q, h.Min, end)
	}
	return nil
}

// isCase reports whether v, a case or (after Decode) a pointer to one, is c.
func isCase(v any, c plan.Case) bool {
	if p, ok := v.(*plan.Case); ok && p != nil {
		v = *p
	}
	return reflect.DeepEqual(v, c)
}
