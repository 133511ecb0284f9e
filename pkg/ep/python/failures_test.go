package python

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// corrupted requires that planted corruptions of device buffers, of these kinds alone if
// any are named, are found in all cases, by the checks that should see them.
func corrupted(t *testing.T, kinds []string, cases ...plan.Case) {
	t.Helper()
	for _, f := range []struct {
		kind, at    string
		all         bool // ranks
		when, check string
		tokenExpert string // check of that layout, where it is another
		reusable    bool   // only where a handle is good for more than one combine: else the library refuses
	}{
		{kind: runner.FaultFlipBit, at: "start", when: "before", check: runner.CheckPayload},
		{kind: runner.FaultWrongWeight, at: "dispatch-2", when: "post-dispatch-changed", check: runner.CheckWeights, tokenExpert: runner.CheckCombine},
		{kind: runner.FaultWrongExpert, at: "start", when: "before", check: runner.CheckCounts},
		{kind: runner.FaultStale, at: "combine-2", when: "post-combine-changed", check: runner.CheckCombine},
		{kind: runner.FaultNoDispatch, at: "dispatch-every-3", all: true, when: "alternating-dispatch", check: runner.CheckPayload, reusable: true},
	} {
		if len(kinds) > 0 && !slices.Contains(kinds, f.kind) {
			continue
		}
		t.Run(f.kind+" "+f.at, func(t *testing.T) {
			fault := fmt.Sprintf("rank=1,kind=%s,at=%s", f.kind, f.at)
			if f.all {
				fault += ";" + strings.Replace(fault, "rank=1", "rank=0", 1)
			}
			cases := slices.Clone(cases)
			if f.reusable {
				cases = slices.DeleteFunc(cases, func(c plan.Case) bool { return libraries[c.Backend].modes[ep.Of(&c).Mode].freshPair })
			}
			if len(cases) == 0 {
				return
			}
			streams, logs, _ := processes(t, fault, cases...)
			for i, c := range cases {
				d := eptest.Document(t, c, streams[i])
				require.Equal(t, result.Invalid, d.Outcome.Status, "%s: %s", c.CaseID, logs)
				check := f.check
				if libraries[c.Backend].modes[ep.Of(&c).Mode].receive == runner.TokenExpert && f.tokenExpert != "" {
					check = f.tokenExpert
				}
				reasons := strings.ReplaceAll(d.Measurement.Rows[0].Correctness.Reasons.String(), "; ", "\n")
				require.Regexp(t, `(?m)^check-failed: `+regexp.QuoteMeta(f.when)+" "+check+` (rank [01]|all ranks)$`, reasons, c.CaseID)
			}
		})
	}
}

func TestDeepEPLegacyFaults(t *testing.T) {
	need.Full(t)
	setUp(t, "deep_ep-1")
	corrupted(t, nil,
		caseOf("deepep-legacy", ep.ModeNormal, "bf16"), caseOf("deepep-legacy", ep.ModeNormal, "fp8"),
		caseOf("deepep-legacy", ep.ModeLowLatency, "bf16"), caseOf("deepep-legacy", ep.ModeLowLatency, "fp8"),
	)
}

func TestDeepEPV2Faults(t *testing.T) {
	need.Full(t)
	setUp(t, "deep_ep-2")
	corrupted(t, []string{runner.FaultFlipBit, runner.FaultStale}, caseOf("deepep-v2", ep.ModeNormal, "bf16"), caseOf("deepep-v2", ep.ModeNormal, "fp8"),
		caseOf("deepep-v2", ep.ModeLowLatency, "bf16"), caseOf("deepep-v2", ep.ModeLowLatency, "fp8"))
}

func TestUCCLFaults(t *testing.T) {
	need.Full(t)
	setUp(t, "uccl")
	corrupted(t, []string{runner.FaultFlipBit, runner.FaultStale}, caseOf("uccl-ep", ep.ModeNormal, "fp8"), caseOf("uccl-ep", ep.ModeLowLatency, "bf16"))
}

func TestMoRIFaults(t *testing.T) {
	need.Full(t)
	setUp(t, "mori")
	t.Setenv("CX_STANDIN_HIP", "1")
	corrupted(t, []string{runner.FaultFlipBit, runner.FaultStale}, caseOf("mori", ep.ModeNormal, "fp8"), caseOf("mori", ep.ModeLowLatency, "bf16"),
		caseOf("mori", ep.ModeNormal, "bf16"), caseOf("mori", ep.ModeLowLatency, "fp8"))
}

func TestFlashInferFaults(t *testing.T) {
	need.Full(t)
	setUp(t, "flashinfer")
	corrupted(t, []string{runner.FaultFlipBit, runner.FaultStale}, caseOf("flashinfer-ep", ep.ModeNormal, "bf16", mnnvl), caseOf("flashinfer-ep", ep.ModeNormal, "fp8", mnnvl))
}

// failure is that of the first rank that has one.
func failure(t *testing.T, streams []rank.Stream, logs []string) rank.Failure {
	t.Helper()
	for _, s := range streams {
		if s.Failure != nil {
			return *s.Failure
		}
	}
	require.Fail(t, "no rank says why it failed", "%s", logs)
	return rank.Failure{}
}

// An exception of the library is the failure of the case: its type is published, its text
// and its traceback stay in the log.
func TestALibraryThatRaises(t *testing.T) {
	setUp(t, "deep_ep-1")
	t.Setenv("CX_STANDIN_FAULT", "1:20:raise")
	streams, logs, errs := processes(t, "", caseOf("deepep-legacy", ep.ModeNormal, "bf16"))
	f := failure(t, streams[0], logs)
	require.Equal(t, "library-error: deepep-legacy RuntimeError", f.Reason.String())
	require.Contains(t, f.Text, "RuntimeError: DeepEP error: CPU recv timeout /private/path (standin.py:")
	require.Contains(t, logs[1], "Traceback (most recent call last):")
	require.Contains(t, logs[1], `File "collectivex_buffer", line `)
	require.Error(t, errs[1])
}

// A native crash ends the process of its rank, which leaves no failure: the shard says that
// the rank died.
func TestALibraryThatDies(t *testing.T) {
	setUp(t, "deep_ep-1")
	t.Setenv("CX_STANDIN_FAULT", "1:20:die")
	streams, logs, errs := processes(t, "", caseOf("deepep-legacy", ep.ModeLowLatency, "bf16"))
	require.Nil(t, streams[0][1].Failure)
	require.False(t, streams[0][1].Done)
	require.NotEmpty(t, streams[0][1].Records, "what was measured stays")
	require.Contains(t, logs[1], "SIGSEGV")
	require.Error(t, errs[1])
}

// What is missing is named, with what to do.
func TestWithoutTheLibrary(t *testing.T) {
	setUp(t)
	streams, logs, _ := processes(t, "", caseOf("deepep-legacy", ep.ModeNormal, "bf16"))
	f := failure(t, streams[0], logs)
	require.Equal(t, "library-missing: ModuleNotFoundError", f.Reason.String())
	require.Contains(t, f.Text, "No module named 'deep_ep': install torch and DeepEP 1.2, before ElasticBuffer in ")

	t.Setenv("PATH", t.TempDir())
	streams, logs, _ = processes(t, "", caseOf("deepep-legacy", ep.ModeNormal, "bf16"))
	f = failure(t, streams[0], logs)
	require.Equal(t, result.ReasonNoLibrary, f.Reason.Code)
	require.Contains(t, f.Text, "python3 on PATH")
}

// What an adapter does not realise is refused with the limit, before Python starts.
func TestRefusals(t *testing.T) {
	hopper := accel.Info{Arch: "sm_90"}
	for _, refused := range []struct {
		backend, mode, text string
		change              func(*plan.Case)
		info                accel.Info
	}{
		{"deepep-legacy", ep.ModeNormal, "deepep-legacy needs a device of sm_90 or newer, not sm_80", func(*plan.Case) {}, accel.Info{Arch: "sm_80"}},
		{"deepep-legacy", ep.ModeNormal, "deepep-legacy dispatches bf16 and fp8, not mxfp8", func(c *plan.Case) { c.Precision = "mxfp8" }, hopper},
		{"deepep-legacy", ep.ModeNormal, "deepep-legacy is measured on one node in mode normal, not on 2", func(c *plan.Case) { c.Nodes = 2 }, hopper},
		{"deepep-legacy", ep.ModeNormal, "deepep-legacy has kernels for [2 4 8] ranks in mode normal, not for 3", func(c *plan.Case) { c.World = 3 }, hopper},
		{"deepep-legacy", ep.ModeNormal, "deepep-legacy moves 128 columns at a time, which do not divide hidden size 2100", func(c *plan.Case) { ep.Of(c).Hidden = 2100 }, hopper},
		{"deepep-legacy", ep.ModeLowLatency, "deepep-legacy has kernels for hidden sizes [2048 2560 3072 4096 5120 6144 7168 8192] in mode low-latency, not for 2176", func(c *plan.Case) { ep.Of(c).Hidden = 2176 }, hopper},
		{"deepep-legacy", ep.ModeLowLatency, "deepep-legacy has up to top-11 in mode low-latency, not top-12", func(c *plan.Case) { ep.Of(c).TopK = 12 }, hopper},
		{"deepep-legacy", ep.ModeLowLatency, "deepep-legacy has no dispatch with a cached layout in mode low-latency", cached, hopper},
		{"deepep-v2", ep.ModeNormal, "deepep-v2 is measured inside one scale-up domain in mode normal, not with 2 ranks in domains of 1", func(c *plan.Case) { c.ScaleUpDomain = 1 }, hopper},
		{"flashinfer-ep", ep.ModeNormal, "flashinfer-ep writes into the memory of peers over mnnvl, which this platform's shm is not", func(*plan.Case) {}, hopper},
		{"flashinfer-ep", ep.ModeLowLatency, "flashinfer-ep has no mode low-latency", mnnvl, hopper},
		{"mori", ep.ModeNormal, "mori has kernels for gfx942 and gfx950, not for gfx90a", func(*plan.Case) {}, accel.Info{Arch: "gfx90a"}},
		{"mori", ep.ModeLowLatency, "mori has kernels for [8] ranks in mode low-latency, not for 2", func(*plan.Case) {}, accel.Info{Arch: "gfx950"}},
		{"mori", ep.ModeNormal, "mori has a power of two of ranks on a node, not 6", func(c *plan.Case) { c.RanksPerNode = 6 }, accel.Info{Arch: "gfx950"}},
		{"mori", ep.ModeNormal, "mori has no dispatch with a cached layout in mode normal", cached, accel.Info{Arch: "gfx950"}},
		{"uccl-ep", ep.ModeLowLatency, "uccl-ep has kernels for sm_, not for gfx942", func(*plan.Case) {}, accel.Info{Arch: "gfx942"}},
		{"uccl-ep", ep.ModeNormal, "uccl-ep is measured on one node in mode normal, not on 2", func(c *plan.Case) { c.Nodes = 2 }, hopper},
		{"uccl-ep", ep.ModeNormal, "uccl-ep has kernels for hidden sizes [2048 2560 4096 5120 6144 7168 8192] in mode normal, not for 3072", func(c *plan.Case) { ep.Of(c).Hidden = 3072 }, hopper},
		{"deepep-v2", ep.ModeNormal, "deepep-v2 has up to top-32 in mode normal, not top-33", func(c *plan.Case) { ep.Of(c).TopK = 33 }, hopper},
	} {
		c := caseOf(refused.backend, refused.mode, "bf16", refused.change)
		b := libraries[refused.backend]
		b.name = refused.backend
		_, _, err := b.describe(c, refused.info, "")
		require.ErrorContains(t, err, refused.text)
		require.ErrorContains(t, err, string(result.ReasonRefused))
	}
}
