package runner_test

import (
	"encoding/json"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// windowRecord is the part of a window's record that the tests below look at.
type windowRecord struct {
	Mode   string    `json:"mode"`
	Trial  int       `json:"trial"`
	Repeat int       `json:"repeat"`
	US     []float64 `json:"us"`
}

func windowOf(t *testing.T, r rank.Record) (w windowRecord) {
	t.Helper()
	if r.Kind == collective.KindSample {
		require.NoError(t, json.Unmarshal(r.Data, &w))
	}
	return w
}

// A trial in which the clock of one rank was capped is repeated by all ranks. Its repetition is in the figures,
// and what was wrong in the trial itself still counts.
func TestCappedTrialsAreReplaced(t *testing.T) {
	const again = 1 // the trial with the cap
	c := aCase(func(c *plan.Case) {
		collective.Of(c).Placements, collective.Of(c).Modes = []string{vocab.OutOfPlace}, []string{vocab.Pipelined, vocab.Graph}
		collective.Of(c).Measure.Trials = 3
	})
	dir, streams, errs := t.TempDir(), make([]rank.Stream, c.World), make([]error, c.World)
	var group sync.WaitGroup
	for r := range c.World {
		streams[r].Rank = r
		capped := func() bool {
			records := streams[r].Records
			if r == 0 || len(records) == 0 {
				return false
			}
			// The next record is that of the trial.
			last := windowOf(t, records[len(records)-1])
			return last.Mode != "" && last.Trial == again-1 && last.Repeat == 0
		}
		group.Go(func() {
			runtime.LockOSThread()
			errs[r] = runRank(t.Context(), dir, r, c, false, &comm{rank: r, capped: capped}, &streams[r])
			streams[r].Done = errs[r] == nil
		})
	}
	group.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	assembled := func() *collective.Document {
		doc, err := result.New(c, result.Attempt{Ordinal: 1, At: time.Now(), Vendor: "host", Generator: "test 0"})
		require.NoError(t, err)
		require.NoError(t, runner.Assemble(doc, streams))
		return doc.(*collective.Document)
	}
	d := assembled()
	require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
	for _, mode := range collective.Of(&c).Modes {
		sum, repeated := 0.0, 0
		for trial := range 3 {
			slowest := 0.0
			for _, s := range streams {
				for _, record := range s.Records {
					w := windowOf(t, record)
					if w.Mode != mode || w.Trial != trial {
						continue
					}
					require.True(t, w.Repeat == 0 || trial == again && w.Repeat == 1)
					repeated += w.Repeat
					if (trial == again) == (w.Repeat == 1) {
						slowest = max(slowest, w.US[0])
					}
				}
			}
			sum += slowest
		}
		require.Equal(t, c.World, repeated, "windows of %s", mode)
		got := *d.Measurement.Rows[0].Timing(mode)
		require.Equal(t, 3, got.SampleCount)
		require.InDelta(t, sum/3, got.Mean, 1e-9)
	}

	for i, record := range streams[0].Records {
		if w := windowOf(t, record); w.Mode == vocab.Pipelined && w.Trial == again && w.Repeat == 0 {
			var whole map[string]any
			require.NoError(t, json.Unmarshal(record.Data, &whole))
			whole["check"].(map[string]any)["wrong"] = 1
			streams[0].Records[i].Data, _ = json.Marshal(whole)
		}
	}
	require.Equal(t, result.Invalid, assembled().Outcome.Status)
}
