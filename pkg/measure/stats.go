// Package measure has the statistics and the order of samples that all families share, so
// that their figures are comparable. It does not depend on any family.
package measure

import (
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/result"
)

// Percentile returns the nearest-rank percentile q (0 to 100) of samples, without
// interpolation: the sorted value at index max(0, min(n−1, ceil(q/100·n) − 1)). It does not
// change samples. It panics if samples is empty.
func Percentile(samples []float64, q float64) float64 {
	return percentileOfSorted(slices.Sorted(slices.Values(samples)), q)
}

func percentileOfSorted(sorted []float64, q float64) float64 {
	n := len(sorted)
	i := int(math.Ceil(q/100*float64(n))) - 1
	return sorted[max(0, min(n-1, i))]
}

// Percentiles returns p50, p90, p95 and p99 of samples; see Percentile.
func Percentiles(samples []float64) result.Percentiles {
	sorted := slices.Sorted(slices.Values(samples))
	return *result.PercentilesOf(percentileOfSorted(sorted, 50), percentileOfSorted(sorted, 90),
		percentileOfSorted(sorted, 95), percentileOfSorted(sorted, 99))
}

// Mean returns the arithmetic mean, and 0 for no values.
func Mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// CV returns the coefficient of variation: the population standard deviation divided by the
// mean. It returns 0 if the mean is 0.
func CV(values []float64) float64 {
	mean := Mean(values)
	if mean == 0 {
		return 0
	}
	var squares float64
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares/float64(len(values))) / mean
}

// Histogram counts samples in bins of equal width between the smallest and the largest
// sample. Equal samples give one bin of width 0. It panics if there are no samples.
func Histogram(samples []float64, bins int) result.Histogram {
	lo, hi := slices.Min(samples), slices.Max(samples)
	if lo == hi {
		return result.Histogram{Min: lo, Counts: []int{len(samples)}}
	}
	h := result.Histogram{Min: lo, Width: (hi - lo) / float64(bins), Counts: make([]int, bins)}
	for _, s := range samples {
		h.Counts[min(int((s-lo)/h.Width), bins-1)]++
	}
	return h
}
