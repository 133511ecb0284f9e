package a2a

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/compilers"
	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

func TestMain(m *testing.M) { fakes.Main(m) }

// setUp makes this process find the stand-ins, with three devices.
func setUp(t *testing.T) {
	t.Helper()
	fakes.Build(t).Keep(t, "CX_FAKE_DEVICES=3")
}

// Both modes, in both precisions and under both contracts, deliver and sum what the
// oracle demands, in the arithmetic that they declare.
func TestPairs(t *testing.T) {
	setUp(t)
	for _, mode := range []string{ep.ModeNormal, ep.ModeLowLatency} {
		for _, precision := range []string{"bf16", "fp8"} {
			t.Run(mode+"/"+precision, func(t *testing.T) {
				of := func(contract, routing string) plan.Case {
					return eptest.Case(3, func(c *plan.Case) {
						c.Backend, c.Precision, c.Contract, c.ScaleUpDomain = "a2a", precision, contract, 2
						b := ep.Of(c)
						b.Mode, b.Routing, b.Experts, b.Ladder = mode, routing, 12, plan.Ladder{6}
					})
				}
				cases := []plan.Case{of(ep.ContractLayout, "uniform"), of(ep.ContractCachedLayout, "uneven-empty-rank")}
				for i, streams := range eptest.Run(t, Open, "", cases...) {
					d := eptest.Document(t, cases[i], streams)
					require.Equal(t, result.Success, d.Outcome.Status, "%s: %v", cases[i].CaseID, d.Outcome.Reasons)
					for _, row := range d.Measurement.Rows {
						require.True(t, row.Arithmetic.Passed)
					}
				}
			})
		}
	}
}

func TestRealCompilersTakeTheKernels(t *testing.T) {
	t.Run("NVRTC", func(t *testing.T) { compilers.NVRTC(t, "a2a.cu", allKernels()) })
	t.Run("HIPRTC", func(t *testing.T) { compilers.HIPRTC(t, "a2a.cu", allKernels()) })
}

// Every runnable case of every shipped suite is accepted: what does not run is unsupported in the plan.
func TestPlannedCasesAreAccepted(t *testing.T) {
	require.Positive(t, eptest.Accepted(t, "a2a", describe))
}
