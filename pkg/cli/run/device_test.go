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
	"github.com/collectivex/collectivex/pkg/result"
)

// sweepGPUs sweeps one short case over two stand-in devices.
func sweepGPUs(t *testing.T, env map[string]string) (document *result.Envelope, summary string) {
	t.Helper()
	fakes.Build(t).Use(t)
	for _, name := range []string{"CX_HIP_LIB", "CX_RCCL_LIB"} {
		t.Setenv(name, "/nowhere/lib.so")
	}
	t.Setenv("CX_FAKE_NAME", "NVIDIA H200")
	out := filepath.Join(t.TempDir(), "out")
	stdout, _ := ran(t, cli.ExitOK, env, "sweep", "--definitions", fewSamples(t), "--out", out, "--backend", "nccl", "--op", "all_reduce", "--world", "2")
	docs := sweptDocuments(t, out)
	require.Len(t, docs, 1)
	for _, d := range docs {
		document = d.Head()
	}
	require.Equal(t, result.Success, document.Outcome.Status)
	return document, stdout
}

func TestDocumentsTellTheStateOfDevices(t *testing.T) {
	need.Full(t)
	d, summary := sweepGPUs(t, nil)
	require.Len(t, d.Devices.Ranks, 2)
	for rank, r := range d.Devices.Ranks {
		require.Equal(t, rank, r.Rank)
		require.Equal(t, "no-mig", r.Partition)
		require.Equal(t, 1755, r.Before.SMMHz)
		require.Equal(t, 1755, r.After.SMMHz)
	}
	require.Empty(t, d.Devices.Throttled)
	require.Empty(t, d.Devices.Warnings)
	require.NotContains(t, summary, "Warnings")
}

func TestSummaryWarnsOfThrottledDevices(t *testing.T) {
	need.Full(t)
	// The power limit, heat, and a neighbour.
	d, summary := sweepGPUs(t, map[string]string{"CX_FAKE_PROCESSES": "1", "CX_FAKE_REASONS": "68", "CX_FAKE_SM_CLOCKS": "1980,900"})
	require.Equal(t, []result.Throttle{
		{Reason: "hw-thermal-slowdown", Ranks: []int{0, 1}}, {Reason: "sw-power-cap", Ranks: []int{0, 1}},
	}, d.Devices.Throttled)
	wording.Has(t, summary, "hw-thermal-slowdown: ranks 0, 1")
	wording.Has(t, summary, "processes of others … ranks 0, 1")
	require.Contains(t, summary, "900 to 1980 MHz")
	require.NotContains(t, summary, "sw-power-cap")
}

func TestSummaryWarnsOfDevicesThatNobodySaw(t *testing.T) {
	need.Full(t)
	d, summary := sweepGPUs(t, map[string]string{"CX_NVML_LIB": "/nowhere/libnvidia-ml.so.1"})
	require.Nil(t, d.Devices.Ranks[1].Before)
	wording.Has(t, summary, "not read … ranks 0, 1")
}

func TestBenchWarnsOfThrottledDevices(t *testing.T) {
	need.Full(t)
	fakes.Build(t).Use(t)
	stdout, stderr := ran(t, cli.ExitOK, map[string]string{"CX_FAKE_REASONS": "64"},
		"bench", "all_reduce", "--backend", "nccl", "-b", "8", "-e", "8", "-n", "2", "-w", "1", "--json")
	require.Equal(t, 1, strings.Count(stderr, "hw-thermal-slowdown: ranks 0, 1\n"))
	require.Contains(t, stderr, "cxrun: warning: ")
	require.Contains(t, stdout, `"throttled":[{"reason":"hw-thermal-slowdown","ranks":[0,1]}]`)
}

func TestDocumentsOfHostsHaveNoDevices(t *testing.T) {
	need.Full(t)
	out := filepath.Join(t.TempDir(), "out")
	ran(t, cli.ExitOK, nil, "sweep", "--definitions", fewSamples(t), "--sku", "local", "--out", out, "--ep", "2")
	for _, d := range sweptDocuments(t, out) {
		require.Nil(t, d.Head().Devices)
	}
}
