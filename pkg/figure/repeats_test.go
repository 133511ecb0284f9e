package figure_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/result"
)

func TestSpreadOfRepeats(t *testing.T) {
	require.Equal(t, figure.Spread{Median: 3, Low: 1, High: 4, N: 3}, figure.Over([]float64{3, 4, 1}))
	require.Equal(t, " ± 67 % (n=3)", figure.Over([]float64{3, 4, 1}).String())
	require.Equal(t, " ± 0.5 % (n=2)", figure.Over([]float64{1, 1.01}).String())
	require.Empty(t, figure.Over([]float64{7}).String())
	require.Empty(t, figure.Over([]float64{0, 0}).String())
}

type rung struct {
	Name string
	Us   float64
	Tail *float64
}

type headline struct {
	Rungs []rung
	Best  int
}

func TestMediansOfRepeats(t *testing.T) {
	of := func(us ...float64) *headline {
		h := &headline{Best: len(us)}
		for _, v := range us {
			h.Rungs = append(h.Rungs, rung{"r", v, &v})
		}
		return h
	}
	first := of(1, 20)
	first.Rungs[1].Tail = nil
	got := figure.Medians([]any{first, of(3, 10), of(2)}).(*headline)
	require.Equal(t, &headline{Best: 2, Rungs: []rung{{"r", 2, new(2.0)}, {"r", 15, new(10.0)}}}, got)
	require.Equal(t, 1.0, first.Rungs[0].Us, "the repeats stay as they are")
}

// A rung is the median of the repeats in which it counts.
func TestSeriesOfRepeats(t *testing.T) {
	of := func(us ...float64) *figure.Series {
		s := &figure.Series{View: "v", Facets: []string{"f"}}
		for i, v := range us {
			s.Points = append(s.Points, figure.Point{X: int64(i), Time: result.Percentiles{P50: v, P99: new(2 * v)}, Work: []float64{8}, Samples: 10})
		}
		return s
	}
	a, b, c := of(1, 5, 7), of(3, 4, 7), of(2)
	a.Points[1].Reason = "invalid: x"
	a.Points[2].Reason, b.Points[2].Reason = "invalid: x", "invalid: y"
	got := figure.Merge([]*figure.Series{a, b, c})
	require.Equal(t, []figure.Spread{{Median: 2, Low: 1, High: 3, N: 3}, {Median: 4, Low: 4, High: 4, N: 1}, {Median: 7, Low: 7, High: 7, N: 1}}, got.Spreads)
	require.Equal(t, figure.Point{X: 0, Time: result.Percentiles{P50: 2, P99: new(4.0)}, Work: []float64{8}, Samples: 30}, got.Points[0])
	require.Equal(t, 4.0, got.Points[1].Time.P50)
	require.Empty(t, got.Points[1].Reason)
	require.Equal(t, "invalid: x", got.Points[2].Reason)

	a, b, c = of(1), of(3), of(2)
	a.Points[0].Work[0], b.Points[0].Work[0] = math.NaN(), 9
	require.Equal(t, 8.5, figure.Merge([]*figure.Series{a, b, c}).Points[0].Work[0], "of those that have it")
	b.Points[0].Work[0], c.Points[0].Work[0] = math.NaN(), math.NaN()
	require.True(t, math.IsNaN(figure.Merge([]*figure.Series{a, b, c}).Points[0].Work[0]))
}
