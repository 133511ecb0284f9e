package transfer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
)

// Figures of a transfer beside its rows follow from each other, too.
func TestFiguresFollow(t *testing.T) {
	for name, damage := range map[string]func(*transfer.Measurement){
		"measurement.first[pull of 8 bytes].latency_ms: min, p50": func(m *transfer.Measurement) { m.First[0].Millis.P50 = -1 },
		"measurement.first[swap of 8 bytes] was not asked for":    func(m *transfer.Measurement) { m.First[0].Op = "swap" },
		"measurement.sustained[pull]: gbps is 999":                func(m *transfer.Measurement) { m.Sustained[0].GBps = 999 },
		"measurement.sustained[pull] lasted 1e-06 s, must be":     func(m *transfer.Measurement) { m.Sustained[0].Seconds = 1e-6 },
		"measurement.sustained[pull]: cpu_s_per_gb is -5":         func(m *transfer.Measurement) { m.Sustained[0].CPU = -5 },
		"measurement.fit[pull] was not asked for, or has": func(m *transfer.Measurement) {
			m.Fit = append(m.Fit, transfer.Fit{Op: "pull", Beta: -1, Points: 3})
		},
		"measurement.setup has no pool, or a time below 0": func(m *transfer.Measurement) { m.Setup.ConnectMillis = -1 },
		"measurement.setup.register_ms_per_gib is":         func(m *transfer.Measurement) { m.Setup.RegisterMillisPerGiB++ },
		"gbps_p50 is": func(m *transfer.Measurement) { m.Rows[0].GBps *= 1.01 },
	} {
		d := resulttest.Transfer(resulttest.TransferCase(), resulttest.Attempt())
		require.NoError(t, result.Validate(d))
		damage(&d.Measurement)
		require.ErrorContains(t, result.Validate(d), name)
	}
}

// The names under which newer readers look for a figure of a transfer say what the older
// names say.
func TestFieldsAgree(t *testing.T) {
	for name, damage := range map[string]func(*transfer.Document){
		"gbps_p50_incl_prep is":             func(d *transfer.Document) { d.Measurement.Rows[0].GBpsPrepared *= 2 },
		"row_bytes differs from page_bytes": func(d *transfer.Document) { d.Measurement.Rows[0].RowBytes = new(int64) },
		"workload does not match":           func(d *transfer.Document) { d.Workload.RowBytes++ },
		"8 bytes]: verify is missing":       func(d *transfer.Document) { d.Measurement.First[0].Verify = nil },
		"but row pull of 8 bytes":           func(d *transfer.Document) { d.Measurement.First[0].Verify = &result.Verify{} },
	} {
		d := resulttest.Transfer(resulttest.TransferCase(), resulttest.Attempt())
		require.NoError(t, result.Validate(d))
		require.NotZero(t, d.Workload.RowBytes)
		damage(d)
		require.ErrorContains(t, result.Validate(d), name)
	}
}

// Older documents of transfers say nothing of what small transfers left, and are read.
func TestOlderDocuments(t *testing.T) {
	d := resulttest.Transfer(resulttest.TransferCase(), resulttest.Attempt())
	for i := range d.Measurement.First {
		d.Measurement.First[i].Verify = nil
	}
	older, err := result.Encode(d)
	require.NoError(t, err)
	_, err = result.NewInspector(func(string) error { return nil }).Inspect(older)
	require.NoError(t, err)
}

// Bursts that are measured beside others in larger pools, or before other sustained ones, are not
// compared. What the ranks dropped counts as if it had not been asked for.
func TestKeysOfOtherBursts(t *testing.T) {
	of := func(batches []int, drop ...int) string {
		c := plantest.Transfer(func(c *plan.Case) {
			transfer.Of(c).ISLLadder, transfer.Of(c).BatchSizes = plan.Ladder{48}, batches
		})
		d := resulttest.Transfer(c, resulttest.Attempt())
		for _, batch := range drop {
			d.Drop(transfer.Point{ISL: 48, Page: transfer.Of(&c).PageTokens[0], Batch: batch}, result.ReasonMemoryForSize.With("pool of 1 bytes"))
		}
		key, err := result.ComparisonKey(result.Settled(d), nil)
		require.NoError(t, err)
		return key
	}
	alone := of([]int{1})
	require.NotEqual(t, alone, of([]int{1, 64}))
	require.Equal(t, alone, of([]int{1, 64}, 64))
	require.Equal(t, of([]int{1, 64}), of([]int{1, 8, 64}), "rows are matched one by one")
}

// Tables say of which transfers nothing showed the lane.
func TestTablesSayThatALaneIsNotVerified(t *testing.T) {
	for _, unverified := range []bool{false, true} {
		d := resulttest.Transfer(resulttest.TransferCase(), resulttest.Attempt())
		d.Measurement.LaneUnverified = unverified
		require.NoError(t, result.Validate(d))
		of, headline := transfer.Family.Summary.Headline(d)
		sections := transfer.Family.Summary.Sections(family.Headlines{of: {headline}})
		lane := transfer.Of(&d.Identity.Case).Mode
		if unverified {
			lane += ", not verified"
		}
		require.Equal(t, lane, sections.Headlines[0].Table.Rows[0][2])
	}
}
