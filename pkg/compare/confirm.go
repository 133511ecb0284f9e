package compare

import (
	"cmp"
	"fmt"
	"slices"
)

// Pairs is the number of pairs of runs that a stage of a confirmation measures: one run of each side, in ABBA
// order.
const Pairs = 8

// Stages is the maximum number of stages of a confirmation.
const Stages = len(stages)

// stages has, for each stage, the number of pairs measured by its end, including earlier stages, how many of
// them must agree to confirm a suspect, and how many for the next stage to be worth measuring.
var stages = [...]struct{ pairs, confirm, proceed int }{
	{pairs: Pairs, confirm: 7, proceed: 5},
	{pairs: 2 * Pairs, confirm: 12},
}

// Decision is the decision of the pairs of a confirmation on a suspect.
type Decision struct {
	// Stage is the stage that decided, from 1; missing if pairs are missing.
	Stage    int `json:"stage,omitempty"`
	Pairs    int `json:"pairs"`          // considered; of a history, the runs of NEW
	Agreeing int `json:"agreeing_pairs"` // of them

	history bool // whether runs agree with a history, not pairs
}

// open reports whether a further stage could decide.
func (d *Decision) open() bool { return d != nil && d.Stage == 0 && d.Pairs >= Pairs }

func (d *Decision) String() string {
	of := "pairs"
	if d.history {
		of = "runs"
	}
	s := fmt.Sprintf("%d of %d %s agree", d.Agreeing, d.Pairs, of)
	if d.open() {
		s += fmt.Sprintf(", %d %s would decide", stages[Stages-1].pairs, of)
	}
	return s
}

// series is the second measurement of one suspect up to the end of a stage: the runs of both sides, pair by
// pair, and their status.
type series struct {
	status   string
	old, new []float64  // logarithms of times
	rung     *RungShift // nil for a case
}

// decide decides whether the pairs confirm a suspect that was faster or slower. seen has the results by stage.
// A stage confirms an effect beyond its own noise floor, if enough pairs agree. On a machine that is busy part
// of the time, the load is in the floor, and it splits the pairs.
func decide(suspected string, o Options, seen []series) (d Decision, confirmed bool) {
	d.history = o.History
	for i, shown := range seen {
		d.Pairs, d.Agreeing = shown.agreeing(suspected, o)
		stage := stages[i]
		if d.Pairs < stage.pairs {
			break
		}
		confirmed = shown.status == suspected && d.Agreeing >= stage.confirm
		if confirmed || i == Stages-1 || d.Agreeing < stage.proceed {
			d.Stage = i + 1
			break
		}
	}
	return d, confirmed
}

// agreeing returns the number of pairs, and how many of them show half of the minimum effect in the direction of
// the status: noise has no common direction, and temporary load is not in all pairs. Each run of NEW makes a pair
// with the median of a history.
func (s series) agreeing(status string, o Options) (pairs, agreeing int) {
	if o.History {
		s.old = slices.Repeat([]float64{median(s.old)}, len(s.new))
	}
	pairs = min(len(s.old), len(s.new))
	for i := range pairs {
		d := s.new[i] - s.old[i]
		if status == Faster {
			d = -d
		}
		if d > o.Effect/2 {
			agreeing++
		}
	}
	return pairs, agreeing
}

// Suspects returns the case ids, of first repeats and sorted, that are worth measuring again: with an effect
// beyond the floor and the minimum effect, in the case or at a rung.
func (c *Comparison) Suspects() []string { return c.ids((*Case).suspect) }

// ids returns the ids, sorted, of the cases for which ok holds.
func (c *Comparison) ids(ok func(*Case) bool) []string {
	var ids []string
	for i := range c.Cases {
		if ok(&c.Cases[i]) {
			ids = append(ids, c.Cases[i].CaseID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Suites returns the suites of the cases with these ids, sorted.
func (c *Comparison) Suites(ids []string) []string {
	var suites []string
	for _, k := range c.Cases {
		if slices.Contains(ids, k.CaseID) {
			suites = append(suites, k.Suite)
		}
	}
	slices.Sort(suites)
	return slices.Compact(suites)
}

func (k *Case) suspect() bool {
	return k.Shift != nil && (k.Shift.Suspect || slices.ContainsFunc(k.Rungs, func(r Rung) bool { return r.suspected != "" }))
}

// again holds the results of the runs up to the end of a stage, for each metric of each case.
type again struct {
	pairs map[[2]string]pair // by comparison key and metric
	pools pools
}

// upTo reads the first n runs of each side of each case; of a history all runs.
func upTo(n int, olds, news map[string][]*run, o Options) again {
	a := again{map[[2]string]pair{}, pools{}}
	for key, old := range olds {
		if !o.History {
			old = first(n, old)
		}
		pairs, _ := a.pools.collect(key, old, first(n, news[key]))
		for _, q := range pairs {
			a.pairs[[2]string{key, q.of.Metric}] = q
		}
	}
	return a
}

func first(n int, runs []*run) []*run { return runs[:min(n, len(runs))] }

// Confirm confirms the suspects from new runs of both sides, in pairs that alternated in time, or from new runs of
// NEW and a history. An effect that they do not show again becomes unclear. Runs beyond the last stage are ignored.
// It may be called again with more runs.
func (c *Comparison) Confirm(old, new *Side, o Options) {
	o.Effect = cmp.Or(o.Effect, DefaultEffect)
	olds, news := byKey(old.runs), byKey(new.runs)
	var measured []again
	for _, stage := range stages {
		measured = append(measured, upTo(stage.pairs, olds, news, o))
	}
	for i := range c.Cases {
		if k := &c.Cases[i]; k.suspect() {
			k.confirm(measured, o)
			if k.Again != nil && k.Status == Unclear {
				k.Again.Enough = k.Again.enough(c.lines)
			}
		}
	}
	c.order()
}

// Open returns the ids, sorted, of the cases that a further stage of the confirmation could decide.
func (c *Comparison) Open() []string {
	return c.ids(func(k *Case) bool {
		return k.Decision.open() || slices.ContainsFunc(k.Rungs, func(r Rung) bool { return r.Decision.open() })
	})
}

// Undecided returns the ids, sorted, of the suspects that a confirmation did not decide on, since runs are missing.
func (c *Comparison) Undecided() []string {
	undecided := func(d *Decision) bool { return d == nil || d.Stage == 0 }
	return c.ids(func(k *Case) bool {
		return k.Shift != nil && k.Shift.Suspect && undecided(k.Decision) ||
			slices.ContainsFunc(k.Rungs, func(r Rung) bool { return r.suspected != "" && undecided(r.Decision) })
	})
}

// confirm decides on a suspect from the second measurement.
func (k *Case) confirm(measured []again, o Options) {
	var shifts []*Shift
	var ofCase []series
	ofRungs := map[string][]series{}
	for _, m := range measured {
		q, ok := m.pairs[[2]string{k.Key, k.Metric}]
		if !ok {
			break
		}
		seen := q.judge(m.pools, o)
		for _, r := range q.rungs {
			if r.label == k.At {
				q.show(seen.Shift, r)
			}
		}
		shifts = append(shifts, seen.Shift)
		old, _ := values(q.old)
		new, _ := values(q.new)
		ofCase = append(ofCase, series{seen.Shift.Status, old, new, nil})
		for i, r := range seen.Rungs {
			old, _ := at(q.old, q.rungs[i])
			new, _ := at(q.new, q.rungs[i])
			ofRungs[r.Rung] = append(ofRungs[r.Rung], series{r.Status, old, new, &r.RungShift})
		}
	}
	if k.Shift.Suspect {
		k.settle(shifts, ofCase, o)
	}
	for i := range k.Rungs {
		if r := &k.Rungs[i]; r.suspected != "" {
			r.settle(ofRungs[r.Rung], o)
		}
	}
}

// settle decides on the case, whose second measurement by stage has these shifts.
func (k *Case) settle(shifts []*Shift, seen []series, o Options) {
	direction := k.Shift.direction()
	if len(shifts) == 0 {
		k.Status, k.Why = Unclear, "suspected, and not measured again"
		return
	}
	var d Decision
	d, k.Confirmed = decide(direction, o, seen)
	// An open decision is based on all runs, as is the last stage.
	k.Decision, k.Again = &d, shifts[cmp.Or(d.Stage, len(shifts))-1]
	k.Status, k.Why = direction, suspectedAt(k.Shift.Ratio)
	if !k.Confirmed {
		k.Status, k.Why = Unclear, k.Why+", and not confirmed: "+d.String()
	}
}

// settle decides on a rung from its second measurement by stage.
func (r *Rung) settle(seen []series, o Options) {
	r.Status = Unclear
	if len(seen) == 0 {
		return
	}
	var d Decision
	if d, r.Confirmed = decide(r.suspected, o, seen); r.Confirmed {
		r.Status = r.suspected
	}
	r.Decision, r.Again = &d, seen[cmp.Or(d.Stage, len(seen))-1].rung
}
