// Package operator defines the operator values, which are private to a cluster, such as the names
// of its partitions, directories and network devices. They are in a file on the runner, outside
// any repository, which catalog.ParseOperator reads. They must not be published.
package operator

import (
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/vocab"
)

// Values are the operator values of a fleet.
type Values struct {
	Platforms []Platform `yaml:"platforms"`
}

// Platform is the operator values of one platform. The zero Platform has none.
type Platform struct {
	SKU     string  `yaml:",name"`
	Slurm   Slurm   `yaml:"slurm,optional"`
	Storage Storage `yaml:"storage,optional"`
	Network Network `yaml:"network,optional"`
	Docker  Docker  `yaml:"docker,optional"`
}

// Slurm selects the partition and nodes of an allocation.
type Slurm struct {
	Partition string   `yaml:"partition,optional"`
	Account   string   `yaml:"account,optional"`
	QOS       string   `yaml:"qos,optional"`
	Nodes     []string `yaml:"nodes,optional"`   // pin to these
	Exclude   []string `yaml:"exclude,optional"` // never these
}

// Storage holds directories, as absolute paths.
type Storage struct {
	Images      string `yaml:"images,optional" in:"absolute path"` // container images as files
	Stage       string `yaml:"stage,optional" in:"absolute path"`  // seen by the runner and by compute nodes
	Locks       string `yaml:"locks,optional" in:"absolute path"`
	EnrootCache string `yaml:"enroot_cache,optional" in:"absolute path"`
}

// Network selects the network between nodes. The zero Network leaves the choice to the
// libraries.
type Network struct {
	// StoreAddress is the address of the shard's host that nodes reach, where platforms have
	// the store over TCP.
	StoreAddress    string   `yaml:"store_address,optional" in:"host address"`
	SocketInterface string   `yaml:"socket_interface,optional" in:"network interface"`
	RDMADevices     []string `yaml:"rdma_devices,optional" in:"rdma device"` // name or name:port
	RDMAFabric      string   `yaml:"rdma_fabric,optional" in:"rdma fabric"`  // EFA, else InfiniBand or RoCE
	GIDIndex        *int     `yaml:"gid_index,optional" min:"0" max:"255"`
	ServiceLevel    *int     `yaml:"service_level,optional" min:"0" max:"15"`
	TrafficClass    *int     `yaml:"traffic_class,optional" min:"0" max:"255"`
	RailIsolated    bool     `yaml:"rail_isolated,optional"` // no routing between rails
}

// Docker is how the runner's account calls docker.
type Docker struct {
	Command []string `yaml:"command,optional"` // default: docker; may be sudo docker
}

// EFA is the RDMA fabric of AWS's adapters. Its ports have neither a link layer nor GIDs.
const EFA = "efa"

// StoreAddressKey is the key of the value that a store over TCP needs.
const StoreAddressKey = "network.store_address"

// RDMADevicesKey is the key of the adapters between nodes.
const RDMADevicesKey = "network.rdma_devices"

// Keys lists the values that a platform can require.
func Keys() []string {
	return []string{"slurm.partition", "slurm.account", "storage.images", "storage.stage", "storage.enroot_cache", RDMADevicesKey, "network.rdma_fabric", StoreAddressKey}
}

// Needs lists the values without which no rank can start under a launcher and a container runtime.
func Needs(launcher, container string) []string {
	var keys []string
	if launcher == vocab.Slurm {
		keys = append(keys, "storage.stage")
	}
	if container == vocab.Pyxis {
		keys = append(keys, "storage.images")
	}
	return keys
}

// Missing returns the keys that p has no value for.
func (p Platform) Missing(keys []string) []string {
	has := map[string]bool{
		"slurm.partition":      p.Slurm.Partition != "",
		"slurm.account":        p.Slurm.Account != "",
		"storage.images":       p.Storage.Images != "",
		"storage.stage":        p.Storage.Stage != "",
		"storage.enroot_cache": p.Storage.EnrootCache != "",
		RDMADevicesKey:         len(p.Network.RDMADevices) > 0,
		"network.rdma_fabric":  p.Network.RDMAFabric != "",
		StoreAddressKey:        p.Network.StoreAddress != "",
	}
	return slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return has[k] })
}

// Platform returns the values of a platform, the zero Platform if there are none.
func (v Values) Platform(sku string) Platform {
	for _, p := range v.Platforms {
		if p.SKU == sku {
			return p
		}
	}
	return Platform{}
}

// Hide replaces the values of s in a text by their keys.
func (s Slurm) Hide(text string) string {
	text = hide(text, "slurm.nodes", s.Nodes...)
	text = hide(text, "slurm.exclude", s.Exclude...)
	text = hide(text, "slurm.partition", s.Partition)
	text = hide(text, "slurm.account", s.Account)
	return hide(text, "slurm.qos", s.QOS)
}

// Hide replaces the directories of s in a text by their keys.
func (s Storage) Hide(text string) string {
	text = hide(text, "storage.images", s.Images)
	text = hide(text, "storage.enroot_cache", s.EnrootCache)
	text = hide(text, "storage.locks", s.Locks)
	return hide(text, "storage.stage", s.Stage)
}

// HideIn returns an error that wraps err and has its text without the directories of s, and without own, a
// directory in storage.stage whose name has the host's; nil for nil.
func (s Storage) HideIn(err error, own string) error {
	if err == nil {
		return nil
	}
	return &hidden{err, s.Hide(hide(err.Error(), "storage.stage", own))}
}

type hidden struct {
	err  error
	text string
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.err }

func hide(text, key string, values ...string) string {
	for _, v := range values {
		if v != "" {
			text = strings.ReplaceAll(text, v, "<"+key+">")
		}
	}
	return text
}
