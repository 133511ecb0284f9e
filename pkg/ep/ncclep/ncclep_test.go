package ncclep

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/compilers"
	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	source "github.com/collectivex/collectivex/pkg/accel/kernels"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

func TestMain(m *testing.M) {
	eptest.Main(func(plan.Case) (rank.Opener, error) { return Open, nil })
	fakes.Main(m)
}

// setUp makes this process find the stand-ins, with three devices and an NCCL that is new
// enough. Here ranks share a process: one that set NCCL_HOME could move the environment while
// C code of another reads it.
func setUp(t *testing.T) {
	t.Helper()
	fakes.Build(t).Keep(t, "CX_FAKE_DEVICES=3", "CX_FAKE_NCCL_VERSION=23007")
	t.Setenv("NCCL_HOME", filepath.Dir(os.Getenv("CX_NCCL_INCLUDE")))
}

// form is a mode with its layout.
type form struct{ mode, layout string }

var (
	normal      = form{ep.ModeNormal, ""}
	expertMajor = form{ep.ModeLowLatency, ep.ExpertMajor}
	rankMajor   = form{ep.ModeLowLatency, ep.RankMajor}

	windowed = form{ep.ModeLowLatency, ep.RankMajorWindow}

	forms = []form{normal, expertMajor, rankMajor, windowed}
)

// caseOf is a case of three ranks and 12 experts.
func caseOf(f form, change func(*plan.Case)) plan.Case {
	return eptest.Case(3, func(c *plan.Case) {
		c.Backend = "nccl-ep"
		b := ep.Of(c)
		b.Mode, b.Layout, b.Experts, b.Ladder = f.mode, f.layout, 12, plan.Ladder{1, 6}
		change(c)
	})
}

func with(contract, routing string) func(*plan.Case) {
	return func(c *plan.Case) { c.Contract, ep.Of(c).Routing = contract, routing }
}

func fp8(c *plan.Case) { c.Precision, ep.Of(c).Hidden = "fp8", 512 }

// Every form delivers and sums what the oracle demands, in the arithmetic that it declares,
// one after the other in one group of ranks.
func TestPairs(t *testing.T) {
	pass(t,
		caseOf(normal, with(ep.ContractCachedLayout, "uneven-empty-rank")),
		caseOf(expertMajor, with(ep.ContractLayout, "uniform")),
		caseOf(rankMajor, with(ep.ContractLayout, "uneven-empty-rank")),
		caseOf(windowed, with(ep.ContractLayout, "uniform")),
		caseOf(expertMajor, fp8),
	)
}

// So it does with every contract and precision that it has, and with other routings.
func TestMorePairs(t *testing.T) {
	need.Full(t)
	pass(t,
		caseOf(normal, with(ep.ContractLayout, "uniform")),
		caseOf(expertMajor, with(ep.ContractLayout, "uneven-empty-rank")),
		caseOf(rankMajor, with(ep.ContractLayout, "uniform")),
		caseOf(windowed, with(ep.ContractLayout, "uneven-empty-rank")),
		caseOf(rankMajor, fp8),
	)
}

func pass(t *testing.T, cases ...plan.Case) {
	t.Helper()
	setUp(t)
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

// Every runnable case of every shipped suite is accepted: what does not run is unsupported in the plan.
func TestPlannedCasesAreAccepted(t *testing.T) {
	require.Positive(t, eptest.Accepted(t, Backend.Name, describe))
}
