package compare_test

import (
	"encoding/csv"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/compare"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// recorded returns what ten sweeps of five runs each measured on a real, busy host: the p50
// of an all_reduce, per_iteration, by size and placement. by scales the times.
func recorded(t *testing.T, sweep int, by float64) *compare.Side {
	t.Helper()
	f, err := os.Open("testdata/host.csv")
	require.NoError(t, err)
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	c := resulttest.CollectiveCase()
	b := collective.Of(&c)
	b.Modes, b.Sizes = []string{vocab.PerIteration}, nil
	for size := int64(8); size <= 512<<10; size *= 4 {
		b.Sizes = append(b.Sizes, size)
	}
	c.CaseID = c.ID()
	s := &compare.Side{}
	for _, line := range lines[1:] {
		if line[0] != strconv.Itoa(sweep) {
			continue
		}
		a := resulttest.Attempt()
		a.RunID, a.At = fmt.Sprintf("%s.%s", line[0], line[1]), a.At.Add(time.Duration(s.Len())*time.Minute)
		d := resulttest.Collective(c, a)
		times := map[string]float64{}
		for i, name := range lines[0] {
			times[name], err = strconv.ParseFloat(line[i], 64)
			require.NoError(t, err)
		}
		for k := range d.Measurement.Rows {
			r := &d.Measurement.Rows[k]
			us, ok := times[fmt.Sprintf("%d %s", r.Requested, r.Placement)]
			require.True(t, ok)
			p := us * by
			r.PerIteration.Percentiles = *result.PercentilesOf(p, p, p, p)
		}
		s.Add(d)
	}
	require.Equal(t, 5, s.Len())
	return s
}

// Sweeps of one program on one machine raise no alarm. A handicap of twice their noise floor
// is found, and one of 5 % is never called the same.
func TestRecordedSweeps(t *testing.T) {
	for sweep := 1; sweep < 10; sweep += 2 {
		judged := func(by float64) compare.Case {
			c := compare.Of(recorded(t, sweep, 1), recorded(t, sweep+1, by), compare.Options{})
			require.Len(t, c.Cases, 1)
			return c.Cases[0]
		}
		same := judged(1)
		require.Contains(t, []string{compare.Same, compare.Unclear}, same.Status)
		for _, r := range same.Rungs {
			require.Contains(t, []string{compare.Same, compare.Unclear}, r.Status, r.Rung)
		}
		floor := max(*same.Shift.Floor, same.Shift.Effect)
		require.Equal(t, compare.Slower, judged(floor*floor).Status, "sweep %d, floor %.3f", sweep, floor)
		require.Contains(t, []string{compare.Slower, compare.Unclear}, judged(1.05).Status)
	}
}
