package launch

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/operator"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sysfs"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// adapters is the sysfs of a node with an interface and two adapters.
func adapters() fstest.MapFS {
	files := fstest.MapFS{"sys/class/net/bond0/operstate": {Data: []byte("up\n")}}
	for _, a := range []string{"mlx5_0", "mlx5_1"} {
		dir := "sys/class/infiniband/" + a + "/ports/1/"
		files[dir+"state"] = &fstest.MapFile{Data: []byte("4: ACTIVE\n")}
		files[dir+"link_layer"] = &fstest.MapFile{Data: []byte("Ethernet\n")}
		files[dir+"gids/0"] = &fstest.MapFile{Data: []byte("0000:0000:0000:0000:0000:0000:0000:0000\n")}
		files[dir+"gids/3"] = &fstest.MapFile{Data: []byte("0000:0000:0000:0000:0000:ffff:0a01:0203\n")}
	}
	return files
}

// chosen is a choice that a node with these adapters can have.
func chosen() network {
	gid, level, class := 3, 0, 106
	return network{
		SocketInterface: "bond0", RDMADevices: []string{"mlx5_0:1", "mlx5_1"}, GIDIndex: &gid, ServiceLevel: &level, TrafficClass: &class, RailIsolated: true,
	}
}

func ofChosen() Request {
	return Request{Operator: operator.Platform{Network: operator.Network(chosen())}}
}

// A choice is checked on a node before ranks start. What is wrong can be published: it names
// keys, not devices.
func TestNetworkOfANode(t *testing.T) {
	layer, wrong := chosen().check(sysfs.Root{FS: adapters()})
	require.Nil(t, wrong)
	require.Equal(t, "Ethernet", layer)
	layer, wrong = network{}.check(sysfs.Root{FS: fstest.MapFS{}})
	require.Nil(t, wrong, "nothing was chosen")
	require.Empty(t, layer)

	const second = "sys/class/infiniband/mlx5_1/ports/1/"
	write := func(file, text string) func(fstest.MapFS, *network) {
		return func(f fstest.MapFS, _ *network) { f[file] = &fstest.MapFile{Data: []byte(text)} }
	}
	for what, change := range map[string]func(fstest.MapFS, *network){
		"network.socket_interface does not exist":                      func(_ fstest.MapFS, n *network) { n.SocketInterface = "bond1" },
		"network.socket_interface is not up":                           write("sys/class/net/bond0/operstate", "down\n"),
		"network.gid_index has no devices":                             func(_ fstest.MapFS, n *network) { n.RDMADevices = nil },
		"network.rdma_devices 1 does not exist":                        func(_ fstest.MapFS, n *network) { n.RDMADevices[0] = "mlx5_2:1" },
		"network.rdma_devices 1 has no active port":                    func(_ fstest.MapFS, n *network) { n.RDMADevices[0] = "mlx5_0:2" },
		"network.rdma_devices 2 has no active port":                    write(second+"state", "1: DOWN\n"),
		"network.rdma_devices 2 has no link layer":                     write(second+"link_layer", ""),
		"network.rdma_devices 2 has another link layer than the first": write(second+"link_layer", "InfiniBand\n"),
		"network.rdma_devices 1 has no GID at network.gid_index":       func(_ fstest.MapFS, n *network) { *n.GIDIndex = 0 },
		"network.rdma_devices 2 has no GID at network.gid_index":       func(f fstest.MapFS, _ *network) { delete(f, second+"gids/3") },
		"network.rdma_devices 2 has ports with different link layers": func(f fstest.MapFS, _ *network) {
			f["sys/class/infiniband/mlx5_1/ports/2/state"] = &fstest.MapFile{Data: []byte("4: ACTIVE\n")}
			f["sys/class/infiniband/mlx5_1/ports/2/link_layer"] = &fstest.MapFile{Data: []byte("InfiniBand\n")}
		},
	} {
		files, n := adapters(), chosen()
		change(files, &n)
		_, wrong := n.check(sysfs.Root{FS: files})
		require.NotNil(t, wrong, what)
		require.Equal(t, what, wrong.what)
		require.NotEmpty(t, result.ReasonEnvironment.With("%s", wrong.reason(4095)).Detail, "has the form of a reason")
		require.NotContains(t, wrong.reason(1), "mlx5")
	}
}

func TestNodesWithDifferentLinkLayers(t *testing.T) {
	require.NoError(t, sameLayer([]report{{LinkLayer: "Ethernet"}, {LinkLayer: "Ethernet"}}))
	err := sameLayer([]report{{LinkLayer: "Ethernet"}, {LinkLayer: "InfiniBand"}})
	unready := &Unready{}
	require.ErrorAs(t, err, &unready)
	require.ErrorContains(t, err, "node 1: network.rdma_devices are InfiniBand here and Ethernet on node 0")
	require.NotEmpty(t, result.ReasonEnvironment.With("%s", unready.Reason).Detail)
}

// Every node checks the choice in the step before the first rank, and the cell ends if one
// node cannot have it.
func TestANodeWithoutTheNetwork(t *testing.T) {
	s, tools := pool(t)
	s.Cell.Container, s.Operator.Network = vocab.NoContainer, operator.Network{SocketInterface: "nosuchinterface"}
	_, err := s.Allocate(t.Context())
	unready := &Unready{}
	require.ErrorAs(t, err, &unready)
	wording.Has(t, unready.Reason, "network.socket_interface … node 0")
	require.NotContains(t, err.Error(), "nosuchinterface")
	require.Len(t, tools.Called(t, "scancel"), 1)
}

// Ranks of several nodes have the choice, under the name that each library gives it.
func TestNetworkOfRanksOnSeveralNodes(t *testing.T) {
	c := plantest.EP(2)
	c.Nodes = 2
	env := ofChosen().NetworkEnv(c)
	require.Equal(t, map[string]string{
		"NCCL_SOCKET_IFNAME": "=bond0", "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME": "=bond0", "MORI_SOCKET_IFNAME": "bond0", "UCCL_SOCKET_IFNAME": "bond0",
		"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1", "UCCL_IB_HCA": "=mlx5_0:1,mlx5_1", "NVSHMEM_HCA_LIST": "mlx5_0:1,mlx5_1", "MORI_RDMA_DEVICES": "mlx5_0,mlx5_1",
		"UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1", "EP_NIC_NAME": "mlx5_0",
		"NCCL_IB_GID_INDEX": "3", "NVSHMEM_IB_GID_INDEX": "3", "UCCL_IB_GID_INDEX": "3", "MORI_IB_GID_INDEX": "3", "UCX_IB_GID_INDEX": "3",
		"NCCL_IB_SL": "0", "NVSHMEM_IB_SL": "0", "UCCL_IB_SL": "0", "MORI_RDMA_SL": "0", "UCX_IB_SL": "0", "EP_OVERRIDE_RDMA_SL": "0",
		"NCCL_IB_TC": "106", "NVSHMEM_IB_TRAFFIC_CLASS": "106", "UCCL_IB_TC": "106", "MORI_RDMA_TC": "106", "UCX_IB_TRAFFIC_CLASS": "106",
		"NCCL_CROSS_NIC": "0",
	}, env)
	require.Equal(t, networkVariables, slices.Sorted(maps.Keys(env)), "ranks of one node unset all of them")
	require.Empty(t, Request{}.NetworkEnv(c), "nothing is guessed")
}

// EFA's ports have no link layer and no GIDs. They are taken where the operator says so, and its ranks have no
// variable for InfiniBand, whether selected or inherited.
func TestNetworkOverEFA(t *testing.T) {
	files, port := adapters(), "sys/class/infiniband/mlx5_0/ports/1/"
	files[port+"link_layer"] = &fstest.MapFile{Data: []byte("Unspecified\n")}
	n := network{SocketInterface: "bond0", RDMADevices: []string{"mlx5_0"}, RDMAFabric: operator.EFA}
	layer, wrong := n.check(sysfs.Root{FS: files})
	require.Nil(t, wrong)
	require.Equal(t, "efa", layer)

	for what, change := range map[string]func(fstest.MapFS, *network){
		"network.rdma_devices 1 does not fit network.rdma_fabric":                         func(_ fstest.MapFS, n *network) { n.RDMAFabric = "" },
		"network.rdma_devices 2 does not fit network.rdma_fabric":                         func(_ fstest.MapFS, n *network) { n.RDMADevices = append(n.RDMADevices, "mlx5_1") },
		"network.rdma_devices 1 has no active port":                                       func(f fstest.MapFS, _ *network) { f[port+"state"] = &fstest.MapFile{Data: []byte("1: DOWN\n")} },
		"network.gid_index, service_level or traffic_class is set beside rdma_fabric efa": func(_ fstest.MapFS, n *network) { n.TrafficClass = new(int) },
	} {
		files, n := maps.Clone(files), n
		n.RDMADevices = slices.Clone(n.RDMADevices)
		change(files, &n)
		_, wrong := n.check(sysfs.Root{FS: files})
		require.NotNil(t, wrong, what)
		require.Equal(t, what, wrong.what)
		require.NotEmpty(t, result.ReasonEnvironment.With("%s", wrong.reason(4095)).Detail, "has the form of a reason")
	}

	c := plantest.EP(2)
	c.Nodes = 2
	env := Request{Operator: operator.Platform{Network: operator.Network(n)}}.NetworkEnv(c)
	unset := strings.Split(env[UnsetVariable], ",")
	delete(env, UnsetVariable)
	require.Equal(t, map[string]string{
		"NCCL_SOCKET_IFNAME": "=bond0", "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME": "=bond0", "UCX_NET_DEVICES": "mlx5_0:1",
	}, env)
	require.Subset(t, unset, []string{"NCCL_IB_HCA", "NCCL_IB_MERGE_NICS", "NVSHMEM_HCA_LIST", "NVSHMEM_IB_ENABLE_IBGDA", "UCCL_IB_HCA", "MORI_RDMA_DEVICES"})
	require.NotContains(t, unset, "NCCL_SOCKET_IFNAME")
}

// Ranks of one node have neither the choice nor what they would inherit of another one, but
// what their definitions say.
func TestNetworkOfRanksOnOneNode(t *testing.T) {
	c := plantest.EP(2)
	require.Equal(t, 1, c.Nodes)
	c.Env = map[string]string{"NCCL_IB_TC": "41"}
	env := ofChosen().NetworkEnv(c)
	require.Len(t, env, 1)
	for _, name := range networkVariables {
		t.Setenv(name, "inherited")
	}
	t.Setenv("NCCL_DEBUG", "WARN")
	t.Setenv(UnsetVariable, env[UnsetVariable])
	require.NoError(t, Unset())
	for _, name := range networkVariables {
		_, set := os.LookupEnv(name)
		require.Equal(t, name == "NCCL_IB_TC", set, name)
	}
	require.Equal(t, "WARN", os.Getenv("NCCL_DEBUG"))
}
