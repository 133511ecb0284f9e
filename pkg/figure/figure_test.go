package figure_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/result"
)

// An invalid case disqualifies rows that passed, unless a row explains why it is invalid.
func TestDisqualify(t *testing.T) {
	good, partial, wrong := figure.Row{Complete: true, Passed: true}, figure.Row{Passed: true}, figure.Row{Complete: true}
	for _, tt := range []struct {
		status string
		code   result.Code
		rows   []figure.Row
		passed int
	}{
		{result.Success, "", []figure.Row{good, good}, 2},
		{result.Failed, result.ReasonTimeout, []figure.Row{good, partial}, 2},
		{result.Invalid, result.ReasonImplausible, []figure.Row{good, good}, 0},
		{result.Invalid, result.ReasonImplausible, []figure.Row{good, partial}, 0},
		{result.Invalid, result.ReasonImplausible, []figure.Row{good, wrong}, 1},
		{result.Invalid, result.ReasonUnchecked, []figure.Row{good, good}, 0},
		{result.Invalid, result.ReasonUnchecked, []figure.Row{good, partial}, 2},
	} {
		rows := make([]figure.Row, len(tt.rows))
		for i, r := range tt.rows {
			rows[i], rows[i].Lines = r, make([]figure.Line, 1)
		}
		o := result.Outcome{Status: tt.status}
		if tt.code != "" {
			o.Reasons = result.Reasons{{Code: tt.code}}
		}
		figure.Disqualify(o, rows)
		passed := 0
		for i, r := range rows {
			if r.Passed {
				passed++
			}
			require.Equal(t, tt.rows[i].Passed && !r.Passed, r.Lines[0].Reason != "", "%+v", tt)
		}
		require.Equal(t, tt.passed, passed, "%+v", tt)
	}
}
