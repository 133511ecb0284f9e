package run

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	epbench "github.com/collectivex/collectivex/pkg/ep/bench"
)

// NCCL EP, with the NCCL that it works on, is found by doctor and env, and measured by ranks
// that are processes.
func TestNCCLEP(t *testing.T) {
	need.Full(t)
	standIns(t)
	stdout, _ := ran(t, cli.ExitEnvironment, nil, "doctor", "--backend", "nccl-ep")
	require.Regexp(t, `^nccl-ep +missing .* NCCL 2\.29 .* nccl 2\.28\.9.* CX_NCCL_LIB`, stdout)

	t.Setenv("CX_FAKE_NCCL_VERSION", "23007")
	stdout, _ = ran(t, cli.ExitOK, nil, "doctor", "--backend", "nccl-ep")
	require.Regexp(t, `^nccl-ep +ready +2 NVIDIA GPUs, CUDA 13\.0, NCCL EP 0\.1\.0\+nccl2\.30\.7\n`, stdout)
	stdout, _ = ran(t, cli.ExitOK, nil, "env")
	require.Regexp(t, `(?m)^library +nccl-ep +0\.1\.0\+nccl2\.30\.7 +libnccl_ep\.so\.0`, stdout)

	for id, of := range map[string][]string{
		"-normal-decode-ep2-uniform-bf16":                    {"--mode", "normal"},
		"-low-latency-decode-ep2-uniform-bf16-expert-major":  {"--mode", "low-latency", "--layout", "expert-major"},
		"-low-latency-decode-ep2-uniform-fp8-expert-major":   {"--mode", "low-latency", "--precision", "fp8", "--layout", "expert-major"},
		"-low-latency-decode-ep2-uniform-bf16-rank-major-zc": {"--mode", "low-latency", "--layout", "rank-major-zc"},
		"-low-latency-decode-ep2-uniform-bf16-rank-major":    {"--mode", "low-latency"},
	} {
		t.Setenv("TMPDIR", t.TempDir())
		args := append([]string{
			"bench", "ep", "--backend", "nccl-ep", "--ranks", "2", "--tokens", "1,8",
			"--hidden", "512", "--topk", "4", "--experts", "32", "--sampling", "smoke", "-T", "600", "--json",
		}, of...)
		stdout, _ := ran(t, cli.ExitOK, nil, args...)
		r := decoded[epbench.Report](t, stdout)
		require.True(t, r.Passed)
		require.True(t, strings.HasSuffix(r.CaseID, id), r.CaseID)
		require.Len(t, r.Measurement.Rows, 2)
		for _, row := range r.Measurement.Rows {
			require.True(t, row.Arithmetic.Passed)
		}
	}

	for want, of := range map[string][]string{
		"precision fp8 … normal":     {"--precision", "fp8"},
		"layout rank-major … normal": {"--layout", "rank-major"},
	} {
		_, stderr := ran(t, cli.ExitEnvironment, nil, append([]string{"bench", "ep", "--backend", "nccl-ep", "--ranks", "2", "--tokens", "8"}, of...)...)
		wording.Has(t, stderr, "cxrun: … backend nccl-ep … "+want)
	}
	_, stderr := ran(t, cli.ExitUsage, nil, "bench", "ep", "--backend", "nccl-ep", "--mode", "low-latency", "--layout", "rankmajor")
	wording.Has(t, stderr, `"rankmajor" … "rank-major"`)
}
