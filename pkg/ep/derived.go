package ep

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// Tolerance is the bound of relative errors: 8 units in the last place of bf16. An error must be below it.
const Tolerance = 8.0 / 256

// ArithmeticBound is the largest error of a combine that follows its declaration, in units in the
// last place of bf16.
const ArithmeticBound = 0.5

// checkCounts checks that the bytes and copies of a row follow from its routing and its case.
func checkCounts(p *result.Problems, at string, c *plan.Case, r *Row) {
	b, copies, n := Of(c), r.LogicalCopies, r.RoutingStats
	for _, f := range []struct {
		name      string
		has, want int64
	}{
		{"logical_copies.routed", copies.Routed, n.RoutedCopies},
		{"logical_copies.assignments", copies.Assignments, int64(r.GlobalTokens) * int64(b.TopK)},
		{"routing.locality.copies", n.Locality.Copies, n.RoutedCopies},
		{"routing.locality.gpus_per_node", int64(n.Locality.GPUsPerNode), int64(c.GPUsPerNode)},
		{"routing.locality.scale_up_domain", int64(n.Locality.ScaleUpDomain), int64(c.ScaleUpDomain)},
	} {
		p.Check(f.has == f.want, "%s.%s is %d, want %d", at, f.name, f.has, f.want)
	}
	of, values := r.Bytes, copies.Routed*int64(b.Hidden)
	p.Check(slices.Contains([]int64{values, 2 * values}, of.Dispatch.Activation) && of.Combine == sum(ByteCount{Activation: 2 * values}, ByteCount{}) &&
		of.Dispatch == sum(of.Dispatch, ByteCount{}) && of.Stage == ByteCount{} && of.Roundtrip == sum(of.Dispatch, of.Combine) &&
		(copies.Routed == 0 || of.Dispatch.Scale%copies.Routed == 0),
		"%s.byte_provenance does not match %d copies of %d values: %+v", at, copies.Routed, b.Hidden, of)
	got := r.Receive
	// In a row that is not complete, some ranks may have no count.
	p.Check(!r.Complete || float64(got.Min) <= got.Mean && got.Mean <= float64(got.Max) && result.Near(got.Mean, float64(got.Total)/float64(c.World)),
		"%s.receive: min, mean and max do not ascend, or the mean does not follow from the total: %+v", at, got)
	checkLoad(p, at+".routing", &n)
	here := n.Locality
	p.Check(here.LocalRankFraction <= min(here.SameNodeFraction, here.SameScaleUpDomain) &&
		result.Near(here.SameNodeFraction+here.CrossNodeFraction, 1) && result.Near(here.SameScaleUpDomain+here.CrossDomainFraction, 1),
		"%s.routing.locality: the fractions of copies contradict each other: %+v", at, here)
}

// sum adds bytes, with their total.
func sum(a, b ByteCount) ByteCount {
	activation, scale := a.Activation+b.Activation, a.Scale+b.Scale
	return ByteCount{activation, scale, activation + scale}
}

// checkLoad checks the load of experts. With a given minimum, mean and maximum a spread has a maximum, too.
func checkLoad(p *result.Problems, at string, n *Routing) {
	low, mean, high := float64(n.ExpertLoadMin), n.ExpertLoadMean, float64(n.ExpertLoadMax)
	p.Check(low <= mean && mean <= high && (n.EmptyExpertCount > 0) == (low == 0), "%s: expert_load_min, mean and max or empty_expert_count contradict each other", at)
	spread := n.ExpertLoadCV * mean
	p.Check(spread*spread <= (high-mean)*(mean-low)*(1+1e-9), "%s.expert_load_cv is %v, more than expert_load_min and max allow", at, n.ExpertLoadCV)
}

// checkTimes checks that the times of a row follow from each other, and that they are based on the samples of the
// case.
func checkTimes(p *result.Problems, at string, b *Block, r *Row) {
	t := b.Timing
	for i := range components {
		n := &components[i]
		samples := t.ItersPerTrial * t.TrialsPerPoint
		switch {
		case n.timing == chained && n.each:
			samples = t.ChainTrialsPerPoint
		case n.timing == chained:
			samples = (t.ChainItersPerTrial - t.ChainDrop) * t.ChainTrialsPerPoint
		}
		if c := n.of(r); c.SampleCount > 0 {
			p.Check(c.SampleCount <= samples && (c.SampleCount == samples || !r.Complete), "%s.%s: sample_count is %d, want %d by the case", at, n.at, c.SampleCount, samples)
		}
		if n.below == nil {
			continue
		}
		is, bound := n.of(r), n.below(r)
		p.Check(is.Percentiles == nil || bound.Percentiles == nil || is.SampleCount != bound.SampleCount || is.Percentiles.Below(*bound.Percentiles),
			"%s.%s: percentiles_us are above the percentiles of the time that includes it", at, n.at)
	}
	if s, want := r.Components.IsolatedSum.Percentiles, r.Components.Sum(); s != nil && want != nil {
		p.Check(s.Below(*want) && want.Below(*s), "%s.components.isolated_sum: percentiles_us are not the sum of dispatch, stage and combine", at)
	}
	if rate, q := r.TokenRate, r.Components.Roundtrip.Percentiles; rate != nil && q != nil && q.P50 > 0 {
		want := q.Map(func(us float64) float64 { return float64(r.GlobalTokens) / (us * 1e-6) })
		p.Check(rate.Below(want) && want.Below(*rate), "%s.token_rate_at_latency_percentile does not follow from the tokens and the roundtrip", at)
	}
}

// Sum adds dispatch, stage (0 if unavailable) and combine percentile by percentile; nil if either end is
// unavailable.
func (k *Components) Sum() *result.Percentiles {
	if k.Dispatch.Percentiles == nil || k.Combine.Percentiles == nil {
		return nil
	}
	sum := *k.Dispatch.Percentiles
	if k.Stage.Percentiles != nil {
		sum = plus(sum, *k.Stage.Percentiles)
	}
	sum = plus(sum, *k.Combine.Percentiles)
	return &sum
}

// plus adds percentile by percentile. If either lacks tails, the sum does.
func plus(a, b result.Percentiles) result.Percentiles {
	if !a.Tailed() || !b.Tailed() {
		return result.Percentiles{P50: a.P50 + b.P50}
	}
	return *result.PercentilesOf(a.P50+b.P50, *a.P90+*b.P90, *a.P95+*b.P95, *a.P99+*b.P99)
}
