// Package compare compares two sides of documents: cases are faster, slower, the same, unclear or not comparable.
// The unit is a run with ranks of its own: samples of one run are not independent, since they share the
// conditions of its start.
package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/collectivex/collectivex/pkg/fit"
	"github.com/collectivex/collectivex/pkg/result"
)

// Side is the documents of one side, of any number of runs.
type Side struct{ runs []*run }

// Add adds a document: the attempt that counts for a case of a run.
func (s *Side) Add(d result.Document) { s.runs = append(s.runs, read(d)) }

// Len returns the number of documents.
func (s *Side) Len() int { return len(s.runs) }

// Options are the parameters of a comparison.
type Options struct {
	// Effect is the smallest effect that counts, as ln of a ratio; 0 means DefaultEffect.
	Effect float64
	// History: OLD is earlier runs of other cases too, and NEW may be a single run. A case that only OLD has is
	// left out, a single run may make a case suspect, and a confirmation compares further runs of NEW with OLD.
	History bool
}

// Comparison is OLD against NEW. It is also the JSON form.
type Comparison struct {
	// Beside lists differences between the sides outside the comparison key, such as the library's version, and
	// whether other processes used the devices.
	Beside []Difference `json:"differences"`
	// Cases has one entry for each case and metric, the largest effect first, then what was not compared.
	// The effect of a case that was measured again is that of the second measurement.
	Cases  []Case         `json:"cases"`
	Counts map[string]int `json:"counts"` // cases and metrics by status

	lines int // that were compared
}

// Difference is a factor and its values on the two sides, sorted.
type Difference struct {
	Factor string   `json:"factor"`
	Old    []string `json:"old"`
	New    []string `json:"new"`
}

// Case is one metric of one case.
type Case struct {
	CaseID string `json:"case_id"`
	Key    string `json:"comparison_key,omitempty"`
	SKU    string `json:"sku"`
	Suite  string `json:"suite"`
	Metric string `json:"metric,omitempty"` // such as pipelined p50
	Status string `json:"status"`
	// Shift is the shift of the case: the median over its rungs, for each run; null if it was not compared.
	// A confirmation does not change it.
	Shift *Shift `json:"shift"`
	// At is the rung of the times in the shift: the one whose change is nearest to the shift.
	At    string `json:"at,omitempty"`
	Rungs []Rung `json:"rungs,omitempty"` // in ascending order; empty for a single rung
	// Unpaired are the rungs of NEW that another run lacks, in ascending order.
	Unpaired []string `json:"-"`
	// Trend is the time at that rung, in µs, in each run of a history and then of NEW.
	Trend []float64 `json:"trend_us,omitempty"`
	// Fits are the latency and bandwidth of each curve of medians.
	Fits []Fit `json:"fits,omitempty"`
	// Again is the shift measured by the deciding stage of the confirmation, and Decision the decision of its
	// pairs; missing if nothing was measured again.
	Again    *Shift    `json:"measured_again,omitempty"`
	Decision *Decision `json:"decision,omitempty"`
	// Confirmed: a faster or slower case was measured again, with both sides alternating, and showed the same.
	Confirmed bool `json:"confirmed"`
	// OldFailed and NewFailed count runs in which the case did not pass. The shift excludes them.
	OldFailed int `json:"old_failed_runs,omitempty"`
	NewFailed int `json:"new_failed_runs,omitempty"`
	// Lost: OLD passed the case and NEW has only failures.
	Lost bool `json:"lost_success,omitempty"`
	// Differs lists the factors that make the case incomparable.
	Differs []Difference `json:"differing_factors,omitempty"`
	Why     string       `json:"why,omitempty"`
}

// Fit is one curve on both sides: one placement and, for a pairwise operation, one pair.
type Fit struct {
	Curve string    `json:"curve"`
	Old   fit.Model `json:"old"`
	New   fit.Model `json:"new"`
}

// Rung is one point of a case.
type Rung struct {
	Rung string `json:"rung"`
	RungShift
	Status    string `json:"status"` // of Beyond: a rung that shifted like its case is the same
	Confirmed bool   `json:"confirmed"`
	// Again is what the deciding stage of the confirmation measured; missing if nothing was measured again.
	Again *RungShift `json:"measured_again,omitempty"`
	// Decision is the decision of the pairs of a confirmation; missing if nothing was measured again.
	Decision *Decision `json:"decision,omitempty"`

	suspected string // the status before any confirmation, if faster or slower
}

// RungShift is how NEW differs from OLD at a rung.
type RungShift struct {
	OldUs float64 `json:"old_us"` // medians over runs
	NewUs float64 `json:"new_us"`
	Ratio float64 `json:"ratio"`
	// Beyond is the ratio that remains without the shift of the case, which all rungs share.
	Beyond float64 `json:"beyond_case"`
}

// shown returns the shift to print: that of the second measurement, if there is one.
func (k *Case) shown() *Shift { return cmp.Or(k.Again, k.Shift) }

func (r *Rung) shown() *RungShift { return cmp.Or(r.Again, &r.RungShift) }

// Of compares two sides.
func Of(old, new *Side, o Options) *Comparison {
	o.Effect = cmp.Or(o.Effect, DefaultEffect)
	c := &Comparison{Beside: unlike(old.runs, new.runs), Counts: map[string]int{}}
	olds, news, passed := byKey(old.runs), byKey(new.runs), passedCases(new.runs)
	p := pools{}
	var pairs []pair
	lone := map[string][]*run{} // keys that only one side has
	for _, key := range keysOf(olds, news) {
		a, b := olds[key], news[key]
		if len(a) == 0 || len(b) == 0 {
			lone[key] = slices.Concat(a, b)
			continue
		}
		found, apart := p.collect(key, a, b)
		pairs, c.Cases = append(pairs, found...), append(c.Cases, apart...)
		if !anySuccess(a) || !anySuccess(b) {
			c.Cases = append(c.Cases, unmeasured(key, a, b, passed))
		}
	}
	for _, q := range pairs {
		c.Cases = append(c.Cases, q.judge(p, o))
	}
	var shifts []*Shift
	for i := range c.Cases {
		if s := c.Cases[i].Shift; s != nil {
			shifts = append(shifts, s)
		}
	}
	discover(shifts)
	c.lines = len(shifts)
	for _, s := range shifts {
		s.Enough = s.enough(c.lines)
	}
	for i := range c.Cases {
		if k := &c.Cases[i]; k.Shift != nil {
			k.Status, k.Why = k.Shift.Status, k.Shift.Why
			if o.History {
				k.early()
			}
		}
	}
	for _, k := range loneCases(lone, olds, new.runs, passed) {
		if !o.History || k.Status != Gone {
			c.Cases = append(c.Cases, k)
		}
	}
	c.order()
	return c
}

// early judges a case with few new runs by a history: it may be suspect, if the history has enough runs.
func (k *Case) early() {
	s := k.Shift
	if k.Why != fewRuns {
		return
	}
	s.Suspect = s.Suspect && s.OldRuns >= MinRuns
	k.Why = ""
	if s.Suspect {
		k.Status = s.direction()
	}
}

// History returns the number of runs that a history has of a case at most; ok is false if OLD is no history.
func (c *Comparison) History() (runs int, ok bool) {
	for _, k := range c.Cases {
		if k.Trend != nil {
			runs, ok = max(runs, k.Shift.OldRuns), true
		}
	}
	return runs, ok
}

// order sorts the cases and counts them by status.
func (c *Comparison) order() {
	slices.SortStableFunc(c.Cases, func(a, b Case) int {
		x, y := a.shown(), b.shown()
		switch {
		case a.Lost != b.Lost:
			return boolean(b.Lost) - boolean(a.Lost)
		case x == nil || y == nil:
			return cmp.Or(boolean(x == nil)-boolean(y == nil), cmp.Compare(a.Status, b.Status), cmp.Compare(a.CaseID, b.CaseID))
		}
		return cmp.Or(bySize(*x, *y), cmp.Compare(a.CaseID, b.CaseID), cmp.Compare(a.Metric, b.Metric))
	})
	clear(c.Counts)
	for _, k := range c.Cases {
		c.Counts[k.Status]++
	}
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// keysOf returns the keys of two maps, sorted.
func keysOf[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

func byKey(runs []*run) map[string][]*run {
	m := map[string][]*run{}
	for _, r := range runs {
		m[r.key] = append(m[r.key], r)
	}
	for _, list := range m {
		slices.SortStableFunc(list, func(a, b *run) int {
			return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name))
		})
	}
	return m
}

func anySuccess(runs []*run) bool {
	return slices.ContainsFunc(runs, func(r *run) bool { return r.success })
}

// Regressions returns the reasons for an exit with an error, one line each: confirmed slower cases, and cases
// that NEW no longer passes.
func (c *Comparison) Regressions() []string {
	var out []string
	confirmed := func(what string, ratio, first float64, d *Decision) {
		out = append(out, fmt.Sprintf("%s is %.1f %% slower, confirmed: %s; %s", what, 100*(ratio-1), d, suspectedAt(first)))
	}
	for i := range c.Cases {
		k := &c.Cases[i]
		switch {
		case k.Lost:
			out = append(out, fmt.Sprintf("%s: %s", k.CaseID, k.Why))
		case k.Status == Slower && k.Confirmed:
			confirmed(fmt.Sprintf("%s: %s", k.CaseID, k.Metric), k.shown().Ratio, k.Shift.Ratio, k.Decision)
		}
		for j := range k.Rungs {
			if r := &k.Rungs[j]; r.Status == Slower && r.Confirmed {
				confirmed(fmt.Sprintf("%s: %s at %s", k.CaseID, k.Metric, r.Rung), r.shown().Ratio, r.Ratio, r.Decision)
			}
		}
	}
	return out
}

// suspectedAt names the effect that made a case or rung suspect.
func suspectedAt(ratio float64) string { return "suspected at " + percent(ratio) }
