package bench

import (
	"time"

	"github.com/collectivex/collectivex/pkg/result"
)

// Version is the version of Report.
const Version = 1

// Head is what the JSON of every measurement begins with, and how its cases ended.
type Head struct {
	Version   int       `json:"version"`
	Program   string    `json:"program"`
	Arguments []string  `json:"arguments"`
	StartedAt time.Time `json:"started_at"`
	Op        string    `json:"op"`
	Backend   string    `json:"backend"`
	// Library and Device are null if no rank got far enough to report them. Library is
	// also null on hosts.
	Library *result.CollectiveLibrary `json:"library"`
	Device  *string                   `json:"device_product"`
	World   int                       `json:"world"`

	verdict verdict
}

// NewHead returns the head of a measurement by program, called with arguments.
func NewHead(program string, arguments []string, started time.Time, backend string, world int) Head {
	return Head{Version: Version, Program: program, Arguments: arguments, StartedAt: started.UTC(), Backend: backend, World: world}
}

// Err is how the program ends: nil, or what went wrong, with its exit code.
func (h *Head) Err() error { return h.verdict.err() }

// Explain adds nothing to an error; see Reporter.
func (h *Head) Explain(err error) error { return err }

// Missed says how many thresholds were broken.
func (h *Head) Missed(thresholds int) { h.verdict.broken = thresholds }

// Nothing reports whether no case can be measured here.
func (h *Head) Nothing() bool { return h.verdict.lacking == h.verdict.cases }

// Take takes in the envelope of a case.
func (h *Head) Take(d *result.Envelope) {
	if h.Device == nil && d.Topology.DeviceProduct != "" {
		h.Device, h.Library = &d.Topology.DeviceProduct, d.Runtime.CollectiveLibrary
	}
	h.verdict.add(d.Outcome)
}

// Report is a collective measurement as JSON: a head, and of each case what its
// document has.
type Report struct {
	Head

	// Columns say what the table shows: timing mode, across ranks, cputime.
	Mode    string `json:"mode"`
	Across  string `json:"across_ranks"`
	CPUTime bool   `json:"cputime"`
	// SinceStart is seconds from the start of the command to the first timed
	// operation; null without one.
	SinceStart *float64   `json:"start_to_first_timed_op_s"`
	Results    []CaseRows `json:"results"`
	// OutOfBounds is the wrong elements of all rows.
	OutOfBounds int64 `json:"out_of_bounds"`
	// AvgBusBW is null where not all was measured.
	AvgBusBW *float64 `json:"avg_busbw_gbps"`
	// Violations are the thresholds that were broken, one line each.
	Violations []string `json:"violations"`
	Passed     bool     `json:"passed"`

	shown      int     // rows with figures
	sum        float64 // of their busbw
	failed     bool    // a check of one did not pass
	unfinished bool    // a case was not measured to its end
}

// CaseRows is what the document of a case says.
type CaseRows struct {
	CaseID        string               `json:"case_id"`
	Repeat        int                  `json:"repeat"`
	ComparisonKey string               `json:"comparison_key"`
	DType         string               `json:"dtype"`
	RedOp         string               `json:"redop"`
	Root          int                  `json:"root"` // -1 of an operation without one
	Outcome       result.Outcome       `json:"outcome"`
	Path          string               `json:"path"`
	CheckedBy     string               `json:"checked_by"`
	Registration  string               `json:"registration"`
	Registered    bool                 `json:"registration_handle"`
	Environment   map[string]string    `json:"environment"`
	Dropped       []result.DroppedSize `json:"sizes_dropped"`
	Excluded      []result.Exclusion   `json:"excluded"`
	// Devices is missing where the ranks drove no device but the host.
	Devices *result.Devices `json:"devices,omitempty"`
	// Program is what every rank of a schedule ran, and PlanSHA256 the digest of the file that
	// it is from; missing elsewhere.
	Program    *result.Program `json:"program,omitempty"`
	PlanSHA256 string          `json:"plan_sha256,omitempty"`
	Rows       []Row           `json:"rows"`
}

// Row is a row of a document, and what the table shows of it: null where it was
// not timed.
type Row struct {
	Shown *Figures `json:"shown"`
	result.CollectiveRow
}

// NewReport returns a report of a request without results.
func NewReport(r *Request, head Head) *Report {
	head.Op, head.verdict.lenient = r.Name(), r.lenient()
	return &Report{
		Head: head, Mode: r.View.Mode, Across: r.View.Across.String(), CPUTime: r.View.CPUTime,
		Results: []CaseRows{}, Violations: []string{}, Passed: true,
	}
}

// Add adds the document of a case, and returns it as the columns show it. It is false for a
// document that no request has.
func (p *Report) Add(r *Request, doc result.Document) (*result.CollectiveDocument, bool) {
	d, ok := Collective(doc)
	if !ok {
		return nil, false
	}
	m := &d.Measurement
	p.Take(&d.Envelope)
	if at, ok := firstWindow(d); p.SinceStart == nil && ok {
		since := at.Sub(p.StartedAt).Seconds()
		p.SinceStart = &since
	}
	c := CaseRows{
		CaseID: d.Identity.CaseID, Repeat: d.Identity.Repeat, ComparisonKey: d.ComparisonKey,
		DType: m.DType, RedOp: m.RedOp, Root: r.rootOf(d), Outcome: d.Outcome, Path: m.Path, CheckedBy: m.CheckedBy,
		Registration: m.Registration, Registered: m.RegistrationHandle, Environment: Environment(&d.Envelope),
		Dropped: d.Workload.SizesDropped, Excluded: d.Workload.Excluded, Devices: d.Devices, Rows: []Row{},
	}
	for i := range m.Rows {
		row := Row{CollectiveRow: m.Rows[i]}
		if f, timed := r.View.Figures(&m.Rows[i]); timed {
			row.Shown = &f
			p.shown++
			p.sum += f.BusBW
			p.failed = p.failed || !row.Check.Passed
		}
		p.OutOfBounds += row.Check.Wrong
		c.Rows = append(c.Rows, row)
	}
	if s, ok := doc.(*result.ScheduleDocument); ok {
		c.Program, c.PlanSHA256 = s.Measurement.Program, s.Identity.Case.Schedule().PlanSHA256
	}
	p.Results = append(p.Results, c)
	if !p.verdict.lenient || !Lacking(d.Outcome) {
		p.Violations = append(p.Violations, r.Limits.Violations(r.View, d)...)
	}
	p.verdict.broken = len(p.Violations)
	p.Passed = p.Err() == nil
	p.unfinished = p.unfinished || r.unfinished(d.Outcome)
	p.AvgBusBW = nil
	if p.shown > 0 && !p.unfinished {
		mean := p.sum / float64(p.shown)
		p.AvgBusBW = &mean
	}
	return d, true
}

func firstWindow(d *result.CollectiveDocument) (time.Time, bool) {
	if d.Measurement.FirstWindowAt == nil {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, *d.Measurement.FirstWindowAt)
	return at, err == nil
}

// Environment is what a document says of the ranks' environment; never null.
func Environment(d *result.Envelope) map[string]string {
	if d.Provenance.Environment == nil {
		return map[string]string{}
	}
	return d.Provenance.Environment
}
