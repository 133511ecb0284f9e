// Package compare compares two sides of documents: cases are faster, slower, the same, unclear or not comparable.
// The unit is a run with ranks of its own: samples of one run are not independent, since they share the
// conditions of its start.
package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

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
	olds, news := byKey(old.runs), byKey(new.runs)
	p := newPools()
	var pairs []pair
	lone := map[string][]*run{} // keys that only one side has
	for _, key := range slices.Sorted(maps.Keys(merged(olds, news))) {
		a, b := olds[key], news[key]
		if len(a) == 0 || len(b) == 0 {
			lone[key] = slices.Concat(a, b)
			continue
		}
		found, apart := p.collect(key, a, b)
		pairs, c.Cases = append(pairs, found...), append(c.Cases, apart...)
		if !anySuccess(a) || !anySuccess(b) {
			c.Cases = append(c.Cases, unmeasured(key, a, b))
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
	for _, k := range loneCases(lone, olds) {
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

func merged(a, b map[string][]*run) map[string][]*run {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
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

// unmeasured returns a case that one of the sides never passed.
func unmeasured(key string, a, b []*run) Case {
	c := caseOf(b[0])
	c.Key = key
	switch {
	case anySuccess(a):
		c.Status, c.Lost, c.Why = NotMeasured, true, "OLD passed it; NEW: "+b[0].why
	case anySuccess(b):
		c.Status, c.Why = New, "OLD: "+a[0].why
	default:
		c.Status, c.Why = NotMeasured, "neither side passed it; NEW: "+b[0].why
	}
	return c
}

func caseOf(r *run) Case {
	return Case{CaseID: r.id, Key: r.key, SKU: r.c.SKU, Suite: r.c.Suite}
}

// loneCases returns a case for each key that one side lacks. If that side has the same case under another key,
// it names the factors that differ; otherwise the case is new or gone.
func loneCases(lone, olds map[string][]*run) []Case {
	type half struct {
		runs []*run
		used bool
	}
	var was, is []*half
	for _, key := range slices.Sorted(maps.Keys(lone)) {
		h := &half{runs: lone[key]}
		if len(olds[key]) > 0 {
			was = append(was, h)
		} else {
			is = append(is, h)
		}
	}
	var out []Case
	for _, like := range []func(*run) string{
		func(r *run) string { return r.id },
		func(r *run) string { c := r.c; c.Repeat, c.SKU = 1, ""; return c.ID() },
		func(r *run) string { c := r.c; c.Repeat, c.SKU, c.Backend = 1, "", ""; return c.ID() },
	} {
		for _, a := range was {
			for _, b := range is {
				if a.used || b.used || like(a.runs[0]) != like(b.runs[0]) {
					continue
				}
				a.used, b.used = true, true
				c := caseOf(b.runs[0])
				c.Status, c.Key, c.Differs = Incomparable, "", factors(a.runs[0], b.runs[0])
				out = append(out, c)
			}
		}
	}
	for _, group := range []struct {
		halves []*half
		status string
	}{{was, Gone}, {is, New}} {
		for _, h := range group.halves {
			if h.used {
				continue
			}
			c := caseOf(h.runs[0])
			c.Status = group.status
			if !anySuccess(h.runs) {
				c.Status, c.Why = NotMeasured, h.runs[0].why
			}
			out = append(out, c)
		}
	}
	return out
}

// factors returns the factors of the comparison key that differ between two cases.
func factors(a, b *run) []Difference {
	x, errX := result.ComparisonFactors(a.c, a.env)
	y, errY := result.ComparisonFactors(b.c, b.env)
	if errX != nil || errY != nil {
		return nil
	}
	all := maps.Clone(x)
	maps.Copy(all, y)
	var out []Difference
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if x[name] != y[name] {
			out = append(out, Difference{name, one(x[name]), one(y[name])})
		}
	}
	return out
}

func one(s string) []string {
	if s == "" {
		return []string{}
	}
	return []string{strings.Trim(s, `"`)}
}

// unlike returns the factors outside the key that differ between the sides, or disturbed both.
func unlike(a, b []*run) []Difference {
	collect := func(runs []*run) map[string]map[string]bool {
		m := map[string]map[string]bool{}
		for _, r := range runs {
			for name, value := range r.beside {
				if m[name] == nil {
					m[name] = map[string]bool{}
				}
				if value != "" {
					m[name][value] = true
				}
			}
		}
		return m
	}
	x, y := collect(a), collect(b)
	all := maps.Clone(x)
	maps.Copy(all, y)
	out := []Difference{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name == neighbours || !maps.Equal(x[name], y[name]) {
			out = append(out, Difference{name, sorted(x[name]), sorted(y[name])})
		}
	}
	return out
}

func sorted(set map[string]bool) []string {
	return append([]string{}, slices.Sorted(maps.Keys(set))...)
}

// pool identifies series that share a noise floor.
type pool struct {
	sku, backend string
	metric       metric
}

type pools struct{ cases, rungs map[pool]*noise }

func newPools() *pools { return &pools{map[pool]*noise{}, map[pool]*noise{}} }

func into(m map[pool]*noise, p pool) *noise {
	if m[p] == nil {
		m[p] = &noise{}
	}
	return m[p]
}

// pair is one metric of one case on both sides.
type pair struct {
	of       Case
	pool     pool
	old, new []score
	rungs    []rung
	tick     float64 // µs
}

// score is one run of a pair: its position relative to the others, over its rungs, and the remainder at each
// rung.
type score struct {
	run   string
	value float64
	times map[rung]float64
}

// collect returns the pairs of a key, and as apart the metrics that cannot be paired. It adds the noise of the
// pairs to the pools. It ignores failed runs.
func (p *pools) collect(key string, a, b []*run) (out []pair, apart []Case) {
	runs := [2]int{len(a), len(b)}
	a, b = succeeded(a), succeeded(b)
	if len(a) == 0 || len(b) == 0 {
		return nil, nil
	}
	ticks := map[metric]float64{}
	for _, r := range slices.Concat(a, b) {
		maps.Copy(ticks, r.ticks)
	}
	for _, m := range slices.SortedFunc(maps.Keys(ticks), func(x, y metric) int { return cmp.Compare(x.String(), y.String()) }) {
		q := pair{of: caseOf(b[0]), pool: pool{b[0].c.SKU, b[0].c.Backend, m}, tick: ticks[m]}
		q.of.Key, q.of.Metric = key, m.String()
		q.of.OldFailed, q.of.NewFailed = runs[0]-len(a), runs[1]-len(b)
		if q.of.Status, q.of.Why = q.score(m, a, b); q.of.Status != "" {
			apart = append(apart, q.of)
			continue
		}
		out = append(out, q)
		q.feed(p)
	}
	return out, apart
}

func succeeded(runs []*run) []*run {
	return slices.DeleteFunc(slices.Clone(runs), func(r *run) bool { return !r.success })
}

// score sets the scores of the runs that have the metric, over the rungs that all of them have. If there are
// none, it returns the status of the metric, and why.
func (q *pair) score(m metric, a, b []*run) (status, why string) {
	has := func(runs []*run) []*run {
		return slices.DeleteFunc(slices.Clone(runs), func(r *run) bool { return len(r.times[m]) == 0 })
	}
	a, b = has(a), has(b)
	switch {
	case len(a) == 0:
		return New, "OLD does not have this metric"
	case len(b) == 0:
		return Gone, "NEW does not have this metric"
	}
	all := slices.Concat(a, b)
	for at := range all[0].times[m] {
		if !slices.ContainsFunc(all, func(r *run) bool { _, ok := r.times[m][at]; return !ok }) {
			q.rungs = append(q.rungs, at)
		}
	}
	slices.SortFunc(q.rungs, func(x, y rung) int { return cmp.Or(cmp.Compare(x.size, y.size), cmp.Compare(x.label, y.label)) })
	if len(q.rungs) == 0 {
		return Incomparable, "no size or buffer count that all runs have"
	}
	centers := make([]float64, len(q.rungs))
	for i, at := range q.rungs {
		var v []float64
		for _, r := range all {
			v = append(v, r.times[m][at])
		}
		centers[i] = median(v)
	}
	scored := func(runs []*run) (out []score) {
		for _, r := range runs {
			var v []float64
			for i, at := range q.rungs {
				v = append(v, r.times[m][at]-centers[i])
			}
			out = append(out, score{r.name, median(v), r.times[m]})
		}
		return out
	}
	q.old, q.new = scored(a), scored(b)
	return "", ""
}

// exact reports whether a model computed the times.
func (q *pair) exact() bool { return q.pool.metric.exact }

// values returns the scores of a side.
func values(side []score) (v []float64, runs []string) {
	for _, s := range side {
		v, runs = append(v, s.value), append(runs, s.run)
	}
	return v, runs
}

// at returns the times of a side at a rung, and the remainder without the score of each run.
func at(side []score, r rung) (times, left []float64) {
	for _, s := range side {
		times, left = append(times, s.times[r]), append(left, s.times[r]-s.value)
	}
	return times, left
}

// noiseOf returns the noise of a single series.
func noiseOf(oldRuns, newRuns []string, old, new []float64) *noise {
	z := &noise{}
	z.add("old", oldRuns, old)
	z.add("new", newRuns, new)
	return z
}

// feed adds the repeats of both sides to the noise of the platform, backend and metric.
func (q *pair) feed(p *pools) {
	for name, side := range map[string][]score{"old": q.old, "new": q.new} {
		v, runs := values(side)
		into(p.cases, q.pool).add(name, runs, v)
		for _, r := range q.rungs {
			_, left := at(side, r)
			into(p.rungs, q.pool).add(name, runs, left)
		}
	}
}

// judge judges the case, then its rungs relative to the case.
func (q *pair) judge(p *pools, o Options) Case {
	c := q.of
	old, oldRuns := values(q.old)
	new, newRuns := values(q.new)
	middle, _ := at(slices.Concat(q.old, q.new), q.rungs[len(q.rungs)/2])
	relative := 2 * q.tick / math.Exp(median(middle))
	s := judge(question{old: old, new: new, effect: o.Effect, noise: p.cases[q.pool], own: noiseOf(oldRuns, newRuns, old, new), tail: 0.05, tick: relative, pairs: resampled, exact: q.exact()})
	r := q.nearest(s.log)
	c.At = r.label
	q.show(&s, r)
	c.Shift = &s
	if o.History {
		c.Trend = q.trend(r)
	}
	if q.pool.metric.stat != "p99" {
		c.Fits = q.fits()
	}
	if len(q.rungs) == 1 {
		return c
	}
	tail := 0.05 / float64(len(q.rungs)) // of all rungs together
	for _, r := range q.rungs {
		oldTimes, oldLeft := at(q.old, r)
		newTimes, newLeft := at(q.new, r)
		ask := question{
			old: oldLeft, new: newLeft, effect: o.Effect, noise: p.rungs[q.pool], tail: tail,
			tick: 2 * q.tick / math.Exp(median(oldTimes)), pairs: resampled, exact: q.exact(),
		}
		beyond := judge(ask)
		if beyond.Suspect { // large sizes may be noisier than others
			ask.own = noiseOf(oldRuns, newRuns, oldLeft, newLeft)
			beyond = judge(ask)
		}
		whole := shift(oldTimes, newTimes)
		status := beyond.Status
		if o.History && beyond.Suspect && beyond.Floor != nil {
			status = beyond.direction()
		}
		if (status == Slower && whole <= o.Effect) || (status == Faster && whole >= -o.Effect) {
			status = Same // the rung only did not shift as its case did
		}
		suspected := ""
		if (status == Slower || status == Faster) && !q.exact() {
			suspected = status
		}
		c.Rungs = append(c.Rungs, Rung{
			Rung: r.label, Status: status, suspected: suspected,
			RungShift: RungShift{math.Exp(median(oldTimes)), math.Exp(median(newTimes)), math.Exp(whole), beyond.Ratio},
		})
	}
	return c
}

// nearest returns the rung whose change is nearest to a shift, and prefers the middle rung.
func (q *pair) nearest(shift float64) rung {
	const alike = 1e-6
	far := func(r rung) float64 { return math.Abs(q.change(r) - shift) }
	middle := q.rungs[len(q.rungs)/2]
	nearest := slices.MinFunc(q.rungs, func(x, y rung) int { return cmp.Compare(far(x), far(y)) })
	if far(middle) <= far(nearest)+alike {
		return middle
	}
	return nearest
}

// change returns the logarithm of the ratio of the medians at a rung.
func (q *pair) change(r rung) float64 {
	old, _ := at(q.old, r)
	new, _ := at(q.new, r)
	return median(new) - median(old)
}

// show sets the times of a shift to the medians at a rung, which readers can look up.
func (q *pair) show(s *Shift, r rung) {
	old, _ := at(q.old, r)
	new, _ := at(q.new, r)
	s.OldUs, s.NewUs = math.Exp(median(old)), math.Exp(median(new))
}

// fits returns the fits of the curves with enough sizes.
func (q *pair) fits() (out []Fit) {
	curves := map[string][]rung{}
	for _, r := range q.rungs {
		if r.curve != "" {
			curves[r.curve] = append(curves[r.curve], r)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(curves)) {
		if len(curves[name]) < fit.LeastSizes {
			continue
		}
		of := func(side []score) fit.Model {
			var points []fit.Point
			for _, r := range curves[name] {
				times, _ := at(side, r)
				points = append(points, fit.Point{Bytes: float64(r.size), Us: math.Exp(median(times))})
			}
			return fit.Fit(points)
		}
		out = append(out, Fit{name, of(q.old), of(q.new)})
	}
	return out
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
