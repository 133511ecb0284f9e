package compare

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
)

// Trend is the time of a metric of a case in each run, in the order of the runs.
type Trend struct {
	CaseID string    `json:"case_id"`
	Metric string    `json:"metric"`
	At     string    `json:"at"` // the rung whose change in the last run is nearest to the case's
	Us     []float64 `json:"us"`
}

// Trends returns the trends of the cases that passed in at least two runs of the sides, by case and metric, without
// 99th percentiles.
func Trends(sides ...*Side) (out []Trend) {
	all := &Side{}
	for _, s := range sides {
		all.runs = append(all.runs, s.runs...)
	}
	of := byKey(all.runs)
	for _, key := range slices.Sorted(maps.Keys(of)) {
		runs := succeeded(of[key])
		last := max(0, len(runs)-1)
		pairs, _ := pools{}.collect(key, runs[:last], runs[last:])
		for _, q := range pairs {
			if q.pool.metric.stat == "p99" {
				continue
			}
			old, _ := values(q.old)
			new, _ := values(q.new)
			r := q.nearest(shift(old, new))
			out = append(out, Trend{q.of.CaseID, q.of.Metric, r.label, q.trend(r)})
		}
	}
	slices.SortStableFunc(out, func(a, b Trend) int {
		return cmp.Or(cmp.Compare(a.CaseID, b.CaseID), cmp.Compare(a.Metric, b.Metric))
	})
	return out
}

// trend returns the times of both sides at a rung, in µs.
func (q *pair) trend(r rung) (us []float64) {
	for _, run := range slices.Concat(q.old, q.new) {
		us = append(us, math.Exp(run.times[r]))
	}
	return us
}

// Columns returns the trend in columns for people: the bars, the last time in µs, and its change from the median of
// the earlier ones.
func (t Trend) Columns() (bars, last, change string) {
	n := len(t.Us) - 1
	return Bars(t.Us), microseconds(t.Us[n]), percent(t.Us[n] / median(t.Us[:n]))
}

// Bars draws times in the order of their runs as a line of bars. The lowest bar is the shortest time, the highest one
// the longest, but at least 10 % above it, so that noise looks small.
func Bars(us []float64) string {
	if len(us) == 0 {
		return ""
	}
	low := slices.Min(us)
	high := max(slices.Max(us), 1.1*low)
	bars := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, v := range us {
		b.WriteRune(bars[int((v-low)/(high-low)*float64(len(bars)-1)+0.5)])
	}
	return b.String()
}
