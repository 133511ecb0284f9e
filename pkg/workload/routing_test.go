package workload

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

type vector struct {
	Tokens  int        `json:"global_tokens"`
	Experts int        `json:"experts"`
	TopK    int        `json:"topk"`
	Seed    uint64     `json:"seed"`
	IndexSH string     `json:"sha256_indices_int64_le"`
	WeighSH string     `json:"sha256_weights_float32_le"`
	Index   [][]int32  `json:"indices"`
	Weights [][]string `json:"weights_float32_le_hex"`
}

func readVectors(t *testing.T) []vector {
	raw, err := os.ReadFile("testdata/routing.json")
	require.NoError(t, err)
	var file struct{ Traces []vector }
	require.NoError(t, json.Unmarshal(raw, &file))
	require.NotEmpty(t, file.Traces)
	return file.Traces
}

func trace(t *testing.T, name string, s Shape, tokensPerRank int) *Trace {
	r, err := NewRouting(name, s)
	require.NoError(t, err)
	return r.Trace(tokensPerRank)
}

// The field contract's own traces. They do not depend on the world.
func TestUniformIsTheFieldContract(t *testing.T) {
	sha := func(b *bytes.Buffer) string {
		sum := sha256.Sum256(b.Bytes())
		return hex.EncodeToString(sum[:])
	}
	for _, v := range readVectors(t) {
		for _, world := range []int{1, 2, 4} {
			tr := trace(t, "uniform", Shape{Seed: v.Seed, World: world, Experts: v.Experts, TopK: v.TopK}, v.Tokens/world)
			require.Equal(t, v.Tokens, tr.Tokens())
			var index, weights bytes.Buffer
			writeExperts(&index, tr.Expert)
			writeWeights(&weights, tr.Weight)
			require.Equal(t, v.IndexSH, sha(&index))
			require.Equal(t, v.WeighSH, sha(&weights))
			for token, want := range v.Index {
				experts, weight := tr.Row(token)
				require.Equal(t, want, experts)
				for slot, h := range v.Weights[token] {
					var b bytes.Buffer
					writeWeights(&b, weight[slot:slot+1])
					require.Equal(t, h, hex.EncodeToString(b.Bytes()))
				}
			}
		}
	}
}

func TestDigestSeesEverything(t *testing.T) {
	s := Shape{Seed: 67, World: 2, Experts: 16, TopK: 4}
	digest := trace(t, "uniform", s, 4).Digest()
	require.Equal(t, digest, trace(t, "uniform", s, 4).Digest())
	changed := trace(t, "uniform", s, 4)
	changed.Weight[7] = math.Nextafter32(changed.Weight[7], 2)
	require.NotEqual(t, digest, changed.Digest())
	changed = trace(t, "uniform", s, 4)
	changed.Expert[3], changed.Expert[2] = changed.Expert[2], changed.Expert[3]
	require.NotEqual(t, digest, changed.Digest())
	s.Seed++
	require.NotEqual(t, digest, trace(t, "uniform", s, 4).Digest())
}

var zoo = []string{
	"uniform", "zipf-mild", "zipf", "zipf-heavy", "balanced", "balanced-rank-local", "hotspot-single",
	"hotspot-moving", "hotspot-moving-step3", "alternating-groups", "alternating-groups-step1",
	"uneven-linear", "uneven-empty-rank", "uniform-eplb", "zipf-eplb", "zipf-heavy-eplb", "hotspot-single-eplb",
	"alternating-groups-step1-eplb",
}

func TestEveryRoutingIsWellFormed(t *testing.T) {
	for _, name := range zoo {
		for _, s := range []Shape{
			{Seed: 67, World: 8, Experts: 256, TopK: 8, LargestRung: 64},
			{Seed: 67, World: 3, Experts: 24, TopK: 8, LargestRung: 64},
			{Seed: 1, World: 1, Experts: 16, TopK: 2, LargestRung: 64},
		} {
			tr := trace(t, name, s, 64)
			for token := range tr.Tokens() {
				experts, weights := tr.Row(token)
				var sum float64
				for slot, e := range experts {
					if e < 0 || int(e) >= tr.Experts || slices.Contains(experts[:slot], e) || weights[slot] <= 0 {
						require.Fail(t, "bad slot", "%s: token %d: %v %v", name, token, experts, weights)
					}
					sum += float64(weights[slot])
				}
				if math.Abs(sum-1) > 1e-6 {
					require.Fail(t, "bad token", "%s: token %d: weights sum to %v", name, token, sum)
				}
			}
			require.Zero(t, tr.Experts%s.World)
		}
	}
}

// A token's row depends on its index alone.
func TestSmallerBatchIsAPrefix(t *testing.T) {
	s := Shape{Seed: 67, World: 4, Experts: 64, TopK: 8, LargestRung: 32}
	for _, name := range zoo {
		small, large := trace(t, name, s, 8), trace(t, name, s, 32)
		require.Equal(t, small.Expert, large.Expert[:len(small.Expert)], name)
		require.Equal(t, small.Weight, large.Weight[:len(small.Weight)], name)
	}
}

func loads(tr *Trace) (experts, ranks []int) {
	experts, ranks = make([]int, tr.Experts), make([]int, tr.World)
	for _, e := range tr.Expert {
		experts[e]++
		ranks[tr.ExpertRank(e)]++
	}
	return experts, ranks
}

func TestRoutingsHaveTheirCharacter(t *testing.T) {
	s := Shape{Seed: 67, World: 8, Experts: 256, TopK: 8, LargestRung: 128}
	hottest := func(name string) float64 {
		tr := trace(t, name, s, 128)
		experts, _ := loads(tr)
		return float64(slices.Max(experts)) / (float64(len(tr.Expert)) / float64(tr.Experts))
	}
	require.Less(t, hottest("uniform"), hottest("zipf-mild"))
	require.Less(t, hottest("zipf-mild"), hottest("zipf"))
	require.Less(t, hottest("zipf"), hottest("zipf-heavy"))
	require.Equal(t, 1.0, hottest("balanced"))
	require.Equal(t, 1.0, hottest("balanced-rank-local"))
	require.Equal(t, 32.0, hottest("hotspot-single"), "every token, one of eight slots")

	fanout := func(name string) map[int]int {
		histogram := map[int]int{}
		tr := trace(t, name, s, 64)
		for token := range tr.Tokens() {
			ranks := map[int]bool{}
			experts, _ := tr.Row(token)
			for _, e := range experts {
				ranks[tr.ExpertRank(e)] = true
			}
			histogram[len(ranks)]++
		}
		return histogram
	}
	require.Equal(t, map[int]int{8: 512}, fanout("balanced"))
	require.Equal(t, map[int]int{1: 512}, fanout("balanced-rank-local"))

	require.Equal(t, trace(t, "hotspot-single", s, 8).Expert, trace(t, "hotspot-moving", s, 8).Expert)
	moved := trace(t, "hotspot-moving-step259", s, 8)
	for token := range moved.Tokens() {
		experts, _ := moved.Row(token)
		require.Equal(t, int32(3), experts[0])
	}
	require.Less(t, slices.Max(trace(t, "alternating-groups", s, 8).Expert), int32(128))
	require.GreaterOrEqual(t, slices.Min(trace(t, "alternating-groups-step1", s, 8).Expert), int32(128))
	require.Equal(t, trace(t, "alternating-groups", s, 8).Digest(), trace(t, "alternating-groups-step2", s, 8).Digest())
}

func TestUnevenCounts(t *testing.T) {
	for world := 1; world <= 9; world++ {
		for _, tokens := range []int{1, 2, 7, 64} {
			counts := linearCounts(world, tokens)
			sum := 0
			for _, n := range counts {
				sum += n
			}
			require.Equal(t, world*tokens, sum)
			require.True(t, slices.IsSorted(counts), "%v", counts)
		}
	}
	require.Equal(t, []int{32, 53, 75, 96}, linearCounts(4, 64))
	require.Equal(t, []int{86, 85, 85, 0}, emptyRankCounts(4, 64))
	require.Equal(t, []int{64}, emptyRankCounts(1, 64))
	r, err := NewRouting("uneven-linear", Shape{Seed: 67, World: 4, Experts: 64, TopK: 8})
	require.NoError(t, err)
	require.Equal(t, []int{0, 32, 85, 160, 256}, r.Trace(64).First)
	require.Equal(t, 96, r.MaxRankTokens(64))
}

func TestEPLBBalances(t *testing.T) {
	s := Shape{Seed: 67, World: 8, Experts: 256, TopK: 8, LargestRung: 128}
	for _, name := range []string{"uniform", "zipf-mild", "zipf", "zipf-heavy", "hotspot-single"} {
		r, err := NewRouting(name+"-eplb", s)
		require.NoError(t, err)
		p, ok := r.Placement()
		require.True(t, ok)
		require.Equal(t, 288, p.Slots)
		require.Equal(t, imbalance(trace(t, name, s, 128)), p.Before, name)
		require.Less(t, p.After, 1.30, name)
		require.LessOrEqual(t, p.After, p.Before, name)
		again, err := NewRouting(name+"-eplb", s)
		require.NoError(t, err)
		same, _ := again.Placement()
		require.Equal(t, p, same)
	}
	plainRouting, err := NewRouting("zipf", s)
	require.NoError(t, err)
	_, ok := plainRouting.Placement()
	require.False(t, ok)
	require.Equal(t, 288, trace(t, "zipf-eplb", s, 8).Experts)
	r, err := NewRouting("zipf-eplb", s)
	require.NoError(t, err)
	require.Equal(t, 288, r.Experts())
	s.World, s.Experts = 3, 24
	require.Equal(t, 24+33, trace(t, "zipf-eplb", s, 8).Experts, "redundant slots are rounded up to the ranks")

	// Slots lead back to the experts of the routing without replicas.
	r, err = NewRouting("zipf-eplb", s)
	require.NoError(t, err)
	plain, placed := trace(t, "zipf", s, 32), r.Trace(32)
	for i, slot := range placed.Expert {
		require.Equal(t, plain.Expert[i], r.eplb.logical[slot])
	}
	require.Equal(t, plain.Weight, placed.Weight)
}

func TestNewRoutingRefuses(t *testing.T) {
	good := Shape{Seed: 67, World: 4, Experts: 16, TopK: 8, LargestRung: 8}
	with := func(change func(*Shape)) Shape {
		s := good
		change(&s)
		return s
	}
	for _, c := range []struct {
		name  string
		shape Shape
		want  string
	}{
		{"unifrom", good, `unknown routing "unifrom"`},
		{"uniform-step1", good, `unknown routing "uniform-step1"`},
		{"hotspot-moving-stepx", good, `routing "hotspot-moving-stepx": the step must be a whole number from 0`},
		{"hotspot-moving-step-1", good, `routing "hotspot-moving-step-1": the step must be a whole number from 0`},
		{"uniform", with(func(s *Shape) { s.World = 3 }), "routing uniform: 16 experts on 3 ranks with top-k 8: experts must be a multiple of the ranks and at least top-k"},
		{"uniform", with(func(s *Shape) { s.TopK = 17 }), "routing uniform: 16 experts on 4 ranks with top-k 17: experts must be a multiple of the ranks and at least top-k"},
		{"alternating-groups", with(func(s *Shape) { s.TopK = 9 }), "routing alternating-groups: top-k 9 needs 9 experts in each half, there are 8"},
		{"zipf-eplb", with(func(s *Shape) { s.LargestRung = 0 }), "routing zipf-eplb: the ladder has no rung from which to place the replicas"},
	} {
		_, err := NewRouting(c.name, c.shape)
		require.EqualError(t, err, c.want)
	}
}

// The busiest expert of a lognormal routing has the wanted excess load, and its id depends on the seed.
func TestLognormal(t *testing.T) {
	busiest := map[int]bool{}
	for seed := range uint64(4) {
		for _, wanted := range []float64{0.5, 2, 8} {
			shape := Shape{Seed: seed, World: 8, Experts: 64, TopK: 4, LargestRung: 512}
			r, err := NewRouting(fmt.Sprintf("lognormal-vio%g", wanted), shape)
			require.NoError(t, err)
			loads := make([]int, shape.Experts)
			for _, e := range r.Trace(512).Expert {
				loads[e]++
			}
			most := slices.Max(loads)
			require.InEpsilon(t, 1+wanted, float64(most)/256, 0.12, "seed %d, %g", seed, wanted)
			busiest[slices.Index(loads, most)] = true
		}
	}
	require.Greater(t, len(busiest), 1)
	shape := Shape{Seed: 67, World: 8, Experts: 256, TopK: 8}
	for _, wrong := range []string{"", "0", "-1", "31", "x", "nan", "+4", "4.0", "0x1p2"} {
		_, err := NewRouting("lognormal-vio"+wrong, shape)
		require.ErrorContains(t, err, `routing "lognormal-vio`+wrong+`": the wanted MaxVio must be a number above 0 and below 31`)
	}
}

// TestRecorded: a recorded routing has the experts of its file and the weights of the
// contract. A smaller batch is the beginning of a larger one.
func TestRecorded(t *testing.T) {
	shape := Shape{Seed: 67, World: 2, Experts: 4, TopK: 2, LargestRung: 2, Recorded: []int{3, 1, 0, 2, 1, 3, 2, 0, 0, 1}}
	r, err := NewRouting("file-x", shape)
	require.NoError(t, err)
	two := r.Trace(2)
	require.Equal(t, []int32{3, 1, 0, 2, 1, 3, 2, 0}, two.Expert)
	require.Equal(t, two.Expert[:4], r.Trace(1).Expert)
	shape.Recorded = nil
	drawn, err := NewRouting("uniform", shape)
	require.NoError(t, err)
	require.Equal(t, drawn.Trace(2).Weight, two.Weight)

	for _, wrong := range [][]int{{3, 1, 0}, {3, 1, 0, 2, 1, 3}, {3, 1, 0, 2, 1, 3, 2, 2}, {3, 1, 0, 2, 1, 3, 2, 4}, {3, 1, 0, 2, 1, 3, 2, -1}} {
		shape.Recorded = wrong
		_, err := NewRouting("file-x", shape)
		require.ErrorContains(t, err, "routing file-x: ")
	}
}
