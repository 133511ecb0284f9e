package python

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/pystandin"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/pyhost"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

func TestMain(m *testing.M) {
	// A process has one interpreter.
	eptest.Main(func(c plan.Case) (rank.Opener, error) {
		liftWorlds()
		if err := mistaken(); err != nil {
			return nil, err
		}
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

// libraryOf is the library of a backend.
func libraryOf(name string) library {
	return libraries[slices.IndexFunc(libraries, func(l library) bool { return l.name == name })]
}

// openerOf is the opener of a backend.
func openerOf(name string) rank.Opener {
	i := slices.IndexFunc(Backends, func(b backend.Backend) bool { return b.Name == name })
	return Backends[i].Open[ep.Name]
}

// liftWorlds lets two ranks stand for the eight that MoRI's low latency is limited to, and for two
// nodes of eight ranks.
func liftWorlds() {
	for _, m := range []struct {
		of   map[string]mode
		name string
	}{{libraryOf("mori").modes, ep.ModeLowLatency}, {libraryOf("uccl-ep").across, ep.ModeNormal}} {
		lifted := m.of[m.name]
		lifted.limits.worlds = nil
		if lifted.older != nil {
			lifted.older.limits.worlds = nil
		}
		m.of[m.name] = lifted
	}
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

// A stand-in is tested with every library.
func TestEveryLibraryHasAStandIn(t *testing.T) {
	for _, l := range libraries {
		require.True(t, slices.ContainsFunc(standIns, func(s standIn) bool { return s.backend == l.name }), l.name)
	}
}

// each runs a test with each library that is there, and the modes that it has. The fast tests
// have one library.
func each(t *testing.T, body func(t *testing.T, s standIn, modes []string)) {
	for i, s := range standIns {
		t.Run(s.backend, func(t *testing.T) {
			if i > 0 {
				need.Full(t)
			}
			setUp(t, s.library)
			if s.hip {
				t.Setenv("CX_STANDIN_HIP", "1")
			}
			modes := slices.Sorted(maps.Keys(libraryOf(s.backend).modes))
			slices.Reverse(modes) // normal first
			body(t, s, modes)
		})
	}
}

// caseOf is a small case of the library.
func (s standIn) caseOf(mode, precision string, change ...func(*plan.Case)) plan.Case {
	if s.change != nil {
		change = append([]func(*plan.Case){s.change}, change...)
	}
	return caseOf(s.backend, mode, precision, change...)
}

// The server of a TCPStore binds to all addresses. Its backends say so, and no others do.
func TestStoresListen(t *testing.T) {
	var listen []string
	for _, b := range Backends {
		if b.Listens != "" {
			require.Contains(t, b.Listens, "all network interfaces while ranks of "+b.Name)
			listen = append(listen, b.Name)
		}
	}
	require.Equal(t, []string{"uccl-ep", "mooncake-ep"}, listen)
}

// What doctor looks for is there, with the version.
func TestLibrariesAreFound(t *testing.T) {
	each(t, func(t *testing.T, s standIn, _ []string) {
		i := slices.IndexFunc(Backends, func(b backend.Backend) bool { return b.Name == s.backend })
		for n, needed := range Backends[i].Needs {
			m := needed.Module
			e, err := pyhost.Find(t.Context(), command.Host{}, map[string][]string{m.Name: m.Distributions}, m.Name)
			require.NoError(t, err)
			require.Contains(t, e.Packages, m.Name)
			if m.Check != nil {
				_, err = m.Check(e)
				require.NoError(t, err)
			}
			if n == 1 {
				require.Equal(t, s.version, e.Packages[m.Name])
			}
		}
	})
}

// Every mode, precision and contract of a library delivers and sums what the oracle demands,
// one case after the other in a warm group.
func TestLibraries(t *testing.T) {
	each(t, func(t *testing.T, s standIn, modes []string) {
		var cases []plan.Case
		for _, mode := range modes {
			cases = append(cases, s.caseOf(mode, "bf16", emptyRank), s.caseOf(mode, "fp8"), s.caseOf(mode, "bf16", hidden(2560)))
			if libraryOf(s.backend).modes[mode].unsynced {
				cases = append(cases, s.caseOf(mode, "bf16", phase(ep.PhasePrefill)), s.caseOf(mode, "bf16", phase(ep.PhasePrefill), cached))
			}
			if libraryOf(s.backend).modes[mode].cached {
				several := func(c *plan.Case) { ep.Of(c).Ladder = plan.Ladder{1, 12} }
				cases = append(cases, s.caseOf(mode, "bf16", cached, emptyRank), s.caseOf(mode, "fp8", cached, emptyRank, several))
			}
		}
		for i, d := range pass(t, cases...) {
			require.Equal(t, s.version, *d.Implementation.LibraryVersion)
			if cases[i].Precision == "bf16" {
				continue
			}
			mode := ep.Of(&cases[i]).Mode
			got := []string{d.Implementation.KernelGeneration, d.Measurement.DispatchDType, d.Implementation.CombineReduction}
			require.Equal(t, s.documents[mode], strings.Join(got, ", "))
			require.Equal(t, libraryOf(s.backend).modes[mode].cast.plain, d.Measurement.Rows[0].Bytes.Dispatch.Scale == 0)
		}
	})
}

// What waits for nothing on the host is replayed as graphs, and passes the checks of every launch.
func TestReplays(t *testing.T) {
	each(t, func(t *testing.T, s standIn, modes []string) {
		var cases []plan.Case
		for _, mode := range modes {
			if libraryOf(s.backend).modes[mode].graphs {
				cases = append(cases, s.caseOf(mode, "bf16", graph), s.caseOf(mode, "fp8", graph))
			}
		}
		if len(cases) == 0 {
			return
		}
		for i, d := range pass(t, cases...) {
			require.True(t, strings.HasSuffix(d.Implementation.KernelGeneration, "-cudagraph"), d.Implementation.KernelGeneration)
			check := d.Measurement.Rows[0].Correctness
			require.True(t, *check.GraphRewritten, cases[i].CaseID)
			require.True(t, *check.GraphOutputPassed, cases[i].CaseID)
		}
	})
}

// A dispatch that waits for the host cannot be captured, and says so before anything is measured.
func TestPrefillHasNoReplays(t *testing.T) {
	d, _, err := libraryOf("deepep-v2").describe(caseOf("deepep-v2", ep.ModeNormal, "bf16", graph, phase(ep.PhasePrefill)), accel.Info{Arch: "sm_90"}, versions{})
	require.NoError(t, err)
	require.False(t, d.Capturable)
}

// The second interface of a library is the first that its group opens.
func TestLowLatencyOfDeepEPV2(t *testing.T) {
	need.Full(t)
	setUp(t, "deep_ep-2")
	pass(t, caseOf("deepep-v2", ep.ModeLowLatency, "bf16"))
}

// Combine took other ids before ROCm/mori#546.
func TestOldMoRI(t *testing.T) {
	need.Full(t)
	setUp(t, "amd_mori")
	t.Setenv("CX_STANDIN_HIP", "1")
	t.Setenv("CX_STANDIN_MORI", "old")
	require.Equal(t, "intranode-ll", pass(t, caseOf("mori", ep.ModeLowLatency, "bf16"))[0].Implementation.KernelGeneration)
}

// What a case sets in the place of the library is in the generation of the kernels, and what the library
// would have chosen beside it.
func TestTuning(t *testing.T) {
	need.Full(t)
	setUp(t, "deep_ep-2")
	tuned := func(c *plan.Case) { ep.Of(c).Tuning = &ep.Tuning{SMs: 24, NoOverlap: true, NoHandleCopy: true} }
	cases := []plan.Case{caseOf("deepep-v2", ep.ModeNormal, "bf16"), caseOf("deepep-v2", ep.ModeNormal, "bf16", tuned)}
	documents := pass(t, cases...)
	require.Equal(t, result.Tuning{SMs: 64, TheoreticalSMs: 64, QueuePairs: 9, PreferOverlap: true, HandleCopy: true}, *documents[0].Implementation.Tuning)
	require.Equal(t, result.Tuning{SMs: 24, TheoreticalSMs: 64, QueuePairs: 9}, *documents[1].Implementation.Tuning)
	require.Equal(t, "v2-elastic-buffer-nosync-sm24-nooverlap-nohandlecopy", documents[1].Implementation.KernelGeneration)
	require.True(t, strings.HasSuffix(cases[1].CaseID, "-sm24-nooverlap-nohandlecopy"), cases[1].CaseID)
}

// Two nodes with a rank each stand for nodes of eight. Libraries learn where the ranks are, as a
// network asks of them.
func TestAcrossNodes(t *testing.T) {
	each(t, func(t *testing.T, s standIn, _ []string) {
		if s.across == "" {
			return
		}
		for name, value := range map[string]string{
			"CX_STANDIN_PEERS": "1", "NCCL_NET": "IB", "NCCL_IB_MERGE_NICS": "0", "UCCL_SOCKET_IFNAME": "lo", "EP_DISABLE_GIN": "1",
		} {
			t.Setenv(name, value)
		}
		for _, d := range pass(t, s.caseOf(ep.ModeNormal, "bf16", twoNodes, emptyRank), s.caseOf(ep.ModeNormal, "fp8", twoNodes)) {
			require.Equal(t, s.across, d.Implementation.KernelGeneration)
			require.Equal(t, 2, d.Topology.Nodes)
		}
	})
}

// MoRI's kernels across nodes sum wrongly with another heap.
func TestMoRINeedsItsStaticHeap(t *testing.T) {
	need.Full(t)
	setUp(t, "amd_mori")
	t.Setenv("CX_STANDIN_HIP", "1")
	t.Setenv("MORI_SHMEM_MODE", "VMM_HEAP")
	streams, logs, _ := processes(t, "", caseOf("mori", ep.ModeNormal, "bf16", twoNodes))
	require.Equal(t, "refused: MORI_SHMEM_MODE is VMM_HEAP, but InterNodeV1 combines correctly in the static heap only (ROCm/mori#610): unset it",
		failure(t, streams[0], logs).Text)
}

// Every runnable case of every shipped suite is accepted: what does not run is unsupported in the plan.
func TestPlannedCasesAreAccepted(t *testing.T) {
	need.Full(t)
	for _, l := range libraries {
		planned := eptest.Accepted(t, l.name, func(c plan.Case, info accel.Info) (runner.Description, error) {
			d, _, err := l.describe(c, info, versions{})
			return d, err
		})
		require.Equal(t, l.name != "mooncake-ep", planned > 0, "%s: %d cases", l.name, planned)
	}
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
		require.Contains(t, f.Text, "is not the library of backend "+of.backend)
	}
}

func TestTheSumOfAVersion(t *testing.T) {
	for version, want := range map[string]runner.Reduction{
		"0.6.15": runner.TopKSlotTree, "0.6.16rc1": runner.TopKSlotTree, "0.6.16.dev3": runner.TopKSlotTree, "": runner.TopKSlotTree, "unknown": runner.TopKSlotTree,
		"0.6.16": runner.DomainFP32, "0.6.18+cu130": runner.DomainFP32, "0.7.1": runner.DomainFP32, "1.0": runner.DomainFP32,
	} {
		d, _, err := libraryOf("flashinfer-ep").describe(caseOf("flashinfer-ep", ep.ModeNormal, "bf16", mnnvl), accel.Info{Arch: "sm_100"}, versions{Library: version})
		require.NoError(t, err)
		require.Equal(t, want, d.Reduction, version)
	}
}
