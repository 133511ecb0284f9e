package nixl

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/netns"
	"github.com/collectivex/collectivex/internal/transfertest"
	"github.com/collectivex/collectivex/internal/wheels"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// pieceVariable has ranks register the memory of devices in smaller pieces.
const pieceVariable = "CX_TEST_PIECE"

// A process has one lane, so that the ranks here are processes.
func TestMain(m *testing.M) {
	if n, err := strconv.ParseInt(os.Getenv(pieceVariable), 10, 64); err == nil {
		maxPiece = n
	}
	eptest.Main(func(plan.Case) (rank.Opener, error) { return Open, nil })
	os.Exit(m.Run())
}

// libraryVariable names the library of the ranks.
const libraryVariable = "CX_NIXL_LIB"

// use has ranks load the library in a directory with the wheel of NIXL.
func use(t *testing.T, dir string) {
	t.Setenv(libraryVariable, filepath.Join(dir, ".nixl_cu13.mesonpy.libs", "libnixl_capi.so"))
}

// alone has ranks load the library of the wheel, in a network of their own. It reports whether this is the process
// that runs the test; see netns.Own.
func alone(t *testing.T) bool {
	need.Full(t)
	dir := wheels.NIXL.Libraries(t)
	if !netns.Own(t) {
		return false
	}
	use(t, dir)
	return true
}

// via makes a case one over a lane of NIXL.
func via(lane string) func(*plan.Case) {
	return func(c *plan.Case) { c.Backend, transfer.Of(c).Mode = "nixl", lane }
}

// over is a case over a lane of NIXL.
func over(lane string, change ...func(*plan.Case)) plan.Case {
	return transfertest.Small(append(change, via(lane))...)
}

// Two processes move every word over each lane, in all arrangements and forms of a cache, those of MLA
// and GQA included, one case after the other over the same agents; and UCX says that it used the
// lane.
func TestTransfersArriveWhole(t *testing.T) {
	if !alone(t) {
		return
	}
	for _, lane := range []string{vocab.LaneProcessVM, vocab.LaneTCP} {
		t.Run(lane, func(t *testing.T) {
			cases := append(transfertest.Arranged(via(lane)), over(lane, transfertest.Slice("kv-mla", 10, 128, 64)), over(lane, transfertest.Slice("kv-gqa", 100, 128, 16)))
			for _, d := range transfertest.Processes(t, "", cases...) {
				transfertest.ArrivedWhole(t, d, lane)
				require.Equal(t, wheels.NIXL.Version, *d.Implementation.LibraryVersion)
			}
		})
	}
}

// UCX without its module for cma falls back to tcp and says nothing. The data are right, and
// the case is invalid, since its lane was another.
func TestALaneThatVanishesIsNoticed(t *testing.T) {
	need.Full(t)
	from := wheels.NIXL.Libraries(t)
	if !netns.Own(t) {
		return
	}
	dir := t.TempDir()
	require.NoError(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(d.Name(), "libuct_cma") {
			return err
		}
		to := filepath.Join(dir, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o644)
	}))
	use(t, dir)
	d := transfertest.Processes(t, "", over(vocab.LaneProcessVM, transfertest.Few))[0]
	require.Equal(t, result.Invalid, d.Outcome.Status)
	require.Equal(t, result.Reasons{result.ReasonCheck.With("lane tcp instead of vm")}, d.Outcome.Reasons)
	require.Equal(t, vocab.LaneTCP, d.Measurement.Lane)
	require.True(t, d.Measurement.Rows[0].Verify.Passed)
}

// Wrong words are found and named in what NIXL moved.
func TestWrongWordsAreFound(t *testing.T) {
	if alone(t) {
		transfertest.FaultsAreNamed(t, transfertest.Processes, via(vocab.LaneProcessVM),
			pool.FaultHalf, pool.FaultSwap, pool.FaultStale, pool.FaultGuard, pool.FaultLate)
	}
}

// NIXL itself registers memory twice, and moves the data of a pool that its owner gave up.
func TestCallsAreRefused(t *testing.T) {
	if alone(t) {
		transfertest.CallsAreRefused(t, transfertest.Processes, func(c *plan.Case) { *c = over(vocab.LaneTCP, transfertest.Few) })
	}
}

// What keeps the backend from running is said before anything runs.
func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		variable, value string
		lane            string
		code            result.Code
	}{
		"no library":            {libraryVariable, "/nowhere/libnixl_capi.so", vocab.LaneTCP, result.ReasonNoLibrary},
		"another library":       {libraryVariable, "libm.so.6", vocab.LaneTCP, result.ReasonNoSymbol},
		"transports are chosen": {"UCX_TLS", "tcp", vocab.LaneTCP, result.ReasonRefused},
		"devices are chosen":    {"UCX_NET_DEVICES", "eth0", vocab.LaneTCP, result.ReasonRefused},
		"an unknown lane":       {libraryVariable, "", vocab.LaneSharedMemory, result.ReasonRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(tc.variable, tc.value)
			d := transfertest.Processes(t, "", over(tc.lane, transfertest.Few))[0]
			require.Equal(t, result.Failed, d.Outcome.Status)
			require.Equal(t, tc.code, d.Outcome.Code())
		})
	}
}

func TestAPeerThatIsKilled(t *testing.T) {
	if !alone(t) {
		return
	}
	for _, lane := range []string{vocab.LaneProcessVM, vocab.LaneTCP} {
		t.Run(lane, func(t *testing.T) {
			transfertest.KilledPeer(t, "library-error: nixl -2 (backend error)", over(lane))
		})
	}
}

// peer is a case between the memory of two devices.
func peer(c *plan.Case) { via(vocab.LanePeer)(c) }

// Between devices, every word arrives in all arrangements and forms of a cache, as kernels find,
// and UCX says that it used its lane of devices. It makes no difference if the pools are
// registered in many pieces, of which a block lies in one.
func TestTransfersBetweenDevicesArriveWhole(t *testing.T) {
	for _, piece := range []string{"4294967296", "65536"} {
		t.Run("pieces of "+piece, func(t *testing.T) {
			fakes.Build(t).Use(t)
			t.Setenv(pieceVariable, piece)
			for _, d := range transfertest.Processes(t, "", transfertest.Arranged(peer)...) {
				transfertest.ArrivedWhole(t, d, vocab.LanePeer)
				require.Equal(t, "cuda_ipc", d.Measurement.Transport)
				require.Equal(t, "device", d.Measurement.CheckedBy)
				require.Equal(t, "nixl", d.Implementation.Name)
			}
		})
	}
}

// rdma is a case between the memory of a device of each of two nodes.
func rdma(c *plan.Case) {
	c.Backend, transfer.Of(c).Mode = "nixl", vocab.LaneRDMA
	c.Nodes, c.GPUsPerNode, c.RanksPerNode = 2, 1, 1
}

// mnnvl is such a case over NVLink.
func mnnvl(c *plan.Case) {
	rdma(c)
	transfer.Of(c).Mode = vocab.LaneMNNVL
}

// fabricVariable has the devices share memory with those of other hosts.
const fabricVariable = "CX_FAKE_FABRIC"

// Between two nodes, each rank drives the first device of its node. Every word arrives, over the
// adapters that the operator chose, or over NVLink.
func TestTransfersBetweenNodesArriveWhole(t *testing.T) {
	need.Full(t)
	for name, tc := range map[string]struct {
		change            func(*plan.Case)
		transport         string
		adapter, provider string
	}{
		vocab.LaneRDMA: {rdma, "rc", "mlx5_3:1", ""}, "EFA": {rdma, "srd", "rdmap86s0:1", "efa"}, vocab.LaneMNNVL: {mnnvl, "cuda_ipc", "mlx5_3:1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			fakes.Build(t).Use(t)
			t.Setenv("UCX_NET_DEVICES", tc.adapter)
			t.Setenv("FI_PROVIDER", tc.provider)
			t.Setenv(fabricVariable, "1")
			for _, d := range transfertest.Processes(t, "", transfertest.Arranged(tc.change)...) {
				transfertest.ArrivedWhole(t, d, d.Implementation.Fabric)
				require.Equal(t, tc.transport, d.Measurement.Transport)
				require.Equal(t, 2, d.Topology.Nodes)
			}
		})
	}
}

func TestFaultsBetweenNodesAreNamed(t *testing.T) {
	need.Full(t)
	fakes.Build(t).Use(t)
	transfertest.FaultsAreNamed(t, transfertest.Processes, rdma)
}

// What goes wrong between nodes is found.
func TestFailuresBetweenNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		change                          func(*plan.Case)
		variable, value, status, reason string
	}{
		"UCX falls back":           {rdma, "CX_FAKE_UCX_TRANSPORT", "tcp/eth0", result.Invalid, "check-failed: lane tcp instead of rdma"},
		"NVLink instead":           {rdma, "CX_FAKE_UCX_TRANSPORT", "cuda_ipc/cuda", result.Invalid, "check-failed: lane mnnvl instead of rdma"},
		"transports are chosen":    {rdma, "UCX_TLS", "rc,cuda_copy", result.Failed, "refused"},
		"transports of all nodes":  {rdma, "UCX_TLS", "rc", result.Success, ""},
		"UCX without its module":   {rdma, "CX_FAKE_UCX_NO_CUDA", "1", result.Failed, "library-error: nixl -2 (backend error)"},
		"a bit is flipped":         {rdma, "CX_FAKE_NIXL_FLIP", "5", result.Invalid, "check-failed: corrupted, 1 words"},
		"NVLink falls back":        {mnnvl, "CX_FAKE_UCX_TRANSPORT", "tcp/eth0", result.Invalid, "check-failed: lane tcp instead of mnnvl"},
		"no handles for NVLink":    {mnnvl, fabricVariable, "", result.Failed, "refused"},
		"no IMEX channel":          {mnnvl, fabricVariable, "no-channel", result.Failed, "device-error"},
		"too little of the fabric": {mnnvl, "CX_FAKE_FAIL", "cuMemCreate#1=2", result.Failed, "out-of-memory"},
	} {
		t.Run(name, func(t *testing.T) {
			fakes.Build(t).Use(t)
			t.Setenv(fabricVariable, "1")
			if t.Setenv(tc.variable, tc.value); tc.value == "" {
				require.NoError(t, os.Unsetenv(tc.variable))
			}
			d := transfertest.Processes(t, "", transfertest.Small(tc.change, transfertest.Few))[0]
			require.Equal(t, tc.status, d.Outcome.Status)
			require.Contains(t, d.Outcome.Reasons.String(), tc.reason)
		})
	}
}

// In each case of a warm group, rank 1 lets go of the pool before rank 0 deregisters and frees it.
// The library does not ask for it: it moves data of memory that is gone.
func TestThePeerLetsGoFirst(t *testing.T) {
	fakes.Build(t).Use(t)
	t.Setenv("CX_FAKE_NIXL_STRICT", "1")
	var cases []plan.Case
	for range 8 {
		cases = append(cases, transfertest.Small(peer, transfertest.Few))
	}
	for _, d := range transfertest.Processes(t, "", cases...) {
		require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
	}
}

func TestFaultsBetweenDevicesAreNamed(t *testing.T) {
	need.Full(t)
	fakes.Build(t).Use(t)
	transfertest.FaultsAreNamed(t, transfertest.Processes, peer)
}

// What goes wrong between devices is found: another transport than that of devices, a bit that
// the library flips, and what it and the driver refuse.
func TestFailuresBetweenDevices(t *testing.T) {
	for name, tc := range map[string]struct{ variable, value, status, reason string }{
		"UCX falls back":         {"CX_FAKE_UCX_TRANSPORT", "tcp/lo", result.Invalid, "check-failed: lane tcp instead of peer"},
		"a new transport":        {"CX_FAKE_UCX_TRANSPORT", "warp/0", result.Invalid, "check-failed: lane unknown instead of peer"},
		"a bit is flipped":       {"CX_FAKE_NIXL_FLIP", "5", result.Invalid, "check-failed: corrupted, 1 words"},
		"a request fails":        {"CX_FAKE_NIXL_FAIL", "5", result.Failed, "library-error: nixl -2 (backend error)"},
		"UCX without its module": {"CX_FAKE_UCX_NO_CUDA", "1", result.Failed, "library-error: nixl -2 (backend error)"},
		"too little memory":      {"CX_FAKE_FAIL", "cuMemAlloc_v2#1=2", result.Failed, "out-of-memory"},
		"no driver":              {"CX_CUDA_LIB", "/nowhere/libcuda.so.1", result.Failed, "library-missing"},
	} {
		t.Run(name, func(t *testing.T) {
			fakes.Build(t).Use(t)
			t.Setenv(tc.variable, tc.value)
			d := transfertest.Processes(t, "", transfertest.Small(peer, transfertest.Few))[0]
			require.Equal(t, tc.status, d.Outcome.Status)
			require.Contains(t, d.Outcome.Reasons.String(), tc.reason)
		})
	}
}

// A block ends where the memory of either side goes from one piece to the next.
func TestPieces(t *testing.T) {
	require.Equal(t, []runner.Block{
		{Local: 90, Remote: 130, Bytes: 10}, {Local: 100, Remote: 140, Bytes: 60}, {Local: 160, Remote: 200, Bytes: 40}, {Local: 200, Remote: 240, Bytes: 10},
	}, slices.Collect(pieces(runner.Block{Local: 90, Remote: 130, Bytes: 120}, 100)))
	whole := runner.Block{Local: 0, Remote: 200, Bytes: 100}
	require.Equal(t, []runner.Block{whole}, slices.Collect(pieces(whole, 100)))
	require.Equal(t, []runner.Block{whole}, slices.Collect(pieces(whole, math.MaxInt64)))
}
