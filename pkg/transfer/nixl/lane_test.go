package nixl

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/nixl"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// table is what UCX writes of one operation between two ends: a title, the operation, and
// sizes with their transports.
func table(ends, operation string, rows ...string) string {
	const stamp = "[1795413532.026915] [host:32202:1]   "
	lines := []string{"+---+---+---+", "| r1 " + ends + " cfg#1     |", "| " + operation + "   |", "+---+---+---+", "| Range  | Description |  Config |"}
	lines = append(append(lines, rows...), "+---+---+---+")
	return stamp + strings.Join(lines, "\n"+stamp) + "\n"
}

const (
	read  = "remote memory read by ucp_get*(multi) into host memory from host"
	write = "remote memory write by ucp_put*(multi) from host memory to host"
	// Between GPUs, and what UCX makes tables of besides.
	readGPU  = "remote memory read by ucp_get*(multi) into cuda/GPU1 from cuda/dev[2]"
	writeGPU = "remote memory write by ucp_put*(multi) from cuda/GPU1 to cuda/dev[2]"
	toGPU    = "remote memory write by ucp_put* from host memory to cuda/dev[3]"
	am       = "active message by ucp_am_send* from host memory"
)

// The lanes are those of the tables of the operations that ran, between the two processes.
func TestLanesFromUCX(t *testing.T) {
	cma, tcp := "| 0..inf | zero-copy | cma/memory |", "| 0..inf | zero-copy | tcp/lo |"
	for name, tc := range map[string]struct {
		text, lane, transport string
		ops                   []string
	}{
		"cma":                    {table("intra-node", read, cma) + table("intra-node", am, tcp) + table("intra-node", write, cma), vocab.LaneProcessVM, "cma", transfer.Ops()},
		"tcp":                    {table("self", read, cma) + table("inter-node", read, tcp), vocab.LaneTCP, "tcp", []string{transfer.Pull}},
		"the other operation":    {table("intra-node", read, cma) + table("intra-node", write, tcp), vocab.LaneTCP, "tcp", []string{transfer.Push}},
		"one each":               {table("intra-node", read, cma) + table("intra-node", write, tcp), "tcp+vm", "cma+tcp", transfer.Ops()},
		"small ones another way": {table("intra-node", write, "| 0..92 | short | posix/memory |", "| 93..inf | zero-copy | cma/memory |"), "shm+vm", "cma+posix", []string{transfer.Push}},
		"two rails":              {table("inter-node", write, "| 8000..inf | zero-copy | 50% on rc_mlx5/mlx5_0:1 and 50% on dc_mlx5/mlx5_1:1 |"), vocab.LaneRDMA, "dc+rc", []string{transfer.Push}},
		"a new transport":        {table("intra-node", read, "| 0..inf | zero-copy | warp/0 |"), runner.UnknownLane, "", []string{transfer.Pull}},
		"no table":               {table("intra-node", write, cma), "unknown+vm", "cma", transfer.Ops()},
		"nothing":                {"", runner.UnknownLane, "", []string{transfer.Pull}},
	} {
		require.Equal(t, runner.Lane{Name: tc.lane, Transport: tc.transport}, lanesIn(tc.text, tc.ops, false), name)
	}

	ipc := "| 0..inf | zero-copy | cuda_ipc/cuda |"
	besides := table("intra-node", write, tcp) + table("intra-node", toGPU, "| 0..inf | software emulation | tcp/lo |")
	for name, tc := range map[string]struct{ text, lane, transport string }{
		"between GPUs":     {besides + table("intra-node", readGPU, ipc) + table("intra-node", writeGPU, ipc), vocab.LanePeer, "cuda_ipc"},
		"a lane that went": {besides + table("intra-node", readGPU, ipc) + table("intra-node", writeGPU, tcp), "peer+tcp", "cuda_ipc+tcp"},
		"the host's alone": {besides, runner.UnknownLane, ""},
	} {
		require.Equal(t, runner.Lane{Name: tc.lane, Transport: tc.transport}, lanesIn(tc.text, transfer.Ops(), true), name)
	}
}

// A machine with GPUs has the lanes of its host, too: NIXL refuses transports of UCX there among
// which is none for the memory of GPUs.
func TestEveryLaneHasABackendBesideGPUs(t *testing.T) {
	fakes.Build(t).UseWithoutKernels(t)
	library, err := nixl.Open(t.Context())
	require.NoError(t, err)
	for lane, tls := range transports {
		t.Setenv("UCX_TLS", tls)
		agent, err := library.NewAgent("a", false)
		require.NoError(t, err, lane)
		require.NoError(t, agent.Close())
	}
	t.Setenv("UCX_TLS", "cma,tcp")
	_, err = library.NewAgent("a", false)
	require.ErrorContains(t, err, "nixl_capi_create_backend: backend error (-2)")
}
