package simulation

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// newDocument returns the document of a case before its simulation.
func newDocument(head result.Envelope) result.Document {
	b := Of(&head.Identity.Case)
	return &Document{Envelope: head, Simulation: Prediction{
		Origin: b.Origin, Op: b.Op, Algorithm: b.Algorithm, Topology: b.Topology,
		Model: modelOf(b), Rows: []Row{},
	}}
}

// modelOf returns the identity of a case's model.
func modelOf(b *Block) ModelIdentity {
	return ModelIdentity{Name: b.Model.Name, Source: b.Model.Origin, SHA256: b.Model.SHA256()}
}

// compared is what a comparison key covers. It has the digest of the model's costs, but not the model's name.
type compared struct {
	Origin    string `json:"origin"`
	Op        string `json:"op"`
	Algorithm string `json:"algorithm"`
	Width     int    `json:"width"`
	Segments  int    `json:"segments"`
	Topology  string `json:"topology"`
	Model     string `json:"model_sha256"`
}

// comparison returns what the comparison key of a case is computed from.
func comparison(c *plan.Case) any {
	b := Of(c)
	return compared{b.Origin, b.Op, b.Algorithm, b.Width, b.Segments, b.Topology, b.Model.SHA256()}
}

// check reports contradictions within a document, and between a document and its case.
func check(p *result.Problems, doc result.Document) {
	d := doc.(*Document)
	id, s := d.Identity, &d.Simulation
	b := Of(&id.Case)
	p.Check(b.Origin == Simulated && s.Origin == b.Origin, "simulation.origin is %q, the case's %q; both must be %s", s.Origin, b.Origin, Simulated)
	p.Check(s.Op == b.Op && s.Algorithm == b.Algorithm && s.Topology == b.Topology, "simulation has another op, algorithm or topology than the case")
	p.Check(s.Model == modelOf(b), "simulation.model does not match the case")
	p.Check(s.Rows != nil, "simulation.rows is null, must be a list")
	p.Check((s.Program != nil) == (s.Verification == Symbolic), "simulation.verification is %q, must be %s if and only if there is a program", s.Verification, Symbolic)
	p.Check(s.Program != nil || len(s.Rows) == 0, "simulation.program is null, but there are rows")
	if s.Program != nil {
		p.Program("simulation.program", s.Program, id.Case.World)
		for _, r := range s.Rows {
			p.Check(r.Messages == s.Program.Messages, "simulation.rows[%d bytes] has %d messages, but the program has %d", r.Bytes, r.Messages, s.Program.Messages)
		}
	}
	p.Check(d.Devices == nil && d.EntrySkew == nil && d.Limits == nil, "devices, entry_skew and limits must be missing: a simulation has no ranks")
	last := int64(-1)
	for i := range s.Rows {
		r := &s.Rows[i]
		p.Check(slices.Contains(b.Sizes, r.Bytes) && r.Bytes > last, "simulation.rows[%d bytes] was not requested, or is out of order", r.Bytes)
		last = r.Bytes
		p.Check(r.Makespan > 0, "simulation.rows[%d bytes] has a makespan of %d ps, must be above 0", r.Bytes, r.Makespan)
		sum := int64(0)
		for _, part := range r.Path.Parts() {
			p.Check(part.Picoseconds >= 0, "simulation.rows[%d bytes]: %s takes %d ps", r.Bytes, part.Name, part.Picoseconds)
			sum += part.Picoseconds
		}
		p.Check(sum == r.Makespan, "simulation.rows[%d bytes]: the parts of the critical path take %d ps, but the makespan is %d", r.Bytes, sum, r.Makespan)
	}
	p.Outcome(d.Outcome, len(s.Rows), nil, func(p *result.Problems) {
		p.Check(len(s.Rows) == len(b.Sizes), "outcome is success with %d rows of %d", len(s.Rows), len(b.Sizes))
	})
	p.Check(d.Outcome.Status != result.Invalid, "outcome is invalid, but a simulation has no results to check")
}
