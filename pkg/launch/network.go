package launch

import (
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/operator"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/sysfs"
)

// network is the operator's choice of the network between nodes.
type network operator.Network

// Network returns the network that each node of the cell must have, zero for a cell of one node.
func (r Request) Network() operator.Network {
	if r.Cell.Nodes > 1 {
		return r.Operator.Network
	}
	return operator.Network{}
}

// NetworkEnv returns the variables that select the network for the ranks of c. For a case of
// one node, they unset the variables that ranks would inherit, but not the variables of the case; for
// one of several nodes over EFA, those that are for InfiniBand.
func (r Request) NetworkEnv(c plan.Case) map[string]string {
	env, unset := map[string]string{}, slices.Clone(networkVariables)
	if c.Nodes > 1 {
		n := network(r.Operator.Network)
		env = n.selection()
		if !n.efa() {
			return env
		}
		maps.DeleteFunc(env, func(name, _ string) bool { return !slices.Contains(efaVariables, name) })
		unset = append(unset, infinibandVariables...)
	}
	unset = slices.DeleteFunc(unset, func(name string) bool {
		_, planned := c.Env[name]
		_, selected := env[name]
		return planned || selected
	})
	env[UnsetVariable] = strings.Join(unset, ",")
	return env
}

// efaVariables are the variables of a selection that cases over EFA have.
var efaVariables = []string{"NCCL_CROSS_NIC", "NCCL_SOCKET_IFNAME", "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "UCX_NET_DEVICES"}

// infinibandVariables are variables of libraries for InfiniBand and RoCE that no operator value sets. Over
// EFA, NCCL and NVSHMEM must not have them.
var infinibandVariables = []string{
	"NCCL_IB_MERGE_NICS", "NVSHMEM_ENABLE_NIC_PE_MAPPING", "NVSHMEM_IBGDA_NIC_HANDLER", "NVSHMEM_IB_ENABLE_IBGDA",
}

// UnsetVariable lists the variables that a rank removes from its environment before it loads
// a library, joined by commas. Container images may set them, too.
const UnsetVariable = "CX_UNSET"

// Unset removes the variables that UnsetVariable lists from the environment of this process.
func Unset() error {
	list, set := os.LookupEnv(UnsetVariable)
	if !set {
		return nil
	}
	for name := range strings.SplitSeq(list, ",") {
		if err := os.Unsetenv(name); err != nil {
			return fmt.Errorf("%s: remove variable %q: %w", UnsetVariable, name, err)
		}
	}
	return nil
}

// networkVariables are all variables that a selection can have.
var networkVariables = slices.Sorted(maps.Keys(network{
	SocketInterface: "any", RDMADevices: []string{"any"}, GIDIndex: new(int), ServiceLevel: new(int), TrafficClass: new(int), RailIsolated: true,
}.selection()))

// selection returns the choice as variables. NCCL's are also RCCL's. With "=", NCCL matches whole names: mlx5_1 is not mlx5_10.
func (n network) selection() map[string]string {
	env := map[string]string{}
	set := func(value string, names ...string) {
		for _, name := range names {
			env[name] = value
		}
	}
	if n.SocketInterface != "" {
		set("="+n.SocketInterface, "NCCL_SOCKET_IFNAME", "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME")
		set(n.SocketInterface, "MORI_SOCKET_IFNAME", "UCCL_SOCKET_IFNAME")
	}
	if len(n.RDMADevices) > 0 {
		var names, ports []string
		for _, d := range n.RDMADevices {
			name, port, one := strings.Cut(d, ":")
			if !one {
				port = "1" // UCX takes no device without a port
			}
			names, ports = append(names, name), append(ports, name+":"+port)
		}
		set("="+strings.Join(n.RDMADevices, ","), "NCCL_IB_HCA", "UCCL_IB_HCA")
		set(strings.Join(n.RDMADevices, ","), "NVSHMEM_HCA_LIST")
		set(strings.Join(slices.Compact(names), ","), "MORI_RDMA_DEVICES")
		set(strings.Join(ports, ","), "UCX_NET_DEVICES")
		set(names[0], "EP_NIC_NAME") // DeepEP derives its number of SMs from the rate of one
	}
	number := func(value *int, names ...string) {
		if value != nil {
			set(strconv.Itoa(*value), names...)
		}
	}
	number(n.GIDIndex, "NCCL_IB_GID_INDEX", "NVSHMEM_IB_GID_INDEX", "UCCL_IB_GID_INDEX", "MORI_IB_GID_INDEX", "UCX_IB_GID_INDEX")
	number(n.ServiceLevel, "NCCL_IB_SL", "NVSHMEM_IB_SL", "UCCL_IB_SL", "MORI_RDMA_SL", "UCX_IB_SL", "EP_OVERRIDE_RDMA_SL")
	number(n.TrafficClass, "NCCL_IB_TC", "NVSHMEM_IB_TRAFFIC_CLASS", "UCCL_IB_TC", "MORI_RDMA_TC", "UCX_IB_TRAFFIC_CLASS")
	if n.RailIsolated {
		set("0", "NCCL_CROSS_NIC")
	}
	return env
}

// unusable describes what is wrong with a choice on a node, and how to fix it. It names operator
// values by their keys only, and may be published.
type unusable struct{ what, fix string }

func (u unusable) reason(node int) string {
	return fmt.Sprintf("%s on node %d, %s", u.what, node, u.fix)
}

// check returns the link layer of the chosen RDMA devices, empty without devices, or what is
// wrong with the choice on the machine with this root.
func (n network) check(root sysfs.Root) (layer string, wrong *unusable) {
	if n.SocketInterface != "" {
		const interfaces = "sys/class/net"
		switch state := root.Text(interfaces, n.SocketInterface, "operstate"); {
		case !root.Exists(interfaces, n.SocketInterface):
			return "", &unusable{"network.socket_interface does not exist", "name an interface that every node has"}
		case state != "up" && state != "unknown": // drivers without a carrier, such as the loopback's, report unknown
			return "", &unusable{"network.socket_interface is not up", "bring it up, or name the node in slurm.exclude"}
		}
	}
	switch {
	case n.GIDIndex != nil && len(n.RDMADevices) == 0:
		return "", &unusable{"network.gid_index has no devices", "name them as network.rdma_devices"}
	case n.efa() && (n.GIDIndex != nil || n.ServiceLevel != nil || n.TrafficClass != nil):
		return "", &unusable{"network.gid_index, service_level or traffic_class is set beside rdma_fabric efa", "leave it out"}
	}
	for i, d := range n.RDMADevices {
		this, wrong := n.checkDevice(root, d)
		switch key := fmt.Sprintf("network.rdma_devices %d", i+1); {
		case wrong != nil:
			wrong.what = key + " " + wrong.what
			return "", wrong
		case i > 0 && this != layer:
			return "", &unusable{key + " has another link layer than the first", "name only InfiniBand or only Ethernet devices"}
		}
		layer = this
	}
	return layer, nil
}

// noGID is an entry of a GID table that is not in use.
var noGID = regexp.MustCompile(`^[0:]*$`)

// noLinkLayer is the link layer of a port of EFA.
const noLinkLayer = "Unspecified"

func (n network) efa() bool { return n.RDMAFabric == operator.EFA }

// checkDevice checks a device: the named port must be active, or any port if none is named.
// The caller puts the key of the device before unusable.what.
func (n network) checkDevice(root sysfs.Root, device string) (layer string, wrong *unusable) {
	const adapters = "sys/class/infiniband"
	name, number, one := strings.Cut(device, ":")
	ports := []string{number}
	if !one {
		ports = root.List(adapters, name, "ports")
	}
	if !root.Exists(adapters, name) {
		return "", &unusable{"does not exist", "name devices that every node has"}
	}
	for _, p := range ports {
		port := path.Join(adapters, name, "ports", p)
		switch this := root.Text(port, "link_layer"); {
		case !strings.HasSuffix(root.Text(port, "state"), " ACTIVE"):
			continue
		case this == "":
			return "", &unusable{"has no link layer", "update its driver"}
		case n.efa() != (this == noLinkLayer):
			return "", &unusable{"does not fit network.rdma_fabric", "which is efa for adapters without a link layer"}
		case n.efa():
			layer = operator.EFA
		case layer != "" && this != layer:
			return "", &unusable{"has ports with different link layers", "name a port"}
		case n.GIDIndex != nil && noGID.MatchString(root.Text(port, "gids", strconv.Itoa(*n.GIDIndex))):
			return "", &unusable{"has no GID at network.gid_index", "show_gids lists those that it has"}
		default:
			layer = this
		}
	}
	if layer == "" {
		return "", &unusable{"has no active port", "bring the port up, or name the node in slurm.exclude"}
	}
	return layer, nil
}

// sameLayer returns an error unless the devices of all nodes have the same link layer.
func sameLayer(reports []report) error {
	for node, r := range reports {
		if r.LinkLayer != reports[0].LinkLayer {
			return unready(node, fmt.Sprintf("link layer of network.rdma_devices differs on node %d, name devices of one kind or exclude nodes", node),
				"network.rdma_devices are %s here and %s on node 0: name devices of one kind, or exclude nodes with slurm.exclude", r.LinkLayer, reports[0].LinkLayer)
		}
	}
	return nil
}
