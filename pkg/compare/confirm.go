package compare

import (
	"cmp"
	"fmt"
	"slices"
)

// Pairs is how many pairs of runs confirm a suspect, one of each side, in ABBA order.
const Pairs = 8

// confirms reports whether runs that were measured again, in pairs, confirm a status: they
// show the same beyond a floor of their own, and the pairs agree. On a machine that is
// busy for some of the time, its load is in the floor, and it splits the pairs.
func confirms(status string, again Shift, old, new []float64, effect float64) bool {
	return again.Status == status && agree(status, old, new, effect)
}

// agree reports whether all pairs but one in eight show half of the effect that counts, in
// the direction of a status: noise agrees on no direction, and load that came and went is
// not in all pairs.
func agree(status string, old, new []float64, effect float64) bool {
	n := min(len(old), len(new))
	agreeing := 0
	for i := range n {
		d := new[i] - old[i]
		if status == Faster {
			d = -d
		}
		if d > effect/2 {
			agreeing++
		}
	}
	return n >= Pairs && agreeing >= n-n/Pairs
}

// Suspects returns the case ids, of first repeats, that are worth to be measured again: with
// an effect beyond floor and least effect, in the case or at a rung. They are sorted.
func (c *Comparison) Suspects() []string {
	var ids []string
	for _, k := range c.Cases {
		if k.suspect() {
			ids = append(ids, k.CaseID)
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
	return k.Shift != nil && (k.Shift.Suspect || slices.ContainsFunc(k.Rungs, func(r Rung) bool { return r.Status == Slower || r.Status == Faster }))
}

// Confirm takes what was measured again of the suspects: runs of both sides, in pairs that
// stood beside each other in time. What they show again is confirmed; what they do not is
// unclear.
func (c *Comparison) Confirm(old, new *Side, o Options) {
	o.Effect = cmp.Or(o.Effect, DefaultEffect)
	p := &pools{cases: map[pool]*noise{}, rungs: map[pool]*noise{}}
	again := map[[2]string]pair{}
	olds, news := byKey(old.runs), byKey(new.runs)
	for key, a := range olds {
		pairs, _ := p.collect(key, a, news[key])
		for _, q := range pairs {
			again[[2]string{key, q.of.Metric}] = q
		}
	}
	clear(c.Counts)
	for i := range c.Cases {
		k := &c.Cases[i]
		if k.suspect() {
			q, ok := again[[2]string{k.Key, k.Metric}]
			k.confirm(q, ok, p, o)
		}
		c.Counts[k.Status]++
	}
}

// confirm holds a suspect to what was measured again; ok is false if nothing was.
func (k *Case) confirm(q pair, ok bool, p *pools, o Options) {
	var seen Case
	if ok {
		seen = q.judge(p, o)
		k.Again = seen.Shift
	}
	refuse := func(status, why *string) {
		*status, *why = Unclear, "suspected, and not confirmed"
		if !ok {
			*why = "suspected, and not measured again"
		}
	}
	if k.Shift.Suspect {
		direction := Faster
		if k.Shift.log > 0 {
			direction = Slower
		}
		old, _ := values(q.old)
		new, _ := values(q.new)
		if k.Confirmed = ok && confirms(direction, *seen.Shift, old, new, o.Effect); k.Confirmed {
			k.Status, k.Why = direction, ""
		} else {
			refuse(&k.Status, &k.Why)
			if ok && seen.Shift.Floor != nil {
				k.Why += fmt.Sprintf(": %+.1f %% then, with a noise floor of %.1f %%", 100*(seen.Shift.Ratio-1), 100*(*seen.Shift.Floor-1))
			}
		}
	}
	for i := range k.Rungs {
		r := &k.Rungs[i]
		if r.Status != Slower && r.Status != Faster {
			continue
		}
		j := slices.IndexFunc(seen.Rungs, func(s Rung) bool { return s.Rung == r.Rung })
		if j >= 0 && seen.Rungs[j].Status == r.Status {
			old, _ := at(q.old, q.rungs[j])
			new, _ := at(q.new, q.rungs[j])
			r.Confirmed = agree(r.Status, old, new, o.Effect)
		}
		if !r.Confirmed {
			r.Status = Unclear
		}
	}
}
