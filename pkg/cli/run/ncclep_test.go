package run

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/short"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
)

// NCCL EP, with the NCCL that it works on, is found by doctor and env, and measured by ranks
// that are processes.
func TestNCCLEP(t *testing.T) {
	short.Skip(t)
	standIns(t)
	code, stdout, _ := cxrun(t, nil, "doctor", "--backend", "nccl-ep")
	require.Equal(t, cli.ExitEnvironment, code)
	require.Regexp(t, `^nccl-ep +missing +NCCL is too old for NCCL EP: it needs NCCL 2\.29 or newer, this is nccl 2\.28\.9: set CX_NCCL_LIB to a newer one\n`, stdout)

	t.Setenv("CX_FAKE_NCCL_VERSION", "23007")
	code, stdout, _ = cxrun(t, nil, "doctor", "--backend", "nccl-ep")
	require.Equal(t, cli.ExitOK, code)
	require.Regexp(t, `^nccl-ep +ready +2 NVIDIA GPUs, CUDA 13\.0, NCCL EP 0\.1\.0\+nccl2\.30\.7\n`, stdout)
	code, stdout, _ = cxrun(t, nil, "env")
	require.Equal(t, cli.ExitOK, code)
	require.Regexp(t, `(?m)^library +nccl-ep +0\.1\.0\+nccl2\.30\.7 +libnccl_ep\.so\.0`, stdout)

	for _, of := range [][2]string{{"normal", "bf16"}, {"low-latency", "bf16"}, {"low-latency", "fp8"}} {
		t.Setenv("TMPDIR", t.TempDir())
		code, stdout, stderr := cxrun(t, nil, "bench", "ep", "--backend", "nccl-ep", "--mode", of[0], "--precision", of[1], "--ranks", "2", "--tokens", "1,8",
			"--hidden", "512", "--topk", "4", "--experts", "32", "--sampling", "smoke", "--json")
		require.Equal(t, cli.ExitOK, code, stderr)
		var r bench.EPReport
		require.NoError(t, json.Unmarshal([]byte(stdout), &r))
		require.True(t, r.Passed)
		require.Len(t, r.Measurement.Rows, 2)
		for _, row := range r.Measurement.Rows {
			require.True(t, row.Arithmetic.Passed)
		}
	}

	code, _, stderr := cxrun(t, nil, "bench", "ep", "--backend", "nccl-ep", "--precision", "fp8", "--ranks", "2", "--tokens", "8")
	require.Equal(t, cli.ExitEnvironment, code, stderr)
	require.Equal(t, "cxrun: cannot be measured here: backend nccl-ep has no precision fp8 in normal mode\n", stderr)
}
