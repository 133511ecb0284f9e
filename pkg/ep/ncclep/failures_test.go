package ncclep

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/pystandin"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// failed returns the failure of rank 1 of a case that does not get through.
func failed(t *testing.T, c plan.Case) rank.Failure {
	t.Helper()
	s := eptest.Run(t, Open, "", c)[0][1]
	require.NotNil(t, s.Failure)
	return *s.Failure
}

// What the library cannot do is refused with the reason, before a call that would end the
// process.
func TestRefusals(t *testing.T) {
	setUp(t)
	for _, refused := range []struct {
		text   string
		of     form
		change func(*plan.Case)
	}{
		{
			"nccl-ep needs a hidden size that is a multiple of 256 in mode low-latency, not 320", expertMajor,
			func(c *plan.Case) { ep.Of(c).Hidden = 320 },
		},
		{
			"nccl-ep needs a hidden size that is a multiple of 8 in mode normal, not 36", normal,
			func(c *plan.Case) { ep.Of(c).Hidden = 36 },
		},
		{"nccl-ep needs a multiple of 4 experts in mode normal, not 15", normal, func(c *plan.Case) { ep.Of(c).Experts = 15 }},
		{"nccl-ep supports at most 64 ranks and 8 on a node, not 3 and 9", normal, func(c *plan.Case) { c.RanksPerNode = 9 }},
		{"nccl-ep does not support timing contract cached-layout in mode low-latency", expertMajor, func(c *plan.Case) { c.Contract = ep.ContractCachedLayout }},
		{
			"nccl-ep needs a hidden size that is a multiple of 512 in mode low-latency, not 256", expertMajor,
			func(c *plan.Case) { c.Precision = "fp8" },
		},
		{
			"nccl-ep supports layout rank-major-zc only in bf16 and scope scale-up, not in fp8 and scope scale-up", windowed,
			func(c *plan.Case) { c.Precision, ep.Of(c).Hidden = "fp8", 512 },
		},
		{
			"nccl-ep supports layout rank-major-zc only in bf16 and scope scale-up, not in bf16 and scope scale-out", windowed,
			func(c *plan.Case) { c.Scope = vocab.ScopeOut },
		},
		{"nccl-ep does not support fp8 in mode normal", normal, func(c *plan.Case) { c.Precision = "fp8" }},
	} {
		f := failed(t, caseOf(refused.of, refused.change))
		require.Equal(t, result.ReasonRefused, f.Reason.Code, f.Text)
		require.Contains(t, f.Text, refused.text)
	}
}

func TestLowLatencyLimits(t *testing.T) {
	of := func(experts, topk int) error { return expertLimits(ep.ModeLowLatency, experts, topk, 132) }
	require.NoError(t, of(256, 31))
	require.NoError(t, of(384, 29))
	require.ErrorContains(t, of(256, 32), "nccl-ep supports at most top-31 with 256 experts on 132 multiprocessors, not 32")
	require.ErrorContains(t, of(384, 30), "nccl-ep supports at most top-29 with 384 experts on 132 multiprocessors, not 30")
	require.ErrorContains(t, of(1849, 1), "nccl-ep supports at most 1848 experts on 132 multiprocessors, not 1849")
}

func TestOldDevice(t *testing.T) {
	require.NoError(t, archLimit("sm_90"))
	require.NoError(t, archLimit("sm_103"))
	require.ErrorContains(t, archLimit("sm_80"), "nccl-ep needs a device of sm_90 or newer, not sm_80")
}

// A library that is missing, or too old, is named with what to do.
func TestWithoutTheLibrary(t *testing.T) {
	c := caseOf(normal, func(*plan.Case) {})
	t.Run("old NCCL", func(t *testing.T) {
		setUp(t)
		t.Setenv("CX_FAKE_NCCL_VERSION", "22809")
		f := failed(t, c)
		require.Equal(t, result.ReasonRefused, f.Reason.Code)
		require.Contains(t, f.Text, "want NCCL 2.29 or newer, found nccl 2.28.9: set CX_NCCL_LIB to a newer one")
	})
	t.Run("none", func(t *testing.T) {
		setUp(t)
		t.Setenv("CX_NCCL_EP_LIB", filepath.Join(t.TempDir(), "libnccl_ep.so.0"))
		f := failed(t, c)
		require.Equal(t, result.ReasonNoLibrary, f.Reason.Code)
		require.Contains(t, f.Text, "NCCL EP from CX_NCCL_EP_LIB=")
	})
	t.Run("another library", func(t *testing.T) {
		setUp(t)
		t.Setenv("CX_NCCL_EP_LIB", os.Getenv("CX_NCCL_LIB"))
		f := failed(t, c)
		require.Equal(t, result.ReasonNoSymbol, f.Reason.Code)
		require.Contains(t, f.Text, "no such symbol: ncclEpGetVersion in libnccl.so.2")
	})
}

// A communicator that has no windows is named, and does not measure with copies instead.
func TestNoWindow(t *testing.T) {
	setUp(t)
	t.Setenv("CX_FAKE_NCCL_NO_HANDLE", "1")
	for _, of := range []form{windowed, normal} {
		f := failed(t, caseOf(of, func(*plan.Case) {}))
		require.Equal(t, result.ReasonRefused, f.Reason.Code)
		require.Contains(t, f.Text, "nccl-ep needs symmetric windows of NCCL: ncclCommWindowRegister on rank 1")
	}
}

// What the run-time compiler of the library lacks is named, where the library only fails.
func TestWithoutACompiler(t *testing.T) {
	setUp(t)
	t.Setenv("CX_FAKE_NCCL_EP_COMPILER", "1")
	for _, name := range []string{"CUDA_HOME", "CUDA_PATH", "NVCC", "NCCL_EP_JIT_NVCC", "NCCL_EP_HOME", "NCCL_HOME"} {
		t.Setenv(name, "")
	}
	t.Setenv("PATH", t.TempDir())
	streams := eptest.Run(t, Open, "", caseOf(normal, func(*plan.Case) {}))[0]
	f := streams[slices.IndexFunc(streams, func(s rank.Stream) bool { return s.Failure != nil })].Failure // the first ends the others
	require.Equal(t, "ncclEpDispatch ncclInternalError", f.Reason.Detail)
	wording.Has(t, f.Text, "its run-time compiler lacks nvcc … CUDA_HOME … NCCL_EP_HOME") // headers of NCCL are beside the stand-in
}

// From the wheels, the library compiles: nothing needs to be set.
func TestWheels(t *testing.T) {
	setUp(t)
	t.Setenv("CX_FAKE_NCCL_EP_COMPILER", "1")
	bin, packages := t.TempDir(), t.TempDir()
	for file, from := range map[string]string{
		filepath.Join(packages, "nccl/ep/lib/cu13/libnccl_ep.so.0"):   "CX_NCCL_EP_LIB",
		filepath.Join(packages, "nvidia/nccl/lib/libnccl.so.2"):       "CX_NCCL_LIB",
		filepath.Join(packages, "nccl/ep/include/nccl_ep/device.cuh"): "",
		filepath.Join(packages, "nvidia/nccl/include/nccl.h"):         "",
		filepath.Join(bin, "nvcc"):                                    "",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		if from == "" {
			require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755))
			continue
		}
		library, err := os.ReadFile(os.Getenv(from))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, library, 0o755))
		t.Setenv(from, "")
	}
	for _, name := range []string{"CUDA_HOME", "CUDA_PATH", "NVCC", "NCCL_EP_JIT_NVCC", "NCCL_EP_HOME", "NCCL_HOME"} {
		t.Setenv(name, "")
	}
	t.Setenv("PATH", bin+":"+pystandin.Path(t))
	t.Setenv("PYTHONPATH", packages)
	c := caseOf(normal, func(c *plan.Case) { ep.Of(c).Ladder = plan.Ladder{6} })
	e := eptest.Processes(t, true, "", c) // this process may have loaded others
	require.Equal(t, result.Success, eptest.Document(t, c, e.Streams[0]).Outcome.Status, "%s", e.Logs)
}

// An error of the library is named with its call.
func TestACallThatFails(t *testing.T) {
	setUp(t)
	t.Setenv("CX_FAKE_NCCL_EP_ERROR", "1:20")
	for _, of := range forms {
		f := failed(t, caseOf(of, func(*plan.Case) {}))
		require.Equal(t, result.ReasonLibrary, f.Reason.Code)
		require.Equal(t, "ncclEpDispatch ncclInternalError", f.Reason.Detail)
	}
}

// A library that does other than it says is found, also where it begins after the first
// results were judged.
func TestALibraryThatLies(t *testing.T) {
	const judged = 30 // operations that come before, and more
	for _, lie := range []struct {
		name, check string
		fast        form // in which the fast tests find it too, once it has been judged
	}{
		{"SKIP", runner.CheckPayload, expertMajor},
		{"SWAP", runner.CheckCombine, rankMajor},
		{"TRUNCATE", runner.CheckCombine, normal},
	} {
		for _, f := range forms {
			for _, from := range []int{0, judged} {
				t.Run(fmt.Sprint(lie.name, "/", f, "/", from), func(t *testing.T) {
					if f != lie.fast || from == 0 {
						need.Full(t)
					}
					setUp(t)
					t.Setenv("CX_FAKE_NCCL_EP_"+lie.name, fmt.Sprint("1:", from))
					d := measured(t, f)
					require.Equal(t, result.Invalid, d.Outcome.Status)
					if from == judged {
						require.Contains(t, d.Measurement.Rows[0].Correctness.Reasons.String(), "-changed "+lie.check+" ")
					}
				})
			}
		}
	}
}

// A combine that rounds otherwise than is declared is within the tolerance, and said to.
func TestAnotherRounding(t *testing.T) {
	for _, f := range forms {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			if f != windowed {
				need.Full(t)
			}
			setUp(t)
			t.Setenv("CX_FAKE_NCCL_EP_ROUND", "1:0")
			d := measured(t, f)
			require.Equal(t, result.Success, d.Outcome.Status)
			require.False(t, d.Measurement.Rows[0].Arithmetic.Passed)
		})
	}
}

// A library that adds in another order now and then is found, with the rank, and the case is not failed.
func TestUnrepeatable(t *testing.T) {
	for _, f := range forms {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			if f != normal && f != expertMajor {
				need.Full(t)
			}
			setUp(t)
			require.Zero(t, measured(t, f).Measurement.Rows[0].Repeatable.Elements)
			t.Setenv("CX_FAKE_NCCL_EP_REORDER", "1:4")
			d := measured(t, f)
			require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
			v := d.Measurement.Rows[0].Repeatable
			require.Positive(t, v.Elements)
			require.Equal(t, 1, v.First.Rank)
			require.False(t, *v.AsDeclared)
		})
	}
}

func measured(t *testing.T, f form) *ep.Document {
	t.Helper()
	c := caseOf(f, func(c *plan.Case) { ep.Of(c).Ladder, ep.Of(c).Repeatable = plan.Ladder{6}, 9 })
	return eptest.Document(t, c, eptest.Run(t, Open, "", c)[0])
}
