// Package report turns the documents of a run into the job summary, as Markdown, text or JSON.
package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/family"

	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// Summary summarizes a run: failures first, then one headline for each case that passed. It is also the
// JSON form.
type Summary struct {
	Runs     []string `json:"runs"`
	Requests *Counts  `json:"requested"` // null without a matrix
	Counts   Counts   `json:"cases"`

	Failed      []Failed      `json:"failed"`
	Missing     []Missing     `json:"missing"`
	Unsupported []Unsupported `json:"unsupported"`
	// Rejected counts files that are not documents, by reason. Their names are only in the log, since they may
	// be private.
	Rejected    []Rejected `json:"rejected"`
	Unrequested []string   `json:"unrequested"`
	// Warnings describe problems that affect figures, once for all cases with the same one.
	Warnings []Warning `json:"warnings"`

	Machines []Machine `json:"machines"`
	// Headlines are the lists of the families. In JSON each list is a member under its own name.
	Headlines family.Headlines `json:"-"`

	names    map[string]string // of runs
	repeated family.Headlines  // one headline for all repeats of a case
	err      error
}

// Passed reports whether aggregate would pass the run.
func (s *Summary) Passed() bool { return s.err == nil }

// Counts counts cases. Of requested cases, Cases counts the runnable ones. Each counts once, even if several runs
// have it, as a success if it succeeded in any run.
type Counts struct {
	Cases       int `json:"cases"`
	Success     int `json:"success"`
	Invalid     int `json:"invalid"`
	Failed      int `json:"failed"`
	Unsupported int `json:"unsupported"`
	Missing     int `json:"missing"`
	Attempts    int `json:"attempts"`
}

// Failed is a case whose counting attempt neither succeeded nor was unsupported.
type Failed struct {
	Cell     string         `json:"cell"` // empty without a matrix
	CaseID   string         `json:"case_id"`
	Status   string         `json:"status"`
	Reasons  result.Reasons `json:"reasons"`
	Attempts int            `json:"attempts"`
	// Measured is the number of rows of the case that are complete and passed.
	Measured int `json:"rows_measured"`
	Asked    int `json:"rows_requested"`
}

// Missing is a runnable case without a document.
type Missing struct {
	Cell   string `json:"cell"`
	CaseID string `json:"case_id"`
}

// Unsupported is a case that the matrix marks unsupported.
type Unsupported struct {
	CaseID string `json:"case_id"`
	Reason string `json:"reason"`
	Detail string `json:"detail"`
}

// Warning is a problem of the devices in a case: they were throttled, had memory errors, or could not be
// observed.
type Warning struct {
	Text  string   `json:"text"`
	Cases []string `json:"case_ids"`
}

// Rejected counts the files that are not documents for one reason.
type Rejected struct {
	Reason string `json:"reason"`
	Files  int    `json:"files"`
}

// Machine describes a SKU in this run. A SKU with several entries ran on different machines.
type Machine struct {
	SKU       string `json:"sku"`
	Backend   string `json:"backend"`
	Vendor    string `json:"vendor"`
	Device    string `json:"device"`
	Framework string `json:"framework"`
	Runtime   string `json:"runtime"`
	Library   string `json:"library"`
	Cases     int    `json:"cases"`
}

// Build reads the documents below the given paths (see fold.Read) and summarizes them, compared with m
// unless it is nil.
func Build(in []string, m *plan.Matrix) (*Summary, *fold.Verdict, error) {
	standing, v, err := fold.Keep(in, m, func(rec fold.Record) figures { return figuresOf(rec.Document) })
	if err != nil {
		return nil, nil, err
	}
	return sum(v, standing, m), v, nil
}

// Name sets the names of runs by their ids, for the text forms.
func (s *Summary) Name(names map[string]string) { s.names = names }

// figures is the part of a document that a summary keeps.
type figures struct {
	machine         Machine
	simulated       bool // on no machine
	warnings        []string
	measured, asked int
	first           string // id of the first repeat of the case
	list            string // of the headline
	headline        any
}

func figuresOf(d result.Document) figures {
	h := d.Head()
	f := figures{machine: machineOf(h), first: First(&h.Identity.Case)}
	if h.Devices != nil {
		f.warnings = h.Devices.Warnings
	}
	if of := family.Find(h.Identity.Case.Family); of != nil {
		s := &of.Summary
		f.simulated = of.Computed
		f.measured, f.asked = of.Counted(d)
		f.list, f.headline = s.Headline(d)
	}
	return f
}

// First returns the id of the first repeat of a case.
func First(c *plan.Case) string {
	first := *c
	first.Repeat = 1
	return first.ID()
}

func machineOf(h *result.Envelope) Machine {
	return Machine{
		SKU: h.Identity.CaseFactors.SKU, Backend: h.Implementation.Name, Vendor: h.Runtime.Vendor,
		Device: h.Topology.DeviceProduct, Framework: h.Runtime.Framework, Runtime: h.Runtime.AcceleratorRuntime,
		Library: h.LibraryVersion(),
	}
}

func sum(v *fold.Verdict, standing map[fold.Case]figures, m *plan.Matrix) *Summary {
	s := &Summary{Runs: v.Runs, Unrequested: v.Unrequested, Headlines: family.Headlines{}, err: v.Err()}
	var repeats Repeats
	cells := cellsOf(m)
	machines := map[Machine]int{}
	for _, a := range v.Answers {
		s.Counts.Add(a)
		f := standing[a.Case]
		s.warn(a.ID, f.warnings)
		switch a.Status {
		case result.Success:
			if !f.simulated {
				machines[f.machine]++
			}
			if f.headline != nil {
				s.Headlines[f.list] = append(s.Headlines[f.list], f.headline)
				repeats.Add(fold.Case{Run: a.Run, ID: f.first}, f.list, f.headline)
			}
		default:
			s.Failed = append(s.Failed, Failed{
				Cell: cells[a.ID], CaseID: a.ID, Status: a.Status, Reasons: a.Reasons, Attempts: a.Attempts,
				Measured: f.measured, Asked: f.asked,
			})
		}
	}
	s.repeated = repeats.Headlines("")
	for m, n := range machines {
		m.Cases = n
		s.Machines = append(s.Machines, m)
	}
	slices.SortFunc(s.Machines, func(a, b Machine) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	s.rejected(v.Problems)
	if m != nil {
		s.Counts.Missing = len(v.Missing)
		for _, id := range v.Missing {
			s.Missing = append(s.Missing, Missing{Cell: cells[id], CaseID: id})
		}
		s.Requests = requested(v)
		for r := range m.Requested() {
			if r.Disposition == plan.Unsupported {
				reason, detail := r.Why()
				s.Unsupported = append(s.Unsupported, Unsupported{CaseID: r.Case.CaseID, Reason: reason, Detail: detail})
			}
		}
	}
	return s
}

// requested counts the requested cases of a verdict.
func requested(v *fold.Verdict) *Counts {
	answers := map[string]fold.Answer{}
	for _, a := range v.Answers {
		if answers[a.ID].Status != result.Success {
			answers[a.ID] = a
		}
	}
	for _, id := range v.Unrequested {
		delete(answers, id)
	}
	var c Counts
	for _, a := range answers {
		c.Add(a)
	}
	c.Cases, c.Missing = v.Requested, len(v.Missing)
	c.Unsupported = v.Unsupported
	return &c
}

// Repeats collects the headlines of cases by their first repeats.
type Repeats struct {
	cases []listed
	of    map[listed][]any
}

type listed struct {
	fold.Case
	list string
}

// Add adds a headline to a list. c has the id of the first repeat.
func (r *Repeats) Add(c fold.Case, list string, headline any) {
	if r.of == nil {
		r.of = map[listed][]any{}
	}
	key := listed{c, list}
	if len(r.of[key]) == 0 {
		r.cases = append(r.cases, key)
	}
	r.of[key] = append(r.of[key], headline)
}

// Headlines returns one headline for each case of a run, or of all runs if run is empty.
func (r *Repeats) Headlines(run string) family.Headlines {
	out := family.Headlines{}
	for _, c := range r.cases {
		if run == "" || c.Run == run {
			out[c.list] = append(out[c.list], family.Repeated(r.of[c]))
		}
	}
	return out
}

// cellsOf returns the cell of each case.
func cellsOf(m *plan.Matrix) map[string]string {
	cells := map[string]string{}
	if m == nil {
		return cells
	}
	for _, c := range m.Include {
		for _, id := range c.CaseIDs {
			cells[id] = c.ID
		}
	}
	return cells
}

// Add counts an answered case.
func (c *Counts) Add(a fold.Answer) {
	c.Cases++
	c.Attempts += a.Attempts
	switch a.Status {
	case result.Success:
		c.Success++
	case result.Invalid:
		c.Invalid++
	default:
		c.Failed++
	}
}

// warn adds the warnings of a case.
func (s *Summary) warn(caseID string, texts []string) {
	for _, text := range texts {
		i := slices.IndexFunc(s.Warnings, func(w Warning) bool { return w.Text == text })
		if i < 0 {
			i = len(s.Warnings)
			s.Warnings = append(s.Warnings, Warning{Text: text})
		}
		s.Warnings[i].Cases = append(s.Warnings[i].Cases, caseID)
	}
}

// rejected counts problems by kind, since the text of an error may quote the file.
func (s *Summary) rejected(problems []*fold.Problem) {
	for _, p := range problems {
		kind := p.Kind()
		i := slices.IndexFunc(s.Rejected, func(r Rejected) bool { return r.Reason == kind })
		if i < 0 {
			i = len(s.Rejected)
			s.Rejected = append(s.Rejected, Rejected{Reason: kind})
		}
		s.Rejected[i].Files++
	}
}
