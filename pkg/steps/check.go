package steps

import (
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

func newDocument(head result.Envelope) result.Document {
	d := &Document{Envelope: head}
	d.SetCollective(collective.NewDocument(d.Collective().Envelope))
	d.Measurement.Algorithm = Of(&head.Identity.Case).Algorithm
	return d
}

type comparison struct {
	Op        string            `json:"op"`
	Algorithm string            `json:"algorithm"`
	Plan      string            `json:"plan_sha256,omitempty"`
	Width     int               `json:"width"`
	Segments  int               `json:"segments"`
	RedOp     string            `json:"redop"`
	Buffers   string            `json:"buffers"`
	Measure   collective.Counts `json:"measure"`
}

func comparisonOf(c *plan.Case) any {
	b := Of(c)
	return comparison{b.Op, b.Algorithm, b.PlanSHA256, b.Width, b.Segments, b.RedOp, b.Buffers, b.Measure.Timed()}
}

func check(p *result.Problems, doc result.Document) {
	d := doc.(*Document)
	id := d.Identity
	b := Of(&id.Case)
	p.Check(b.PlanFile == "" && b.PlanSHA256 == "" || b.PlanFile == b.Algorithm && len(b.PlanSHA256) == 64,
		"case: plan_file %q differs from the algorithm, or plan_sha256 %q is not a SHA-256 digest", b.PlanFile, b.PlanSHA256)
	p.Check(d.Measurement.Algorithm == b.Algorithm, "measurement.algorithm differs from the case")
	about := d.Measurement.Program
	p.Check(about != nil || len(d.Measurement.Rows) == 0, "measurement.program is null, but there are rows")
	if about != nil {
		p.Program("measurement.program", about, id.Case.World)
	}
	collective.CheckDocument(p, d.Collective())
}
