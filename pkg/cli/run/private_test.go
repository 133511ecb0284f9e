package run

import (
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/cli"
)

// A whole sweep in an environment full of private things: nothing of them is
// in a document, in the samples, in the fold, on the job's page or in its log.
// Only the private logs may have them.
func TestSweepPublishesNothingPrivate(t *testing.T) {
	need.Full(t)
	env := map[string]string{
		"NCCL_TOPO_FILE":     "/home/casimir/topo.xml",
		"NCCL_SOCKET_IFNAME": "gpuhost17",
		"NCCL_COMM_ID":       "10.20.30.40:5000",
		"NCCL_NET":           "fe80::b859:9fff:fe03:d4",
		"UCX_NET_DEVICES":    "b8:59:9f:03:00:d4",
		"NVSHMEM_HCA_LIST":   "0000:3b:00.0",
		"NCCL_PROTO":         "GPU-8d7f1a2b-0c1d-4e5f-8a9b-0123456789ab",
		"NCCL_ALGO":          "ghp_0123456789abcdefghij0123456789abcdef",
		"SLURMD_NODENAME":    "gpuhost17",
		"USER":               "casimir",
		"RUNNER_NAME":        "rack9-runner-3",
		"REGISTRY_TOKEN":     "correct-horse-battery",
	}
	private := []string{
		"casimir", "gpuhost17", "10.20.30.40", "b859:9fff", "b8:59:9f", "3b:00", "8d7f1a2b", "ghp_0123", "rack9-runner-3", "correct-horse",
	}
	dir := t.TempDir()
	page := filepath.Join(dir, "page.md")
	env["GITHUB_STEP_SUMMARY"] = page
	env["CX_FAULT"] = "case=*ep2*,rank=1,kind=panic"
	out := filepath.Join(dir, "out")
	_, stdout, stderr := cxrun(t, env, "sweep", "--world", "2", "--out", out)

	published := map[string]string{"stdout": stdout, "stderr": strings.ReplaceAll(stderr, dir, "")}
	data := readFile(t, page)
	published["page"] = string(data)
	require.NoError(t, filepath.WalkDir(out, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if e != nil && e.Name() == "logs" {
				return filepath.SkipDir
			}
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		var r io.Reader = f
		if strings.HasSuffix(path, ".gz") {
			if r, err = gzip.NewReader(f); err != nil {
				return err
			}
		}
		data, err := io.ReadAll(r)
		published[path] = string(data)
		return err
	}))
	require.Greater(t, len(published), 6, "documents, samples, fold, matrix")
	documents := 0
	for path, text := range published {
		if strings.Contains(text, `"NCCL_TOPO_FILE":"withheld"`) {
			documents++
			require.NotContains(t, text, "NCCL_SOCKET_IFNAME", "which ranks on one node do not have")
		}
		for _, p := range private {
			require.NotContains(t, strings.ToLower(text), p, path)
		}
	}
	require.Greater(t, documents, 1)
}

// Documents and samples have words that a user or a runner may be called.
func TestBenchAsAWordOfDocuments(t *testing.T) {
	need.Full(t)
	t.Setenv("USER", "measurement")
	t.Setenv("RUNNER_NAME", "sample")
	t.Setenv("SLURM_CLUSTER_NAME", "collective")
	t.Setenv("LOGNAME", "fresh")
	onHost(t, "all_reduce", "-b", "8", "-e", "8", "-n", "1")
	onHost(t, "ep", "--tokens", "1", "--hidden", "512", "--topk", "4", "--experts", "32", "--sampling", "smoke", "-T", "600")
}

// So have documents of machines and people that are called like an architecture or
// an element type.
func TestBenchAsAWordOfClosedLists(t *testing.T) {
	need.Full(t)
	t.Setenv("USER", runtime.GOARCH)
	t.Setenv("LOGNAME", "bf16")
	t.Setenv("RUNNER_NAME", "float")
	t.Setenv("SLURM_CLUSTER_NAME", "fp32")
	t.Setenv("SLURMD_NODENAME", "uniform")
	onHost(t, "all_reduce", "-b", "8", "-e", "8", "-n", "1")
	onHost(t, "ep", "--tokens", "1", "--hidden", "512", "--topk", "4", "--experts", "32", "--sampling", "smoke", "-T", "600")
	ran(t, cli.ExitOK, nil, "env", "--json")
}
