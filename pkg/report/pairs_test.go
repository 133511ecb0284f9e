package report_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/golden"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/report"
	"github.com/collectivex/collectivex/pkg/table"
)

// pairwise is a run of one pairwise case of three ranks at 8 bytes and 1 MiB; gbps
// is the bandwidth of a pair at the larger size.
func pairwise(t *testing.T, op string, gbps func(src, dst int) float64) *report.Summary {
	r := newRun(t)
	c := resulttest.CollectiveCase()
	collective.Of(&c).Op, collective.Of(&c).RedOp, c.World, c.RanksPerNode = op, "", 3, 3
	c.CaseID = c.ID()
	collective.Of(&c).Sizes, collective.Of(&c).Placements = []int64{8, 1 << 20}, []string{"out_of_place"}
	r.ask(c, plan.Runnable, "")
	d := resulttest.Collective(c, attempt(1, "host"))
	for _, row := range d.Measurement.Rows {
		busbw := gbps(*row.Src, *row.Dst)
		*row.Pipelined = *resulttest.Timing(&c, row.Bytes, float64(row.Bytes)/busbw/1e3, collective.Of(&c).Measure.Trials)
		row.Pipelined.BusBW = busbw // to the last bit
	}
	r.answer(d)
	return r.build()
}

func TestPairs(t *testing.T) {
	s := pairwise(t, "p2p", func(src, dst int) float64 {
		if src == 2 && dst == 1 {
			return 60
		}
		return 100 + float64(src)
	})
	require.Empty(t, s.Headlines["collectives"])
	require.Len(t, s.Headlines["pairs"], 1)
	p := s.Headlines["pairs"][0].(*collective.Pairs)
	require.Equal(t, &table.Slow{Src: 2, Dst: 1, GBps: 60}, p.Worst)
	require.InDelta(t, 100, p.Median, 1e-9)
	var b bytes.Buffer
	require.NoError(t, s.Text(&b, 0))
	golden.Equal(t, "testdata/pairs.txt", b.String())
	b.Reset()
	require.NoError(t, s.Markdown(&b, report.MaxMarkdown))
	golden.Equal(t, "testdata/pairs.md", b.String())
	b.Reset()
	require.NoError(t, s.JSON(&b))
	var got struct{ Pairs []*collective.Pairs }
	require.NoError(t, json.Unmarshal(b.Bytes(), &got))
	require.Equal(t, []*collective.Pairs{p}, got.Pairs)
	require.Contains(t, b.String(), `"values":[[null,100,100],[101,null,101],[102,60,null]]`)
}

// A pair that is no more than a tenth slower is not named; both directions of
// a pair are one figure where they are measured at once.
func TestPairsThatAreAlike(t *testing.T) {
	s := pairwise(t, "p2p_bidir", func(src, _ int) float64 { return 100 - 10*float64(src) })
	p := s.Headlines["pairs"][0].(*collective.Pairs)
	require.Nil(t, p.Worst)
	require.InDelta(t, 90, *p.Bandwidth.Values[2][1], 1e-9)
	require.InDelta(t, 90, *p.Bandwidth.Values[1][2], 1e-9)
	require.Nil(t, p.Bandwidth.Values[1][1])
}
