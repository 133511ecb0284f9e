package catalog

import "slices"

// Operator is what is private to a cluster: how its scheduler, storage and
// network are called. It lives in a file on the runner, outside any
// repository, and is read by cxrun alone. Nothing of it may be published.
type Operator struct {
	Platforms []OperatorPlatform `yaml:"platforms"`
}

// OperatorPlatform is the private part of one platform.
type OperatorPlatform struct {
	SKU     string          `yaml:",name"`
	Slurm   OperatorSlurm   `yaml:"slurm,optional"`
	Storage OperatorStorage `yaml:"storage,optional"`
	Network OperatorNetwork `yaml:"network,optional"`
	Docker  OperatorDocker  `yaml:"docker,optional"`
	Env     []Var           `yaml:"env,optional"`
}

// OperatorSlurm is where an allocation may land.
type OperatorSlurm struct {
	Partition string   `yaml:"partition,optional"`
	Account   string   `yaml:"account,optional"`
	QOS       string   `yaml:"qos,optional"`
	Nodes     []string `yaml:"nodes,optional"`   // pin to these
	Exclude   []string `yaml:"exclude,optional"` // never these
}

// OperatorStorage is directories, as absolute paths.
type OperatorStorage struct {
	Images      string `yaml:"images,optional" in:"absolute path"` // container images as files
	Stage       string `yaml:"stage,optional" in:"absolute path"`  // seen by the runner and by compute nodes
	Locks       string `yaml:"locks,optional" in:"absolute path"`
	EnrootCache string `yaml:"enroot_cache,optional" in:"absolute path"`
}

// OperatorNetwork selects the scale-out network.
type OperatorNetwork struct {
	// StoreAddress is the address of the shard's host that nodes reach, where platforms have
	// the store over TCP.
	StoreAddress    string   `yaml:"store_address,optional" in:"host address"`
	SocketInterface string   `yaml:"socket_interface,optional" in:"network interface"`
	RDMADevices     []string `yaml:"rdma_devices,optional" in:"rdma device"` // name or name:port
	GIDIndex        *int     `yaml:"gid_index,optional" min:"0" max:"255"`
	ServiceLevel    *int     `yaml:"service_level,optional" min:"0" max:"15"`
	TrafficClass    *int     `yaml:"traffic_class,optional" min:"0" max:"255"`
	RailIsolated    bool     `yaml:"rail_isolated,optional"` // no routing between rails
}

// OperatorDocker is how the runner's account may call docker.
type OperatorDocker struct {
	Command []string `yaml:"command,optional"` // docker unless said; may be sudo docker
}

// StoreAddressKey is the operator value that a store over TCP needs.
const StoreAddressKey = "network.store_address"

// OperatorKeys lists the operator values that a platform can require.
func OperatorKeys() []string {
	return []string{"slurm.partition", "slurm.account", "storage.images", "storage.stage", "storage.enroot_cache", "network.rdma_devices", StoreAddressKey}
}

// Missing returns those of keys that p has no value for. p may be nil.
func (p *OperatorPlatform) Missing(keys []string) []string {
	if p == nil {
		return keys
	}
	has := map[string]bool{
		"slurm.partition":      p.Slurm.Partition != "",
		"slurm.account":        p.Slurm.Account != "",
		"storage.images":       p.Storage.Images != "",
		"storage.stage":        p.Storage.Stage != "",
		"storage.enroot_cache": p.Storage.EnrootCache != "",
		"network.rdma_devices": len(p.Network.RDMADevices) > 0,
		StoreAddressKey:        p.Network.StoreAddress != "",
	}
	return slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return has[k] })
}

// Platform returns the private part of a platform, or nil.
func (o *Operator) Platform(sku string) *OperatorPlatform {
	return find(o.Platforms, sku, func(p *OperatorPlatform) string { return p.SKU })
}

// ParseOperator reads an operator file as strictly as the definitions. It may list
// platforms that no definitions at hand have: one file serves a fleet. Errors name places
// in file and no values.
func ParseOperator(file string, data []byte) (*Operator, error) {
	var out Operator
	d := newDecoder()
	d.private = true
	d.document(parse(file, data), &out)
	if err := d.err(); err != nil {
		return nil, err
	}
	return &out, nil
}
