package toy

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/result"
)

// document answers a toy case.
type document struct {
	result.Envelope
	Rows []row `json:"rows"`
}

// row is one size.
type row struct {
	Bytes   int64        `json:"bytes"`
	Micros  result.Burst `json:"us"`            // there and back, of the slowest rank
	Checked int64        `json:"checked_bytes"` // of echoes, of all ranks
	Wrong   int64        `json:"wrong_bytes"`
}

func newDocument(head result.Envelope) result.Document {
	return &document{Envelope: head, Rows: []row{}}
}

func (r *row) passed() bool { return r.Checked > 0 && r.Wrong == 0 }

func (r *row) verdict() string { return fmt.Sprintf("%d of %d bytes wrong", r.Wrong, r.Checked) }

// check reports what is wrong with a document beyond its envelope.
func check(p *result.Problems, doc result.Document) {
	d := doc.(*document)
	b := of(&d.Identity.Case)
	p.Check(d.Rows != nil, "rows is null, must be a list")
	p.Check(len(d.Rows) <= len(b.Sizes), "rows: %d of %d sizes", len(d.Rows), len(b.Sizes))
	var bad []string
	for i := range d.Rows {
		r := &d.Rows[i]
		at := fmt.Sprintf("rows[%d bytes]", r.Bytes)
		p.Check(i < len(b.Sizes) && r.Bytes == b.Sizes[i], "%s was not asked for", at)
		p.Burst(at+".us", r.Micros, b.Throws, true)
		if !r.passed() {
			bad = append(bad, at+": "+r.verdict())
		}
	}
	p.Outcome(d.Outcome, len(d.Rows), bad, func(p *result.Problems) {
		p.Check(len(d.Rows) == len(b.Sizes), "outcome is success with %d rows of %d", len(d.Rows), len(b.Sizes))
	})
}
