package compare

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/fold"
)

// The table of docs/compare.md: spread between runs and effect, both per cent, and runs a side.
var (
	powerSpreads = []float64{1, 2, 3, 5, 10}
	powerEffects = []float64{5, 10}
	powerRuns    = []int{5, 10, 20}
)

// power simulates how many per cent of sessions suspect and confirm a NEW that is slower.
func power(spread, effect float64, k int) outcome {
	return simulate(world{run: spread / 100}, k, true, math.Log1p(effect/100), 300)
}

// BenchmarkPower prints the simulated rows of the table of docs/compare.md.
func BenchmarkPower(b *testing.B) {
	for range b.N {
		for _, spread := range powerSpreads {
			row := fmt.Sprintf("| %v %% |", spread)
			for _, effect := range powerEffects {
				for _, k := range powerRuns {
					row += power(spread, effect, k).cell()
				}
			}
			fmt.Println(row)
		}
	}
}

func (o outcome) cell() string { return fmt.Sprintf(" %.0f/%.0f |", o.flagged, o.confirmed) }

// The table of docs/compare.md is what the method does: its columns of five runs, which take the least time.
// Other processors may round sums in another way.
func TestPublishedPower(t *testing.T) {
	need.Full(t)
	page, err := os.ReadFile("../../docs/compare.md")
	require.NoError(t, err)
	for _, spread := range powerSpreads {
		_, row, ok := strings.Cut(string(page), fmt.Sprintf("\n| %v %% |", spread))
		require.True(t, ok, "the page has no row of %v %%", spread)
		cells := strings.Split(row, "|")
		for i, effect := range powerEffects {
			var suspected, confirmed float64
			_, err := fmt.Sscanf(cells[i*len(powerRuns)], " %f/%f", &suspected, &confirmed)
			require.NoError(t, err)
			o := power(spread, effect, powerRuns[0])
			require.InDelta(t, o.flagged, suspected, 2, "σ %v %%, %v %%: %s", spread, effect, o.cell())
			require.InDelta(t, o.confirmed, confirmed, 2, "σ %v %%, %v %%: %s", spread, effect, o.cell())
		}
	}
}

// BenchmarkMeasuredPower prints what BenchmarkPower does, with the noise of real runs in the place of a simulated one: of the
// documents below CX_RUNS, which 'cxrun sweep --repeat 60 --out DIR' leaves. Each run is the first of a session
// that takes the runs after it, interleaved, and slows those of NEW down.
func BenchmarkMeasuredPower(b *testing.B) {
	dir := os.Getenv("CX_RUNS")
	if dir == "" {
		b.Skip("CX_RUNS=DIR names the documents of a sweep")
	}
	side := &Side{}
	for rec, err := range fold.Read([]string{dir}) {
		if _, ok := errors.AsType[*fold.Problem](err); ok {
			continue
		}
		require.NoError(b, err)
		side.Add(rec.Document)
	}
	for range b.N {
		series := byKey(side.runs)
		for _, key := range slices.Sorted(maps.Keys(series)) {
			pairs, _ := pools{}.collect(key, series[key], series[key])
			for _, q := range pairs {
				v, _ := values(q.old)
				fmt.Println(measuredPower(q.of.CaseID+" "+q.of.Metric, v))
			}
		}
	}
}

// measuredPower returns a row of a table: of the spread of runs, and the sessions that suspect and confirm no
// shift, 5 % and 10 %.
func measuredPower(name string, runs []float64) string {
	center, deviations := median(runs), []float64{}
	for _, v := range runs {
		deviations = append(deviations, math.Abs(v-center))
	}
	row := fmt.Sprintf("| %s, %d runs | %.1f %% |", name, len(runs), 100*1.4826*median(deviations))
	for _, effect := range append([]float64{0}, powerEffects...) {
		for _, k := range powerRuns[:2] {
			o := judgeSessions(len(runs), k, true, math.Log1p(effect/100), func(i int) machine {
				return machine{recorded: slices.Concat(runs[i:], runs[:i])}
			})
			row += o.cell()
		}
	}
	return row
}
