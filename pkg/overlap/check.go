package overlap

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

func newDocument(head result.Envelope) result.Document {
	b := Of(&head.Identity.Case)
	return &Document{Envelope: head, Measurement: Measurement{
		Form: b.Form, Compute: b.Compute, Sampling: SampleCounts{b.Timing.Warmup, b.Timing.Iterations}, Rows: []Row{},
	}}
}

type compared struct {
	Form        string `json:"form"`
	Op          string `json:"op"`
	RedOp       string `json:"redop"`
	Algorithm   string `json:"algorithm,omitempty"`
	Width       int    `json:"width,omitempty"`
	Segments    int    `json:"segments,omitempty"`
	Hidden      int64  `json:"hidden"`
	Products    int    `json:"products"`
	Collectives int    `json:"collectives"`
	Compute     string `json:"compute"`
	Timing      Timing `json:"timing"`
}

func comparison(c *plan.Case) any {
	b := Of(c)
	return compared{b.Form, b.Op, b.RedOp, b.Algorithm, b.Width, b.Segments, b.Hidden, b.Products, b.Collectives, b.Compute, b.Timing}
}

// settled returns the case of a document with compute auto replaced by what computed the products.
func settled(d result.Document) plan.Case {
	c := d.Head().Identity.Case
	b := *Of(&c)
	b.Compute = d.(*Document).Measurement.Compute
	c.Block = &b
	return c
}

// Asked returns the rows that a case requests, by size, without figures.
func Asked(c *plan.Case) (rows []Row) {
	b := Of(c)
	element := int64(1)
	if t, err := numeric.ParseType(c.Precision); err == nil {
		element = int64(t.Size())
	}
	for _, size := range b.Sizes {
		p, _ := b.Product(size, element, c.World)
		r := Row{Bytes: size, ProductM: p.M, ProductN: p.N, ProductK: p.K, Products: b.Products, Communications: b.Collectives}
		switch b.Form {
		case LinearRotation:
			r.Products, r.Communications = c.World, c.World-1
		case LinearBroadcast:
			r.Products, r.Communications = c.World, c.World
		}
		rows = append(rows, r)
	}
	return rows
}

func check(p *result.Problems, doc result.Document) {
	d := doc.(*Document)
	id := d.Identity
	b := Of(&id.Case)
	m := &d.Measurement
	p.Check(m.Rows != nil, "measurement.rows is null")
	p.Check(m.Form == b.Form && (m.Compute == b.Compute || b.Compute == ComputeAuto) && m.Sampling == SampleCounts{b.Timing.Warmup, b.Timing.Iterations}, "measurement.form, compute or sampling differs from the case")
	asked := Asked(&id.Case)
	var bad []string
	seen := map[string]bool{}
	for i := range m.Rows {
		r := &m.Rows[i]
		at := "measurement.rows[" + r.Name() + "]"
		p.Check(!seen[r.Name()], "measurement.rows: %s appears twice", r.Name())
		seen[r.Name()] = true
		p.Check(slices.ContainsFunc(asked, func(a Row) bool {
			return a.Bytes == r.Bytes && a.ProductM == r.ProductM && a.ProductN == r.ProductN && a.ProductK == r.ProductK &&
				a.Products == r.Products && a.Communications == r.Communications
		}), "%s was not asked for", at)
		checkRow(p, at, &id.Case, r)
		if !r.Good() {
			bad = append(bad, r.Name()+": "+r.Verify.Detail)
		}
	}
	steps := b.Algorithm != "" || b.Form == LinearRotation
	if m.Program != nil {
		p.Program("measurement.program", m.Program, id.Case.World)
		p.Check(steps, "measurement.program is set, but operations of a library communicate")
	}
	p.Outcome(d.Outcome, len(m.Rows), bad, func(p *result.Problems) {
		p.Check(len(m.Rows) == len(asked), "outcome is success with %d rows of %d", len(m.Rows), len(asked))
		p.Check(m.CheckedBy != "" && m.CommunicationPath != "", "outcome is success, but measurement.checked_by or communication_path is empty")
		p.Check(m.Program != nil || !steps || !p.Fresh(), "outcome is success, but measurement.program is missing")
		p.Check(m.Compute != ComputeAuto, "outcome is success, but measurement.compute is still auto")
		p.Check(d.Topology.DeviceProduct != "", "topology.device_product is empty")
	})
}

func checkRow(p *result.Problems, at string, c *plan.Case, r *Row) {
	b, times := Of(c), r.Times()
	for _, name := range Contenders(b.Form) {
		if times[name] == nil {
			p.Add("%s has no time of %s", at, name)
			continue
		}
		p.Burst(at+"."+name, *times[name], b.Timing.Iterations, r.Complete)
	}
	p.Check(len(times) == len(Contenders(b.Form)), "%s has times of contenders that form %s does not have", at, b.Form)
	p.Burst(at+".compute_inside_us", r.ComputeInside, b.Timing.Iterations, r.Complete)
	p.Burst(at+".communication_inside_us", r.CommunicationInside, b.Timing.Iterations, r.Complete)
	for _, coverage := range []float64{r.ComputeCoverage, r.CommunicationCoverage} {
		p.Check(coverage >= 0 && coverage <= 1, "%s: a coverage is %v", at, coverage)
	}
	p.Check(r.ComputeInside.Below(r.Together) || r.ComputeInside.N != r.Together.N, "%s.compute_inside_us is above together_us, of the same windows", at)
	p.Check(r.CommunicationInside.Below(r.Together) || r.CommunicationInside.N != r.Together.N, "%s.communication_inside_us is above together_us, of the same windows", at)
	figures := r.Derive(b.Form, c.World)
	if !p.Fresh() && r.Efficiency != nil { // earlier versions had one regardless of the noise
		figures.Efficiency = r.efficiency()
	}
	p.Check(r.Figures.equal(figures), "%s: exposed, efficiency, slowdowns, taxes or floor do not match the medians", at)
	v := &r.Verify
	if v.Passed {
		p.Check(v.Checks > 0 && v.Products > 0 && v.Communicated > 0 && v.WrongProducts == 0 && v.WrongCommunicated == 0,
			"%s passed with %d and %d wrong elements in %d checks of %d and %d", at, v.WrongProducts, v.WrongCommunicated, v.Checks, v.Products, v.Communicated)
	}
}

// equal compares figures within the precision of the decimal notation of documents.
func (f *Figures) equal(o Figures) bool {
	return result.Near(f.Exposed, o.Exposed) && result.BothNear(f.Efficiency, o.Efficiency) && result.Near(f.Floor, o.Floor) &&
		result.BothNear(f.ComputeSlowdown, o.ComputeSlowdown) && result.BothNear(f.CommunicationSlowdown, o.CommunicationSlowdown) &&
		result.BothNear(f.ComputeTax, o.ComputeTax) && result.BothNear(f.CommunicationTax, o.CommunicationTax)
}
