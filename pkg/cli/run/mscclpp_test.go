package run

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/result"
)

// MSCCL++ is measured on either vendor's devices; a fallback that was set
// for it shows in the document.
func TestBenchMSCCLPP(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("MSCCLPP_NCCL_LIB_PATH", fakes.Build(t).NCCL)
	t.Setenv("MSCCLPP_FORCE_NCCL_FALLBACK_OPERATION", "allgather")
	r, _ := benched(t, cli.ExitOK, "all_gather", "--backend", "mscclpp", "-b", "1K", "-e", "4K", "-f", "2", "-d", "bfloat16", "-G", "2")
	require.Equal(t, "mscclpp", r.Library.Kind)
	require.Equal(t, "0.9.0", *r.Library.Version)
	require.Equal(t, provenance.Withheld, r.Results[0].Environment["MSCCLPP_NCCL_LIB_PATH"])
	require.Equal(t, "allgather", r.Results[0].Environment["MSCCLPP_FORCE_NCCL_FALLBACK_OPERATION"])

	withoutNVIDIA(t)
	t.Setenv("CX_MSCCLPP_LIB", fakes.Build(t).MSCCLPPHIP)
	r, _ = benched(t, cli.ExitOK, "all_reduce", "--backend", "mscclpp", "-b", "1K", "-e", "1K", "-o", "min")
	require.Equal(t, "mscclpp", r.Library.Kind)
	require.Contains(t, *r.Device, "AMD")
}

// What MSCCL++ does not have is refused before it is called, which would end the
// ranks: a refused case is no death.
func TestBenchMSCCLPPRefuses(t *testing.T) {
	need.Full(t)
	standIns(t)
	t.Setenv("TMPDIR", t.TempDir())
	for args, want := range map[string]string{
		"all_reduce -d int8":   "element type int8",
		"all_reduce -d double": "element type double",
		"all_reduce -o avg":    "reduction avg",
		"reduce_scatter":       "operation reduce_scatter",
		"alltoall":             "operation alltoall",
		"all_gather -R 1":      "registration local",
		"all_reduce -m 4":      "group … -m requests 4",
	} {
		t.Run(args, func(t *testing.T) {
			_, stderr := ran(t, cli.ExitEnvironment, nil, append([]string{"bench", "--backend", "mscclpp", "-b", "1K", "-e", "1K"}, strings.Fields(args)...)...)
			wording.Has(t, stderr, "backend mscclpp … "+want)
		})
	}
}

// A bare sweep measures what is here, the backends of expert parallelism with it.
func TestSweepA2A(t *testing.T) {
	need.Full(t)
	standIns(t)
	out := filepath.Join(t.TempDir(), "out")
	stdout, _ := ran(t, cli.ExitOK, nil, "sweep", "--definitions", fewSamples(t), "--out", out, "--sku", "local-cx-fake-nvidia-gpu", "--ep", "2")
	require.Contains(t, stdout, "a2a")
	docs := sweptDocuments(t, out)
	for _, mode := range []string{"normal", "low-latency"} {
		d := docs["local-cx-fake-nvidia-gpu-a2a-deepseek-v3-"+mode+"-decode-ep2-uniform-bf16"]
		require.NotNil(t, d, mode)
		require.Equal(t, result.Success, d.Head().Outcome.Status)
		require.Equal(t, "nccl", d.Head().Runtime.CollectiveLibrary.Kind)
	}
}

// A bare sweep measures what is here, MSCCL++ with it.
func TestSweepMSCCLPP(t *testing.T) {
	need.Full(t)
	standIns(t)
	out := filepath.Join(t.TempDir(), "out")
	stdout, _ := ran(t, cli.ExitOK, nil, "sweep", "--definitions", fewSamples(t), "--out", out, "--sku", "local-cx-fake-nvidia-gpu", "--backend", "mscclpp")
	require.Contains(t, stdout, "mscclpp")
	docs := sweptDocuments(t, out)
	require.Len(t, docs, 1)
	d := docs["local-cx-fake-nvidia-gpu-mscclpp-all-reduce-float-sum-w2-warm"]
	require.NotNil(t, d)
	require.Equal(t, result.Success, d.Head().Outcome.Status)
}
