package compare

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/fit"
)

// pool identifies series that share a noise floor.
type pool struct {
	sku, backend string
	metric       metric
}

// pools holds the noise of cases, and of their rungs without that of the cases, by pool.
type pools map[pool]*noises

type noises struct{ cases, rungs noise }

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
func (p pools) collect(key string, a, b []*run) (out []pair, apart []Case) {
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
	slices.SortFunc(q.rungs, rung.compare)
	alone := map[rung]bool{}
	for _, r := range b {
		for at := range r.times[m] {
			if !slices.Contains(q.rungs, at) {
				alone[at] = true
			}
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(alone), rung.compare) {
		q.of.Unpaired = append(q.of.Unpaired, at.label)
	}
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
func (q *pair) feed(p pools) {
	z := p[q.pool]
	if z == nil {
		z = &noises{}
		p[q.pool] = z
	}
	for name, side := range map[string][]score{"old": q.old, "new": q.new} {
		v, runs := values(side)
		z.cases.add(name, runs, v)
		for _, r := range q.rungs {
			_, left := at(side, r)
			z.rungs.add(name, runs, left)
		}
	}
}

// judge judges the case, then its rungs relative to the case.
func (q *pair) judge(p pools, o Options) Case {
	c := q.of
	old, oldRuns := values(q.old)
	new, newRuns := values(q.new)
	middle, _ := at(slices.Concat(q.old, q.new), q.rungs[len(q.rungs)/2])
	relative := 2 * q.tick / math.Exp(median(middle))
	s := judge(question{old: old, new: new, effect: o.Effect, noise: &p[q.pool].cases, own: noiseOf(oldRuns, newRuns, old, new), tail: 0.05, tick: relative, pairs: resampled, exact: q.exact()})
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
			old: oldLeft, new: newLeft, effect: o.Effect, noise: &p[q.pool].rungs, tail: tail,
			tick: 2 * q.tick / math.Exp(median(oldTimes)), pairs: resampled, exact: q.exact(),
		}
		beyond := judge(ask)
		if beyond.Suspect { // large sizes may be noisier than others
			ask.own = noiseOf(oldRuns, newRuns, oldLeft, newLeft)
			beyond = judge(ask)
		}
		whole := shift(oldTimes, newTimes)
		status := beyond.Status
		if o.History && beyond.Suspect && beyond.Floor != nil && len(oldLeft) >= MinRuns {
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
