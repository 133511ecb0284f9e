package result

import (
	"embed"

	"github.com/collectivex/collectivex/pkg/plan"
)

// RecordSchedule is the record type of schedule documents.
const RecordSchedule = "schedule-attempt"

//go:embed schedule.go collective.go
var scheduleSource embed.FS

// ScheduleFamily describes the documents of the family.
var ScheduleFamily = Family{
	Name:       plan.FamilySchedule,
	Records:    []Record{{RecordSchedule, "CollectiveX document of a schedule case", ""}},
	RecordType: func(*plan.Case) string { return RecordSchedule },
	Document:   ScheduleDocument{}, Factors: plan.Case{},
	New:        newSchedule,
	Comparison: scheduleComparisonOf,
	Check:      checkSchedule,
	Source:     scheduleSource,
}

func newSchedule(head Envelope) Document {
	b := head.Identity.Case.Schedule()
	d := &ScheduleDocument{Envelope: head}
	d.SetCollective(newCollective(d.Collective().Envelope).(*CollectiveDocument))
	d.Measurement.Algorithm = b.Algorithm
	return d
}

type scheduleComparison struct {
	Op        string                `json:"op"`
	Algorithm string                `json:"algorithm"`
	Plan      string                `json:"plan_sha256,omitempty"`
	Width     int                   `json:"width"`
	Segments  int                   `json:"segments"`
	RedOp     string                `json:"redop"`
	Buffers   string                `json:"buffers"`
	Measure   plan.CollectiveTiming `json:"measure"`
}

func scheduleComparisonOf(c *plan.Case) any {
	b := c.Schedule()
	return scheduleComparison{b.Op, b.Algorithm, b.PlanSHA256, b.Width, b.Segments, b.RedOp, b.Buffers, b.Measure.Timed()}
}

func checkSchedule(p *Problems, doc Document) {
	d := doc.(*ScheduleDocument)
	id := d.Identity
	p.Check(IsCase(id.CaseFactors.Case, id.Case), "identity.case_factors.case is not the case")
	b := id.Case.Schedule()
	p.Check(b.PlanFile == "" && b.PlanSHA256 == "" || b.PlanFile == b.Algorithm && len(b.PlanSHA256) == 64,
		"plan_file %q of the case is not its algorithm, or its plan_sha256 %q no digest", b.PlanFile, b.PlanSHA256)
	p.Check(d.Measurement.Algorithm == b.Algorithm, "measurement.algorithm is not that of the case")
	about := d.Measurement.Program
	p.Check(about != nil || len(d.Measurement.Rows) == 0, "measurement.program is null, and there are rows")
	if about != nil {
		p.Program("measurement.program", about, id.Case.World)
	}
	checkCollective(p, d.Collective())
}
