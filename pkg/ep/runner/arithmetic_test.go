package runner

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// deepseek is the workload of the contract's check values.
func deepseek(t *testing.T, world, tokensPerRank int) *workload.Trace {
	r, err := workload.NewRouting("uniform", workload.Shape{Seed: 67, World: world, Experts: 256, TopK: 8})
	require.NoError(t, err)
	return r.Trace(tokensPerRank)
}

// contract is the activations that the contract names.
var contract = activations{seed: 67}

// Expected combine of token 0, column 40, of the contract. The order of a
// float32 sum may move it by one bf16 step.
func TestCombinedCheckValues(t *testing.T) {
	for _, c := range []struct {
		name      string
		semantics Semantics
		world     int
		want      float32
	}{
		{"weighted", WeightedKernelSum, 8, 0.2554748},
		{"unweighted, one domain", UnweightedRankSum, 8, 0.255859375},
		{"unweighted, two domains", UnweightedRankSum, 16, 0.25537109375},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Description{Combine: c.semantics, Reduction: DomainFP32}
			a := newArithmetic(d, deepseek(t, c.world, 1), contract, 7168, 8)
			require.InDelta(t, c.want, a.combined(0, a.messages(transformed))[40], 1e-7)
		})
	}
}

// The tree against its definition written out for three slots on two ranks.
func TestSlotTree(t *testing.T) {
	trace := &workload.Trace{
		World: 2, TopK: 3, Experts: 4, First: []int{0, 1, 1},
		Expert: []int32{3, 0, 2}, Weight: []float32{0.5, 0.25, 0.25},
	}
	a := newArithmetic(Description{Combine: UnweightedRankSum, Reduction: TopKSlotTree}, trace, contract, 64, 1)
	x, one, zero := make([]uint16, 64), make([]uint16, 64), make([]uint16, 64)
	a.source(x, 0)
	a.apply(one, x, weighted([]int32{3, 2}, []float32{0.5, 0.25}))
	a.apply(zero, x, weighted([]int32{0}, []float32{0.25}))
	for c, got := range a.combined(0, a.messages(transformed)) {
		// (slot 0 + slot 1) + slot 2, where slot 2 names the rank of slot 0 again.
		sum := numeric.FromBF16(numeric.BF16(numeric.FromBF16(one[c]) + numeric.FromBF16(zero[c])))
		require.Equal(t, numeric.FromBF16(numeric.BF16(sum+0)), got)
	}
}

// The sum of ranks against its definition written out: in the order of the token's slots,
// not of the ranks, and in float32.
func TestRankSum(t *testing.T) {
	trace := &workload.Trace{
		World: 3, TopK: 4, Experts: 6, First: []int{0, 1, 1, 1},
		Expert: []int32{5, 0, 4, 3}, Weight: []float32{0.4, 0.3, 0.2, 0.1},
	}
	a := newArithmetic(Description{Combine: UnweightedRankSum, Reduction: RankFP32}, trace, contract, 64, 1)
	x := make([]uint16, 64)
	a.source(x, 0)
	var rows [3][]uint16
	for rank, of := range []workload.Affine{
		weighted([]int32{0}, []float32{0.3}), weighted([]int32{3}, []float32{0.1}), weighted([]int32{5, 4}, []float32{0.4, 0.2}),
	} {
		rows[rank] = make([]uint16, 64)
		a.apply(rows[rank], x, of)
	}
	for c, got := range a.combined(0, a.messages(transformed)) {
		require.Equal(t, float32(numeric.FromBF16(rows[2][c])+numeric.FromBF16(rows[0][c]))+numeric.FromBF16(rows[1][c]), got)
	}
}

func TestOneDomainIsRoundedToo(t *testing.T) {
	a := newArithmetic(Description{Combine: UnweightedRankSum, Reduction: DomainFP32}, deepseek(t, 8, 4), contract, 256, 8)
	for _, v := range a.combined(2, a.messages(transformed)) {
		require.Equal(t, v, numeric.FromBF16(numeric.BF16(v)))
	}
	a.domain = 1
	rounded := true
	for _, v := range a.combined(2, a.messages(transformed)) {
		rounded = rounded && v == numeric.FromBF16(numeric.BF16(v))
	}
	require.False(t, rounded, "the sum over domains is not rounded")
}

func TestGate(t *testing.T) {
	one := numeric.BF16(1)
	require.True(t, within(worse(0, one, 1)))
	require.False(t, within(worse(0, numeric.BF16(1.03125), 1)), "the gate itself fails")
	require.True(t, within(worse(0, numeric.BF16(1.0234375), 1)))
	require.True(t, within(worse(0, numeric.BF16(0.0005), 0)), "small values count against 0.02")
	require.False(t, within(worse(0, numeric.BF16(0.0007), 0)))
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		err := worse(worse(0, numeric.BF16(bad), 1), one, 1)
		require.False(t, within(err))
		require.Nil(t, finite(err))
	}
	require.Equal(t, 0.5, *finite(0.5))
}

func TestBlockCodec(t *testing.T) {
	codec := Codec{Format: numeric.E4M3FN, Block: true}
	require.Equal(t, 56, codec.Scales(7168))
	require.Equal(t, 2, codec.Scales(129))
	row := make([]uint16, 300)
	for i := range row {
		row[i] = numeric.BF16(float32(i%7) - 3)
	}
	for i := 128; i < 256; i++ {
		row[i] = 0 // a block of zeros has the scale of the clamp
	}
	codes, scales := make([]byte, 300), make([]float32, 3)
	codec.Encode(codes, scales, row)
	require.Equal(t, []float32{float32(3) / 448, float32(1e-4) / 448, float32(3) / 448}, scales)
	require.Equal(t, byte(0x7e), codes[6]) // +3 becomes 448
	require.Equal(t, byte(0xfe), codes[0])
	got := make([]uint16, 300)
	codec.Decode(got, codes, scales)
	for i := range row {
		require.InDelta(t, numeric.FromBF16(row[i]), numeric.FromBF16(got[i]), 3.0/16)
	}
	// Another number format has another largest value.
	fnuz := Codec{Format: numeric.E4M3FNUZ, Block: true}
	fnuz.Encode(codes, scales, row)
	require.Equal(t, float32(3)/240, scales[0])
}

func TestRoundTripOfActivations(t *testing.T) {
	row, before := make([]uint16, 7168), make([]uint16, 7168)
	workload.FillActivation(before, 77, 67)
	for _, c := range []struct {
		codec   Codec
		changes bool
	}{
		{Codec{}, false},
		{Codec{Format: numeric.E4M3FN}, true},
		{Codec{Format: numeric.E4M3FN, Block: true}, true},
		{Codec{Format: numeric.E4M3FNUZ, Block: true}, true},
	} {
		copy(row, before)
		c.codec.roundTrip(row)
		require.Equal(t, c.changes, !slices.Equal(row, before))
		token, err := workload.SourceToken(row)
		require.NoError(t, err)
		require.Equal(t, uint32(77), token)
	}
}
