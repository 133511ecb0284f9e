package run

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/pystandin"
	"github.com/collectivex/collectivex/internal/slurmtest"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// A pool of nodes with a GPU each, and a transfer from one to another.
const (
	transferPlatform = `
vendor: nvidia
product: h200
arch: sm90
cpu: %s
gpus_per_node: 1
scale_up: {domain: 1, transport: nvlink, pace: {us: 1000, gbps: 0.5}}
scale_out: {pace: {us: 1000, gbps: 0.5}}
runner: slurm
launch: {launcher: slurm, container: none, requires: [slurm.partition, storage.stage]}
env: {NCCL_SOCKET_IFNAME: "=lo"}
backends:
  nixl: {transfer: [rdma]}
  mooncake: {transfer: [rdma]}
`
	transferSuite = `
platforms: [pair]
sampling: smoke
transfer:
  - {caches: [kv-tiny], backends: [nixl, mooncake], lanes: [rdma], isl: [256], page_tokens: [16], batches: [1, 4]}
`
)

// NIXL and Mooncake move a cache between the GPUs of two nodes that Slurm allocates. The libraries and the
// GPUs are stand-ins, and the nodes are this host.
func TestSlurmTransferBetweenNodes(t *testing.T) {
	need.Full(t)
	if !slurmtest.Start(t, 2) {
		return
	}
	pystandin.Use(t, "mooncake")
	t.Setenv("CX_STANDIN_HCAS", "mlx5_0")
	t.Setenv("CX_FAKE_NAME", "NVIDIA H200")
	m := planPair(t, fmt.Sprintf(transferPlatform, runtime.GOARCH), transferSuite)
	require.Len(t, m.Include, 2)
	for name, of := range map[string]struct{ backend, fault, want string }{
		"right words":    {"nixl", "", result.Success},
		"torn words":     {"nixl", "rank=1,kind=half-block", result.Invalid},
		"through Python": {"mooncake", "", result.Success},
	} {
		t.Run(name, func(t *testing.T) { // with an environment of its own
			c := slurmCellOf(t, m)
			code, stderr := c.run(t, "pair-"+of.backend+"-kv-rdma-n2", of.fault)
			require.Equal(t, map[bool]int{true: cli.ExitOK, false: cli.ExitFailed}[of.want == result.Success], code, stderr)
			files, err := filepath.Glob(filepath.Join(c.results, "*.json"))
			require.NoError(t, err)
			require.Len(t, files, 1)
			raw := readFile(t, files[0])
			var d transfer.Document
			require.NoError(t, json.Unmarshal(raw, &d))
			require.Equal(t, of.want, d.Outcome.Status, "%v", d.Outcome.Reasons)
			require.Equal(t, 2, d.Topology.Nodes)
			require.Equal(t, 1, d.Topology.RanksPerNode)
			require.Equal(t, vocab.LaneRDMA, d.Measurement.Lane)
			require.Equal(t, "device", d.Measurement.CheckedBy)
		})
	}
	gone(t)
}
