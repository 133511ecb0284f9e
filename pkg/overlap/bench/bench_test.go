package bench

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/benchtest"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/overlap"
)

func TestRefusals(t *testing.T) {
	benchtest.Refuses(t, Command, []benchtest.Refusal{
		benchtest.Usage("beside beside", "a form is named twice: beside, beside"),
		benchtest.Usage("linear-rotation linear-broadcast --products 2", "--products: supported for form beside only, not linear-rotation, linear-broadcast: omit it, or name that form too"),
		benchtest.Usage("linear-rotation --schedule rotation", "--schedule rotation: supported for form beside only: name that form"),
		benchtest.Usage("linear-rotation --compute device-to-host", "--compute device-to-host: copies take the place of products in form beside only: name that form"),
		benchtest.Usage("beside --products 0", "--products 0: want 1 to 256"),
	})
}

// Of an exposed time and an efficiency below the noise there is a dash.
func TestFiguresBelowNoise(t *testing.T) {
	d := resulttest.Overlap(plantest.Overlap(bench.HostBackend, overlap.Beside, 2), resulttest.Attempt())
	r := &d.Measurement.Rows[0]
	line := func() []string { // the first row of the second table
		var b bytes.Buffer
		new(Report).Print(&b, d)
		_, second, _ := strings.Cut(b.String(), "# exposed")
		benchtest.Fits(t, b.String())
		for l := range strings.Lines(second[strings.Index(second, "\n")+1:]) {
			if !strings.HasPrefix(l, "#") {
				return strings.Fields(l)
			}
		}
		return nil
	}
	require.Equal(t, []string{fmt.Sprintf("%.2f", r.Exposed), fmt.Sprintf("%.2f", *r.Efficiency)}, line()[1:3])
	r.Together.P95 = 9 * r.Serial.P50
	r.Figures = r.Derive(overlap.Beside, 2)
	require.Equal(t, []string{"-", "-"}, line()[1:3])
}

// A row that ended early has times, and no figures that follow from them.
func TestAnIncompleteRowHasNoFigures(t *testing.T) {
	d := resulttest.Overlap(plantest.Overlap(bench.HostBackend, overlap.Beside, 2), resulttest.Attempt())
	d.Measurement.Rows = d.Measurement.Rows[:1]
	r := &d.Measurement.Rows[0]
	r.Complete, r.Compute.P50 = false, 1151081.05
	var b bytes.Buffer
	new(Report).Print(&b, d)
	require.Regexp(t, ` 1151081 .*INCOMPLETE\n`, b.String())
	require.Regexp(t, `(?m)^ +\d+( +-){8}$`, b.String())
}
