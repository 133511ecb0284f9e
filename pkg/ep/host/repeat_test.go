package host_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/host"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// clocked is a runner whose rank reads a clock before each record.
type clocked struct {
	rank.Runner
	capped func(records int) bool
}

func (r clocked) Run(ctx context.Context, s *rank.Session, c plan.Case) error {
	records := 0
	s.Between = func() bool {
		records++
		return s.Rank == 1 && r.capped(records)
	}
	return r.Runner.Run(ctx, s, c)
}

// freshOf returns the samples of a component of a rung by trial and repetition.
func freshOf(t *testing.T, s rank.Stream, component string, rung int) map[rank.Trial][]float64 {
	t.Helper()
	by := map[rank.Trial][]float64{}
	for _, r := range s.Records {
		var f struct {
			Trial, Repeat int
			Component     string
			Tokens        int       `json:"tokens_per_rank"`
			US            []float64 `json:"us"`
		}
		require.NoError(t, json.Unmarshal(r.Data, &f))
		if r.Kind == ep.RecordFresh && f.Component == component && f.Tokens == rung {
			by[rank.Trial{Number: f.Trial, Repeat: f.Repeat}] = f.US
		}
	}
	return by
}

// A trial in which the clock of one rank was capped is repeated by all. Its repetition is in the figures, and
// all of it stays recorded.
func TestCappedTrialsAreReplaced(t *testing.T) {
	c := eptest.Case(2)
	b := ep.Of(&c)
	windows := len(b.Ladder) * 3 // records of a trial
	first := 2 + 2*len(b.Ladder) + windows
	open := func(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
		inner, err := host.Open(host.Variant{})(ctx, s, c)
		return clocked{inner, func(records int) bool { return records > first+1 && records < first+windows }}, err
	}
	streams := eptest.Run(t, open, "", c)[0]
	d := eptest.Document(t, c, streams)
	require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
	again := rank.Trial{Number: 1, Repeat: 1}
	var slowest []float64
	ranks := []map[rank.Trial][]float64{}
	for _, s := range streams {
		require.Equal(t, map[string]map[int]int{"fresh": {1: 1}}, s.Repeats)
		of := freshOf(t, s, "roundtrip", b.Ladder[0])
		require.Len(t, of, b.Timing.TrialsPerPoint+1)
		ranks = append(ranks, of)
	}
	for _, trial := range []rank.Trial{{}, again, {Number: 2}} {
		for i := range b.Timing.ItersPerTrial {
			slowest = append(slowest, max(ranks[0][trial][i], ranks[1][trial][i]))
		}
	}
	row := d.Measurement.Rows[0]
	require.Equal(t, len(slowest), row.Components.Roundtrip.SampleCount)
	require.Equal(t, slices.Max(slowest), *row.Components.Roundtrip.Percentiles.P99)
	slices.Sort(slowest)
	require.Equal(t, slowest[(len(slowest)+1)/2-1], row.Components.Roundtrip.Percentiles.P50)
}
