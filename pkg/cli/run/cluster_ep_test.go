package run

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/pystandin"
	"github.com/collectivex/collectivex/internal/slurmtest"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/result"
)

// A pool of nodes with a GPU each, in scale-up domains of their own, and a dispatch between two.
const (
	domainsPlatform = `
vendor: nvidia
product: h200
arch: sm90
cpu: %s
gpus_per_node: 1
scale_up: {domain: 1, transport: nvlink, pace: {us: 1000, gbps: 0.5}}
scale_out: {pace: {us: 1000, gbps: 0.5}, env: {NCCL_NET: IB, NCCL_IB_MERGE_NICS: "0"}}
runner: slurm
launch: {launcher: slurm, container: none, requires: [slurm.partition, storage.stage]}
backends:
  deepep-v2: {ep: {normal: [2]}}
`
	domainsSuite = `
platforms: [pair]
sampling: smoke
ep:
  - {workload: tiny, backends: [deepep-v2], degrees: [2], modes: [normal], phases: [decode], precisions: [bf16], routings: [uniform]}
`
)

// DeepEP dispatches between nodes that Slurm allocates, in hybrid mode. It and the GPUs are stand-ins,
// and the nodes are this host.
func TestSlurmExpertsBetweenNodes(t *testing.T) {
	need.Full(t)
	if !slurmtest.Start(t, 2) {
		return
	}
	pystandin.Use(t, "deep_ep-2")
	t.Setenv("CX_STANDIN_PEERS", "1")
	t.Setenv("CX_FAKE_NAME", "NVIDIA H200")
	m := planPair(t, fmt.Sprintf(domainsPlatform, runtime.GOARCH), domainsSuite)
	require.Len(t, m.Include, 1)
	c := slurmCellOf(t, m)
	code, stderr := c.run(t, m.Include[0].ID, "")
	require.Equal(t, cli.ExitOK, code, stderr)
	d := c.documents(t)["ep"]
	require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
	require.Equal(t, 2, d.Topology.Nodes)
	require.Equal(t, "v2-elastic-buffer-nosync", d.Implementation.KernelGeneration)
	gone(t)
}
