package compare

import (
	"cmp"
	"fmt"
	"slices"
)

// Pairs is how many pairs of runs a stage of a confirmation measures: one run of each side,
// in ABBA order.
const Pairs = 8

// Stages is how many stages a confirmation has at most.
const Stages = len(stages)

// stages has, for each stage, how many pairs have been measured by its end, those of the
// stages before it included, how many of them must agree to confirm a suspect, and how many for
// the next stage to be worth measuring.
var stages = [...]struct{ pairs, confirm, proceed int }{
	{pairs: Pairs, confirm: 7, proceed: 5},
	{pairs: 2 * Pairs, confirm: 12},
}

// Decision is what the pairs of a confirmation say of a suspect.
type Decision struct {
	// Stage is the stage that decided, from 1; missing if pairs are missing.
	Stage    int `json:"stage,omitempty"`
	Pairs    int `json:"pairs"`          // that were looked at
	Agreeing int `json:"agreeing_pairs"` // of them
}

// open reports whether a further stage would decide.
func (d *Decision) open() bool { return d != nil && d.Stage == 0 && d.Pairs >= Pairs }

func (d *Decision) String() string {
	s := fmt.Sprintf("%d of %d pairs agree", d.Agreeing, d.Pairs)
	if d.open() {
		s += fmt.Sprintf(", %d pairs would decide", stages[Stages-1].pairs)
	}
	return s
}

// series is what was measured again of one suspect by the end of a stage: the runs of both
// sides, pair by pair, and their status.
type series struct {
	status   string
	old, new []float64 // logarithms of times
}

// decide says whether the pairs confirm a suspect that was faster or slower. seen has what
// each stage showed. A stage confirms what it shows beyond a noise floor of its own, if
// enough pairs agree. On a machine that is busy for some of the time, its load is in the
// floor, and it splits the pairs.
func decide(suspected string, effect float64, seen []series) (d Decision, confirmed bool) {
	for i, shown := range seen {
		d.Pairs, d.Agreeing = shown.agreeing(suspected, effect)
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

// agreeing returns how many pairs there are, and how many of them show half of the effect
// that counts in the direction of a status: noise agrees on no direction, and load that
// came and went is not in all pairs.
func (s series) agreeing(status string, effect float64) (pairs, agreeing int) {
	pairs = min(len(s.old), len(s.new))
	for i := range pairs {
		d := s.new[i] - s.old[i]
		if status == Faster {
			d = -d
		}
		if d > effect/2 {
			agreeing++
		}
	}
	return pairs, agreeing
}

// Suspects returns the case ids, of first repeats, that are worth to be measured again: with
// an effect beyond floor and least effect, in the case or at a rung. They are sorted.
func (c *Comparison) Suspects() []string { return c.ids((*Case).suspect) }

// ids returns the ids of the cases of which ok holds, sorted.
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

// again is what the runs up to the end of a stage show of each metric of each case.
type again struct {
	pairs map[[2]string]pair // by comparison key and metric
	pools *pools
}

// upTo reads the first n runs a side of each case.
func upTo(n int, olds, news map[string][]*run) again {
	a := again{map[[2]string]pair{}, newPools()}
	for key := range olds {
		pairs, _ := a.pools.collect(key, first(n, olds[key]), first(n, news[key]))
		for _, q := range pairs {
			a.pairs[[2]string{key, q.of.Metric}] = q
		}
	}
	return a
}

func first(n int, runs []*run) []*run { return runs[:min(n, len(runs))] }

// Confirm takes what was measured again of the suspects: runs of both sides, in pairs that
// stood beside each other in time. What they show again is confirmed; what they do not is
// unclear. Runs beyond those of the last stage do not count. With more pairs, it may be
// called again.
func (c *Comparison) Confirm(old, new *Side, o Options) {
	o.Effect = cmp.Or(o.Effect, DefaultEffect)
	olds, news := byKey(old.runs), byKey(new.runs)
	var measured []again
	for _, stage := range stages {
		measured = append(measured, upTo(stage.pairs, olds, news))
	}
	clear(c.Counts)
	for i := range c.Cases {
		k := &c.Cases[i]
		if k.suspect() {
			k.confirm(measured, o)
		}
		c.Counts[k.Status]++
	}
}

// Open returns the ids of the cases that a further stage of the confirmation would decide,
// sorted.
func (c *Comparison) Open() []string {
	return c.ids(func(k *Case) bool {
		return k.Decision.open() || slices.ContainsFunc(k.Rungs, func(r Rung) bool { return r.Decision.open() })
	})
}

// confirm holds a suspect to what was measured again.
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
		shifts = append(shifts, seen.Shift)
		old, _ := values(q.old)
		new, _ := values(q.new)
		ofCase = append(ofCase, series{seen.Shift.Status, old, new})
		for i, r := range seen.Rungs {
			old, _ := at(q.old, q.rungs[i])
			new, _ := at(q.new, q.rungs[i])
			ofRungs[r.Rung] = append(ofRungs[r.Rung], series{r.Status, old, new})
		}
	}
	if k.Shift.Suspect {
		direction := Faster
		if k.Shift.log > 0 {
			direction = Slower
		}
		var d Decision
		d, k.Confirmed = decide(direction, o.Effect, ofCase)
		switch {
		case k.Confirmed:
			k.Status, k.Why = direction, ""
		case len(shifts) == 0:
			k.Status, k.Why = Unclear, "suspected, and not measured again"
		default:
			k.Status, k.Why = Unclear, "suspected, and not confirmed: "+d.String()
		}
		if len(shifts) > 0 {
			// An open decision has looked at all runs, as the last stage has.
			k.Decision, k.Again = &d, shifts[cmp.Or(d.Stage, len(shifts))-1]
			if !k.Confirmed && k.Again.Floor != nil {
				k.Why += fmt.Sprintf("; %+.1f %% then, with a noise floor of %.1f %%", 100*(k.Again.Ratio-1), 100*(*k.Again.Floor-1))
			}
		}
	}
	for i := range k.Rungs {
		r := &k.Rungs[i]
		if r.suspected == "" {
			continue
		}
		var d Decision
		if d, r.Confirmed = decide(r.suspected, o.Effect, ofRungs[r.Rung]); d.Pairs > 0 {
			r.Decision = &d
		}
		if r.Status = r.suspected; !r.Confirmed {
			r.Status = Unclear
		}
	}
}
