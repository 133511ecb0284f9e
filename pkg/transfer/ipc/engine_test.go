package ipc

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/transfertest"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Drivers open memory of other processes alone, so that the ranks here are processes.
func TestMain(m *testing.M) {
	eptest.Main(func(plan.Case) (rank.Opener, error) { return Open, nil })
	os.Exit(m.Run())
}

func peer(c *plan.Case) { c.Backend, transfer.Of(c).Mode = "ipc", vocab.LanePeer }

func virtualPools(c *plan.Case) {
	peer(c)
	transfer.Of(c).Handle = vocab.HandleVMM
}

// withDrivers runs body with the stand-ins of each vendor's driver.
func withDrivers(t *testing.T, body func(t *testing.T)) {
	for _, vendor := range []string{"cuda", "hip"} {
		t.Run(vendor, func(t *testing.T) {
			fakes.Build(t).Use(t)
			if vendor == "hip" {
				t.Setenv("CX_CUDA_LIB", "/nowhere/libcuda.so.1")
			}
			body(t)
		})
	}
}

// Every arrangement and operation moves every word to its place, as kernels on the devices
// find, in two cases of one group.
func TestTransfersArriveWhole(t *testing.T) {
	withDrivers(t, func(t *testing.T) {
		cases := []plan.Case{transfertest.Small(peer, transfertest.Parts), transfertest.Small(peer)}
		for _, d := range transfertest.Processes(t, "", cases...) {
			transfertest.ArrivedWhole(t, d, vocab.LanePeer)
			require.Equal(t, vocab.HandleIPC, d.Measurement.Transport)
			require.Equal(t, "device", d.Measurement.CheckedBy)
			require.False(t, d.Measurement.TwoSided)
			require.Nil(t, d.EntrySkew, "one rank enters alone")
		}
	})
}

// Pools of virtual memory management take turns with plain ones in a group. Nothing is left of them
// at its end.
func TestVirtualPools(t *testing.T) {
	fakes.Build(t).Use(t)
	cases := []plan.Case{transfertest.Small(virtualPools, transfertest.Parts), transfertest.Small(peer, transfertest.Few), transfertest.Small(virtualPools)}
	for i, d := range transfertest.Processes(t, "", cases...) {
		require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
		require.Equal(t, vocab.LanePeer, d.Measurement.Lane)
		require.Equal(t, cmp.Or(transfer.Of(&cases[i]).Handle, vocab.HandleIPC), d.Measurement.Transport)
		require.Equal(t, "device", d.Measurement.CheckedBy)
	}
	left, err := filepath.Glob(filepath.Join(os.Getenv("CX_FAKE_DIR"), "vmm-*"))
	require.NoError(t, err)
	require.Empty(t, left, "memory that nobody has freed")
}

func TestFaultsAreNamed(t *testing.T) {
	fakes.Build(t).Use(t)
	transfertest.FaultsAreNamed(t, transfertest.Processes, peer)
}

func TestAWrongWordOfVirtualPoolsIsFound(t *testing.T) {
	fakes.Build(t).Use(t)
	transfertest.TornBlock(t, transfertest.Small(virtualPools))
}

func TestCallsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*plan.Case){vocab.HandleIPC: peer, vocab.HandleVMM: virtualPools} {
		t.Run(name, func(t *testing.T) {
			fakes.Build(t).Use(t)
			transfertest.CallsAreRefused(t, transfertest.Processes, change)
		})
	}
}

// What the driver refuses ends the case with the call and its code, and what the backend
// cannot do is refused.
func TestFailures(t *testing.T) {
	for _, tc := range []struct {
		name, variable, value, reason string
		change                        func(*plan.Case)
	}{
		{"no handle", "CX_FAKE_FAIL", "cuIpcGetMemHandle=801", "refused", peer},
		{"the handle opens nothing", "CX_FAKE_FAIL", "cuIpcOpenMemHandle_v2=1", "device-error", peer},
		{"a copy fails", "CX_FAKE_FAIL", "cuMemcpyDtoDAsync_v2#3=719", "device-error", peer},
		{"too little memory", "CX_FAKE_FAIL", "cuMemAlloc_v2#1=2", "out-of-memory", peer},
		{"a driver that cannot share", "CX_CUDA_LIB", "cuIpcGetMemHandle", "refused", peer},
		{"no descriptor", "CX_FAKE_FAIL", "cuMemExportToShareableHandle=1", "device-error", virtualPools},
		{"an import that is refused", "CX_FAKE_FAIL", "cuMemImportFromShareableHandle=801", "device-error", virtualPools},
		{"a descriptor that maps nothing", "CX_FAKE_FAIL", "cuMemMap#2=1", "device-error", virtualPools},
		{"no access", "CX_FAKE_FAIL", "cuMemSetAccess#2=1", "device-error", virtualPools},
		{"too little virtual memory", "CX_FAKE_FAIL", "cuMemCreate#1=2", "out-of-memory", virtualPools},
		{"a device without descriptors", "CX_FAKE_VMM_FD", "0", "refused", virtualPools},
		{"a driver without descriptors", "CX_CUDA_LIB", "cuMemImportFromShareableHandle", "refused", virtualPools},
		{"HIP", "CX_CUDA_LIB", "", "refused", virtualPools},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fakes.Build(t).Use(t)
			value := tc.value
			switch {
			case tc.name == "HIP":
				value = "/nowhere/libcuda.so.1"
			case tc.variable == "CX_CUDA_LIB":
				value = fakes.OldCUDA(t, value)
			}
			t.Setenv(tc.variable, value)
			d := transfertest.Processes(t, "", transfertest.Small(tc.change))[0]
			require.Equal(t, result.Failed, d.Outcome.Status)
			require.Contains(t, d.Outcome.Reasons[0].String(), tc.reason)
			require.Empty(t, d.Measurement.Rows)
		})
	}
}

// On devices whose clocks stay capped, every trial is repeated in vain, counts and is checked.
func TestCappedTrialsAreRepeated(t *testing.T) {
	fakes.Build(t).Use(t)
	t.Setenv("CX_FAKE_REASONS", "64")
	d := transfertest.Processes(t, "", transfertest.Small(peer))[0]
	require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
	for _, r := range d.Measurement.Rows {
		require.Equal(t, 4*2, r.Latency.N)
		require.Equal(t, (1+result.MaxRepeats)*2*2*3, r.Verify.Checks, r.Name())
	}
}
