// Package catalog reads the definitions (suites, platforms, backends,
// workloads and sampling profiles) into typed values. Reading is strict: an
// unknown key, a wrong type, a dangling name or a contradiction is an error
// with its position, and all errors come at once.
package catalog

import "github.com/collectivex/collectivex/pkg/vocab"

// Catalog is a sound set of definitions.
type Catalog struct {
	Platforms []Platform // by SKU
	Backends  []Backend  // in the order of backends.yaml, which is the order of plans
	Workloads []Workload
	Routings  []Routing
	Sampling  []Sampling
	Suites    []Suite // by name
	Traffic   []Traffic
}

// Platform is one pool of equal machines.
type Platform struct {
	SKU string `yaml:",name"` // the file's name
	// Local marks the platform that stands for the machine at hand.
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
	Runner      string    `yaml:"runner,optional" in:"runner label"` // the SKU unless said
	// Environment is the GitHub environment that the platform's jobs run in, with
	// its rules on who approves them and from which branches.
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

// Pace is how fast one operation is taken to be when job timeouts are sized. It
// is cautious and no claim about the hardware.
type Pace struct {
	Micros float64 `yaml:"us" min:"1"`      // per operation, whatever its size
	GBps   float64 `yaml:"gbps" min:"0.01"` // per device, on top
}

// Fabric describes the network as surveyed.
type Fabric struct {
	NIC    string `yaml:"nic"`
	Switch string `yaml:"switch"`
}

// Launch says how ranks come to run on the platform, with the arguments that
// its machines need. What is private to a cluster is in Operator.
type Launch struct {
	Launcher  string   `yaml:"launcher" in:"launcher"`
	Container string   `yaml:"container" in:"container"`
	Salloc    []string `yaml:"salloc,optional"` // slurm: further arguments of the allocation
	Srun      []string `yaml:"srun,optional"`   // slurm: further arguments of each step
	Docker    []string `yaml:"docker,optional"` // docker: further arguments of run
	// Requires names the operator values without which nothing can start.
	Requires []string `yaml:"requires,optional" in:"operator key"`
}

// Var is an environment variable of the ranks.
type Var struct {
	Name  string `yaml:",name" in:"environment variable"`
	Value string `yaml:",value" in:"published text"`
}

// Support says what one backend runs on a platform.
type Support struct {
	Backend string `yaml:",name" in:"backend"`
	// EP lists EP degrees by mode.
	EP []Degrees `yaml:"ep,optional"`
	// Collective lists world sizes.
	Collective []int `yaml:"collective,optional" min:"1"`
	Env        []Var `yaml:"env,optional"` // for this backend on this platform
}

// Degrees are the EP degrees that run in one mode.
type Degrees struct {
	Mode    string `yaml:",name" in:"mode"`
	Degrees []int  `yaml:",value" min:"1"`
}

// Backend is one library, or the embedded host backend.
type Backend struct {
	Name         string   `yaml:",name"`
	Vendors      []string `yaml:"vendors" in:"vendor"`
	Maturity     string   `yaml:"maturity" in:"maturity"`
	SetupSeconds int      `yaml:"setup_seconds" min:"0" max:"86400"` // before a group's first case; sizes job timeouts
	// Retries gives a case that dies, hangs or meets an error of the library so
	// many further attempts.
	Retries    int                `yaml:"retries,optional" min:"0" max:"10"`
	Env        []Var              `yaml:"env,optional"`
	EP         *EPBackend         `yaml:"ep,optional"`
	Collective *CollectiveBackend `yaml:"collective,optional"`
}

// EPBackend is what a backend does of the EP family.
type EPBackend struct {
	Precisions []string `yaml:"precisions" in:"precision"`
	// OffPath lists precisions that run only when a filter names them.
	OffPath []string `yaml:"off_path,optional" in:"precision"`
	Modes   []EPMode `yaml:"modes"`
	// Contracts lists the timing contracts it can keep; layout-and-dispatch-v1 unless said.
	Contracts []string `yaml:"contracts,optional" in:"contract"`
	// Unsupported says why the backend does not run where a suite asks for it.
	Unsupported []Rule `yaml:"unsupported,optional"`
}

// EPMode is one mode of an EP backend.
type EPMode struct {
	Name string `yaml:",name" in:"mode"`
	// MaxTokens caps the ladder, in tokens per rank; 0 is no cap.
	MaxTokens int `yaml:"max_tokens,optional" min:"1"`
}

// Rule is the reason why a backend does not run. It covers every combination
// of platform, mode and degree that matches all it names.
type Rule struct {
	Vendors    []string `yaml:"vendors,optional" in:"vendor"`
	Transports []string `yaml:"transports,optional" in:"transport"` // of the scale-up domain
	Platforms  []string `yaml:"platforms,optional" in:"platform"`
	Scopes     []string `yaml:"scopes,optional" in:"scope"`
	Modes      []string `yaml:"modes,optional" in:"mode"`
	Degrees    []int    `yaml:"degrees,optional" min:"1"`
	Reason     string   `yaml:"reason"`
}

// CollectiveBackend is what a backend does of the collective family.
type CollectiveBackend struct {
	Ops           []string `yaml:"ops" in:"op"`
	DTypes        []string `yaml:"dtypes" in:"dtype"`
	RedOps        []string `yaml:"redops" in:"redop"`
	Modes         []string `yaml:"modes" in:"timing mode"`
	Registrations []string `yaml:"registrations" in:"registration"`
}

// Workload is the shape of an EP workload.
type Workload struct {
	Name    string   `yaml:",name"`
	Hidden  int      `yaml:"hidden" min:"32" max:"1048576"`
	TopK    int      `yaml:"topk" min:"1"`
	Experts int      `yaml:"experts" min:"1" max:"1048576"`
	Seed    uint64   `yaml:"seed"`
	Ladders []Ladder `yaml:"ladders"`
}

// Ladder lists tokens per rank of one phase, ascending.
type Ladder struct {
	Phase  string `yaml:",name" in:"phase"`
	Tokens []int  `yaml:",value" min:"1"`
}

// Routing names a rule by which tokens choose experts.
type Routing struct {
	Name        string `yaml:",name"`
	Description string `yaml:",value"`
}

// Sampling is a profile of sample counts.
type Sampling struct {
	Name       string             `yaml:",name"`
	EP         EPSampling         `yaml:"ep"`
	Collective CollectiveSampling `yaml:"collective"`
}

// EPSampling is the EP part of a profile; see plan.EPTiming.
type EPSampling struct {
	ItersPerTrial       int `yaml:"iters_per_trial" min:"1" max:"1000000"`
	TrialsPerPoint      int `yaml:"trials_per_point" min:"1" max:"1000000"`
	WarmupItersPerTrial int `yaml:"warmup_iters_per_trial" min:"1" max:"1000000"`
	ChainItersPerTrial  int `yaml:"chain_iters_per_trial" min:"1" max:"1000000"`
	ChainTrialsPerPoint int `yaml:"chain_trials_per_point" min:"1" max:"1000000"`
	ChainDrop           int `yaml:"chain_drop" min:"0" max:"1000000"`
}

// CollectiveSampling is the collective part of a profile; see plan.CollectiveTiming.
// Its graphs are launched once a window, and its groups have one operation.
type CollectiveSampling struct {
	Warmup     int `yaml:"warmup" min:"0" max:"1000000"`
	Iterations int `yaml:"iterations" min:"1" max:"1000000"`
	Trials     int `yaml:"trials" min:"1" max:"1000000"`
}

// Suite is a set of cases under one name.
type Suite struct {
	Name       string            `yaml:",name"` // the file's name
	Platforms  []string          `yaml:"platforms" in:"platform"`
	Sampling   string            `yaml:"sampling" in:"sampling"`
	Repeats    int               `yaml:"repeats,optional" min:"1" max:"1000"` // independent runs of each case; 1 unless said
	EP         []EPBlock         `yaml:"ep,optional"`
	Collective []CollectiveBlock `yaml:"collective,optional"`
}

// EPBlock asks for the product of its lists.
type EPBlock struct {
	Workload   string   `yaml:"workload" in:"workload"`
	Backends   []string `yaml:"backends" in:"backend"`
	Degrees    []int    `yaml:"degrees" min:"1"`
	Modes      []string `yaml:"modes" in:"mode"`
	Phases     []string `yaml:"phases" in:"phase"`
	Precisions []string `yaml:"precisions" in:"precision"`
	Routings   []string `yaml:"routings" in:"routing"`
	Contracts  []string `yaml:"contracts,optional" in:"contract"` // layout-and-dispatch-v1 unless said
	// Ladders stand in for the workload's.
	Ladders  []Ladder `yaml:"ladders,optional"`
	Sampling string   `yaml:"sampling,optional" in:"sampling"` // the suite's unless said
}

// CollectiveBlock asks for the product of its lists, at each world size that
// the platform has for the backend. It has either sizes or traffic.
type CollectiveBlock struct {
	Backends []string `yaml:"backends" in:"backend"`
	Ops      []string `yaml:"ops" in:"op"`
	DTypes   []string `yaml:"dtypes" in:"dtype"`
	RedOps   []string `yaml:"redops" in:"redop"` // for the operations that reduce
	Sizes    *Sizes   `yaml:"sizes,optional"`
	// Traffic is the file, below the definitions, with what an alltoallv moves; the
	// block runs at the world size that the file is of.
	Traffic       string   `yaml:"traffic,optional"`
	Placements    []string `yaml:"placements" in:"placement"`
	Modes         []string `yaml:"modes" in:"timing mode"`
	Buffers       []string `yaml:"buffers" in:"buffers"`
	Registrations []string `yaml:"registrations" in:"registration"`
	Sampling      string   `yaml:"sampling,optional" in:"sampling"` // the suite's unless said
}

// Sizes is a ladder of message sizes: From, From·Factor, … up to To.
type Sizes struct {
	From   Bytes `yaml:"from" min:"1"`
	To     Bytes `yaml:"to" min:"1"`
	Factor int   `yaml:"factor" min:"2"`
}

// List returns the sizes, ascending.
func (s Sizes) List() []int64 {
	var out []int64
	for n := int64(s.From); n <= int64(s.To); n *= int64(s.Factor) {
		out = append(out, n)
		if n > int64(s.To)/int64(s.Factor) {
			break
		}
	}
	return out
}

// Platform returns the platform of a SKU, or nil.
func (c *Catalog) Platform(sku string) *Platform {
	return find(c.Platforms, sku, func(p *Platform) string { return p.SKU })
}

// Backend returns the backend of that name, or nil.
func (c *Catalog) Backend(name string) *Backend {
	return find(c.Backends, name, func(b *Backend) string { return b.Name })
}

// Workload returns the workload of that name, or nil.
func (c *Catalog) Workload(name string) *Workload {
	return find(c.Workloads, name, func(w *Workload) string { return w.Name })
}

// SamplingProfile returns the profile of that name, or nil.
func (c *Catalog) SamplingProfile(name string) *Sampling {
	return find(c.Sampling, name, func(s *Sampling) string { return s.Name })
}

// Suite returns the suite of that name, or nil.
func (c *Catalog) Suite(name string) *Suite {
	return find(c.Suites, name, func(s *Suite) string { return s.Name })
}

// TrafficOf returns the traffic that a block names, or nil.
func (c *Catalog) TrafficOf(b *CollectiveBlock) *Traffic {
	return find(c.Traffic, b.Traffic, func(t *Traffic) string { return t.File })
}

// Support returns what the platform runs of a backend, or nil.
func (p *Platform) Support(backend string) *Support {
	return find(p.Backends, backend, func(s *Support) string { return s.Backend })
}

// Degrees returns the EP degrees that run in a mode.
func (s *Support) Degrees(mode string) []int {
	if d := find(s.EP, mode, func(d *Degrees) string { return d.Mode }); d != nil {
		return d.Degrees
	}
	return nil
}

// Mode returns the backend's mode of that name, or nil.
func (b *EPBackend) Mode(name string) *EPMode {
	return find(b.Modes, name, func(m *EPMode) string { return m.Name })
}

// Ladder returns the tokens per rank of a phase, or nil.
func (w *Workload) Ladder(phase string) []int { return ladder(w.Ladders, phase) }

// Ladder returns the tokens per rank of a phase of workload w, or nil.
func (b *EPBlock) Ladder(w *Workload, phase string) []int {
	if len(b.Ladders) > 0 {
		return ladder(b.Ladders, phase)
	}
	return w.Ladder(phase)
}

// mostAssignments is how many experts the tokens of one batch choose at most,
// each of their top-k, over all ranks. Every rank draws and holds them all, and so
// does who reads the ranks back: at eight bytes each this many take 512 MiB.
const mostAssignments = 1 << 26

// MostTokens is how many tokens a rank may have where each chooses topk experts and
// there are world ranks.
func MostTokens(world, topk int) int { return mostAssignments / world / topk }

func ladder(ls []Ladder, phase string) []int {
	if l := find(ls, phase, func(l *Ladder) string { return l.Phase }); l != nil {
		return l.Tokens
	}
	return nil
}

// Scope says whether world ranks of the platform stay in one scale-up domain.
func (p *Platform) Scope(world int) string {
	if world > p.ScaleUp.Domain {
		return vocab.ScopeOut
	}
	return vocab.ScopeUp
}

// Nodes returns how many nodes world ranks take, packed.
func (p *Platform) Nodes(world int) int { return max(1, world/p.GPUsPerNode) }

// Names returns the name of each element, in order.
func Names[T any](list []T, name func(*T) string) []string {
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
