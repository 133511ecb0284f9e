package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
)

// Four ranks make communicators in every way. A library that skips an operation of one of them, or
// lacks a call, is found, and no rank is left waiting.
func TestCommunicators(t *testing.T) {
	need.Full(t)
	program := filepath.Join(t.TempDir(), "communicators")
	output, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", output)
	fakes.Build(t).Use(t)
	t.Setenv("CX_FAKE_DEVICES", "4")
	t.Setenv("TMPDIR", t.TempDir())
	communicators := func() (string, error) {
		output, err := exec.Command(program, "-g", "4", "-n", "2").CombinedOutput()
		left, e := os.ReadDir(os.Getenv("TMPDIR"))
		require.NoError(t, e)
		require.Empty(t, left)
		return string(output), err
	}

	const times = ` \| [0-9.e-]+ \([0-9.e-]+ … [0-9.e-]+\) \| [0-9.e-]+ \([0-9.e-]+ … [0-9.e-]+\) \| [0-9.e-]+ \([0-9.e-]+ … [0-9.e-]+\) \|\n`
	out, err := communicators()
	require.NoError(t, err, out)
	require.Regexp(t, `^4 ranks on CX Fake NVIDIA GPU, NCCL 2\.28\.9, 2 trials; ms of the slowest rank, median \(range\)\n\n`+
		`\| communicator \| made \| first all_gather \| closed \|\n\|---\|--:\|--:\|--:\|\n`+
		`\| ncclCommInitRankConfig, all ranks`+times+`\| ncclCommSplit, all ranks`+times+
		`\| ncclCommSplit, two halves`+times+`\| ncclCommShrink, without the last rank`+times+`$`, out)

	real := os.Getenv("CX_NCCL_LIB")
	t.Setenv("CX_NCCL_LIB", fakes.Liar(t, real))
	t.Setenv("CX_LIE", "every:4") // the second all_gather of a communicator: operations of the parent come between them
	out, err = communicators()
	require.Error(t, err)
	require.Regexp(t, `communicators: ncclCommInitRankConfig, all ranks: rank [0-3]: the communicator has 4 ranks and gathers \[255 255 255 255\], want \[0 1 2 3\]\n`, out)

	t.Setenv("CX_NCCL_LIB", fakes.Variant{Hide: []string{"ncclCommShrink"}}.Build(t))
	out, err = communicators()
	require.Error(t, err)
	require.Contains(t, out, "communicators: ncclCommShrink, without the last rank: no such symbol: ncclCommShrink in libnccl.so.2: ")
}
