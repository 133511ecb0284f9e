package overlap_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/report"
	"github.com/collectivex/collectivex/pkg/result"
)

// summary is that of a run of one document.
func summary(t *testing.T, d result.Document) *report.Summary {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, result.Validate(d))
	_, err := result.Write(dir, d, 1, func([]byte) error { return nil })
	require.NoError(t, err)
	s, _, err := report.Build([]string{dir}, nil)
	require.NoError(t, err)
	return s
}

// The headline of an overlap has the largest size; its ladder has a dash for a slowdown that
// says nothing.
func TestSummary(t *testing.T) {
	c := plantest.Overlap("host", overlap.LinearBroadcast, 2)
	d := resulttest.Overlap(c, resulttest.Attempt())
	d.Measurement.SharedProcessor = true
	var b strings.Builder
	require.NoError(t, summary(t, d).Text(&b, 0))
	require.Regexp(t, `(?m)^ +16 KiB +20.3 +10.2 +25.4 +30.5 +5.08 +0.500$`, b.String())
	require.Contains(t, b.String(), "loop (shared processor)")
	require.Contains(t, b.String(), "ranks 2\n", "a number of ranks has no decimals")
	b.Reset()
	require.NoError(t, summary(t, d).Markdown(&b, 1<<20))
	require.Contains(t, b.String(), "| 0.500 | – | 1.05 | 1.00 | 1.20 | 1.25 |")

	noisy := resulttest.Overlap(c, resulttest.Attempt())
	for i := range noisy.Measurement.Rows {
		row := &noisy.Measurement.Rows[i]
		row.Together.P95, row.Together.Max = 9*row.Serial.P50, 9*row.Serial.P50
		row.Figures = row.Derive(overlap.LinearBroadcast, 2)
	}
	b.Reset()
	require.NoError(t, summary(t, noisy).Text(&b, 0))
	require.Regexp(t, `(?m)^ +16 KiB +20.3 +10.2 +25.4 +30.5 +– +–$`, b.String())
}

// A figure that most repeats lack, since it is below their noise, is not the figure of the case.
func TestFiguresOfFewRepeats(t *testing.T) {
	of := func(exposed, efficiency *float64) any {
		row := overlap.HeadlineRow{Beyond: exposed}
		row.Efficiency = efficiency
		return &overlap.Headline{Rows: []overlap.HeadlineRow{row}}
	}
	one := new(1.0)
	few := family.Repeated([]any{of(nil, one), of(one, nil), of(nil, nil)}).(*overlap.Headline).Rows[0]
	require.Nil(t, few.Beyond)
	require.Nil(t, few.Efficiency)
	most := family.Repeated([]any{of(nil, one), of(one, nil), of(one, one)}).(*overlap.Headline).Rows[0]
	require.NotNil(t, most.Beyond)
	require.Equal(t, one, most.Efficiency)
}
