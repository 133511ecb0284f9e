package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

func aCase(change ...func(*plan.Case)) plan.Case {
	return plantest.Collective(2, append([]func(*plan.Case){func(c *plan.Case) {
		collective.Of(c).Sizes = []int64{8, 1 << 20}
		collective.Of(c).Measure = collective.Counts{Warmup: 1, Iterations: 4, Trials: 2, Aggregate: 1, Launches: 1}
	}}, change...)...)
}

// traffic makes a case an alltoallv of a size.
func traffic(size int64, rows ...[]int64) func(*plan.Case) {
	return func(c *plan.Case) {
		collective.Of(c).Op, collective.Of(c).RedOp, collective.Of(c).Traffic, collective.Of(c).Sizes = "alltoallv", "", rows, []int64{size}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, edit := range map[string]func(*plan.Case){
		"another family": func(c *plan.Case) { c.Block = nil },
		"op":             func(c *plan.Case) { collective.Of(c).Op = "allreduce" },
		"type":           func(c *plan.Case) { c.Precision = "fp32" },
		"reduction":      func(c *plan.Case) { collective.Of(c).RedOp = "xor" },
		"no reduction":   func(c *plan.Case) { collective.Of(c).RedOp = "" },
		"a reduction":    func(c *plan.Case) { collective.Of(c).Op = "all_gather" },
		"root":           func(c *plan.Case) { collective.Of(c).Op, collective.Of(c).Root = "reduce", 2 },
		"root of no op":  func(c *plan.Case) { collective.Of(c).Root = 1 },
		"mode":           func(c *plan.Case) { collective.Of(c).Modes = []string{"cpu"} },
		"no mode":        func(c *plan.Case) { collective.Of(c).Modes = nil },
		"placement":      func(c *plan.Case) { collective.Of(c).Placements = []string{"inplace"} },
		"buffers":        func(c *plan.Case) { collective.Of(c).Buffers = "tepid" },
		"fresh in a row": func(c *plan.Case) {
			collective.Of(c).Buffers, collective.Of(c).Modes = vocab.Fresh, []string{vocab.Blocking, vocab.Pipelined}
		},
		"fresh-cold in a row": func(c *plan.Case) {
			collective.Of(c).Buffers, collective.Of(c).Modes = vocab.FreshCold, []string{vocab.Pipelined}
		},
		"no iterations":    func(c *plan.Case) { collective.Of(c).Measure.Iterations = 0 },
		"no trials":        func(c *plan.Case) { collective.Of(c).Measure.Trials = 0 },
		"negative warm-up": func(c *plan.Case) { collective.Of(c).Measure.Warmup = -1 },
		"no sizes":         func(c *plan.Case) { collective.Of(c).Sizes = nil },
		"fewer than none":  func(c *plan.Case) { collective.Of(c).Sizes = []int64{-1} },
		"all skipped":      func(c *plan.Case) { collective.Of(c).Measure.Skip = collective.Of(c).Measure.Iterations },
		"waits in blocking mode": func(c *plan.Case) {
			collective.Of(c).Measure.Wait, collective.Of(c).Modes = vocab.WaitBarrier, []string{vocab.Blocking}
		},
		"graphs on the null stream": func(c *plan.Case) {
			collective.Of(c).NullStream, collective.Of(c).Modes = true, []string{vocab.Graph}
		},
		"an unknown wait": func(c *plan.Case) { collective.Of(c).Measure.Wait = "forever" },
		"waits in a group": func(c *plan.Case) {
			collective.Of(c).Measure.Wait, collective.Of(c).Measure.Aggregate = vocab.WaitOperation, 2
		},
		"no traffic": func(c *plan.Case) { collective.Of(c).Op, collective.Of(c).RedOp = "alltoallv", "" },
		"traffic of none": func(c *plan.Case) {
			collective.Of(c).Traffic, collective.Of(c).Sizes = [][]int64{{0, 8}, {0, 0}}, []int64{8}
		},
		"traffic of three": traffic(8, []int64{0, 8, 0}, []int64{0, 0, 0}, []int64{0, 0, 0}),
		"torn traffic":     traffic(8, []int64{0, 8}, []int64{0}),
		"less than nobody": traffic(8, []int64{0, 8}, []int64{-4, 0}),
		"half an element":  traffic(8, []int64{0, 8}, []int64{2, 0}),
		"another size":     traffic(16, []int64{0, 8}, []int64{0, 0}),
		"a cube of three":  func(c *plan.Case) { collective.Of(c).Op, collective.Of(c).RedOp, c.World = "hypercube", "", 3 },
		"steps in a group": func(c *plan.Case) {
			collective.Of(c).Op, collective.Of(c).RedOp, collective.Of(c).Measure.Aggregate = "hypercube", "", 2
		},
		"p2p alone": func(c *plan.Case) { collective.Of(c).Op, collective.Of(c).RedOp, c.World = "p2p", "", 1 },
		"world":     func(c *plan.Case) { c.World, collective.Of(c).RedOp = 2000, "avg" },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(aCase(edit))
			var coded *rank.Error
			require.ErrorAs(t, err, &coded)
			require.Equal(t, result.ReasonRefused, coded.Reason.Code)
		})
	}
	for _, edit := range []func(*plan.Case){func(*plan.Case) {}, traffic(8, []int64{0, 8}, []int64{4, 0})} {
		_, err := parse(aCase(edit))
		require.NoError(t, err)
	}
}

func lay(t *testing.T, l limits, edit func(*plan.Case)) ladder {
	sp, err := parse(aCase(edit))
	require.NoError(t, err)
	return sp.layOut(l)
}

func TestLayOutKeepsAccountOfWhatIsLeftOut(t *testing.T) {
	l := lay(t, limits{Bytes: 5 << 20, Untimed: untimedOnHost, Cache: 1 << 20, NoGraphs: true}, func(c *plan.Case) {
		collective.Of(c).Op, collective.Of(c).RedOp = "alltoall", ""
		collective.Of(c).Sizes = []int64{16, 1 << 20, 1 << 22}
		collective.Of(c).Modes = []string{vocab.Graph, vocab.Pipelined}
	})
	require.Equal(t, []collective.Exclusion{
		{What: "graph", Reason: result.Reason{Code: "refused", Detail: "the device has no graphs"}},
		{What: "in_place", Reason: result.Reason{Code: "refused", Detail: "alltoall has no in-place form"}},
	}, l.excluded)
	require.Len(t, l.dropped, 2)
	require.Contains(t, l.dropped[0].Reason.Detail, "32 bytes")
	require.Equal(t, []collective.DroppedSize{
		{Bytes: 16, Reason: result.Reason{Code: "size-too-small", Detail: l.dropped[0].Reason.Detail}},
		{Bytes: 1 << 22, Reason: result.Reason{Code: "memory-for-size", Detail: "takes 10489856 bytes of memory, and 5242880 may be used"}},
	}, l.dropped)
	require.Len(t, l.rungs, 1)
	require.Equal(t, []string{vocab.Pipelined}, l.modes)
	for _, d := range l.dropped {
		require.NoError(t, d.Reason.Check())
	}
}

func TestSlots(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name      string
		buffers   string
		placement string
		bytes     int64
		n         int
		want      int
		of        []int // slot of each operation
		rounds    []int // results on that slot before; out of place
		marks     []int // operations of which something is left to check
		whole     []int // those of which all is
	}{
		{"warm", vocab.Warm, vocab.OutOfPlace, mib, 4, 1, []int{0, 0, 0, 0}, []int{0, 1, 2, 3}, []int{0, 1, 2, 3}, []int{3}},
		{"warm in place keeps one for the last", vocab.Warm, vocab.InPlace, mib, 4, 2, []int{0, 0, 0, 1}, nil, []int{3}, []int{3}},
		{"once in place", vocab.Warm, vocab.InPlace, mib, 1, 1, []int{0}, nil, []int{0}, []int{0}},
		{"cold covers the caches twice", vocab.Cold, vocab.OutOfPlace, mib, 8, 4, []int{0, 1, 2, 3, 0, 1, 2, 3}, []int{0, 0, 0, 0, 1, 1, 1, 1}, []int{0, 1, 2, 3, 4, 5, 6, 7}, []int{4, 5, 6, 7}},
		{"cold has no more than iterations", vocab.Cold, vocab.OutOfPlace, 8, 3, 3, []int{0, 1, 2}, []int{0, 0, 0}, []int{0, 1, 2}, []int{0, 1, 2}},
		{"cold in place", vocab.Cold, vocab.InPlace, 4 * mib, 5, 3, []int{0, 1, 0, 1, 2}, nil, []int{4}, []int{4}},
		{"cold in place, a slot for each", vocab.Cold, vocab.InPlace, mib, 3, 3, []int{0, 1, 2}, nil, []int{0, 1, 2}, []int{0, 1, 2}},
		{"cold and large still has two", vocab.Cold, vocab.OutOfPlace, 64 * mib, 4, 2, []int{0, 1, 0, 1}, []int{0, 0, 1, 1}, []int{0, 1, 2, 3}, []int{2, 3}},
		{"shifted goes from the end back to the start", vocab.Shifted, vocab.OutOfPlace, mib, 6, 4, []int{0, 1, 2, 3, 0, 1}, []int{0, 0, 0, 0, 1, 1}, []int{0, 1, 2, 3, 4, 5}, []int{2, 3, 4, 5}},
		{"shifted has no more than iterations", vocab.Shifted, vocab.OutOfPlace, 8, 3, 3, []int{0, 1, 2}, []int{0, 0, 0}, []int{0, 1, 2}, []int{0, 1, 2}},
		{"shifted in place", vocab.Shifted, vocab.InPlace, mib, 6, 4, []int{0, 1, 2, 0, 1, 3}, nil, []int{2, 5}, []int{2, 5}},
		{"shifted in place, a slot for each", vocab.Shifted, vocab.InPlace, 8, 3, 3, []int{0, 1, 2}, nil, []int{0, 1, 2}, []int{0, 1, 2}},
		{"the largest in place keeps one for the last", vocab.Shifted, vocab.InPlace, 4 * mib, 4, 2, []int{0, 0, 0, 1}, nil, []int{3}, []int{3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := parse(aCase(func(p *plan.Case) {
				collective.Of(p).Buffers, collective.Of(p).Placements, collective.Of(p).Sizes, collective.Of(p).Measure.Iterations = c.buffers, []string{c.placement}, []int64{c.bytes}, c.n
				if c.buffers == vocab.Shifted {
					collective.Of(p).Sizes = []int64{c.bytes, 4 * mib}
				}
			}))
			require.NoError(t, err)
			l := s.layOut(limits{Bytes: 1 << 40, Untimed: untimedOnHost, Cache: 4 * mib})
			r := l.rungs[0]
			require.Equal(t, c.want, r.Slots)
			var of, rounds, marks, whole []int
			at := map[place]int{}
			for i := range c.n {
				p := r.place(i, c.n)
				at[p] = i
				of, rounds = append(of, p.slot), append(rounds, p.round)
			}
			for _, m := range s.marks(r) {
				if marks = append(marks, at[m.place]); m.whole {
					whole = append(whole, at[m.place])
				}
			}
			require.Equal(t, c.of, of)
			if c.placement == vocab.OutOfPlace {
				require.Equal(t, c.rounds, rounds)
			}
			require.Equal(t, c.marks, marks)
			require.Equal(t, c.whole, whole)
			if s.block.Measure.Launches = 2; c.placement == vocab.InPlace && c.n > 1 {
				require.Equal(t, []mark{{place{slot: r.Slots - 1}, true}}, s.marks(r), "only the last operation of the last launch finds its input")
			}
			require.GreaterOrEqual(t, l.bytes, int64(r.Slots)*c.bytes)
			if c.buffers == vocab.Cold {
				require.EqualValues(t, 8*mib, l.flush)
			} else {
				require.Zero(t, l.flush)
			}
		})
	}
}

// The results of a rung neither leave its memory nor meet those of another slot. The operations of a group call,
// which a library may run in any order, have a slot each.
func TestResultsFit(t *testing.T) {
	const mib = 1 << 20
	for _, buffers := range []string{vocab.Warm, vocab.Cold, vocab.Shifted} {
		for _, sampling := range [][2]int{{1, 1}, {3, 1}, {1, 4}} {
			launches, group := sampling[0], sampling[1]
			s, err := parse(aCase(func(p *plan.Case) {
				collective.Of(p).Buffers, collective.Of(p).Placements = buffers, []string{vocab.OutOfPlace}
				collective.Of(p).Sizes = []int64{8, 1000, 4096, mib, 3 * mib, 8 * mib}
				collective.Of(p).Measure.Iterations, collective.Of(p).Measure.Launches, collective.Of(p).Measure.Aggregate = 7, launches, group
			}))
			require.NoError(t, err)
			l := s.layOut(limits{Bytes: 1 << 30, Untimed: untimedOnHost, Cache: 4 * mib})
			require.Len(t, l.rungs, 6)
			for _, r := range l.rungs {
				require.GreaterOrEqual(t, r.Slots, group)
				ends := int64(0)
				require.LessOrEqual(t, int64(r.Slots-1)*r.stride+r.Bytes, r.recvAt+int64(r.Slots-1)*r.stride, "inputs end before results begin")
				for slot := range r.Slots {
					begin := r.recvAt + int64(slot)*r.recvStride
					if buffers == vocab.Shifted {
						require.GreaterOrEqual(t, begin, max(ends, int64(r.Slots-1)*r.stride+r.Bytes))
					} else {
						require.GreaterOrEqual(t, begin, ends+r.Bytes, "this slot's input lies between")
					}
					ends = begin + (s.shares(r.rounds)-1)*markBytes + r.Bytes
				}
				require.LessOrEqual(t, ends, l.bytes)
			}
		}
	}
}

// Memory that holds two buffers but not as many as the caches ask for.
func TestColdRotatesOverWhatFits(t *testing.T) {
	l := lay(t, limits{Bytes: 20 << 20, Untimed: untimedOnHost, Cache: 4 << 20}, func(c *plan.Case) {
		collective.Of(c).Buffers, collective.Of(c).Placements, collective.Of(c).Sizes, collective.Of(c).Measure.Iterations = vocab.Cold, []string{vocab.OutOfPlace}, []int64{1 << 20}, 100
	})
	require.Equal(t, 4, l.rungs[0].Slots)
	l = lay(t, limits{Bytes: 15 << 20, Untimed: untimedOnHost, Cache: 4 << 20}, func(c *plan.Case) {
		collective.Of(c).Buffers, collective.Of(c).Placements, collective.Of(c).Sizes, collective.Of(c).Measure.Iterations = vocab.Cold, []string{vocab.OutOfPlace}, []int64{1 << 20}, 100
	})
	require.Equal(t, 2, l.rungs[0].Slots)
}

func TestSeedsDiffer(t *testing.T) {
	seen := map[uint32]string{}
	for _, mode := range []string{vocab.Pipelined, vocab.PerIteration, vocab.Graph} {
		for _, placement := range []string{vocab.OutOfPlace, vocab.InPlace} {
			for trial := range 10 {
				for slot := range 20 {
					s := seed("case", window{Requested: 1 << 20, Placement: placement, Mode: mode, Trial: trial}, slot)
					require.Empty(t, seen[s])
					seen[s] = mode
				}
			}
		}
	}
}
