package collective_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/collective"
)

// Labels tell rows of two groups apart.
func TestFiguresOfGroups(t *testing.T) {
	d := resulttest.Collective(resulttest.CollectiveCase(), resulttest.Attempt())
	row := d.Measurement.Rows[0]
	d.Measurement.Rows = nil
	for _, group := range [][]int{{0, 2}, {1, 3}} {
		row.Group = group
		d.Measurement.Rows = append(d.Measurement.Rows, row)
	}
	placements := map[string]bool{}
	for _, f := range collective.Figures(d) {
		placements[f.Placement] = true
	}
	require.Equal(t, map[string]bool{row.Placement + " ranks [0 2]": true, row.Placement + " ranks [1 3]": true}, placements)
}
