package compare

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/plural"
)

// shift returns the Hodges–Lehmann shift of b over a: the median of all differences. The
// values are logarithms of times, so that the ratio of the times is e^shift.
func shift(a, b []float64) float64 { return median(differences(nil, a, b)) }

// differences returns all b − a, ascending. It reuses the memory of d if that suffices.
func differences(d, a, b []float64) []float64 {
	d = slices.Grow(d[:0], len(a)*len(b))
	for _, y := range b {
		for _, x := range a {
			d = append(d, y-x)
		}
	}
	slices.Sort(d)
	return d
}

// median returns the median of a list, which need not be sorted and is not changed.
func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return measure.MiddleMean(v)
}

// interval returns the interval of the shift that covers at least 95 %, from the
// rank-sum distribution, and its coverage; ok is false with too few runs, such as three a side.
func interval(a, b []float64) (low, high, coverage float64, ok bool) {
	d := differences(nil, a, b)
	tails := exactTail
	if len(a)+len(b) > maxExact {
		tails = normalTail
	}
	c, tail := tails(len(a), len(b))
	if c == 0 {
		return 0, 0, 0, false
	}
	return d[c-1], d[len(d)-c], 1 - 2*tail, true
}

// maxExact is the maximum number of runs, of both sides, whose exact distribution rounding does not distort.
const maxExact = 200

// exactTail returns how many of the smallest rank sums of m and n values have together at most a probability
// of 2.5 %, and that probability.
func exactTail(m, n int) (c int, tail float64) {
	counts := rankSums(m, n)
	total := 0.0
	for _, n := range counts {
		total += n
	}
	for ; c < len(counts) && 2*(tail+counts[c]) <= 0.05*total; c++ {
		tail += counts[c]
	}
	return c, tail / total
}

// normalTail approximates exactTail for many values (Mann and Whitney, 1947).
func normalTail(m, n int) (c int, tail float64) {
	mean, deviation := float64(m*n)/2, math.Sqrt(float64(m*n*(m+n+1))/12)
	c = max(0, int(mean+0.5-1.959964*deviation))
	return c, math.Erfc((mean+0.5-float64(c))/deviation/math.Sqrt2) / 2
}

// rankSums returns how many orders of m and n values have each number of inversions, from
// none to m·n: the null distribution of the rank-sum statistic.
func rankSums(m, n int) []float64 {
	// The Gaussian binomial coefficient: Π (1 − q^(n+i)) / (1 − q^i), i from 1 to m.
	c := make([]float64, m*n+1)
	c[0] = 1
	for i := 1; i <= m; i++ {
		for k := len(c) - 1; k >= n+i; k-- {
			c[k] -= c[k-n-i]
		}
		for k := i; k < len(c); k++ {
			c[k] += c[k-i]
		}
	}
	return c
}

// noise is how much runs of the same case differ (A/A repeats). One noise collects the series of one platform,
// backend and metric.
type noise struct {
	residuals []float64
	runs      map[string]bool // that have residuals, by side
	sides     map[string]bool
	drawn     map[asked][]float64 // cached A/A shifts, widened, ascending
}

// asked identifies cached A/A shifts.
type asked struct{ j, k, pairs int }

// add takes the values of one side of one series; runs name their runs.
func (z *noise) add(side string, runs []string, values []float64) {
	n := len(values)
	if n < 2 {
		return
	}
	if z.runs == nil {
		z.runs, z.sides = map[string]bool{}, map[string]bool{}
	}
	center, wider := median(values), math.Sqrt(float64(n)/float64(n-1))
	for i, v := range values {
		z.residuals = append(z.residuals, (v-center)*wider)
		z.runs[side+" "+runs[i]] = true
	}
	z.sides[side] = true
}

// freedom returns the degrees of freedom: cases of one run share its effects, so only runs count.
func (z *noise) freedom() int { return len(z.runs) - len(z.sides) }

// minFreedom is the minimum number of repeats beyond the first for a floor: 4+4 runs or more.
const minFreedom = 6

// resampled is the number of A/A pairs for a floor.
const resampled = 1000

// floor returns the difference that two sides of j and k runs of the same case exceed with probability tail: a
// percentile of their shifts. ok is false if there are too few repeats.
func (z *noise) floor(j, k int, tail float64, pairs int) (f float64, ok bool) {
	shifts := z.shifts(j, k, pairs)
	if shifts == nil {
		return math.NaN(), false
	}
	return percentile(shifts, 1-tail), true
}

// chance returns the probability that two sides of j and k runs of the same case differ by at least size. It
// follows from Student's t, scaled so that its 95th percentile is the floor, but is at least the fraction of
// such A/A shifts, which may have a heavier tail. It is 0 if there are too few repeats.
func (z *noise) chance(j, k int, size float64, pairs int) float64 {
	shifts := z.shifts(j, k, pairs)
	if shifts == nil {
		return 0
	}
	if size == 0 {
		return 1 // also if no A/A shift differs from zero
	}
	t := student(z.freedom())
	p := t.twoSided(size / percentile(shifts, 0.95) * t.quantile(0.975))
	below, _ := slices.BinarySearch(shifts, size)
	return max(p, float64(len(shifts)-below)/float64(len(shifts)))
}

// percentile returns a percentile of an ascending list, by nearest rank.
func percentile(v []float64, p float64) float64 {
	return v[max(0, min(len(v)-1, int(math.Ceil(p*float64(len(v))))-1))]
}

// shifts returns |shift|, ascending, of pairs of sides of j and k runs drawn from the residuals, widened as
// Student's t is for few runs; nil if there are too few repeats.
func (z *noise) shifts(j, k, pairs int) []float64 {
	if z == nil || z.freedom() < minFreedom {
		return nil
	}
	key := asked{j, k, pairs}
	if s := z.drawn[key]; s != nil {
		return s
	}
	rng := rand.New(rand.NewPCG(uint64(j), uint64(k)))
	slices.Sort(z.residuals) // independent of the order of series
	draw := func(to []float64) {
		for i := range to {
			to[i] = z.residuals[rng.IntN(len(z.residuals))]
		}
	}
	a, b := make([]float64, j), make([]float64, k)
	shifts, wider := make([]float64, pairs), widening(z.freedom())
	var d []float64
	for i := range shifts {
		draw(a)
		draw(b)
		d = differences(d, a, b)
		shifts[i] = math.Abs(median(d)) * wider
	}
	slices.Sort(shifts)
	if z.drawn == nil {
		z.drawn = map[asked][]float64{}
	}
	z.drawn[key] = shifts
	return shifts
}

// normal95 and normal975 are the 95 % and the 97.5 % quantile of the normal distribution.
const (
	normal95  = 1.644854
	normal975 = 1.959964
)

// widening is the ratio of the 97.5 % quantiles of Student's t and the normal
// distribution, by the expansion of Cornish and Fisher; within 0.5 % from six degrees on.
func widening(freedom int) float64 {
	const z = normal975
	n := float64(freedom)
	return 1 + (z*z+1)/(4*n) + (5*z*z*z*z+16*z*z+3)/(96*n*n) + (3*z*z*z*z*z*z+19*z*z*z*z+17*z*z-15)/(384*n*n*n)
}

// Statuses of a comparison.
const (
	Faster       = "faster"
	Slower       = "slower"
	Same         = "same"
	Unclear      = "unclear"
	New          = "new"
	Gone         = "gone"
	Incomparable = "incomparable"
	NotMeasured  = "not measured"
)

// Statuses returns the statuses, most serious first.
func Statuses() []string {
	return []string{Slower, NotMeasured, Unclear, Faster, Same, Incomparable, New, Gone}
}

// MinRuns is the minimum number of runs of a side for a decision.
const MinRuns = 5

// fewRuns is the Why of a shift with fewer than MinRuns runs on a side.
const fewRuns = "fewer than 5 runs a side"

// DefaultEffect is the default smallest effect that counts, as ln of a ratio.
var DefaultEffect = math.Log(1.03)

// Shift is how NEW differs from OLD in one metric. Ratios are of times: above 1 is slower.
type Shift struct {
	OldRuns int     `json:"old_runs"`
	NewRuns int     `json:"new_runs"`
	OldUs   float64 `json:"old_us"` // medians over runs, at one rung
	NewUs   float64 `json:"new_us"`
	Ratio   float64 `json:"ratio"` // new / old, from the Hodges–Lehmann shift
	// Low and High are the interval of the ratio, and Coverage is its probability: exact up to 200 runs,
	// of both sides. They are missing with too few runs, such as three a side.
	Low      *float64 `json:"low,omitempty"`
	High     *float64 `json:"high,omitempty"`
	Coverage *float64 `json:"coverage,omitempty"`
	// Effect is the smallest ratio that counts. Floor is the ratio within which 95 % of A/A comparisons of as
	// many runs lie, at least the resolution of the clock; null if there are too few repeats.
	Effect float64  `json:"least_effect"`
	Floor  *float64 `json:"noise_floor"`
	// P is the probability that an A/A comparison shows an effect as large, and Q is P adjusted for the number of
	// cases and metrics of the comparison, by Benjamini and Hochberg; missing if Floor is null or there are
	// too few runs.
	P      *float64 `json:"p,omitempty"`
	Q      *float64 `json:"q,omitempty"`
	Status string   `json:"status"`
	// Suspect: the effect exceeds both and is worth measuring again. Faster and slower are suspects too, until
	// they are confirmed.
	Suspect bool   `json:"suspect"`
	Why     string `json:"why,omitempty"` // unclear: why
	// Enough is the number of runs a side that decides an unclear shift with a probability of 95 %, if shift and
	// noise are as measured; MaxEnough+1 stands for more than MaxEnough. It is missing if the noise is unknown.
	Enough int `json:"enough_runs,omitempty"`

	log, floor, tick float64 // as ln of ratios
	freedom          int     // of the noise
}

// direction returns Slower or Faster.
func (s *Shift) direction() string {
	if s.log > 0 {
		return Slower
	}
	return Faster
}

// question is the input of a judgement on one metric.
type question struct {
	old, new []float64 // logarithms of µs, by run
	effect   float64   // as ln of a ratio
	noise    *noise    // of the platform, backend and metric
	own      *noise    // of the series itself; may be nil
	tail     float64   // probability that A/A lies beyond the floor
	tick     float64   // resolution of the clock, as ln of a ratio
	pairs    int       // A/A pairs for the floor
	exact    bool      // from a model: equal in every run
}

// ofModel explains a change of a computed time.
const ofModel = "the model gives another time, with no noise"

// judge returns faster or slower if the shift exceeds effect and floor, same only if shift and floor together
// are within the effect, and otherwise unclear.
func judge(q question) Shift {
	j, k := len(q.old), len(q.new)
	s := Shift{
		OldRuns: j, NewRuns: k, OldUs: math.Exp(median(q.old)), NewUs: math.Exp(median(q.new)),
		Effect: math.Exp(q.effect), log: shift(q.old, q.new), Status: Unclear,
	}
	s.Ratio = math.Exp(s.log)
	if low, high, coverage, ok := interval(q.old, q.new); ok {
		low, high = math.Exp(low), math.Exp(high)
		s.Low, s.High, s.Coverage = &low, &high, &coverage
	}
	if q.exact {
		s.Floor, s.Status = new(1.0), Same
		switch {
		case s.log > q.effect:
			s.Status, s.Why = Slower, ofModel
		case s.log < -q.effect:
			s.Status, s.Why = Faster, ofModel
		}
		return s
	}
	floor, known := q.noise.floor(j, k, q.tail, q.pairs)
	if own, ok := q.own.floor(j, k, q.tail, q.pairs); ok && known {
		floor = max(floor, own) // other series may be quieter
	}
	if known {
		floor = max(floor, q.tick)
		s.Floor, s.floor, s.tick, s.freedom = new(math.Exp(floor)), floor, q.tick, q.noise.freedom()
	} else {
		floor = q.tick
	}
	size := math.Abs(s.log)
	if known && min(j, k) >= MinRuns {
		s.P = new(max(q.noise.chance(j, k, size, q.pairs), q.own.chance(j, k, size, q.pairs)))
	}
	s.Suspect = size > max(q.effect, floor)
	switch {
	case min(j, k) < MinRuns:
		s.Why = fewRuns
	case !known:
		s.Why = "too few repeats to know the noise"
	case s.Suspect:
		s.Status = s.direction()
	case size+floor <= q.effect:
		s.Status = Same
	case floor > q.effect:
		s.Why = "the noise is larger than the effect that counts"
	default:
		s.Why = "within the noise of an effect that counts"
	}
	return s
}

// falseRate is the fraction of the changes of a comparison that may be false.
const falseRate = 0.05

// discover sets Q of shifts of one comparison, as Benjamini and Hochberg adjust P. Effects that may be due to
// chance, given the number of comparisons, become unclear. They stay suspect.
func discover(shifts []*Shift) {
	shifts = slices.DeleteFunc(slices.Clone(shifts), func(s *Shift) bool { return s.P == nil })
	slices.SortStableFunc(shifts, func(a, b *Shift) int { return cmp.Compare(*b.P, *a.P) })
	q := 1.0
	for i, s := range shifts { // from the largest P on
		q = min(q, *s.P*float64(len(shifts))/float64(len(shifts)-i))
		s.Q = new(q)
		if q > falseRate && s.Suspect {
			s.Status, s.Why = Unclear, fmt.Sprintf("beyond its noise, as some of %s are by chance", plural.Count(len(shifts), "line", "lines"))
		}
	}
}

// MaxEnough limits the number of runs that a comparison names as enough.
const MaxEnough = 1000

// enough returns Shift.Enough in a comparison with the given number of lines. It is the smallest number of runs a side
// at which the shift exceeds the effect, the noise floor and the adjusted chance, or stays within the effect, by a
// margin. Floor and chance are computed for that number of runs. A new measurement of the shift is off by more than
// the margin, in the wrong direction, with a probability of 5 %.
func (s *Shift) enough(lines int) int {
	if s.Status != Unclear || s.Floor == nil {
		return 0
	}
	size, effect := math.Abs(s.log), math.Log(s.Effect)
	one := s.floor / (normal975 * widening(s.freedom) * math.Sqrt(1/float64(s.OldRuns)+1/float64(s.NewRuns)))
	for n := MinRuns; n <= MaxEnough; n++ {
		sigma := one * math.Sqrt(2/float64(n))
		t := student(2*n - 2)
		floor := max(s.tick, t.quantile(0.975)*sigma)
		chance := t.quantile(1-falseRate/2/float64(lines)) * sigma
		if size-normal95*sigma > max(effect, floor, chance) || size+normal95*sigma+floor <= effect {
			return n
		}
	}
	return MaxEnough + 1
}

// bySize orders shifts by the size of their effect, largest first.
func bySize(a, b Shift) int { return cmp.Compare(math.Abs(b.log), math.Abs(a.log)) }
