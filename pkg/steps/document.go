package steps

import (
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/result"
)

// Document answers a schedule case. It has rows of the collective family.
type Document struct {
	result.Envelope
	Workload    collective.Workload `json:"workload"`
	Measurement Measurement         `json:"measurement"`
}

// Measurement is the measured part of a schedule document.
type Measurement struct {
	Algorithm string `json:"algorithm"` // the name of the schedule
	// Program is what the ranks ran; null until one of them has loaded it.
	Program *result.Program `json:"program"`
	collective.Measurement
}

// Collective converts the document to one of the collective family. The result shares rows and lists with d, and has d's
// identity, outcome and comparison key.
func (d *Document) Collective() *collective.Document {
	out := &collective.Document{Envelope: d.Envelope, Workload: d.Workload, Measurement: d.Measurement.Measurement}
	c := &out.Identity.Case
	if b := Of(c); b != nil {
		c.Family, c.Block = collective.Name, b.Measured()
		out.Identity.CaseFactors.Case = *c
	}
	return out
}

// SetCollective copies everything but the identity from a document that Collective returned.
func (d *Document) SetCollective(from *collective.Document) {
	id := d.Identity
	d.Envelope, d.Workload, d.Measurement.Measurement = from.Envelope, from.Workload, from.Measurement
	d.Identity = id
}

// Label returns the label of the schedule; see Block.
func (d *Document) Label() string { return Of(&d.Identity.Case).Label() }
