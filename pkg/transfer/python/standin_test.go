package python

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/pystandin"
	"github.com/collectivex/collectivex/internal/transfertest"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// standIn is a backend between two devices, of one node or two, whose library is a stand-in, for lack of
// hardware.
type standIn struct {
	backend, library, version, lane string
	hip                             bool // the devices are AMD's
}

var standIns = map[string]standIn{
	"uccl-p2p on CUDA":  {"uccl-p2p", "uccl", "0.1.0", vocab.LanePeer, false},
	"uccl-p2p on HIP":   {"uccl-p2p", "uccl", "0.1.0", vocab.LanePeer, true},
	"mori-io":           {"mori-io", "mori", "1.0.0", vocab.LanePeer, true},
	"mooncake on CUDA":  {"mooncake", "mooncake", "0.3.13.post1", vocab.LaneRDMA, false},
	"mooncake on HIP":   {"mooncake", "mooncake", "0.3.13.post1", vocab.LaneRDMA, true},
	"mori-io over RDMA": {"mori-io", "mori", "1.0.0", vocab.LaneRDMA, true},
}

// each runs a test with each library, whose ranks find it and its devices: those of every vendor,
// or of AMD alone.
func each(t *testing.T, vendors bool, body func(t *testing.T, s standIn)) {
	for name, s := range standIns {
		if !s.hip && !vendors {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s.use(t)
			body(t, s)
		})
	}
}

func (s standIn) use(t *testing.T) {
	t.Helper()
	pystandin.Use(t, s.library)
	t.Setenv("CX_FAKE_DEVICES", "2")
	if vocab.BetweenNodes(s.lane) {
		t.Setenv(adaptersVariable, "mlx5_0")
		t.Setenv("NCCL_SOCKET_IFNAME", "=lo")
		t.Setenv("MORI_DISABLE_AUTO_XGMI", "0") // MoRI may take XGMI if it has no adapter
		adapterCounting(t, "counters/port_rcv_data", "counters/port_xmit_data")
	}
	if s.hip {
		t.Setenv("CX_STANDIN_HIP", "1")
		t.Setenv("CX_CUDA_LIB", "/nowhere/libcuda.so.1")
	}
}

// adapterCounting gives the node of the test an adapter with these counters alone, which stand-ins advance.
func adapterCounting(t *testing.T, counters ...string) {
	t.Helper()
	root := t.TempDir()
	for _, name := range counters {
		file := filepath.Join(root, "sys/class/infiniband/mlx5_0/ports/1", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte("1000\n"), 0o600))
	}
	t.Setenv(rootVariable, root)
}

func (s standIn) change(c *plan.Case) {
	c.Backend, transfer.Of(c).Mode = s.backend, s.lane
	if vocab.BetweenNodes(s.lane) {
		c.Nodes, c.GPUsPerNode, c.RanksPerNode = 2, 1, 1
	}
}

// adaptersVariable is the variable with the network devices of the nodes.
const adaptersVariable = "CX_STANDIN_HCAS"

// Every arrangement and operation moves every word to its place, as kernels on the devices
// find, in bursts of one and of several requests, one case after the other over the same engines.
func TestTransfersArriveWhole(t *testing.T) {
	need.Full(t)
	each(t, true, func(t *testing.T, s standIn) {
		for _, d := range transfertest.Processes(t, "", transfertest.Arranged(s.change)...) {
			transfertest.ArrivedWhole(t, d, s.lane)
			require.False(t, d.Measurement.LaneUnverified)
			require.Equal(t, "device", d.Measurement.CheckedBy)
			require.Equal(t, s.backend, d.Implementation.Name)
			require.Equal(t, s.version, *d.Implementation.LibraryVersion)
		}
	})
}

// A wrong word is found in what the libraries moved.
func TestAWrongWordIsFound(t *testing.T) {
	each(t, false, func(t *testing.T, s standIn) {
		need.CXX(t)
		transfertest.TornBlock(t, transfertest.Small(s.change))
	})
}

func TestCallsAreRefused(t *testing.T) {
	need.Full(t)
	each(t, false, func(t *testing.T, s standIn) { transfertest.CallsAreRefused(t, transfertest.Processes, s.change) })
}

// What goes wrong is found: a bit that the library flips, a transfer that it or the driver fails,
// and what keeps the backend from running.
func TestFailures(t *testing.T) {
	for _, tc := range []struct{ name, variable, value, status, uccl, mori string }{
		{"a bit is flipped", "CX_STANDIN_FAULT", "1:6:flip", result.Invalid, "check-failed: corrupted, 1 words", ""},
		{"a transfer fails", "CX_STANDIN_FAULT", "1:6:fail", result.Failed, "library-error: uccl-p2p RuntimeError", "library-error: mori-io 15"},
		{"the handle opens nothing", "CX_FAKE_FAIL", "hipIpcOpenMemHandle=1", result.Failed, "library-error: uccl-p2p RuntimeError", "library-error: mori-io RuntimeError"},
		{"no handle", "CX_FAKE_FAIL", "hipIpcGetMemHandle=801", result.Failed, "refused", ""},
		{"too little memory", "CX_FAKE_FAIL", "hipMalloc#1=2", result.Failed, "out-of-memory", ""},
		{"no library", "PYTHONPATH", "/nowhere", result.Failed, "library-missing: ModuleNotFoundError", ""},
		{"no Python", "CX_PYTHON_LIB", "/nowhere/libpython3.so", result.Failed, "library-missing", ""},
		{"no driver", "CX_HIP_LIB", "/nowhere/libamdhip64.so.6", result.Failed, "library-missing", ""},
	} {
		for backend, reason := range map[string]string{"uccl-p2p on HIP": tc.uccl, "mori-io": cmp.Or(tc.mori, tc.uccl)} {
			t.Run(backend+"/"+tc.name, func(t *testing.T) {
				if tc.name != "no driver" {
					need.CXX(t)
				}
				s := standIns[backend]
				s.use(t)
				t.Setenv(tc.variable, tc.value)
				d := transfertest.Processes(t, "", transfertest.Small(s.change, transfertest.Few))[0]
				require.Equal(t, tc.status, d.Outcome.Status)
				require.Contains(t, d.Outcome.Reasons.String(), reason)
			})
		}
	}
}

// What goes wrong between nodes is found: a network that is not that of the case, and what keeps the ranks from
// connecting.
func TestFailuresBetweenNodes(t *testing.T) {
	need.Full(t)
	for name, tc := range map[string]struct{ variable, value, status, mooncake, mori string }{
		"a bit is flipped":  {"CX_STANDIN_FAULT", "0:6:flip", result.Invalid, "check-failed: corrupted, 1 words", "check-failed: corrupted, 1 words"},
		"a transfer fails":  {"CX_STANDIN_FAULT", "0:6:fail", result.Failed, "library-error: mooncake -1", "library-error: mori-io 13"},
		"no adapter":        {adaptersVariable, "", result.Failed, "library-error: mooncake -1", "library-error: mori-io RuntimeError"},
		"another network":   {"CX_STANDIN_EFA", "1", result.Invalid, "check-failed: lane unknown instead of rdma", ""},
		"TCP is chosen":     {"MC_FORCE_TCP", "1", result.Failed, "refused", ""},
		"no interface":      {"NCCL_SOCKET_IFNAME", "=nowhere0", result.Failed, "refused", "refused"},
		"too little memory": {"CX_FAKE_FAIL", "hipMalloc#1=2", result.Failed, "out-of-memory", "out-of-memory"},
	} {
		for backend, reason := range map[string]string{"mooncake on HIP": tc.mooncake, "mori-io over RDMA": tc.mori} {
			if reason == "" {
				continue
			}
			t.Run(backend+"/"+name, func(t *testing.T) {
				s := standIns[backend]
				s.use(t)
				t.Setenv(tc.variable, tc.value)
				d := transfertest.Processes(t, "", transfertest.Small(s.change, transfertest.Few))[0]
				require.Equal(t, tc.status, d.Outcome.Status)
				require.Contains(t, d.Outcome.Reasons.String(), reason)
			})
		}
	}
}

// Mooncake uses the adapter that the case names for the rank's GPU, AWS's adapters under their own protocol, and
// never NVLink, which the definitions of some platforms choose for others.
func TestMooncakeBetweenNodes(t *testing.T) {
	need.Full(t)
	for name, tc := range map[string]struct {
		environment map[string]string
		device      string
		status      string
	}{
		"the adapter of the GPU":     {map[string]string{adaptersVariable: "mlx5_0,rdma3", "ROCR_VISIBLE_DEVICES": "3,5"}, "rdma{gpu}", result.Success},
		"the GPU has no adapter":     {map[string]string{adaptersVariable: "mlx5_0,rdma5", "ROCR_VISIBLE_DEVICES": "3,5"}, "rdma{gpu}", result.Failed},
		"EFA":                        {map[string]string{adaptersVariable: "rdmap86s0", "CX_STANDIN_EFA": "1", "FI_PROVIDER": "efa"}, "", result.Success},
		"a build that lacks EFA":     {map[string]string{adaptersVariable: "rdmap86s0", "FI_PROVIDER": "efa"}, "", result.Failed},
		"NVLink for other libraries": {map[string]string{"MC_FORCE_MNNVL": "1"}, "", result.Success},
	} {
		t.Run(name, func(t *testing.T) {
			s := standIns["mooncake on CUDA"]
			s.use(t)
			for name, value := range tc.environment {
				t.Setenv(name, value)
			}
			d := transfertest.Processes(t, "", transfertest.Small(s.change, transfertest.Few, func(c *plan.Case) { transfer.Of(c).Device = tc.device }))[0]
			require.Equal(t, tc.status, d.Outcome.Status, "%v", d.Outcome.Reasons)
		})
	}
}

// The lane between nodes is what adapters have counted. It is unknown if they counted less than the requests, and not
// verified without counters.
func TestLaneBetweenNodesIsCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		counters   []string
		lane       string
		unverified bool
	}{
		"InfiniBand":   {[]string{"counters/port_rcv_data", "counters/port_xmit_data"}, vocab.LaneRDMA, false},
		"EFA":          {[]string{"hw_counters/rx_bytes", "hw_counters/tx_bytes", "hw_counters/rdma_read_bytes", "hw_counters/rdma_write_bytes"}, vocab.LaneRDMA, false},
		"nothing came": {[]string{"counters/port_xmit_data", "hw_counters/rx_bytes"}, runner.UnknownLane, false},
		"no counters":  {nil, vocab.LaneRDMA, true},
	} {
		for _, backend := range []string{"mooncake on HIP", "mori-io over RDMA"} {
			t.Run(backend+"/"+name, func(t *testing.T) {
				need.CXX(t)
				s := standIns[backend]
				s.use(t)
				adapterCounting(t, tc.counters...)
				d := transfertest.Processes(t, "", transfertest.Small(s.change, transfertest.Few))[0]
				require.Equal(t, tc.lane, d.Measurement.Lane, "%v", d.Outcome.Reasons)
				require.Equal(t, tc.unverified, d.Measurement.LaneUnverified)
			})
		}
	}
}

// MoRI's adapters refuse large work requests, so that blocks are cut.
func TestLargeBlocksAreCut(t *testing.T) {
	need.Full(t)
	for status, cut := range map[string]string{result.Success: "4096", result.Failed: ""} {
		t.Run(status, func(t *testing.T) {
			s := standIns["mori-io over RDMA"]
			s.use(t)
			t.Setenv("CX_STANDIN_WR_BYTES", "4096")
			t.Setenv(blockVariable, cut)
			d := transfertest.Processes(t, "", transfertest.Small(s.change, transfertest.Few))[0]
			require.Equal(t, status, d.Outcome.Status, "%v", d.Outcome.Reasons)
		})
	}
}

// Whatever is planned as runnable has a lane of its backend here.
func TestPlannedLanes(t *testing.T) {
	lanes := map[string]int{}
	for q := range plantest.Resolve(plantest.Shipped(), planner.Filters{Only: planner.Only{planner.FilterSuite: {transfer.SuiteKV}}}).Requested() {
		if libraries[q.Case.Backend] != nil && q.Disposition == plan.Runnable {
			s, err := settingsOf(q.Case.Backend, transfer.Of(&q.Case).Mode)
			require.NoError(t, err, q.Case.CaseID)
			lanes[q.Case.Backend+" over "+s.lane]++
		}
	}
	require.Equal(t, 6, lanes["mooncake over rdma"])
	require.Equal(t, 1, lanes["mori-io over rdma"])
}

// A lane that cxrun does not use is refused before anything is loaded.
func TestOtherLanesAreRefused(t *testing.T) {
	each(t, false, func(t *testing.T, s standIn) {
		d := transfertest.Processes(t, "", transfertest.Small(s.change, transfertest.Few, func(c *plan.Case) { transfer.Of(c).Mode = vocab.LaneMNNVL }))[0]
		require.Equal(t, "refused", d.Outcome.Reasons.String())
	})
}

// The libraries were never run here: their stand-ins refuse what their documentation forbids, so
// that the order of the adapters' calls is that of the documentation.
func TestStandInsRefuseMisuse(t *testing.T) {
	for library, want := range map[string]string{
		"uccl": `metadata are cut: RuntimeError: Metadata size mismatch for IPv6: got 18
more is advertised than there is: 2097153 bytes are advertised of 2097152
a transfer before a connection: (False, 0)
nobody is there: (False, 0)
nobody accepts: Misuse: nobody accepts at 0000:12:00.0
past the end of what was advertised: Misuse: 16 bytes at 1048568 were not advertised
a handle that nobody made: Misuse: 8 bytes at 0 were not advertised
lists differ: RuntimeError: size_v mismatch
past the end here: RuntimeError: error 1 of the driver in hipMemcpyDtoDAsync
memory that is not the device's: RuntimeError: error 1 of the driver in hipMemcpyDtoDAsync
removed in flight: Misuse: 1 transfers are in flight
polled when forgotten: Misuse: transfer 2 was forgotten
removed: True
removed twice: False
`,
		"mori": `metadata are cut: JSONDecodeError: Unterminated string starting at: line 1 column 9 (char 8)
a backend without adapters: RuntimeError: no active RDMA device on this host
a session without a backend: None
a session with an engine that was not registered: None
memory that was registered before the backend: None
a handle that nobody made: None
more is registered than there is: Misuse: 2097153 bytes are registered of 2097152
memory that is not the device's: RuntimeError: error 1 of the driver in cx_fake_locate
past the end there: Misuse: 16 bytes at 0 and 2097144 are outside of memory of 2097152 and 2097152
past the end here: Misuse: 16 bytes at 2097144 and 0 are outside of memory of 2097152 and 2097152
lists differ: Misuse: lists of 2, 1 and 1
removed in flight: Misuse: transfers are in flight
deregistered in flight: Misuse: transfers of memory 1 are in flight
it ended: True
deregistered twice: Misuse: memory 1 is not registered
a session that outlives its memory: Misuse: memory 1 is not registered
a session that outlives its backend: Misuse: the session's backend was removed
`,
		"mori between nodes": `memory has a handle: False
a session with an engine that was not registered: None
memory that the peer has deregistered: RuntimeError: remote MR size mismatch: expected=2097152 got=0
more than a work request takes: ibv_post_send: EINVAL
`,
		"mooncake": `registered twice: -7
more is registered than there is: Misuse: 2097152 bytes are registered of 1048576
nobody is there: 0
lists differ: 0
local memory that is not registered: 0
remote memory that is not registered: -1
it ended: 0
asked when forgotten: Misuse: batch 2 was forgotten
deregistered twice: -1
`,
	} {
		t.Run(library, func(t *testing.T) {
			standIn{library: strings.Fields(library)[0], hip: true}.use(t)
			t.Setenv("CX_FAKE_DEVICES", "3")
			out, err := exec.CommandContext(t.Context(), "python3", filepath.Join(pystandin.Source(t), "misuse.py"), library).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Equal(t, want, string(out))
		})
	}
}
