package overlap_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/export"
	"github.com/collectivex/collectivex/pkg/overlap"
)

// The contenders have rows of their own, and so have the figures that follow.
func TestExport(t *testing.T) {
	d := resulttest.Overlap(plantest.Overlap("host", overlap.LinearRotation, 2), resulttest.Attempt())
	at := func(is func(r *export.Row) bool) (n int) {
		for _, r := range (export.Case{Document: d, Attempts: 1}).Rows() {
			if r.X != nil && *r.X == 16384 && r.Mode == overlap.LinearRotation && is(&r) {
				n++
			}
		}
		return n
	}
	for _, contender := range overlap.Contenders(overlap.LinearRotation) {
		require.Equal(t, 3, at(func(r *export.Row) bool { return r.Timing == contender && r.Metric == "latency" && r.Unit == "us" }))
	}
	for metric, rows := range map[string]int{
		"exposed": 1, "floor": 1, "efficiency": 1, "compute_coverage": 1, "communication_slowdown": 1, "compute_tax": 1,
		"compute_slowdown": 0, // half covered
	} {
		require.Equal(t, rows, at(func(r *export.Row) bool { return r.Metric == metric }), metric)
	}
}
