package workload

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// plainNumber is the one form of a wanted MaxVio, so that a routing has one name.
var plainNumber = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$`)

// LognormalPrefix begins the names of lognormal routings; the wanted MaxVio follows.
const LognormalPrefix = "lognormal-vio"

// lognormal returns the picker of experts whose weights are exp(σ·z), where z is a standard normal
// number of each expert and σ is such that the load of the busiest expert exceeds the mean by the wanted
// part of it, in the limit of many tokens. All is computed by operations that IEEE 754 rounds the same
// everywhere, so that traces do not depend on the machine.
func lognormal(s Shape, text string) (picker, error) {
	wanted, err := strconv.ParseFloat(text, 64)
	limit := float64(s.Experts)/float64(s.TopK) - 1                                      // every token chooses the busiest expert
	if err != nil || !(wanted > 0 && wanted < limit) || !plainNumber.MatchString(text) { // NaN is neither
		return nil, fmt.Errorf("the wanted MaxVio must be a number above 0 and below %.4g, which is (experts - top-k) / top-k", limit)
	}
	z := normals(s)
	// At σ = 64, the busiest expert has more weight than fits beside another's.
	sigma := bisect(0, 64, func(sigma float64) bool { return maxVio(s, weights(z, sigma)) < wanted })
	upTo := make([]uint64, s.Experts)
	var sum uint64
	for e, w := range weights(z, sigma) {
		sum += 1 + uint64(float64(w*(1<<40)))
		upTo[e] = sum
	}
	return weighted(upTo), nil
}

// normals returns a number of each expert, the sum of twelve uniform ones less its mean: nearly standard
// normal.
func normals(s Shape) []float64 {
	c, z := newCounter(s.Seed), make([]float64, s.Experts)
	for e := range z {
		var sum uint64
		for i := range 12 {
			sum += c.draw(e, i, 0, streamPopularity) >> 32
		}
		z[e] = (float64(sum) - 6*(1<<32)) / (1 << 32)
	}
	return z
}

// weights returns exp(σ·z), divided by the largest.
func weights(z []float64, sigma float64) []float64 {
	w, largest := make([]float64, len(z)), slices.Max(z)
	for e := range z {
		w[e] = exp(float64(sigma * (z[e] - largest)))
	}
	return w
}

// maxVio returns the expected MaxVio of tokens that choose top-k different experts by their weights. An
// expert is chosen with the probability 1 − exp(−λ·w), where λ makes these add up to top-k.
func maxVio(s Shape, w []float64) float64 {
	chosen := func(lambda float64) (sum float64) {
		for _, w := range w {
			sum += 1 - exp(-float64(lambda*w))
		}
		return sum
	}
	high := 1.0
	for chosen(high) < float64(s.TopK) && high < 1<<60 {
		high *= 2
	}
	lambda := bisect(0, high, func(lambda float64) bool { return chosen(lambda) < float64(s.TopK) })
	return float64((1-exp(-lambda))*float64(s.Experts))/float64(s.TopK) - 1
}

// bisect returns the number between low and high below which under holds.
func bisect(low, high float64, under func(float64) bool) float64 {
	for range 60 {
		if middle := (low + high) / 2; under(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// exp returns (1 + x/2^20) to the power of 2^20, nearly the exponential of x ≤ 0. Conversions keep
// processors from fusing operations.
func exp(x float64) float64 {
	if x < -1<<19 {
		return 0
	}
	y := 1 + float64(x/(1<<20))
	for range 20 {
		y = float64(y * y)
	}
	return y
}
