// Package fit describes how the time of an operation grows with its size: a start-up
// latency α and a bandwidth B, with t = α + n/B, for each range of sizes between breaks. It
// reports a figure only if the sizes identify it.
package fit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Point is the median time of one size, in one timing mode and placement.
type Point struct {
	Bytes float64
	Us    float64
}

// Model is the fit of one curve. Segments are in ascending order of size; between two
// segments is a break, where latency, bandwidth or both change. The library may have
// switched its algorithm or protocol there, but the times alone do not show that.
type Model struct {
	Segments []Segment `json:"segments"`
	// Why is the reason if there are no segments.
	Why string `json:"why,omitempty"`
}

// Segment is the fit over a range of sizes.
type Segment struct {
	FirstBytes float64 `json:"first_bytes"` // smallest size
	LastBytes  float64 `json:"last_bytes"`  // largest size
	Sizes      int     `json:"sizes"`
	// Latency is α in microseconds and Bandwidth is B in GB/s (10⁹ bytes per second).
	// Each is nil if the sizes do not identify it; Why then gives the reasons.
	Latency   *Estimate `json:"latency_us"`
	Bandwidth *Estimate `json:"bandwidth_gbps"`
	// HalfBytes is n½ = α·B, the size at which half the bandwidth is reached. It is nil
	// unless both are identified.
	HalfBytes *float64 `json:"half_bandwidth_bytes"`
	// MaxResidual is the largest |t − fit| / t over the sizes.
	MaxResidual float64 `json:"max_relative_residual"`
	Why         string  `json:"why,omitempty"`

	alpha, perByte float64 // µs, µs per byte
}

// Us returns the time that the segment predicts for a size, in microseconds. It is
// meaningful within the segment's sizes and if Latency or Bandwidth is not nil.
func (s *Segment) Us(bytes float64) float64 { return s.alpha + s.perByte*bytes }

// Estimate is a figure with its standard error, in the same unit.
type Estimate struct {
	Value float64 `json:"value"`
	SE    float64 `json:"standard_error"`
}

// LeastSizes is the minimum number of sizes in a segment.
const LeastSizes = 4

// Conditions under which figures are reported.
const (
	sides       = 4.0  // α needs a size ≤ n½/4, B a size ≥ 4·n½
	latencySE   = 0.20 // relative standard error of α must be lower
	bandwidthSE = 0.10 // relative standard error of B must be lower
	maxResidual = 0.10 // maximum of Segment.MaxResidual
)

// resolution is the relative error below which errors are treated as equal. It keeps the
// search from splitting data without noise.
const resolution = 1e-3

// Fit fits the points, which may be in any order. Points that are not positive and finite
// are left out. Relative errors count alike at every size: it minimizes Σ((t − α − n/B)/t)².
func Fit(points []Point) Model {
	var p []Point
	for _, q := range points {
		if q.Bytes > 0 && q.Us > 0 && !math.IsInf(q.Bytes, 0) && !math.IsInf(q.Us, 0) {
			p = append(p, q)
		}
	}
	slices.SortFunc(p, func(a, b Point) int { return cmp.Or(cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Us, b.Us)) })
	p = slices.CompactFunc(p, func(a, b Point) bool { return a.Bytes == b.Bytes })
	if len(p) < LeastSizes {
		return Model{Segments: []Segment{}, Why: fmt.Sprintf("%d sizes: a fit needs %d", len(p), LeastSizes)}
	}
	m := Model{Segments: []Segment{}}
	for _, r := range split(p) {
		m.Segments = append(m.Segments, segment(p[r[0]:r[1]]))
	}
	return m
}

// split returns the ranges of one to three segments with the lowest BIC. It tries all ranges.
func split(p []Point) [][2]int {
	cost := func(i, j int) float64 { return solve(p[i:j]).rss }
	n := len(p)
	best, lowest := [][2]int{{0, n}}, bic(cost(0, n), n, 1)
	try := func(rss float64, bounds ...int) {
		if b := bic(rss, n, len(bounds)-1); b < lowest {
			lowest, best = b, nil
			for k := 1; k < len(bounds); k++ {
				best = append(best, [2]int{bounds[k-1], bounds[k]})
			}
		}
	}
	for i := LeastSizes; i <= n-LeastSizes; i++ {
		head := cost(0, i)
		try(head+cost(i, n), 0, i, n)
		for j := i + LeastSizes; j <= n-LeastSizes; j++ {
			try(head+cost(i, j)+cost(j, n), 0, i, j, n)
		}
	}
	return best
}

// bic returns the Bayesian information criterion of a fit with relative errors. Each segment
// has two parameters. A break counts as three more, since its position is also fitted.
func bic(rss float64, n, segments int) float64 {
	parameters := 2*segments + 3*(segments-1)
	return float64(n)*math.Log(rss/float64(n)+resolution*resolution) + float64(parameters)*math.Log(float64(n))
}

// line is the least-squares line t = a + b·n.
type line struct {
	a, b     float64
	va, vb   float64 // variances of a and b, divided by the variance of the relative errors
	rss      float64 // sum of the squares of the relative errors
	largest  float64 // largest relative error
	singular bool    // the sizes do not determine a and b
}

// solve minimizes the relative errors: least squares of 1 = a·(1/t) + b·(n/t). Sizes are
// scaled by the largest one.
func solve(p []Point) line {
	scale := p[len(p)-1].Bytes
	var uu, uv, vv, u1, v1 float64
	for _, q := range p {
		u, v := 1/q.Us, q.Bytes/scale/q.Us
		uu, uv, vv = uu+u*u, uv+u*v, vv+v*v
		u1, v1 = u1+u, v1+v
	}
	det := uu*vv - uv*uv
	l := line{singular: !(det > 1e-12*uu*vv)}
	if l.singular {
		l.rss = math.Inf(1)
		return l
	}
	l.a, l.b = (vv*u1-uv*v1)/det, (uu*v1-uv*u1)/det/scale
	l.va, l.vb = vv/det, uu/det/scale/scale
	for _, q := range p {
		r := math.Abs(1 - (l.a+l.b*q.Bytes)/q.Us)
		l.rss += r * r
		l.largest = max(l.largest, r)
	}
	return l
}

// segment fits one range of sizes. It sets the figures that the sizes identify, and Why for the rest.
func segment(p []Point) Segment {
	l := solve(p)
	first, last := p[0].Bytes, p[len(p)-1].Bytes
	s := Segment{FirstBytes: first, LastBytes: last, Sizes: len(p), MaxResidual: math.Round(1e6*l.largest) / 1e6, alpha: l.a, perByte: l.b}
	switch {
	case l.singular:
		s.Why = "the sizes are too close together"
	case l.largest > maxResidual:
		s.Why = fmt.Sprintf("a size is %.0f %% off the fit, more than %.0f %%", 100*l.largest, 100*maxResidual)
	case l.a <= 0:
		s.Why = "the fitted latency is not positive"
	case l.b <= 0:
		s.Why = "the time does not grow with the size"
	default:
		variance := l.rss / float64(len(p)-2)
		half := l.a / l.b
		relativeA, relativeB := math.Sqrt(variance*l.va)/l.a, math.Sqrt(variance*l.vb)/l.b
		var why []string
		switch {
		case first > half/sides:
			why = append(why, "latency: no size is small enough")
		case relativeA >= latencySE:
			why = append(why, fmt.Sprintf("latency: standard error of %.0f %%", 100*relativeA))
		default:
			s.Latency = estimate(l.a, relativeA)
		}
		gbps := 1e-3 / l.b
		switch {
		case last < sides*half:
			why = append(why, "bandwidth: no size is large enough")
		case relativeB >= bandwidthSE:
			why = append(why, fmt.Sprintf("bandwidth: standard error of %.0f %%", 100*relativeB))
		default:
			s.Bandwidth = estimate(gbps, relativeB)
		}
		if s.Latency != nil && s.Bandwidth != nil {
			half = rounded(half)
			s.HalfBytes = &half
		}
		s.Why = strings.Join(why, "; ")
	}
	return s
}

// estimate returns a figure and its standard error, both rounded to the sixth significant digit
// of the figure, since the last bits of v depend on the processor.
func estimate(v, relative float64) *Estimate {
	v = rounded(v)
	places := max(0, 5-int(math.Floor(math.Log10(v))))
	se, _ := strconv.ParseFloat(strconv.FormatFloat(v*relative, 'f', places, 64), 64)
	return &Estimate{v, se}
}

// rounded returns v with six significant digits.
func rounded(v float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	return r
}
