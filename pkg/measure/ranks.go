package measure

import (
	"fmt"
	"slices"
)

// Reduction reduces the values of all ranks for one iteration, in rank order, to one
// figure.
type Reduction func(values []float64) float64

// Max returns the value of the slowest rank, for which the group waits.
func Max(values []float64) float64 { return slices.Max(values) }

// Min returns the value of the fastest rank.
func Min(values []float64) float64 { return slices.Min(values) }

// Spread returns the slowest rank's value minus the fastest rank's.
func Spread(values []float64) float64 { return slices.Max(values) - slices.Min(values) }

// LowerMedian returns the median or, for an even number of values, the lower of the two
// middle values. It is the nearest-rank p50.
func LowerMedian(values []float64) float64 { return Percentile(values, 50) }

// MiddleMean returns the median: for an even number of values, the mean of the two middle ones.
func MiddleMean(values []float64) float64 {
	if !slices.IsSorted(values) {
		values = slices.Sorted(slices.Values(values))
	}
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// LargestMagnitude returns the value with the largest magnitude, with its sign. On a tie it
// returns the first.
func LargestMagnitude(values []float64) float64 {
	worst := values[0]
	for _, v := range values[1:] {
		if max(v, -v) > max(worst, -worst) {
			worst = v
		}
	}
	return worst
}

// OverRanks reduces perRank, one slice of samples per rank, iteration by iteration. It
// fails if the ranks have different numbers of samples.
func OverRanks(perRank [][]float64, reduce Reduction) ([]float64, error) {
	if len(perRank) == 0 {
		return nil, fmt.Errorf("reduction over no ranks")
	}
	for r, samples := range perRank {
		if len(samples) != len(perRank[0]) {
			return nil, fmt.Errorf("rank %d has %d samples, rank 0 has %d", r, len(samples), len(perRank[0]))
		}
	}
	out := make([]float64, len(perRank[0]))
	column := make([]float64, len(perRank))
	for i := range out {
		for r, samples := range perRank {
			column[r] = samples[i]
		}
		out[i] = reduce(column)
	}
	return out, nil
}
