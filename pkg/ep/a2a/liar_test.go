package a2a

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// A library that returns success and moves something else is found in both modes, and in
// replayed graphs, by the check of what it left out, exchanged or cut off. It begins after
// the first oracle, which finds nothing.
func TestALibraryThatLies(t *testing.T) {
	need.Full(t)
	setUp(t)
	t.Setenv("CX_NCCL_LIB", fakes.Liar(t, os.Getenv("CX_NCCL_LIB")))
	normal := []plan.Case{brief(2, ep.ModeNormal, "bf16")}
	low := []plan.Case{brief(2, ep.ModeLowLatency, "bf16"), replayed(ep.ModeLowLatency, "bf16")}
	for _, l := range []struct {
		lie   string
		cases []plan.Case
		check string
	}{
		// Normal mode receives rows, what is beside them, and the rows that come back.
		{"lost:60", normal, runner.CheckPayload},
		{"cut:60", normal, runner.CheckPayload},
		{"turned:60", normal, runner.CheckCombine},
		// Low latency gathers, and receives the sums that come back.
		{"from:20", low, runner.CheckPayload},
		{"every:5", low, runner.CheckPayload},
		{"lost:12", low, runner.CheckCombine},
		{"cut:12", low, runner.CheckCombine},
		{"turned:12", low, runner.CheckCombine},
	} {
		for _, c := range l.cases {
			t.Run(l.lie+" "+c.CaseID, func(t *testing.T) {
				t.Setenv("CX_LIE", l.lie)
				d := eptest.Document(t, c, eptest.Run(t, Open, "", c)[0])
				require.Equal(t, result.Invalid, d.Outcome.Status)
				check := d.Measurement.Rows[0].Correctness
				require.True(t, check.OraclePassed.Pre)
				require.Regexp(t, "check-failed: [a-z-]+ "+l.check+" ", check.Reasons.String())
			})
		}
	}
}
