package run

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/overlap"
	overlapbench "github.com/collectivex/collectivex/pkg/overlap/bench"
	"github.com/collectivex/collectivex/pkg/rank"
)

// On a host, ranks in processes of their own measure all forms; figures and checks arrive in the
// table, the JSON and the summary. What cannot be measured is refused in one line, and a fault
// is named by its side, rank and contender.
func TestBenchOverlapOnAHost(t *testing.T) {
	need.Full(t)
	t.Setenv("TMPDIR", t.TempDir())
	args := []string{"bench", "overlap", "--backend", "host", "--hidden", "32", "-b", "4K", "-e", "32K", "-f", "8", "--sampling", "smoke"}
	stdout, _ := ran(t, cli.ExitOK, nil, args...)
	require.Regexp(t, `(?m)^# 1 × product beside 1 × all_gather of float, by loop and native, on `, stdout)
	require.Regexp(t, `(?m)^# linear-rotation of float, by loop and shared-memory-steps, on `, stdout)
	require.Regexp(t, `(?m)^ +32768 +256 +64 +32 .* OK$`, stdout)

	out := filepath.Join(t.TempDir(), "out")
	stdout, _ = ran(t, cli.ExitOK, nil, append(args, "linear-broadcast", "--json", "--out", out)...)
	r := decoded[overlapbench.Report](t, stdout)
	require.True(t, r.Passed)
	require.Len(t, r.Cases, 1)
	require.Len(t, r.Cases[0].Measurement.Rows, 2)
	require.Equal(t, overlap.LinearBroadcast, r.Cases[0].Measurement.Form)
	stdout, _ = ran(t, cli.ExitOK, nil, "summarize", "--in", out)
	require.Contains(t, stdout, "Computation beside communication")

	stdout, _ = ran(t, cli.ExitOK, nil, append(args, "beside", "--schedule", "rotation")...)
	require.Regexp(t, `(?m)^# 1 × product beside 1 × all_gather-rotation of float, by loop and shared-memory-steps, on `, stdout)

	for want, wrong := range map[string][]string{
		`"besides" … "beside"`:                           {"besides"},
		"beside, beside":                                 {"beside", "beside"},
		"--op … linear-rotation":                         {"linear-rotation", "--op", "all_reduce"},
		"--products … linear-rotation, linear-broadcast": {"linear-rotation", "linear-broadcast", "--products", "2"},
		"--schedule rotation … beside":                   {"linear-rotation", "--schedule", "rotation"},
		"--schedule: ":                                   {"beside", "--schedule", "rotating"},
		"--schedule: swing all_reduce: 3 ranks":          {"beside", "--op", "all_reduce", "--schedule", "swing", "-g", "3"},
		"1000 bytes … --hidden":                          {"linear-rotation", "-b", "1000"},
		"--hidden 0: … ":                                 {"beside", "--hidden", "0"},
		"--products 0: … 256":                            {"beside", "--products", "0"},
		`"gather_all"`:                                   {"beside", "--op", "gather_all"},
		"-b 32K … -e 1K":                                 {"beside", "-e", "1K", "-b", "32K"},
	} {
		_, stderr := ran(t, cli.ExitUsage, nil, append(args, wrong...)...)
		wording.Has(t, stderr, want)
	}
	for want, lacking := range map[string][]string{
		"backend host … broadcast … all_reduce, ": {"beside", "--op", "broadcast"},
		"half … float":  {"beside", "-d", "half"},
		"kernel … loop": {"beside", "--compute", "kernel"},
		"at least 2":    {"beside", "-g", "1"},
	} {
		_, stderr := ran(t, cli.ExitEnvironment, nil, append(args, lacking...)...)
		wording.Has(t, stderr, want)
	}

	fault := map[string]string{rank.FaultVariable: "rank=1,kind=early"}
	_, stderr := ran(t, cli.ExitUsage, fault, append(args, "beside")...)
	require.Contains(t, stderr, "form beside")
	stdout, _ = ran(t, cli.ExitFailed, fault, append(args, "linear-rotation")...)
	require.Regexp(t, `(?m)^# 4096 bytes: \d+ of 2048 elements of products of rank 1 in together, iteration 0 .*\d+$`, stdout)
	require.Regexp(t, `(?m)^# INVALID: check-failed: \d+ elements of products, 0 communicated$`, stdout)
}

// On the GPUs of both vendors, all forms run over the library that is here, and the vendor's library
// multiplies. One that is asked for and missing is named, and fails the case.
func TestBenchOverlapOnDevices(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("TMPDIR", t.TempDir())
	args := []string{"bench", "overlap", "-g", "2", "--hidden", "32", "-b", "2K", "--sampling", "smoke", "--json"}
	for backend, library := range map[string]string{"nccl": overlap.ComputeCUBLASLt, "rccl": overlap.ComputeHIPBLASLt} {
		t.Run(backend, func(t *testing.T) {
			if backend == "rccl" {
				withoutNVIDIA(t)
			}
			stdout, _ := ran(t, cli.ExitOK, nil, args...)
			r := decoded[overlapbench.Report](t, stdout)
			require.True(t, r.Passed)
			require.Equal(t, backend, r.Backend)
			require.Len(t, r.Cases, len(overlap.Forms()))
			for _, c := range r.Cases {
				require.Equal(t, "bfloat16", c.DType)
				require.Equal(t, library, c.Measurement.Compute)
				require.Equal(t, "device", c.Measurement.CheckedBy)
				require.Len(t, c.Measurement.Rows, 1)
			}
		})
	}
	args = append(args[:len(args)-1], "beside", "--backend", "nccl")
	stdout, _ := ran(t, cli.ExitOK, nil, args...)
	require.Regexp(t, `(?m)^# 1 × product beside 1 × all_gather of bfloat16, by cublaslt 13\.1\.2 and `, stdout)
	missing := map[string]string{"CX_CUBLASLT_LIB": "/nowhere/libcublasLt.so.13"}
	_, stderr := ran(t, cli.ExitEnvironment, missing, append(args, "--compute", overlap.ComputeCUBLASLt)...)
	wording.Has(t, stderr, "library-missing: … CX_CUBLASLT_LIB=/nowhere/libcublasLt.so.13")
}
