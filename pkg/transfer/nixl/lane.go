package nixl

import (
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/laneenv"
	"github.com/collectivex/collectivex/pkg/memlog"
	"github.com/collectivex/collectivex/pkg/nixl"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// transports are the transports that UCX may use on a lane. Its cma and cuda_ipc need tcp to connect; rc
// connects by itself, and adapters of Mellanox also have dc. Memory of GPUs needs cuda_copy, without
// which NIXL creates no backend on a machine with GPUs.
var transports = map[string]string{
	vocab.LaneProcessVM: "cma,cuda_copy,tcp", vocab.LaneTCP: "cuda_copy,tcp", vocab.LanePeer: "cuda_ipc,cuda_copy,tcp",
	vocab.LaneRDMA: "rc,dc,cuda_copy", vocab.LaneMNNVL: "cuda_ipc,cuda_copy,tcp",
}

// overEFA are the transports of lane rdma on AWS's adapters, which have no others.
const overEFA = "srd,cuda_copy"

// transportsOf returns the transports that UCX may use on a lane of this machine.
func transportsOf(lane string) string {
	if lane == vocab.LaneRDMA && os.Getenv("FI_PROVIDER") == "efa" {
		return overEFA
	}
	return transports[lane]
}

// ofDevices are the lanes between the memory of GPUs.
var ofDevices = []string{vocab.LanePeer, vocab.LaneRDMA, vocab.LaneMNNVL}

// lanesOf maps the transports of UCX to lanes.
var lanesOf = map[string]string{
	"cma": vocab.LaneProcessVM, "tcp": vocab.LaneTCP, "cuda_ipc": vocab.LanePeer,
	"posix": vocab.LaneSharedMemory, "sysv": vocab.LaneSharedMemory, "xpmem": vocab.LaneSharedMemory,
}

// netDevices is the variable with the network devices that UCX may use. Between nodes the operator sets it.
const netDevices = "UCX_NET_DEVICES"

// configure restricts UCX, which is not loaded yet, to one lane, and makes it log its transports. It
// disables UCX's signal handlers.
func configure(lane string) (*memlog.Log, error) {
	decisive := laneenv.UCX
	settings := map[string]string{}
	if !vocab.BetweenNodes(lane) {
		decisive.Names = append(slices.Clone(decisive.Names), netDevices)
		settings[netDevices] = "lo"
	}
	if lane == vocab.LaneMNNVL {
		settings["UCX_CUDA_IPC_ENABLE_MNNVL"] = "y"
		// tcp, over which UCX connects, is not available on the operator's RDMA adapters.
		if err := os.Unsetenv(netDevices); err != nil {
			return nil, err
		}
	}
	if vocab.BetweenNodes(lane) && forHosts(os.Getenv("UCX_TLS")) {
		if err := os.Unsetenv("UCX_TLS"); err != nil {
			return nil, err
		}
	}
	if err := decisive.Check(); err != nil {
		return nil, rank.Refused("%v", err)
	}
	l, err := memlog.New("cxrun-ucx-log")
	if err != nil {
		return nil, err
	}
	maps.Copy(settings, map[string]string{
		"UCX_TLS": transportsOf(lane), "UCX_PROTO_INFO": "y", "UCX_LOG_FILE": l.Path(),
	})
	maps.Copy(settings, nixl.Quiet)
	for name, value := range settings {
		if err := os.Setenv(name, value); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, nil
}

// forHosts reports whether a value of UCX_TLS lists transports without any for memory of GPUs. Some clusters set such
// a list on all nodes, for other programs.
func forHosts(tls string) bool {
	return tls != "" && tls != "all" && !strings.HasPrefix(tls, "^") && !strings.Contains(tls, "cuda")
}

// lastError returns the last error that UCX logged, or "".
func lastError(log *memlog.Log) string {
	text, err := log.Text()
	if err != nil {
		return ""
	}
	found := ucxError.FindAllStringSubmatch(text, -1)
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1][1]
}

var (
	ucxError = regexp.MustCompile(`(?m) ERROR +(.*)$`)
	// sizeRange matches the first cell of a row of a table, such as 0..8184 or 8185..inf.
	sizeRange = regexp.MustCompile(`^\d+(\.\.(\d+|inf))?$`)
	// transport matches a transport with its device, such as tcp/lo or rc_mlx5/mlx5_0:1.
	transport = regexp.MustCompile(`([a-z][a-z0-9_]*)/`)
)

// calls maps operations to functions of UCX.
var calls = map[string]string{transfer.Pull: "ucp_get", transfer.Push: "ucp_put"}

// lanesIn returns the lanes of the operations between memory of GPUs, or between memory of hosts,
// according to UCX's log; unknown for an operation without an entry, or a transport without a lane.
//
// UCX writes tables of protocols. Each has a title with the two ends, one with the
// operation, and a row for each range of sizes, whose last cell has the transports:
//
//	| rank-1 intra-node cfg#1                                         |
//	| remote memory read by ucp_get*(multi) into host memory from host |
//	| Range  | Description |                  Config                   |
//	| 0..inf | zero-copy   | cma/memory                                |
//
// With GPUs, UCX also logs tables of unrequested operations, from memory of the host to both kinds and
// over tcp. Tables of operations between GPUs do not mention the host:
//
//	| remote memory read by ucp_get*(multi) into cuda/GPU1 from cuda/dev[2] |
func lanesIn(text string, ops []string, onDevices bool) (lanes runner.Lane) {
	ofHost := 2
	if onDevices {
		ofHost = 0
	}

	found := map[string][]string{} // by function of UCX
	peer, call := false, ""
	for line := range strings.Lines(text) {
		_, row, ok := strings.Cut(line, " | ")
		if !ok {
			continue
		}
		cells := strings.Split(strings.TrimRight(row, " |\n"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case len(cells) == 1 && strings.Contains(cells[0], " cfg#"):
			peer, call = !strings.Contains(cells[0], " self cfg#"), ""
		case len(cells) == 1:
			call = ""
			for _, c := range calls {
				if peer && strings.Contains(cells[0], c) && strings.Count(cells[0], "host") == ofHost {
					call = c
				}
			}
		case call != "" && sizeRange.MatchString(cells[0]):
			for _, m := range transport.FindAllStringSubmatch(cells[len(cells)-1], -1) {
				found[call] = append(found[call], m[1])
			}
		}
	}
	for _, op := range ops {
		used := found[calls[op]]
		if len(used) == 0 {
			lanes.Add(runner.Lane{Name: runner.UnknownLane})
		}
		for _, t := range used {
			lanes.Add(laneOf(t))
		}
	}
	return lanes
}

// laneOf returns the lane of a transport of UCX between processes of a host. It does not name a
// transport without one.
func laneOf(transport string) runner.Lane {
	if lane, ok := lanesOf[transport]; ok {
		return runner.Lane{Name: lane, Transport: transport}
	}
	switch prefix, _, _ := strings.Cut(transport, "_"); prefix {
	case "rc", "dc", "ud", "srd":
		return runner.Lane{Name: vocab.LaneRDMA, Transport: prefix}
	default:
		return runner.Lane{Name: runner.UnknownLane}
	}
}
