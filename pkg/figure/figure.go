// Package figure holds the labelled figures of a document. A family computes them once; exports,
// comparisons and charts are derived from them.
package figure

import (
	"slices"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// Units of values.
const (
	Microseconds  = "us"
	GBPerSecond   = "GB/s" // 1e9 bytes per second
	PerSecond     = "1/s"
	Dimensionless = "1"
)

// Latency is the name of the time of an operation.
const Latency = "latency"

// Figure is one number.
type Figure struct {
	Name    string // such as latency
	Stat    string // such as p50; at_p50 if it follows from a median
	Unit    string
	Value   float64
	Samples int // on which the value is based; 0: unknown, or derived from other figures
}

// Row has the figures of a document with equal labels: one rung of a ladder, by one clock.
type Row struct {
	Labels
	Complete bool // all samples were taken
	Passed   bool // the row passed its checks
	Figures  []Figure
	Lines    []Line // the row's points in charts; empty: not shown
	Rung     *Rung  // identifies the row in comparisons of runs; nil: not compared
}

// Labels are the columns of an export that describe a row besides its document; see docs/export.md.
type Labels struct {
	Key       string // comparison key of the row; empty: the document's
	Op        string // operation or phase
	Mode      string
	DType     string
	XName     string // what X counts
	X         int64
	Placement string
	Src, Dst  *int
	Timing    string // times with different timings are never compared
}

// Line places a row in a chart.
type Line struct {
	View   string
	Facets []string // a value for each of the View's Facets
	// Basis describes what the bytes of the rates count; empty without bytes, or with a single basis.
	Basis string
	Point
}

// Rung identifies a row among the rows of other runs of its case.
type Rung struct {
	Clock  string  // times by different clocks are never compared
	Figure string  // name of the figure whose times are compared; empty: Latency
	Size   int64   // the sort key of rungs
	Label  string  // such as 4096 bytes on 1 stream
	Curve  string  // identifies the curve that the sizes belong to
	Scale  float64 // factor applied to times, if the amount of work differs between runs; 0: 1
	Tick   float64 // resolution of the clock, in µs; 0 if negligible
	// Exact is the name of a time that is equal in every run and has no percentiles, such as the time of a
	// model. It is compared instead of the percentiles of Figure. It may be empty.
	Exact string
}

// EventTick is the resolution of GPU events, in µs.
const EventTick = 0.5

// Tick returns the resolution, in µs, of the clock of a case: EventTick for GPUs, 0 for a host.
func Tick(c *plan.Case) float64 {
	if c.ScaleUpTransport == "shm" {
		return 0
	}
	return EventTick
}

// SeriesOf collects the lines of rows into series, in the order of their first points or, if the view of the
// first series has Reverse set, in the reverse order.
func SeriesOf(views []View, rows []Row) (all []Series) {
	at := map[string]int{}
	for i := range rows {
		for _, l := range rows[i].Lines {
			name := l.View + "\x00" + strings.Join(l.Facets, "\x00")
			k, ok := at[name]
			if !ok {
				k, at[name] = len(all), len(all)
				all = append(all, Series{View: l.View, Facets: l.Facets})
			}
			if l.Samples > 0 {
				l.Time = l.Time.Of(l.Samples)
			}
			s := &all[k]
			if s.Points = append(s.Points, l.Point); l.Basis != "" && !slices.Contains(s.bases, l.Basis) {
				s.bases = append(s.bases, l.Basis)
			}
		}
	}
	for i := range all {
		slices.Sort(all[i].bases)
		all[i].Basis = strings.Join(all[i].bases, " and ")
	}
	if len(all) > 0 && slices.ContainsFunc(views, func(v View) bool { return v.Reverse && v.Name == all[0].View }) {
		slices.Reverse(all)
	}
	return all
}

// Percentiles returns a figure for each percentile of which there are enough samples, unless their number is
// unknown. Its name begins with prefix.
func Percentiles(name, unit, prefix string, p result.Percentiles, samples int) []Figure {
	if samples > 0 {
		p = p.Of(samples)
	}
	out := make([]Figure, 0, 16)
	for _, s := range []struct {
		stat  string
		value *float64
	}{{"p50", &p.P50}, {"p90", p.P90}, {"p95", p.P95}, {"p99", p.P99}} {
		if s.value != nil {
			out = append(out, Figure{name, prefix + s.stat, unit, *s.value, samples})
		}
	}
	return out
}

// Burst returns the figures of a sample: its median, minimum and maximum, and its 95th
// percentile if tail is set and there are enough samples. unit is the unit of the sample in microseconds.
func Burst(name string, b result.Burst, unit float64, tail bool) []Figure {
	var out []Figure
	for _, f := range []struct {
		stat  string
		value float64
		omit  bool
	}{{"p50", b.P50, false}, {"p95", b.P95, !tail || b.Tail() == 0}, {"min", b.Min, false}, {"max", b.Max, false}} {
		if !f.omit {
			out = append(out, Figure{name, f.stat, Microseconds, unit * f.value, b.N})
		}
	}
	return out
}

// Positive returns the figures above 0.
func Positive(all ...Figure) []Figure {
	return slices.DeleteFunc(all, func(f Figure) bool { return f.Value <= 0 })
}

// Span is an entry of a trace: a timed window of one rank or, without times, one of its checks.
type Span struct {
	Track string // of the rank: a component, a timing mode, Checks
	Name  string
	Names []string // a name for each of Us, if not all are called Name
	// Began is when the window began; zero if that was not recorded. Spans without Began are laid out in the
	// order of their records, and their iterations begin on all ranks at once, as after a barrier.
	Began time.Time
	Us    []float64 // measured times, in order
	// Offsets are the starts of Us, in microseconds from the first; nil if each begins when the previous
	// one ended.
	Offsets []float64
	Args    map[string]any
}

// Checks is the name of the track of checks.
const Checks = "checks"

// Verdict returns the result of a check in one word.
func Verdict(passed bool) string {
	if passed {
		return "passed"
	}
	return "failed"
}

// ReasonOf returns why a row does not count, or "" if it counts.
func ReasonOf(complete, passed bool, reasons result.Reasons) string {
	switch {
	case !passed && len(reasons) > 0:
		return "invalid: " + reasons.String()
	case !passed:
		return "invalid: failed its checks"
	case !complete:
		return "incomplete: the case ended before all samples were taken"
	default:
		return ""
	}
}

// Disqualify fails all rows of an invalid case if none of them explains that: the reason concerns all of the
// case, or a row that its document lacks.
func Disqualify(o result.Outcome, rows []Row) {
	explains := func(r Row) bool { return !r.Passed || !r.Complete && o.Code() == result.ReasonUnchecked }
	if o.Status != result.Invalid || slices.ContainsFunc(rows, explains) {
		return
	}
	for i := range rows {
		rows[i].Passed = false
		for k := range rows[i].Lines {
			rows[i].Lines[k].Reason = "invalid: " + o.Reasons.String()
		}
	}
}

// Verified returns why a row does not count, or "". detail is why the row failed its check.
func Verified(complete, passed bool, detail string) string {
	if !passed {
		return "invalid: " + detail
	}
	return ReasonOf(complete, true, nil)
}

// MicrosecondsOf returns the percentiles that a burst has; unit is its unit in microseconds.
func MicrosecondsOf(b result.Burst, unit float64) result.Percentiles {
	p := result.Percentiles{P50: b.P50 * unit}
	if b.Tail() > 0 {
		p.P95 = new(b.P95 * unit)
	}
	return p
}
