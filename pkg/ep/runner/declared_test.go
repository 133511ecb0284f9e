package runner

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// declaredOracle is rank 1 of 4, with 3 tokens of 8 experts on each rank.
func declaredOracle(t *testing.T, d Description) *oracle {
	return &oracle{arithmetic: newArithmetic(d, deepseek(t, 4, 3), contract, 512, 4), rank: 1}
}

// Both ways to round a weighted sum are as declared; any other one is not.
func TestWeightedSumsAsDeclared(t *testing.T) {
	o := declaredOracle(t, layouts[TokenExpert])
	combine := func(add func(sum, y, w float32) float32, round func(float32) uint16) (out []uint16) {
		for token := o.trace.First[1]; token < o.trace.First[2]; token++ {
			for _, v := range o.weightedSums(token, o.chosen(), add)[0] {
				out = append(out, round(v))
			}
		}
		return out
	}
	truncate := func(v float32) uint16 { return uint16(math.Float32bits(v) >> 16) }
	for _, c := range []struct {
		name  string
		add   func(sum, y, w float32) float32
		round func(float32) uint16
		want  bool
	}{
		{"rounded", addRounded, numeric.BF16, true},
		{"fused", addFused, numeric.BF16, true},
		{"float64", func(sum, y, w float32) float32 { return float32(float64(sum) + float64(y)*float64(w)) }, numeric.BF16, true},
		{"truncated", addRounded, truncate, false},
		{"bf16 partial sums", func(sum, y, w float32) float32 { return numeric.FromBF16(numeric.BF16(addRounded(sum, y, w))) }, numeric.BF16, false},
		{"bf16 products", func(sum, y, w float32) float32 { return sum + numeric.FromBF16(numeric.BF16(y*w)) }, numeric.BF16, false},
		{"bf16 weights", func(sum, y, w float32) float32 { return addRounded(sum, y, numeric.FromBF16(numeric.BF16(w))) }, numeric.BF16, false},
	} {
		worst, wrong := o.declared(combine(c.add, c.round))
		require.Equal(t, c.want, wrong == 0, c.name)
		require.Equal(t, c.want, worst <= ep.ArithmeticBound, c.name)
	}
}

// The chosen rows tell each reduction of an unweighted sum from the others.
func TestReductionsDiffer(t *testing.T) {
	tree := layouts[TokenRank]
	tree.Reduction = TopKSlotTree
	oneDomain, treed := declaredOracle(t, layouts[TokenRank]), declaredOracle(t, tree)
	domains := declaredOracle(t, layouts[TokenRank])
	domains.domain = 2
	ranks := layouts[TokenRank]
	ranks.Reduction = RankFP32
	all := []*oracle{oneDomain, domains, treed, declaredOracle(t, ranks)}
	for i, by := range all {
		var out []uint16
		for token := by.trace.First[1]; token < by.trace.First[2]; token++ {
			for _, v := range by.combined(token, by.chosen()) {
				out = append(out, numeric.BF16(v))
			}
		}
		for j, declared := range all {
			_, wrong := declared.declared(out)
			require.Equal(t, i == j, wrong == 0, "%d against %d", i, j)
		}
	}
}

func TestAddFused(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100000 {
		y := numeric.FromBF16(bf16(r.Uint64(), r.IntN(60)-30))
		w, sum := float32(r.Float64()), float32(r.NormFloat64()*math.Exp2(float64(r.IntN(60)-30)))
		if r.IntN(4) == 0 { // half way between two float32, but for what is far below
			sum, y, w = 1+0x1p-23, numeric.FromBF16(bf16(0, -24)), 1+float32(r.IntN(3)-1)*0x1p-23
		}
		exact := new(big.Float).SetPrec(400).Mul(big.NewFloat(float64(y)), big.NewFloat(float64(w)))
		exact.Add(exact.SetPrec(400), big.NewFloat(float64(sum)))
		want, _ := exact.Float32()
		require.Equal(t, want, addFused(sum, y, w), "%v + %v·%v", sum, y, w)
	}
}

func TestULPs(t *testing.T) {
	for _, c := range []struct {
		got  float32
		want []float32
		ulps float64
	}{
		{1, []float32{1}, 0},
		{1, []float32{1 + 0x1p-8}, 0.5},
		{1, []float32{1 + 0x1p-7}, 1},
		{-2, []float32{-2 - 0x1p-8}, 0.25},
		{1, []float32{1.5, 1 + 0x1p-9}, 0.25},
		{1, []float32{0}, 128},
		{0, []float32{0}, 0},
		{float32(math.Inf(1)), []float32{1}, math.Inf(1)},
		{float32(math.NaN()), []float32{1}, math.Inf(1)},
	} {
		require.Equal(t, c.ulps, ulps(numeric.BF16(c.got), c.want...), "%v against %v", c.got, c.want)
	}
}

// Places are three of n, each set of them about as often, in three draws of four.
func TestPlaces(t *testing.T) {
	for n := range 9 {
		triples := triplesOf(n)
		require.Len(t, triples, max(0, n*(n-1)*(n-2)/6))
		seen, drawn := map[[3]int]int{}, 0
		for i := range uint64(80000) {
			p, ok := places(workload.SplitMix(3, i), triples)
			if !ok {
				continue
			}
			require.True(t, 0 <= p[0] && p[0] < p[1] && p[1] < p[2] && p[2] < n)
			seen[p]++
			drawn++
		}
		require.Len(t, seen, len(triples))
		if n >= 3 {
			require.InDelta(t, 60000, drawn, 1000)
		}
		for _, times := range seen {
			require.InEpsilon(t, float64(drawn)/float64(len(triples)), times, 0.2)
		}
	}
}

// Chosen rows are the same for the rank that sends them and the one that sums
// them, in whatever order they are asked for.
func TestChosenRowsAreOfTheirCoordinates(t *testing.T) {
	for layout, d := range layouts {
		o := declaredOracle(t, d)
		rx := &Received{}
		var tokens []int64
		row := make([]uint16, 512)
		var parts [][2]int
		for token := o.trace.Tokens() - 1; token >= 0; token-- {
			experts, _ := o.trace.Row(token)
			for slot, e := range experts {
				if !o.here(e) {
					continue
				}
				part := slot
				if layout == TokenRank {
					part = o.rank
				}
				tokens = append(tokens, int64(token))
				rx.Expert = append(rx.Expert, e)
				parts = append(parts, [2]int{token, part})
				if layout == TokenRank {
					break
				}
			}
		}
		rows := o.chosenFor(rx, tokens)
		require.Len(t, rows, len(parts))
		inOrder := map[int][]uint16{}
		m := o.chosen()
		for i, p := range parts {
			require.Equal(t, choice{p[0], p[1]}, rows[i])
			m(row, p[0], p[1])
			inOrder[i] = slices.Clone(row)
		}
		again := o.chosen()
		for i, p := range slices.Backward(parts) {
			again(row, p[0], p[1])
			require.Equal(t, inOrder[i], row)
		}
	}
}
