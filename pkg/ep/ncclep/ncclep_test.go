package ncclep

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/compilers"
	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/fakes"
	source "github.com/collectivex/collectivex/pkg/accel/kernels"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

func TestMain(m *testing.M) { fakes.Main(m) }

// setUp makes this process find the stand-ins, with three devices and an NCCL that is new
// enough.
func setUp(t *testing.T) {
	t.Helper()
	fakes.Build(t).Keep(t, "CX_FAKE_DEVICES=3", "CX_FAKE_NCCL_VERSION=23007")
}

// form is a mode with its layout.
type form struct{ mode, layout string }

var (
	normal      = form{vocab.ModeNormal, ""}
	expertMajor = form{vocab.ModeLowLatency, vocab.ExpertMajor}
	rankMajor   = form{vocab.ModeLowLatency, vocab.RankMajor}

	inWindows = form{vocab.ModeLowLatency, vocab.RankMajorWindow}

	forms = []form{normal, expertMajor, rankMajor, inWindows}
)

// caseOf is a case of three ranks and 12 experts.
func caseOf(f form, change func(*plan.Case)) plan.Case {
	return eptest.Case(3, func(c *plan.Case) {
		c.Backend = "nccl-ep"
		b := c.EP()
		b.Mode, b.Layout, b.Experts, b.Ladder = f.mode, f.layout, 12, plan.Ladder{1, 6}
		change(c)
	})
}

// Every form delivers and sums what the oracle demands, in the arithmetic that it declares,
// with every contract that it has, and one after the other in one group of ranks.
func TestPairs(t *testing.T) {
	setUp(t)
	contract := func(contract, routing string) func(*plan.Case) {
		return func(c *plan.Case) { c.Contract, c.EP().Routing = contract, routing }
	}
	cases := []plan.Case{
		caseOf(normal, contract(vocab.ContractLayout, "uniform")),
		caseOf(expertMajor, contract(vocab.ContractLayout, "uniform")),
		caseOf(normal, contract(vocab.ContractCachedLayout, "uneven-empty-rank")),
		caseOf(expertMajor, contract(vocab.ContractLayout, "uneven-empty-rank")),
		caseOf(expertMajor, func(c *plan.Case) { c.Precision, c.EP().Hidden = "fp8", 512 }),
		caseOf(rankMajor, contract(vocab.ContractLayout, "uniform")),
		caseOf(rankMajor, contract(vocab.ContractLayout, "uneven-empty-rank")),
		caseOf(inWindows, contract(vocab.ContractLayout, "uniform")),
		caseOf(inWindows, contract(vocab.ContractLayout, "uneven-empty-rank")),
		caseOf(rankMajor, func(c *plan.Case) { c.Precision, c.EP().Hidden = "fp8", 512 }),
	}
	for i, streams := range eptest.Run(t, Open, "", cases...) {
		d := eptest.Document(t, cases[i], streams)
		require.Equal(t, result.Success, d.Outcome.Status, "%s: %v", cases[i].CaseID, d.Outcome.Reasons)
		for _, row := range d.Measurement.Rows {
			require.True(t, row.Arithmetic.Passed)
		}
	}
}

func TestRealCompilersTakeTheKernel(t *testing.T) {
	t.Run("NVRTC", func(t *testing.T) { compilers.NVRTC(t, "nccl_ep.cu", source.Complete(convertSource)) })
}
