package compare

import (
	"fmt"
	"strings"

	"github.com/collectivex/collectivex/pkg/plural"
)

// Columns returns the headings of a table of cases. The change of a case covers all its rungs; its times are
// from the rung in "at". Figures of a case that was measured again are those of the second measurement.
func Columns() []string {
	return []string{"status", "change", "95 % interval", "noise", "q", "runs", "old µs", "new µs", "at", "metric", "case"}
}

// Rows returns the rows of a case in such a table: one for the case, and one for each rung that did not shift with it.
// Unchanged cases have a row only if all is set. Texts of documents are not escaped.
func (k *Case) Rows(all bool) (out [][]string) {
	var notes []string
	if k.Why != "" {
		notes = append(notes, k.Why)
	}
	for _, d := range k.Differs {
		notes = append(notes, d.Factor+" "+d.change())
	}
	if k.OldFailed+k.NewFailed > 0 {
		notes = append(notes, fmt.Sprintf("failed in %s of OLD and %d of NEW", plural.Count(k.OldFailed, "further run", "further runs"), k.NewFailed))
	}
	if s := k.shown(); s != nil && k.Status == Unclear && s.Enough > 0 {
		notes = append(notes, enough(s.Enough))
	}
	why := k.CaseID
	if len(notes) > 0 {
		why += ": " + strings.Join(notes, "; ")
	}
	if k.Shift == nil {
		return [][]string{{k.Status, "", "", "", "", "", "", "", "", k.Metric, why}}
	}
	s := k.shown()
	interval, floor, q := "", "unknown", ""
	if s.Low != nil {
		interval = percent(*s.Low) + " … " + percent(*s.High)
	}
	if s.Floor != nil {
		floor = "±" + strings.TrimLeft(percent(*s.Floor), "+")
	}
	if s.Q != nil {
		if q = fmt.Sprintf("%.3f", *s.Q); *s.Q < 0.001 {
			q = "<0.001"
		}
	}
	if all || k.Status != Same || k.OldFailed+k.NewFailed > 0 {
		out = append(out, []string{
			marked(k.Status, k.Confirmed), percent(s.Ratio), interval, floor, q, fmt.Sprintf("%d+%d", s.OldRuns, s.NewRuns),
			microseconds(s.OldUs), microseconds(s.NewUs), k.At, k.Metric, why,
		})
	}
	for i := range k.Rungs {
		r := &k.Rungs[i]
		if r.Status != Slower && r.Status != Faster {
			continue
		}
		s, why := r.shown(), ""
		if r.Again != nil {
			why = "; " + suspectedAt(r.Ratio)
		}
		out = append(out, []string{
			marked(r.Status, r.Confirmed), percent(s.Ratio), "", "", "", "", microseconds(s.OldUs), microseconds(s.NewUs),
			r.Rung, k.Metric, fmt.Sprintf("%s: %s beyond its case%s", k.CaseID, percent(s.Beyond), why),
		})
	}
	return out
}

// String formats a line such as "library version: 2.27.3 → 2.28.9".
func (d Difference) String() string { return d.Factor + ": " + d.change() }

func (d Difference) change() string {
	list := func(v []string) string {
		if len(v) == 0 {
			return "–"
		}
		return strings.Join(v, ", ")
	}
	return list(d.Old) + " → " + list(d.New)
}

// marked marks a status that a second measurement has not confirmed.
func marked(status string, confirmed bool) string {
	switch {
	case status != Slower && status != Faster:
		return status
	case confirmed:
		return status + " (confirmed)"
	default:
		return status + "?"
	}
}

// enough describes a Shift.Enough.
func enough(runs int) string {
	if runs > MaxEnough {
		return fmt.Sprintf("%d runs a side would not be enough", MaxEnough)
	}
	return fmt.Sprintf("%d runs a side would be enough", runs)
}

func percent(ratio float64) string { return fmt.Sprintf("%+.1f %%", 100*(ratio-1)) }

func microseconds(us float64) string { return fmt.Sprintf("%.4g", us) }
