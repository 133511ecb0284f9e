// Package catalog reads the definitions (suites, platforms, backends,
// workloads and sampling profiles) into typed values. Reading is strict: an
// unknown key, a wrong type, a dangling name or a contradiction is an error
// with its position, and all errors come at once.
package catalog

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/vocab"
)

// Catalog is a valid set of definitions.
type Catalog struct {
	Platforms []Platform       // by SKU
	Backends  []Backend        // in the order of backends.yaml, which is the order of plans
	Lists     map[string][]any // by kind: pointers to slices of the type of List.Of
	Sampling  []Sampling
	Suites    []Suite // by name
	// Capabilities are the named sets of capabilities, by name.
	Capabilities []Capabilities

	asked map[string][]string // words that suites use, by kind
}

// Platform is one pool of equal machines.
type Platform struct {
	SKU string `yaml:",name"` // the file's name
	// Local marks the platform that represents the current machine.
	Local       bool      `yaml:"local,optional"`
	Vendor      string    `yaml:"vendor" in:"vendor"`
	Product     string    `yaml:"product" in:"published text"` // name used in topology classes
	Arch        string    `yaml:"arch" in:"published text"`    // of the device: sm90, gfx942
	CPU         string    `yaml:"cpu" in:"cpu"`
	Image       string    `yaml:"image,optional" in:"published text"` // container image with the vendor's libraries
	GPUsPerNode int       `yaml:"gpus_per_node" min:"1"`
	ScaleUp     ScaleUp   `yaml:"scale_up"`
	ScaleOut    *ScaleOut `yaml:"scale_out,optional"` // absent: no RDMA between scale-up domains
	Fabric      *Fabric   `yaml:"fabric,optional"`
	Runner      string    `yaml:"runner,optional" in:"runner label"` // default: the SKU
	// Environment is the GitHub environment of the platform's jobs, with its rules on approvals and
	// branches.
	Environment string    `yaml:"environment,optional" in:"environment name"`
	Launch      Launch    `yaml:"launch"`
	Env         []Var     `yaml:"env,optional"` // for every case
	Backends    []Support `yaml:"backends"`
}

// ScaleUp is the fabric inside one scale-up domain.
type ScaleUp struct {
	Domain    int    `yaml:"domain" min:"1"` // devices
	Transport string `yaml:"transport" in:"transport"`
	Pace      Pace   `yaml:"pace"`
}

// ScaleOut is the RDMA fabric between scale-up domains.
type ScaleOut struct {
	Pace     Pace     `yaml:"pace"`
	Requires []string `yaml:"requires,optional" in:"operator key"` // on top of Launch's
	Env      []Var    `yaml:"env,optional"`                        // for cases that use it
}

// Pace is the assumed speed of one operation, from which job timeouts are computed. It is cautious, not
// a claim about the hardware.
type Pace struct {
	Micros float64 `yaml:"us" min:"1"`      // per operation, of any size
	GBps   float64 `yaml:"gbps" min:"0.01"` // per device, in addition
}

// Fabric describes the network as surveyed.
type Fabric struct {
	NIC    string `yaml:"nic"`
	Switch string `yaml:"switch"`
}

// Launch describes how ranks are started on the platform, with the arguments that its machines need.
// Values private to a cluster are in Operator.
type Launch struct {
	Launcher  string   `yaml:"launcher" in:"launcher"`
	Container string   `yaml:"container" in:"container"`
	Salloc    []string `yaml:"salloc,optional"` // slurm: further arguments of the allocation
	Srun      []string `yaml:"srun,optional"`   // slurm: further arguments of each step
	Docker    []string `yaml:"docker,optional"` // docker: further arguments of run
	// Store is where the ranks and the shard exchange data: in files, the default, or over tcp, for
	// nodes that reach the shard's host.
	Store string `yaml:"store,optional" in:"store"`
	// TaskPer is the unit of a task of a slurm step: node (the task starts the ranks of the node) or
	// rank, the default.
	TaskPer string `yaml:"task_per,optional" in:"task"`
	// QueueMinutes is the longest wait for an allocation of slurm; the default is the
	// planner's.
	QueueMinutes int `yaml:"queue_minutes,optional" min:"1" max:"1440"`
	// Requires names the operator values without which nothing can start.
	Requires []string `yaml:"requires,optional" in:"operator key"`
}

// Var is an environment variable of the ranks.
type Var struct {
	Name  string `yaml:",name" in:"environment variable"`
	Value string `yaml:",value" in:"published text"`
}

// Support lists what a platform runs of one backend.
type Support struct {
	Backend string                  `yaml:",name" in:"backend"`
	Blocks  map[string]SupportBlock `yaml:",blocks,optional"` // by family
	Env     []Var                   `yaml:"env,optional"`     // for this backend on this platform
	// Image is the container image for this backend; default: the platform's.
	Image string `yaml:"image,optional" in:"published text"`
}

// Backend is one library, or the embedded host backend.
type Backend struct {
	Name         string   `yaml:",name"`
	Vendors      []string `yaml:"vendors" in:"vendor"`
	Maturity     string   `yaml:"maturity" in:"maturity"`
	SetupSeconds int      `yaml:"setup_seconds" min:"0" max:"86400"` // before a group's first case; sizes job timeouts
	// Retries is the number of further attempts of a case that dies, hangs or meets an error of the
	// library.
	Retries int   `yaml:"retries,optional" min:"0" max:"10"`
	Env     []Var `yaml:"env,optional"`
	// Unset lists variables of platforms that cases of the backend do not have.
	Unset []string `yaml:"unset,optional" in:"environment variable"`
	// OwnAdapters: the library finds RDMA adapters by itself, and its cells need no network.rdma_devices.
	OwnAdapters bool                    `yaml:"own_adapters,optional"`
	Blocks      map[string]BackendBlock `yaml:",blocks,optional"` // by family
}

// OnGPUs reports whether the backend runs on GPUs, whether or not it also runs on a host.
func (b *Backend) OnGPUs() bool {
	return slices.ContainsFunc(b.Vendors, func(vendor string) bool { return vendor != vocab.Host })
}

// Sampling is a profile of sample counts.
type Sampling struct {
	Name   string                   `yaml:",name"`
	Blocks map[string]SamplingBlock `yaml:",blocks"` // by family
}

// Suite is a set of cases under one name.
type Suite struct {
	Name      string   `yaml:",name"` // the file's name
	Platforms []string `yaml:"platforms" in:"platform"`
	Sampling  string   `yaml:"sampling" in:"sampling"`
	Repeats   int      `yaml:"repeats" min:"1" max:"1000" default:"1"` // independent runs of each case
	// Capabilities is the selected set of capabilities; empty: the blocks of the backends and platforms
	// themselves.
	Capabilities string                  `yaml:"capabilities,optional" in:"capability set"`
	Blocks       map[string][]SuiteBlock `yaml:",blocks,optional"` // by family
}

// Platform returns the platform of a SKU, or nil.
func (c *Catalog) Platform(sku string) *Platform {
	return find(c.Platforms, sku, func(p *Platform) string { return p.SKU })
}

// Backend returns the backend of that name, or nil.
func (c *Catalog) Backend(name string) *Backend {
	return find(c.Backends, name, func(b *Backend) string { return b.Name })
}

// SamplingProfile returns the profile of that name, or nil.
func (c *Catalog) SamplingProfile(name string) *Sampling {
	return find(c.Sampling, name, func(s *Sampling) string { return s.Name })
}

// Suite returns the suite of that name, or nil.
func (c *Catalog) Suite(name string) *Suite {
	return find(c.Suites, name, func(s *Suite) string { return s.Name })
}

// Support returns the platform's support for a backend, or nil.
func (p *Platform) Support(backend string) *Support {
	return find(p.Backends, backend, func(s *Support) string { return s.Backend })
}

// ImageFor returns the container image in which the platform runs a backend, or "".
func (p *Platform) ImageFor(backend string) string {
	if s := p.Support(backend); s != nil && s.Image != "" {
		return s.Image
	}
	return p.Image
}

// Scope returns whether world ranks of the platform stay in one scale-up domain.
func (p *Platform) Scope(world int) string {
	if world > p.ScaleUp.Domain {
		return vocab.ScopeOut
	}
	return vocab.ScopeUp
}

// Nodes returns how many nodes world ranks need, packed.
func (p *Platform) Nodes(world int) int { return max(1, world/p.GPUsPerNode) }

// namesOf returns the name of each element, in order.
func namesOf[T any](list []T, name func(*T) string) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = name(&list[i])
	}
	return out
}

func find[T any](list []T, name string, key func(*T) string) *T {
	for i := range list {
		if key(&list[i]) == name {
			return &list[i]
		}
	}
	return nil
}
