package ep

import (
	"cmp"
	"math"

	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/result"
)

// Derive computes the fields that follow from the counts of a trace: the histogram, the copies and
// assignments of each rank, and the maximum and mean load of an expert.
func (r *Routing) Derive() {
	var tokens, copies int64
	r.FanoutMin, r.FanoutMax = 0, 0
	for i, n := range r.FanoutHistogram {
		if n > 0 {
			r.FanoutMax = i + 1
			if r.FanoutMin == 0 {
				r.FanoutMin = i + 1
			}
		}
		tokens += int64(n)
		copies += int64(n) * int64(i+1)
	}
	r.FanoutMean, r.RoutedCopies = float64(copies)/float64(tokens), copies
	r.PayloadRankCV, r.ExpertAssignmentRankCV = measure.CV(floats(r.PayloadCopiesPerRank)), measure.CV(floats(r.ExpertAssignmentsPerRank))
	r.EmptyRankCount = Zeros(r.PayloadCopiesPerRank)
	r.HotspotRatio = float64(r.ExpertLoadMax) / r.ExpertLoadMean
	r.MaxVio = new(r.HotspotRatio - 1)
}

// checkRouting checks that a routing has the values that Derive computes from its counts.
func checkRouting(p *result.Problems, at string, r Routing) {
	derived := r
	derived.Derive()
	p.Check(derived.RoutedCopies == r.RoutedCopies && derived.FanoutMin == r.FanoutMin && derived.FanoutMax == r.FanoutMax && derived.EmptyRankCount == r.EmptyRankCount,
		"%s: copies, fan-out or empty ranks do not match its counts", at)
	for _, f := range []struct {
		name      string
		has, want float64
	}{
		{"fanout_mean", r.FanoutMean, derived.FanoutMean},
		{"payload_rank_cv", r.PayloadRankCV, derived.PayloadRankCV},
		{"expert_assignment_rank_cv", r.ExpertAssignmentRankCV, derived.ExpertAssignmentRankCV},
		{"hotspot_ratio", r.HotspotRatio, derived.HotspotRatio},
		{"max_vio", *cmp.Or(r.MaxVio, derived.MaxVio), *derived.MaxVio},
	} {
		p.Check(math.Abs(f.has-f.want) <= 1e-9*math.Max(1, f.want), "%s.%s is %v, want %v from its counts", at, f.name, f.has, f.want)
	}
}

func floats(counts []int64) []float64 {
	values := make([]float64, len(counts))
	for i, n := range counts {
		values[i] = float64(n)
	}
	return values
}

// Zeros returns how many of the counts are 0.
func Zeros(counts []int64) (n int) {
	for _, c := range counts {
		if c == 0 {
			n++
		}
	}
	return n
}
