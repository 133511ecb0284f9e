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
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
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
		{kind: ep.FaultFlipBit, at: "start", when: "before", check: ep.CheckPayload},
		{kind: ep.FaultWrongWeight, at: "dispatch-2", when: "post-dispatch-changed", check: ep.CheckWeights, tokenExpert: ep.CheckCombine},
		{kind: ep.FaultWrongExpert, at: "start", when: "before", check: ep.CheckCounts},
		{kind: ep.FaultStale, at: "combine-2", when: "post-combine-changed", check: ep.CheckCombine},
		{kind: ep.FaultNoDispatch, at: "dispatch-every-3", all: true, when: "alternating-dispatch", check: ep.CheckPayload, reusable: true},
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
				cases = slices.DeleteFunc(cases, func(c plan.Case) bool { return backends[c.Backend].modes[c.EP().Mode].freshPair })
			}
			if len(cases) == 0 {
				return
			}
			streams, logs, _ := processes(t, fault, cases...)
			for i, c := range cases {
				d := eptest.Document(t, c, streams[i])
				require.Equal(t, result.Invalid, d.Outcome.Status, "%s: %s", c.CaseID, logs)
				check := f.check
				if backends[c.Backend].modes[c.EP().Mode].receive == ep.TokenExpert && f.tokenExpert != "" {
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
	setUp(t, "legacy")
	corrupted(t, nil,
		caseOf("deepep-legacy", vocab.ModeNormal, "bf16"), caseOf("deepep-legacy", vocab.ModeNormal, "fp8"),
		caseOf("deepep-legacy", vocab.ModeLowLatency, "bf16"), caseOf("deepep-legacy", vocab.ModeLowLatency, "fp8"),
	)
}

func TestDeepEPV2Faults(t *testing.T) {
	need.Full(t)
	setUp(t, "v2")
	corrupted(t, []string{ep.FaultFlipBit, ep.FaultStale}, caseOf("deepep-v2", vocab.ModeNormal, "bf16"), caseOf("deepep-v2", vocab.ModeNormal, "fp8"),
		caseOf("deepep-v2", vocab.ModeLowLatency, "bf16"), caseOf("deepep-v2", vocab.ModeLowLatency, "fp8"))
}

func TestUCCLFaults(t *testing.T) {
	need.Full(t)
	setUp(t, "uccl")
	corrupted(t, []string{ep.FaultFlipBit, ep.FaultStale}, caseOf("uccl-ep", vocab.ModeNormal, "fp8"), caseOf("uccl-ep", vocab.ModeLowLatency, "bf16"))
}

func TestMoRIFaults(t *testing.T) {
	need.Full(t)
	setUp(t, "mori")
	t.Setenv("CX_STANDIN_HIP", "1")
	corrupted(t, []string{ep.FaultFlipBit, ep.FaultStale}, caseOf("mori", vocab.ModeNormal, "fp8"), caseOf("mori", vocab.ModeLowLatency, "bf16"),
		caseOf("mori", vocab.ModeNormal, "bf16"), caseOf("mori", vocab.ModeLowLatency, "fp8"))
}

func TestFlashInferFaults(t *testing.T) {
	need.Full(t)
	setUp(t, "flashinfer")
	corrupted(t, []string{ep.FaultFlipBit, ep.FaultStale}, caseOf("flashinfer-ep", vocab.ModeNormal, "bf16", mnnvl), caseOf("flashinfer-ep", vocab.ModeNormal, "fp8", mnnvl))
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
	setUp(t, "legacy")
	t.Setenv("CX_STANDIN_FAULT", "1:20:raise")
	streams, logs, errs := processes(t, "", caseOf("deepep-legacy", vocab.ModeNormal, "bf16"))
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
	setUp(t, "legacy")
	t.Setenv("CX_STANDIN_FAULT", "1:20:die")
	streams, logs, errs := processes(t, "", caseOf("deepep-legacy", vocab.ModeLowLatency, "bf16"))
	require.Nil(t, streams[0][1].Failure)
	require.False(t, streams[0][1].Done)
	require.NotEmpty(t, streams[0][1].Records, "what was measured stays")
	require.Contains(t, logs[1], "SIGSEGV")
	require.Error(t, errs[1])
}

// What is missing is named, with what to do.
func TestWithoutTheLibrary(t *testing.T) {
	setUp(t, "nothing")
	streams, logs, _ := processes(t, "", caseOf("deepep-legacy", vocab.ModeNormal, "bf16"))
	f := failure(t, streams[0], logs)
	require.Equal(t, "library-missing: ModuleNotFoundError", f.Reason.String())
	require.Contains(t, f.Text, "No module named 'deep_ep' (collectivex_buffer:")
	require.Contains(t, f.Text, "install it in ")

	t.Setenv("PATH", t.TempDir())
	streams, logs, _ = processes(t, "", caseOf("deepep-legacy", vocab.ModeNormal, "bf16"))
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
		{"deepep-legacy", vocab.ModeNormal, "deepep-legacy needs a device of sm_90 or newer, not sm_80", func(*plan.Case) {}, accel.Info{Arch: "sm_80"}},
		{"deepep-legacy", vocab.ModeNormal, "deepep-legacy dispatches bf16 and fp8, not mxfp8", func(c *plan.Case) { c.Precision = "mxfp8" }, hopper},
		{"deepep-legacy", vocab.ModeNormal, "deepep-legacy is measured on one node in mode normal, not on 2", func(c *plan.Case) { c.Nodes = 2 }, hopper},
		{"deepep-legacy", vocab.ModeNormal, "deepep-legacy has kernels for [2 4 8] ranks in mode normal, not for 3", func(c *plan.Case) { c.World = 3 }, hopper},
		{"deepep-legacy", vocab.ModeNormal, "deepep-legacy moves 128 columns at a time, which do not divide hidden size 2100", func(c *plan.Case) { c.EP().Hidden = 2100 }, hopper},
		{"deepep-legacy", vocab.ModeLowLatency, "deepep-legacy has kernels for hidden sizes [2048 2560 3072 4096 5120 6144 7168 8192] in mode low-latency, not for 2176", func(c *plan.Case) { c.EP().Hidden = 2176 }, hopper},
		{"deepep-legacy", vocab.ModeLowLatency, "deepep-legacy has up to top-11 in mode low-latency, not top-12", func(c *plan.Case) { c.EP().TopK = 12 }, hopper},
		{"deepep-legacy", vocab.ModeLowLatency, "deepep-legacy has no dispatch with a cached layout in mode low-latency", cached, hopper},
		{"deepep-v2", vocab.ModeNormal, "deepep-v2 is measured inside one scale-up domain in mode normal, not with 2 ranks in domains of 1", func(c *plan.Case) { c.ScaleUpDomain = 1 }, hopper},
		{"flashinfer-ep", vocab.ModeNormal, "flashinfer-ep writes into the memory of peers over mnnvl, which this platform's shm is not", func(*plan.Case) {}, hopper},
		{"flashinfer-ep", vocab.ModeLowLatency, "flashinfer-ep has no mode low-latency", mnnvl, hopper},
		{"mori", vocab.ModeNormal, "mori has kernels for gfx942 and gfx950, not for gfx90a", func(*plan.Case) {}, accel.Info{Arch: "gfx90a"}},
		{"mori", vocab.ModeLowLatency, "mori has kernels for [8] ranks in mode low-latency, not for 2", func(*plan.Case) {}, accel.Info{Arch: "gfx950"}},
		{"mori", vocab.ModeNormal, "mori has a power of two of ranks on a node, not 6", func(c *plan.Case) { c.RanksPerNode = 6 }, accel.Info{Arch: "gfx950"}},
		{"mori", vocab.ModeNormal, "mori has no dispatch with a cached layout in mode normal", cached, accel.Info{Arch: "gfx950"}},
		{"uccl-ep", vocab.ModeLowLatency, "uccl-ep has kernels for sm_, not for gfx942", func(*plan.Case) {}, accel.Info{Arch: "gfx942"}},
		{"uccl-ep", vocab.ModeNormal, "uccl-ep is measured on one node in mode normal, not on 2", func(c *plan.Case) { c.Nodes = 2 }, hopper},
		{"uccl-ep", vocab.ModeNormal, "uccl-ep has kernels for hidden sizes [2048 2560 4096 5120 6144 7168 8192] in mode normal, not for 3072", func(c *plan.Case) { c.EP().Hidden = 3072 }, hopper},
		{"deepep-v2", vocab.ModeNormal, "deepep-v2 has up to top-32 in mode normal, not top-33", func(c *plan.Case) { c.EP().TopK = 33 }, hopper},
	} {
		c := caseOf(refused.backend, refused.mode, "bf16", refused.change)
		b := backends[refused.backend]
		b.name = refused.backend
		_, _, err := b.describe(c, refused.info, "")
		require.ErrorContains(t, err, refused.text)
		require.ErrorContains(t, err, string(result.ReasonRefused))
	}
}
