package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/workload"
)

// TestRoutingCheckValuesV4: the figures of CollectiveX for experts 384, top-k 6, seed 67,
// hidden 7168.
func TestRoutingCheckValuesV4(t *testing.T) {
	for _, c := range []struct {
		world, tokens       int
		routed, assignments int64
		histogram           []int
		loadMin, loadMax    int64
		loadCV              float64
		payloadCV, local    float64
		bytes, wire         int64 // one way, of bf16
	}{
		{8, 1, 35, 48, []int{0, 0, 0, 5, 3, 0, 0, 0}, 0, 2, 2.7080128, 0.2539484, 0.0857143, 501760, 688128},
		{8, 64, 2252, 3072, []int{0, 3, 57, 223, 191, 38, 0, 0}, 1, 16, 0.3360889, 0.0253069, 0.1176732, 32284672, 44040192},
		{16, 1, 82, 96, []int{0, 0, 0, 3, 8, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0, 2, 2.0, 0.4569511, 0.0609756, 1175552, 1376256},
		{16, 64, 5256, 6144, []int{0, 0, 15, 181, 481, 347, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 4, 30, 0.2481622, 0.0444929, 0.0641172, 75350016, 88080384},
	} {
		r, err := workload.NewRouting("uniform", workload.Shape{Seed: 67, World: c.world, Experts: 384, TopK: 6})
		require.NoError(t, err)
		trace := r.Trace(c.tokens)
		s := routingStats(trace, 8, 8)
		require.Equal(t, c.routed, s.RoutedCopies)
		require.Equal(t, c.assignments, int64(len(trace.Expert)))
		require.Equal(t, c.histogram, s.FanoutHistogram)
		require.Equal(t, []int64{c.loadMin, c.loadMax}, []int64{s.ExpertLoadMin, s.ExpertLoadMax})
		require.InDelta(t, c.loadCV, s.ExpertLoadCV, 1e-6)
		require.InDelta(t, c.payloadCV, s.PayloadRankCV, 1e-6)
		require.InDelta(t, c.local, s.Locality.LocalRankFraction, 1e-6)
		require.Equal(t, c.bytes, byteCounts(s.RoutedCopies, 7168, 2, 0).Dispatch.Total)
		require.Equal(t, c.wire, byteCounts(c.assignments, 7168, 2, 0).Combine.Total)
	}
	require.EqualValues(t, 2351104, byteCounts(82, 7168, 2, 0).Roundtrip.Total, "a published run has this figure")
}

// The contract's check values: experts 256, top-k 8, seed 67, hidden 7168.
func TestRoutingCheckValues(t *testing.T) {
	for _, c := range []struct {
		world, tokens     int
		routed            int64
		histogram         []int
		loadMin, loadMax  int64
		loadCV, assignCV  float64
		payloadCV, local  float64
		bytes             int64
		gpusPerNode, span int
	}{
		{8, 1, 45, []int{0, 0, 0, 0, 5, 1, 2, 0}, 0, 3, 2.0310096, 0.4145781, 0.2504317, 0.1333333, 645120, 8, 8},
		{8, 64, 2701, []int{0, 0, 11, 80, 214, 171, 36, 0}, 7, 26, 0.2291741, 0.0292806, 0.0177673, 0.1281007, 38721536, 4, 72},
		{16, 64, 6627, []int{0, 0, 0, 7, 125, 397, 368, 127, 0, 0, 0, 0, 0, 0, 0, 0}, 17, 48, 0.1767551, 0.0435529, 0.0396281, 0.0609627, 95004672, 8, 8},
	} {
		s := routingStats(deepseek(t, c.world, c.tokens), c.gpusPerNode, c.span)
		require.Equal(t, c.routed, s.RoutedCopies)
		require.Equal(t, c.histogram, s.FanoutHistogram)
		require.Equal(t, []int64{c.loadMin, c.loadMax}, []int64{s.ExpertLoadMin, s.ExpertLoadMax})
		require.InDelta(t, c.loadCV, s.ExpertLoadCV, 1e-6)
		require.InDelta(t, c.assignCV, s.ExpertAssignmentRankCV, 1e-6)
		require.InDelta(t, c.payloadCV, s.PayloadRankCV, 1e-6)
		require.InDelta(t, c.local, s.Locality.LocalRankFraction, 1e-6)
		require.InDelta(t, float64(c.routed)/float64(c.world*c.tokens), s.FanoutMean, 1e-12)
		require.InDelta(t, float64(c.loadMax)/(float64(8*c.world*c.tokens)/256), s.HotspotRatio, 1e-12)
		require.InDelta(t, s.HotspotRatio-1, *s.MaxVio, 1e-12)
		bytes := byteCounts(s.RoutedCopies, 7168, 2, 0)
		require.Equal(t, ep.ByteCount{Activation: c.bytes, Total: c.bytes}, bytes.Dispatch)
		require.Equal(t, ep.ByteCount{Activation: c.bytes, Total: c.bytes}, bytes.Combine)
		require.Equal(t, ep.ByteCount{Activation: 2 * c.bytes, Total: 2 * c.bytes}, bytes.Roundtrip)
		require.Zero(t, bytes.Stage)
	}

	s := routingStats(deepseek(t, 8, 64), 4, 72)
	require.InDelta(t, 0.4961126, s.Locality.SameNodeFraction, 1e-6)
	require.InDelta(t, 1-0.4961126, s.Locality.CrossNodeFraction, 1e-6)
	require.Equal(t, 1.0, s.Locality.SameScaleUpDomain)
	require.Equal(t, 0.0, s.Locality.CrossDomainFraction)
	require.Equal(t, 3, s.FanoutMin)
	require.Equal(t, 7, s.FanoutMax)

	// Figures of CollectiveX for 384 experts, top 6, block fp8, 8 ranks of 64 tokens.
	assigned := byteCounts(3072, 7168, 1, 224)
	require.Equal(t, ep.ByteCount{Activation: 22020096, Scale: 688128, Total: 22708224}, assigned.Dispatch)
	require.EqualValues(t, 66748416, assigned.Roundtrip.Total)

	fp8 := byteCounts(2701, 7168, 1, 4*56)
	require.Equal(t, ep.ByteCount{Activation: 19360768, Scale: 605024, Total: 19965792}, fp8.Dispatch)
	require.Equal(t, ep.ByteCount{Activation: 38721536, Total: 38721536}, fp8.Combine)
	require.Equal(t, ep.ByteCount{Activation: 58082304, Scale: 605024, Total: 58687328}, fp8.Roundtrip)
}

func TestEmptyRanksAndExperts(t *testing.T) {
	trace := &workload.Trace{
		World: 2, TopK: 1, Experts: 4, First: []int{0, 2, 2},
		Expert: []int32{1, 1}, Weight: []float32{1, 1},
	}
	s := routingStats(trace, 8, 8)
	require.Equal(t, 3, s.EmptyExpertCount)
	require.Equal(t, 1, s.EmptyRankCount)
	require.Equal(t, []int64{2, 0}, s.PayloadCopiesPerRank)
	require.Equal(t, 4.0, s.HotspotRatio)
	require.Equal(t, 1.0, s.Locality.LocalRankFraction)
	require.Equal(t, 1.0, s.PayloadRankCV)
}
