package result

import "slices"

// Burst describes samples as existing readers expect: p50 is sorted[n/2], p95
// sorted[min(n-1, int(0.95 n))].
type Burst struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	Min float64 `json:"min"`
	Max float64 `json:"max"`
	N   int     `json:"n"`
}

// NewBurst describes samples. There must be at least one.
func NewBurst(samples []float64) Burst {
	s := slices.Sorted(slices.Values(samples))
	n := len(s)
	return Burst{P50: s[n/2], P95: s[min(n-1, int(0.95*float64(n)))], Min: s[0], Max: s[n-1], N: n}
}

// Tail returns the 95th percentile, or 0 if there are too few samples for one; see Percentiles.Of.
func (b Burst) Tail() float64 {
	if b.N < minForP95 {
		return 0
	}
	return b.P95
}

// Histogram counts samples in bins of equal width: bin i covers
// [Min + i·Width, Min + (i+1)·Width), microseconds; the last one is closed.
type Histogram struct {
	Min    float64 `json:"min_us"`
	Width  float64 `json:"width_us"`
	Counts []int   `json:"counts"`
}

// Verify is the verdict on the words in both pools after checked bursts: each word names the pool, the burst
// and the place that it comes from.
type Verify struct {
	Passed bool `json:"passed"`
	// Detail describes in one line what was checked, or the class and place of the first wrong word, or a time
	// that cannot be.
	Detail  string `json:"detail"`
	Checks  int    `json:"checks"` // of a pool after a burst
	Checked int64  `json:"checked_words"`
	Wrong   Wrong  `json:"wrong_words"`
}

// Fail fails a verdict that passed, for these reasons, if there are any.
func (v *Verify) Fail(reasons Reasons) {
	if len(reasons) > 0 && v.Passed {
		v.Passed, v.Detail = false, reasons.String()
	}
}

// Wrong counts wrong words by class.
type Wrong struct {
	NotWritten int64 `json:"not_written"` // still the destination's painted word
	Stale      int64 `json:"stale"`       // from an earlier burst
	Misplaced  int64 `json:"misplaced"`   // from another place of the source
	Torn       int64 `json:"torn"`        // of a block of which other words arrived
	Late       int64 `json:"late"`        // changed after the notification, or after the release
	Guard      int64 `json:"guard"`       // of the destination, outside of all blocks of the burst
	Source     int64 `json:"source"`      // of the source, which must not change
	Corrupted  int64 `json:"corrupted"`   // names no possible place
}

// Classes lists the classes with their counts, in the order in which a verdict names them.
func (w *Wrong) Classes() []WrongClass {
	return []WrongClass{
		{"torn", &w.Torn},
		{"stale", &w.Stale},
		{"misplaced", &w.Misplaced},
		{"not written", &w.NotWritten},
		{"corrupted", &w.Corrupted},
		{"guard", &w.Guard},
		{"source", &w.Source},
		{"late", &w.Late},
	}
}

// WrongClass is a class of wrong words.
type WrongClass struct {
	Name  string
	Count *int64
}

// Add adds the counts of o.
func (w *Wrong) Add(o Wrong) {
	from := o.Classes()
	for i, to := range w.Classes() {
		*to.Count += *from[i].Count
	}
}

// Total returns the sum over all classes.
func (w Wrong) Total() (n int64) {
	for _, c := range w.Classes() {
		n += *c.Count
	}
	return n
}

// Below reports whether no figure is above the one of o.
func (b Burst) Below(o Burst) bool {
	return b.Min <= o.Min && b.P50 <= o.P50 && b.P95 <= o.P95 && b.Max <= o.Max
}

// Burst checks that the figures ascend from above 0 and are based on the given number of samples.
func (p *Problems) Burst(at string, b Burst, samples int, complete bool) {
	p.Check(b.Min > 0 && b.Min <= b.P50 && b.P50 <= b.P95 && b.P95 <= b.Max, "%s: min, p50, p95 and max do not ascend from above 0: %+v", at, b)
	p.Check(b.N > 0 && b.N <= samples && (b.N == samples || !complete), "%s has %d samples of %d", at, b.N, samples)
}

// Verdict checks that a passed check compared words and found none wrong.
func (p *Problems) Verdict(at string, v *Verify) {
	if v.Passed {
		p.Check(v.Checks > 0 && v.Checked > 0 && v.Wrong.Total() == 0, "%s passed with wrong_words %+v of checked_words %d in %d checks", at, v.Wrong, v.Checked, v.Checks)
	}
}
