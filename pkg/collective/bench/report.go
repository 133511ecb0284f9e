package bench

import (
	"io"
	"time"

	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/result"
)

// Report is a collective measurement as JSON: a head, and for each case the contents of its
// document.
type Report struct {
	bench.Head

	// Columns of the table: timing mode, reduction across ranks, cputime.
	Mode    string `json:"mode"`
	Across  string `json:"across_ranks"`
	CPUTime bool   `json:"cputime"`
	// SinceStart is seconds from the start of the command to the first timed operation; null if
	// there was none.
	SinceStart *float64   `json:"start_to_first_timed_op_s"`
	Results    []CaseRows `json:"results"`
	// Algorithms has a comparison for each type, reduction, root and placement; only with --algo or --ctas.
	Algorithms []*Algorithms `json:"algorithms,omitempty"`
	// Matrices has the rates of the pairs at the largest size, for each case of a pairwise operation.
	Matrices []pairs `json:"matrices,omitempty"`
	// OutOfBounds is the number of wrong elements of all rows.
	OutOfBounds int64 `json:"out_of_bounds"`
	// AvgBusBW is the mean of the library's own choice; null if a case was not measured completely.
	AvgBusBW *float64 `json:"avg_busbw_gbps"`
	// Violations describes the violated thresholds, of the library's own choice, and the results that are not
	// repeatable, one line each.
	Violations []string `json:"violations"`
	// Slow has a line for each group whose busbw is more than 10 % below the median of its size.
	Slow   []string `json:"slow,omitempty"`
	Passed bool     `json:"passed"`

	totals     totals
	shown      int     // rows with figures
	sum        float64 // of their busbw
	failed     bool    // a row failed a check
	counted    bool    // an element was checked
	missed     int     // thresholds
	unfinished bool    // a case was not measured completely

	r     *Request
	table *Table
}

// CaseRows holds the contents of a case's document.
type CaseRows struct {
	CaseID        string                   `json:"case_id"`
	Repeat        int                      `json:"repeat"`
	ComparisonKey string                   `json:"comparison_key"`
	DType         string                   `json:"dtype"`
	RedOp         string                   `json:"redop"`
	Root          int                      `json:"root"` // -1 for an operation without one
	Algorithm     string                   `json:"algorithm,omitempty"`
	CTAs          int                      `json:"ctas,omitempty"`
	Outcome       result.Outcome           `json:"outcome"`
	Path          string                   `json:"path"`
	CheckedBy     string                   `json:"checked_by"`
	Registration  string                   `json:"registration"`
	Registered    bool                     `json:"registration_handle"`
	Environment   map[string]string        `json:"environment"`
	Dropped       []collective.DroppedSize `json:"sizes_dropped"`
	Excluded      []collective.Exclusion   `json:"excluded"`
	// Devices is missing if the ranks used no device but the host.
	Devices *result.Devices `json:"devices,omitempty"`
	// Memory is the device memory that the case took; missing on hosts.
	Memory *collective.Memory `json:"device_memory,omitempty"`
	// Program is the program that all ranks of a schedule ran. PlanSHA256 is the digest of its plan
	// file. Both are missing in other families.
	Program    *result.Program `json:"program,omitempty"`
	PlanSHA256 string          `json:"plan_sha256,omitempty"`
	Rows       []Row           `json:"rows"`

	nodes int
}

// Row is a row of a document and its figures in the table, which are null if it was not timed.
type Row struct {
	Shown *Figures `json:"shown"`
	collective.Row
}

// NewReport returns a report of a request without results.
func NewReport(r *Request, head bench.Head) *Report {
	head.Op = r.Name()
	head.Lenient(r.lenient())
	return &Report{
		Head: head, Mode: r.View.Mode, Across: r.View.Across.String(), CPUTime: r.View.CPUTime,
		Results: []CaseRows{}, Violations: []string{}, Passed: true, r: r, table: NewTable(nil, r),
	}
}

// Title implements bench.Reporter.
func (p *Report) Title(place string) string { return p.table.head(place, p.World) }

// Fit implements bench.Follower.
func (p *Report) Fit(width int) { p.table.fit(width) }

// Print implements bench.Reporter.
func (p *Report) Print(w io.Writer, doc result.Document) {
	d, _, _ := p.r.ran(doc)
	p.table.w = w
	p.table.Document(d)
}

// Grow implements bench.Follower.
func (p *Report) Grow(w io.Writer, doc result.Document) {
	d, _, _ := p.r.ran(doc)
	p.table.w = w
	p.table.Grow(d)
}

// Foot implements bench.Follower. It prints nothing if this machine cannot measure any case.
func (p *Report) Foot(w io.Writer) {
	if p.Nothing() {
		return
	}
	p.table.w = w
	p.table.Foot(p)
}

// Broken implements bench.Reporter.
func (p *Report) Broken() []string { return p.Violations }

// ran converts a document to one of the collective family; see By.
func (r *Request) ran(doc result.Document) (d *collective.Document, program *result.Program, file string) {
	if r.By != nil {
		return r.By.Ran(doc)
	}
	return doc.(*collective.Document), nil, ""
}

// Add implements bench.Reporter.
func (p *Report) Add(doc result.Document) {
	r := p.r
	d, program, file := r.ran(doc)
	m := &d.Measurement
	p.Take(&d.Envelope)
	if at, ok := firstWindow(d); p.SinceStart == nil && ok {
		p.SinceStart = new(at.Sub(p.StartedAt).Seconds())
	}
	c := CaseRows{
		CaseID: d.Identity.CaseID, Repeat: d.Identity.Repeat, ComparisonKey: d.ComparisonKey,
		DType: m.DType, RedOp: m.RedOp, Root: r.rootOf(d), Outcome: d.Outcome, Path: m.Path, CheckedBy: m.CheckedBy,
		Registration: m.Registration, Registered: m.RegistrationHandle, Environment: bench.Environment(&d.Envelope),
		Dropped: d.Workload.SizesDropped, Excluded: d.Workload.Excluded, Devices: d.Devices, Memory: m.Memory, Program: program, PlanSHA256: file, Rows: []Row{},
		nodes: d.Identity.Case.Nodes,
	}
	own := !r.beside(d)
	if b := collective.Of(&d.Identity.Case); b != nil {
		c.Algorithm, c.CTAs = b.Algorithm, b.CTAs
	}
	for i := range m.Rows {
		row := Row{Row: m.Rows[i]}
		if f, timed := r.View.Figures(&m.Rows[i]); timed {
			row.Shown = &f
			if own {
				p.shown++
				p.sum += f.BusBW
			}
			p.failed = p.failed || !row.Check.Passed
			p.counted = p.counted || row.Check.Checked > 0
		}
		p.OutOfBounds += row.Check.Wrong
		c.Rows = append(c.Rows, row)
	}
	p.totals.add(m)
	if !r.forgets || len(p.Results) == 0 {
		p.Results = append(p.Results, c)
	}
	p.compare(d)
	if !r.forgets || len(p.Matrices) == 0 {
		p.pair(d)
	}
	if own && (!r.lenient() || !bench.Lacking(d.Outcome)) {
		missed := violations(r.Limits, r.View, d)
		p.missed += len(missed)
		p.Violations = append(p.Violations, missed...)
	}
	p.Slow = append(p.Slow, r.View.slowest(d)...)
	differ := unrepeatable(d)
	p.Violations = append(p.Violations, differ...)
	p.Missed(p.missed)
	p.Unrepeatable(len(differ))
	p.Passed = p.Err() == nil
	p.unfinished = p.unfinished || r.unfinished(d.Outcome)
	p.AvgBusBW = nil
	if p.shown > 0 && !p.unfinished {
		p.AvgBusBW = new(p.sum / float64(p.shown))
	}
}

func firstWindow(d *collective.Document) (time.Time, bool) {
	if d.Measurement.FirstWindowAt == nil {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, *d.Measurement.FirstWindowAt)
	return at, err == nil
}
