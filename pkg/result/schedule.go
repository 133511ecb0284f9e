package result

import "github.com/collectivex/collectivex/pkg/plan"

// ScheduleDocument answers a schedule case. Its rows are those of the collective family.
type ScheduleDocument struct {
	Envelope
	Workload    CollectiveWorkload  `json:"workload"`
	Measurement ScheduleMeasurement `json:"measurement"`
}

// ScheduleMeasurement is the measured part of a schedule document.
type ScheduleMeasurement struct {
	Algorithm string `json:"algorithm"` // the name of the schedule
	// Program is what the ranks ran; null until one of them has loaded it.
	Program *Program `json:"program"`
	CollectiveMeasurement
}

// Collective returns the document of the collective case that was measured in the same way.
// It shares its rows and lists with d, and has its identity, outcome and comparison key.
func (d *ScheduleDocument) Collective() *CollectiveDocument {
	out := &CollectiveDocument{Envelope: d.Envelope, Workload: d.Workload, Measurement: d.Measurement.CollectiveMeasurement}
	c := &out.Identity.Case
	if b := c.Schedule(); b != nil {
		c.Family, c.Block = plan.FamilyCollective, b.Measured()
		out.Identity.CaseFactors.Case = *c
	}
	return out
}

// SetCollective takes over what was measured and its outcome from a document of Collective.
func (d *ScheduleDocument) SetCollective(from *CollectiveDocument) {
	id := d.Identity
	d.Envelope, d.Workload, d.Measurement.CollectiveMeasurement = from.Envelope, from.Workload, from.Measurement
	d.Identity = id
}

// Label names the schedule with what its program depends on; see plan.Schedule.
func (d *ScheduleDocument) Label() string { return d.Identity.Case.Schedule().Label() }
