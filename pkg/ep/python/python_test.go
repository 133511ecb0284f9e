package python

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/pystandin"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

func TestMain(m *testing.M) {
	// A process has one interpreter.
	eptest.Main(func(c plan.Case) (rank.Opener, error) {
		liftWorlds()
		return openerOf(c.Backend), nil
	})
	if len(os.Args) > 1 && os.Args[1] == "rank" {
		if err := rankMain(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// openerOf is the opener of a backend.
func openerOf(name string) rank.Opener {
	i := slices.IndexFunc(Backends, func(b backend.Backend) bool { return b.Name == name })
	return Backends[i].Open[ep.Name]
}

// liftWorlds lets two ranks stand for the eight that MoRI's low latency is limited to.
func liftWorlds() {
	m := libraries["mori"].modes[ep.ModeLowLatency]
	m.limits.worlds = nil
	libraries["mori"].modes[ep.ModeLowLatency] = m
}

// processes runs the cases in one warm group, a process for each rank. It returns what the
// ranks left and, by rank, what they printed and how they ended.
func processes(t *testing.T, faults string, cases ...plan.Case) (streams [][]rank.Stream, logs []string, errs []error) {
	t.Helper()
	e := eptest.Processes(t, true, faults, cases...)
	return e.Streams, e.Logs, e.Errs
}

// setUp makes this process find the stand-ins of libraries and two devices. Its ranks compile
// kernels, unless there is nothing to find.
func setUp(t *testing.T, libraries ...string) {
	t.Helper()
	if len(libraries) > 0 {
		need.CXX(t)
	}
	pystandin.Use(t, libraries...)
	t.Setenv("CX_FAKE_DEVICES", "2")
}

// caseOf is a small case of two ranks.
func caseOf(backend, mode, precision string, change ...func(*plan.Case)) plan.Case {
	return eptest.Case(2, append([]func(*plan.Case){func(c *plan.Case) {
		c.Backend, c.Precision = backend, precision
		b := ep.Of(c)
		b.Mode, b.Hidden, b.TopK, b.Experts, b.Ladder = mode, 2048, 3, 4, plan.Ladder{3}
		b.Timing = ep.Timing{
			ItersPerTrial: 1, TrialsPerPoint: 1, WarmupItersPerTrial: 2,
			ChainItersPerTrial: 3, ChainTrialsPerPoint: 1, ChainDrop: 1,
		}
	}}, change...)...)
}

// pass runs cases that have to succeed, in the arithmetic that is declared.
func pass(t *testing.T, cases ...plan.Case) []*ep.Document {
	t.Helper()
	streams, logs, errs := processes(t, "", cases...)
	var documents []*ep.Document
	for i, s := range streams {
		d := eptest.Document(t, cases[i], s)
		require.Equal(t, result.Success, d.Outcome.Status, "%s: %v\n%s", cases[i].CaseID, d.Outcome.Reasons, logs)
		for _, row := range d.Measurement.Rows {
			require.True(t, row.Correctness.Passed, row.Correctness.Reasons)
			require.True(t, row.Arithmetic.Passed)
		}
		documents = append(documents, d)
	}
	for r, err := range errs {
		require.NoError(t, err, logs[r])
	}
	return documents
}

func cached(c *plan.Case) { c.Contract = ep.ContractCachedLayout }

func emptyRank(c *plan.Case) { ep.Of(c).Routing = "uneven-empty-rank" }

// Every mode, precision and contract of a library delivers and sums what the oracle demands,
// one case after the other in a warm group.
func TestDeepEPLegacy(t *testing.T) {
	setUp(t, "deep_ep-1")
	const name = "deepep-legacy"
	documents := pass(t,
		caseOf(name, ep.ModeNormal, "bf16"),
		caseOf(name, ep.ModeNormal, "fp8", emptyRank),
		caseOf(name, ep.ModeNormal, "bf16", cached, emptyRank),
		caseOf(name, ep.ModeNormal, "fp8", cached),
		caseOf(name, ep.ModeLowLatency, "bf16", emptyRank),
		caseOf(name, ep.ModeLowLatency, "fp8"),
		caseOf(name, ep.ModeLowLatency, "bf16", func(c *plan.Case) { ep.Of(c).Hidden = 2560 }),
	)
	i := documents[0].Implementation
	require.Equal(t, "legacy-buffer", i.KernelGeneration)
	require.Equal(t, "1.2.1+29d31c0", *i.LibraryVersion)
	require.Equal(t, "legacy-buffer-ll", documents[4].Implementation.KernelGeneration)
	require.Equal(t, "fp8-e4m3fn", documents[1].Measurement.DispatchDType)
}

// Both interfaces of one library, in one warm group.
func TestDeepEPV2(t *testing.T) {
	need.Full(t)
	setUp(t, "deep_ep-2")
	const name = "deepep-v2"
	documents := pass(t,
		caseOf(name, ep.ModeNormal, "bf16", emptyRank),
		caseOf(name, ep.ModeNormal, "fp8"),
		caseOf(name, ep.ModeNormal, "fp8", cached, emptyRank, func(c *plan.Case) { ep.Of(c).Ladder = plan.Ladder{1, 12} }),
		caseOf(name, ep.ModeLowLatency, "fp8", emptyRank),
	)
	require.Equal(t, "v2-elastic-buffer", documents[0].Implementation.KernelGeneration)
	require.Equal(t, "2.0.0+dd758ca", *documents[0].Implementation.LibraryVersion)
	require.Equal(t, "legacy-buffer-ll", documents[3].Implementation.KernelGeneration)

	pass(t, caseOf(name, ep.ModeLowLatency, "bf16")) // the first case of its group
}

// Two ranks of UCCL, which make a group of torch.distributed for it.
func TestUCCL(t *testing.T) {
	need.Full(t)
	setUp(t, "uccl")
	const name = "uccl-ep"
	documents := pass(t,
		caseOf(name, ep.ModeNormal, "bf16", emptyRank),
		caseOf(name, ep.ModeNormal, "fp8"),
		caseOf(name, ep.ModeLowLatency, "fp8", emptyRank),
		caseOf(name, ep.ModeLowLatency, "bf16"),
	)
	require.Equal(t, "uccl-legacy-buffer", documents[0].Implementation.KernelGeneration)
	require.Equal(t, "0.1.0", *documents[0].Implementation.LibraryVersion)
	require.Equal(t, "uccl-legacy-buffer-ll", documents[2].Implementation.KernelGeneration)
}

// Three libraries have a module deep_ep with a Buffer. Each is measured under its own name
// alone: a build without a version in its metadata does not say what it is.
func TestEveryDeepEPHasItsName(t *testing.T) {
	need.Full(t)
	t.Setenv("EP_JIT_CACHE_DIR", t.TempDir()) // which V2 asserts
	for _, of := range []struct{ library, backend, mode string }{
		{"deep_ep-1", "uccl-ep", ep.ModeNormal},
		{"deep_ep-1", "deepep-v2", ep.ModeLowLatency},
		{"deep_ep-2", "deepep-legacy", ep.ModeLowLatency},
		{"uccl", "deepep-legacy", ep.ModeNormal},
		{"uccl", "deepep-v2", ep.ModeLowLatency},
	} {
		setUp(t, of.library)
		streams, logs, _ := processes(t, "", caseOf(of.backend, of.mode, "bf16"))
		f := failure(t, streams[0], logs)
		require.Equal(t, "library-missing: ImportError", f.Reason.String(), of)
		require.Contains(t, f.Text, "is not that of "+of.backend)
	}
}

// Both generations of combine, in one warm group each. Its exit handlers abort: a rank that
// runs them has no status 0.
func TestMoRI(t *testing.T) {
	need.Full(t)
	setUp(t, "mori")
	t.Setenv("CX_STANDIN_HIP", "1")
	const name = "mori"
	documents := pass(t,
		caseOf(name, ep.ModeNormal, "bf16", emptyRank),
		caseOf(name, ep.ModeNormal, "fp8"),
		caseOf(name, ep.ModeLowLatency, "fp8", emptyRank),
	)
	require.Equal(t, "intranode", documents[0].Implementation.KernelGeneration)
	require.Equal(t, "intranode-ll", documents[2].Implementation.KernelGeneration)
	require.Equal(t, "fp8-e4m3fnuz", documents[1].Measurement.DispatchDType, "this device is of gfx942")
	require.Zero(t, documents[1].Measurement.Rows[0].Bytes.Dispatch.Scale)
	require.Equal(t, "1.0.0", *documents[0].Implementation.LibraryVersion)

	t.Setenv("CX_STANDIN_MORI", "old")
	pass(t, caseOf(name, ep.ModeLowLatency, "bf16"))
}

// Rows arrive in slots of which some stay empty, and are staged in memory of the library.
func TestFlashInfer(t *testing.T) {
	need.Full(t)
	setUp(t, "flashinfer")
	const name = "flashinfer-ep"
	documents := pass(t,
		caseOf(name, ep.ModeNormal, "bf16", mnnvl),
		caseOf(name, ep.ModeNormal, "fp8", mnnvl, emptyRank),
		caseOf(name, ep.ModeNormal, "bf16", mnnvl, emptyRank, func(c *plan.Case) { ep.Of(c).Ladder = plan.Ladder{1, 6} }),
	)
	require.Equal(t, "flashinfer-mnnvl-one-sided", documents[0].Implementation.KernelGeneration)
	require.Equal(t, "fp8-e4m3fn-blockwise-offpath", documents[1].Measurement.DispatchDType)
	require.Equal(t, "domain-fp32", documents[0].Implementation.CombineReduction)
}

func mnnvl(c *plan.Case) { c.ScaleUpTransport = "mnnvl" }

func TestTheSumOfAVersion(t *testing.T) {
	for version, want := range map[string]runner.Reduction{
		"0.6.15": runner.TopKSlotTree, "0.6.16rc1": runner.TopKSlotTree, "0.6.16.dev3": runner.TopKSlotTree, "": runner.TopKSlotTree, "unknown": runner.TopKSlotTree,
		"0.6.16": runner.DomainFP32, "0.6.18+cu130": runner.DomainFP32, "0.7.1": runner.DomainFP32, "1.0": runner.DomainFP32,
	} {
		d, _, err := libraries["flashinfer-ep"].describe(caseOf("flashinfer-ep", ep.ModeNormal, "bf16", mnnvl), accel.Info{Arch: "sm_100"}, version)
		require.NoError(t, err)
		require.Equal(t, want, d.Reduction, version)
	}
}
