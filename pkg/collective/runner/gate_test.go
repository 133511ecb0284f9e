package runner

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/plausible"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// h200 is what a rank beside an H200 with 18 NVLinks tells: 18 of 26.562 GB/s and
// PCIe gen5 x16; see TestPeaks in package inventory.
func h200(rank int) *result.RankDevice {
	return &result.RankDevice{Rank: rank, Limits: []result.Limit{
		{Of: result.LimitLink, GBps: 542.116, Sum: "18 x 26.562 nvlink + gen5 x16 pcie", Source: "nvml"},
		{Of: result.LimitMemory, GBps: 4916.736, Sum: "2 x 3201 MHz x 6144 bit", Source: "nvml"},
	}}
}

// sized is a case of one size, of ranks that each took us microseconds.
func sized(t *testing.T, op Op, world int, bytes int64, us float64) *tape {
	p := newTape(t, aCase(func(c *plan.Case) {
		c.World, c.GPUsPerNode, c.RanksPerNode, c.ScaleUpDomain, c.Nodes = world, world, world, world, 1
		collective.Of(c).Op, collective.Of(c).Sizes = op.String(), []int64{bytes}
		if collective.Of(c).RedOp = ""; op.Reduces() {
			collective.Of(c).RedOp = "sum"
		}
	}))
	for r := range p.streams {
		p.streams[r].Device = h200(r)
		for n, kept := range p.streams[r].Records[1:] {
			if kept.Kind != collective.KindSample {
				continue
			}
			p.edit(r, n, func(s *sample) {
				for i := range s.US {
					s.US[i] = us
				}
			})
		}
	}
	return p
}

// A library that does nothing at 16 MiB takes what enqueueing takes. Its checks say
// that all is well, as if they were off.
func TestNothingIsFasterThanItsLink(t *testing.T) {
	d := sized(t, AllReduce, 2, 16<<20, 5).mustDocument()
	require.Equal(t, result.Invalid, d.Outcome.Status)
	require.Equal(t, resulttest.Reasons("implausible: pipelined of 5 us for 16777216 bytes or more by link, 3355.44 of at most 542.116 GBps"), d.Outcome.Reasons)
	require.Equal(t, h200(0).Limits, d.Limits, "what was applied")
	for _, row := range d.Measurement.Rows {
		require.False(t, row.Check.Passed)
		require.Len(t, row.Check.Reasons, 2, "both modes")
		require.NotNil(t, row.Pipelined, "the figure stands beside the reason")
	}
	require.Equal(t, result.Invalid, sized(t, P2P, 4, 16<<20, 5).mustDocument().Outcome.Status)
}

// Wrong sums are not hidden by an impossible time, which a retry after an accident may replace.
func TestWrongSumsBesideImpossibleTimes(t *testing.T) {
	d := sized(t, AllReduce, 2, 16<<20, 5).mustDocument()
	d.Measurement.Arithmetic = &result.Arithmetic{Reasons: resulttest.Reasons("wrong-arithmetic")}
	judge(d, true, true)
	require.Equal(t, result.Outcome{Status: result.Invalid, Reasons: resulttest.Reasons("wrong-arithmetic")}, d.Outcome)
}

// A rank alone reads and writes its memory, but for what a cache may hold.
func TestNothingIsFasterThanItsMemory(t *testing.T) {
	sp, err := parse(aCase(func(c *plan.Case) { collective.Of(c).Op, collective.Of(c).RedOp, c.World = "all_gather", "", 1 }))
	require.NoError(t, err)
	judge := func(bytes int64, placement string, us float64) string {
		moved := sp.moved(rungRecord{Requested: bytes, Placement: placement, Slots: 1})
		return plausible.Judge(h200(0).Limits, moved, vocab.Pipelined, us).String()
	}
	require.Equal(t, "implausible: pipelined of 1000 us for 7516192768 bytes or more by memory, 7516.19 of at most 4916.74 GBps", judge(4<<30, vocab.OutOfPlace, 1000))
	require.Empty(t, judge(4<<30, vocab.OutOfPlace, 2000))
	require.Empty(t, judge(256<<20, vocab.OutOfPlace, 1), "a cache may hold it")
	require.Empty(t, judge(4<<30, vocab.InPlace, 1), "the result is where it was")
}

func TestPlausibleTimesPass(t *testing.T) {
	for _, op := range Ops() {
		if op == AllToAllV {
			continue
		}
		for _, world := range []int{2, 4} {
			// A little slower than the link, by the bound; and small buffers, whose time is
			// latency and which stay in caches.
			at := float64(16<<20) / 542e3
			require.Equal(t, result.Success, sized(t, op, world, 16<<20, at).mustDocument().Outcome.Status, op)
			require.Equal(t, result.Success, sized(t, op, world, 4096, 4.5).mustDocument().Outcome.Status, op)
		}
	}
	require.Equal(t, result.Success, sized(t, AllReduce, 1, 16<<20, 0.5).mustDocument().Outcome.Status, "in caches")
}

// Where one rank does not tell its peaks, there is no gate, and the document says so.
func TestWithoutAPeakThereIsNoGate(t *testing.T) {
	p := sized(t, AllReduce, 2, 16<<20, 5)
	p.streams[1].Device = nil
	d := p.mustDocument()
	require.Equal(t, result.Success, d.Outcome.Status)
	require.NotNil(t, d.Limits)
	require.Empty(t, d.Limits)
}

func TestATimeOfZeroIsInvalid(t *testing.T) {
	for _, us := range []float64{0, -3} {
		p := newTape(t, aCase())
		p.edit(1, 0, func(s *sample) { s.US[0] = us })
		d := p.mustDocument()
		require.Equal(t, result.Invalid, d.Outcome.Status)
		require.Equal(t, resulttest.Reasons("implausible: pipelined takes "+strconv.FormatFloat(us, 'g', -1, 64)+" us"), d.Outcome.Reasons)
		require.Nil(t, d.Measurement.Rows[0].Pipelined, "no bandwidth follows from it")
	}
}

// What docs/performance.md says of GPUs in absolute figures can be.
func TestPublishedFiguresArePlausible(t *testing.T) {
	text, err := os.ReadFile("../../../docs/performance.md")
	require.NoError(t, err)
	find := func(expression string) (low, high float64) {
		m := regexp.MustCompile(expression).FindStringSubmatch(string(text))
		require.NotNil(t, m, expression)
		low, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		high, err = strconv.ParseFloat(m[2], 64)
		require.NoError(t, err)
		return low, high
	}
	_, rate := find(`([0-9.]+) to ([0-9.]+) GB/s between all pairs at 256 MiB`)
	require.Equal(t, result.Success, sized(t, P2P, 4, 256<<20, float64(256<<20)/rate/1e3).mustDocument().Outcome.Status)
	fastest, _ := find(`([0-9.]+) to ([0-9.]+) µs at 8 B`)
	require.Equal(t, result.Success, sized(t, P2P, 4, 8, fastest).mustDocument().Outcome.Status)
	fastest, _ = find(`Below 256 KiB, a pipelined operation takes [^:]*: ([0-9.]+) to ([0-9.]+) µs`)
	for _, op := range Ops() {
		if op == AllToAllV || op.Pairwise() {
			continue
		}
		for _, world := range []int{2, 4} {
			require.Equal(t, result.Success, sized(t, op, world, 256<<10, fastest).mustDocument().Outcome.Status, op)
		}
	}
}
