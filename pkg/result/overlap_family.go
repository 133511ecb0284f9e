package result

import (
	"embed"
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// RecordOverlap is the record type of overlap documents.
const RecordOverlap = "overlap-attempt"

//go:embed overlap.go transfer.go schedule.go
var overlapSource embed.FS

// OverlapFamily describes the documents of the family.
var OverlapFamily = Family{
	Name:       plan.FamilyOverlap,
	Records:    []Record{{RecordOverlap, "CollectiveX document of computation beside communication", ""}},
	RecordType: func(*plan.Case) string { return RecordOverlap },
	Document:   OverlapDocument{}, Factors: plan.Case{},
	New:        newOverlap,
	Comparison: overlapComparisonOf,
	Settled:    settledOverlap,
	Check:      checkOverlap,
	Source:     overlapSource,
}

func newOverlap(head Envelope) Document {
	b := head.Identity.Case.Overlap()
	return &OverlapDocument{Envelope: head, Measurement: OverlapMeasurement{
		Form: b.Form, Compute: b.Compute, Sampling: OverlapSampling{b.Timing.Warmup, b.Timing.Iterations}, Rows: []OverlapRow{},
	}}
}

type overlapComparison struct {
	Form        string             `json:"form"`
	Op          string             `json:"op"`
	RedOp       string             `json:"redop"`
	Algorithm   string             `json:"algorithm,omitempty"`
	Width       int                `json:"width,omitempty"`
	Segments    int                `json:"segments,omitempty"`
	Hidden      int64              `json:"hidden"`
	Products    int                `json:"products"`
	Collectives int                `json:"collectives"`
	Compute     string             `json:"compute"`
	Timing      plan.OverlapTiming `json:"timing"`
}

func overlapComparisonOf(c *plan.Case) any {
	b := c.Overlap()
	return overlapComparison{b.Form, b.Op, b.RedOp, b.Algorithm, b.Width, b.Segments, b.Hidden, b.Products, b.Collectives, b.Compute, b.Timing}
}

// settledOverlap has what computed the products in place of auto.
func settledOverlap(d Document) plan.Case {
	c := d.Head().Identity.Case
	b := *c.Overlap()
	b.Compute = d.(*OverlapDocument).Measurement.Compute
	c.Block = &b
	return c
}

// AskedOverlap returns the rows of a case, without their figures: by size.
func AskedOverlap(c *plan.Case) (rows []OverlapRow) {
	b := c.Overlap()
	element := int64(1)
	if t, err := numeric.ParseType(c.Precision); err == nil {
		element = int64(t.Size())
	}
	for _, size := range b.Sizes {
		p, _ := b.Product(size, element, c.World)
		r := OverlapRow{Bytes: size, ProductM: p.M, ProductN: p.N, ProductK: p.K, Products: b.Products, Communications: b.Collectives}
		switch b.Form {
		case vocab.LinearRotation:
			r.Products, r.Communications = c.World, c.World-1
		case vocab.LinearBroadcast:
			r.Products, r.Communications = c.World, c.World
		}
		rows = append(rows, r)
	}
	return rows
}

func checkOverlap(p *Problems, doc Document) {
	d := doc.(*OverlapDocument)
	id := d.Identity
	b := id.Case.Overlap()
	m := &d.Measurement
	p.Check(IsCase(id.CaseFactors.Case, id.Case), "identity.case_factors.case is not the case")
	p.Check(m.Rows != nil, "measurement.rows is null")
	p.Check(m.Form == b.Form && (m.Compute == b.Compute || b.Compute == vocab.ComputeAuto) && m.Sampling == OverlapSampling{b.Timing.Warmup, b.Timing.Iterations}, "measurement.form, compute or sampling is not that of the case")
	asked := AskedOverlap(&id.Case)
	var bad []string
	seen := map[string]bool{}
	for i := range m.Rows {
		r := &m.Rows[i]
		at := "measurement.rows[" + r.Name() + "]"
		p.Check(!seen[r.Name()], "measurement.rows: %s is there twice", r.Name())
		seen[r.Name()] = true
		p.Check(slices.ContainsFunc(asked, func(a OverlapRow) bool {
			return a.Bytes == r.Bytes && a.ProductM == r.ProductM && a.ProductN == r.ProductN && a.ProductK == r.ProductK &&
				a.Products == r.Products && a.Communications == r.Communications
		}), "%s was not asked for", at)
		p.overlapRow(at, &id.Case, r)
		if !r.Complete || !r.Verify.Passed {
			bad = append(bad, r.Name()+": "+r.Verify.Detail)
		}
	}
	p.Good(d.Outcome.Status, len(m.Rows), bad)
	steps := b.Algorithm != "" || b.Form == vocab.LinearRotation
	if m.Program != nil {
		p.Program("measurement.program", m.Program, id.Case.World)
		p.Check(steps, "measurement.program is there, and operations of a library communicate")
	}
	if d.Outcome.Status != Success {
		return
	}
	p.Check(len(m.Rows) == len(asked), "outcome is success with %d rows of %d", len(m.Rows), len(asked))
	p.Check(m.CheckedBy != "" && m.CommunicationPath != "", "outcome is success, but measurement.checked_by or communication_path is empty")
	p.Check(m.Program != nil || !steps || !p.fresh, "outcome is success, but measurement.program does not say which steps communicated")
	p.Check(m.Compute != vocab.ComputeAuto, "outcome is success, but measurement.compute does not say what computed")
	p.Check(d.Topology.DeviceProduct != "", "topology.device_product is empty")
}

func (p *Problems) overlapRow(at string, c *plan.Case, r *OverlapRow) {
	b, times := c.Overlap(), r.Times()
	for _, name := range vocab.Contenders(b.Form) {
		if times[name] == nil {
			p.Add("%s has no time of %s", at, name)
			continue
		}
		p.Burst(at+"."+name, *times[name], b.Timing.Iterations, r.Complete)
	}
	p.Check(len(times) == len(vocab.Contenders(b.Form)), "%s has times that form %s does not have", at, b.Form)
	p.Burst(at+".compute_inside_us", r.ComputeInside, b.Timing.Iterations, r.Complete)
	p.Burst(at+".communication_inside_us", r.CommunicationInside, b.Timing.Iterations, r.Complete)
	for _, coverage := range []float64{r.ComputeCoverage, r.CommunicationCoverage} {
		p.Check(coverage >= 0 && coverage <= 1, "%s: a coverage is %v", at, coverage)
	}
	figures := r.Figures(b.Form, c.World)
	if !p.fresh && r.Efficiency != nil { // earlier versions had one whatever the noise
		figures.Efficiency = r.efficiency()
	}
	p.Check(r.OverlapFigures.equal(figures), "%s: exposed, efficiency, slowdowns, taxes or floor do not follow from the medians", at)
	v := &r.Verify
	if v.Passed {
		p.Check(v.Checks > 0 && v.Products > 0 && v.Communicated > 0 && v.WrongProducts == 0 && v.WrongCommunicated == 0,
			"%s passed with %d and %d wrong elements in %d checks of %d and %d", at, v.WrongProducts, v.WrongCommunicated, v.Checks, v.Products, v.Communicated)
	}
}

// equal compares figures but for what the decimal notation of documents loses.
func (f *OverlapFigures) equal(o OverlapFigures) bool {
	return near(f.Exposed, o.Exposed) && BothNear(f.Efficiency, o.Efficiency) && near(f.Floor, o.Floor) &&
		BothNear(f.ComputeSlowdown, o.ComputeSlowdown) && BothNear(f.CommunicationSlowdown, o.CommunicationSlowdown) &&
		BothNear(f.ComputeTax, o.ComputeTax) && BothNear(f.CommunicationTax, o.CommunicationTax)
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a)) }

// BothNear compares figures that may be missing.
func BothNear(a, b *float64) bool { return (a == nil) == (b == nil) && (a == nil || near(*a, *b)) }
