// Package plan is the contract between those who plan and those who measure: the
// case, the cell, the matrix, and their files. It knows no definitions, so ranks can
// import it; package planner makes its values.
package plan

import "github.com/collectivex/collectivex/pkg/vocab"

// MatrixVersion is the version every matrix and every document carries.
// Readers accept 1 only, so it never changes.
const MatrixVersion = 1

// Format numbers the layout of the matrix file. A cell refuses a matrix of
// another format.
const Format = 1

// Family names a kind of measurement. A family owns its block of a Case, its
// rows and its record type.
type Family string

// The families.
const (
	FamilyEP         Family = "ep"
	FamilyCollective Family = "collective"
)

// Timing contracts: what the clock covers.
const (
	ContractLayout       = vocab.ContractLayout
	ContractCachedLayout = vocab.ContractCachedLayout
	// ContractOp: the collective operation alone, from its enqueueing to its completion.
	ContractOp = "op-only-v1"
)

// Case is one measurement as it was asked for. It is made once, by Resolve,
// and travels unchanged to the document that answers it: nothing downstream
// defaults, repairs or re-derives a field.
//
// The common fields stand here; the block of the case's family is embedded, so
// that a case is one flat JSON object, as existing readers expect. Exactly one
// block is non-nil.
type Case struct {
	CaseID      string `json:"case_id"` // see ID
	SKU         string `json:"sku"`
	Family      Family `json:"family"`
	Suite       string `json:"suite"`
	Backend     string `json:"backend"`
	World       int    `json:"world"` // ranks; one rank drives one device
	Nodes       int    `json:"nodes"`
	GPUsPerNode int    `json:"gpus_per_node"` // as the platform has them
	// RanksPerNode is World / Nodes.
	RanksPerNode int    `json:"ranks_per_node"`
	Precision    string `json:"precision"` // EP: dispatch precision (bf16, fp8); collective: element type
	// Repeat numbers independent runs of the same case with fresh rank groups, from 1.
	Repeat int `json:"repeat"`
	// Sampling names the sampling profile whose numbers the family block carries.
	Sampling string `json:"sampling"`
	// Contract names what the clock covers, such as layout-and-dispatch-v1.
	Contract string `json:"contract"`

	ScaleUpDomain     int     `json:"scale_up_domain"`     // devices in one scale-up domain
	Scope             string  `json:"scope"`               // scale-up or scale-out
	ScaleUpTransport  string  `json:"scale_up_transport"`  // nvlink, mnnvl, xgmi, shm
	ScaleOutTransport *string `json:"scale_out_transport"` // null inside one domain
	Transport         string  `json:"transport"`
	TopologyClass     string  `json:"topology_class"`

	// Env is environment that the definitions give the ranks of this case, on top
	// of what they inherit.
	Env map[string]string `json:"env,omitempty"`

	*EP
	*Collective
}

// EP is the block of an expert-parallel dispatch/combine case: one mode,
// phase, precision and routing over a ladder of tokens per rank.
type EP struct {
	EPSize   int    `json:"ep"` // equals World
	Workload string `json:"workload"`
	Mode     string `json:"mode"`  // normal or low-latency
	Phase    string `json:"phase"` // decode or prefill
	Routing  string `json:"routing"`
	Hidden   int    `json:"hidden"`
	TopK     int    `json:"topk"`
	Experts  int    `json:"experts"`
	Seed     uint64 `json:"seed"`
	// Ladder lists tokens per rank, ascending, separated by spaces.
	Ladder string `json:"ladder"`
	// LadderCap is the most tokens per rank the backend takes in this mode; points
	// above it are dropped at run time and recorded. Null is no cap.
	LadderCap *int     `json:"ladder_cap"`
	Timing    EPTiming `json:"timing"`
}

// EPTiming holds the sample counts of an EP case; see methodology: fresh-entry
// windows are Trials × Iters, chained windows ChainTrials × (ChainIters − ChainDrop).
type EPTiming struct {
	ItersPerTrial       int `json:"iters_per_trial"`
	TrialsPerPoint      int `json:"trials_per_point"`
	WarmupItersPerTrial int `json:"warmup_iters_per_trial"`
	ChainItersPerTrial  int `json:"chain_iters_per_trial"`
	ChainTrialsPerPoint int `json:"chain_trials_per_point"`
	ChainDrop           int `json:"chain_drop"`
}

// Collective is the block of a collective case: one operation, element type
// and reduction over a ladder of sizes.
type Collective struct {
	Op string `json:"op"` // nccl-tests' names: all_reduce, all_gather, …
	// RedOp is sum, prod, min, max, avg or mulsum; empty where the op does not reduce.
	RedOp string `json:"redop"`
	// Root is the root rank of a rooted op, else 0.
	Root int `json:"root"`
	// Sizes are bytes as nccl-tests counts them (its size column), ascending. An
	// alltoallv has one: the most that a rank of its traffic sends or receives.
	Sizes []int64 `json:"sizes"`
	// Traffic is what an alltoallv moves: bytes from rank (row) to rank (column).
	Traffic [][]int64 `json:"traffic,omitempty"`
	// TrafficName is the name of the traffic in the definitions; empty where it has none.
	TrafficName string `json:"traffic_name,omitempty"`
	// Placements: out_of_place, in_place.
	Placements []string `json:"placements"`
	// Modes are timing modes: pipelined, blocking, per_iteration, graph. Each has its
	// own fields.
	Modes []string `json:"modes"`
	// Buffers is cold (caches emptied, then rotation over more memory than they
	// hold), warm (reuse) or shifted (nccl-tests' way: each iteration goes one
	// message further into buffers of the largest size, and from their end back to
	// their start).
	Buffers string `json:"buffers"`
	// Unalign is elements by which all buffers are off their alignment (nccl-tests' -u).
	Unalign int64 `json:"unalign,omitempty"`
	// Registration is none, local or symmetric.
	Registration string           `json:"registration"`
	Measure      CollectiveTiming `json:"measure"`
}

// Placed reports whether the ranks of the case fill its nodes alike.
func (c *Case) Placed() bool {
	return c.World > 0 && c.Nodes > 0 && c.RanksPerNode > 0 && c.World/c.Nodes == c.RanksPerNode && c.World%c.Nodes == 0
}

// Pairs is how many pairs of ranks each size of a pairwise collective is measured
// on; 0 of any other case.
func (c *Case) Pairs() int {
	if c.Collective == nil {
		return 0
	}
	return vocab.Pairs(c.Op, c.World)
}

// TrafficSize is the size of traffic, in its unit, as nccl-tests counts it: the
// most that one rank sends or receives.
func TrafficSize(traffic [][]int64) int64 {
	sent, received := Busiest(traffic)
	return max(sent, received)
}

// Busiest returns the most that one rank of square traffic sends, and the most
// that one receives.
func Busiest(traffic [][]int64) (sent, received int64) {
	for i, row := range traffic {
		out, in := int64(0), int64(0)
		for j, n := range row {
			out += n
			in += traffic[j][i]
		}
		sent, received = max(sent, out), max(received, in)
	}
	return sent, received
}

// CollectiveTiming holds the sample counts of a collective case.
type CollectiveTiming struct {
	// Warmup is untimed operations of each size before the first window, and of at
	// most 1 MiB before each.
	Warmup     int `json:"warmup"`
	Iterations int `json:"iterations"` // operations in one window (nccl-tests' -n)
	Trials     int `json:"trials"`     // windows per size, placement and mode
	// Aggregate is the operations of one iteration, in one group call (nccl-tests'
	// -m). Times are per operation.
	Aggregate int `json:"aggregate"`
	// Launches is how often a graph window launches its graph (nccl-tests' -G).
	Launches int `json:"launches"`
}

// Dispositions of a requested case.
const (
	Runnable    = "runnable"
	Unsupported = "unsupported"
)

// Requested is one case of the matrix with its disposition. An unsupported one
// is terminal here and carries its reason.
type Requested struct {
	SKU         string  `json:"sku"`
	Disposition string  `json:"disposition"`
	Reason      *string `json:"reason"`
	Detail      *string `json:"detail"`
	Case        Case    `json:"case"`
	// BudgetSeconds ends a case that hangs: the estimate of its time with a
	// generous margin. 0 where it is unsupported.
	BudgetSeconds int `json:"budget_seconds,omitempty"`
}

// Cell is one leg of the workflow's matrix: the cases of one shard, run in
// order inside one allocation.
type Cell struct {
	ID      string `json:"id"`
	SKU     string `json:"sku"`
	Backend string `json:"backend"`
	Family  Family `json:"family"`
	Mode    string `json:"mode,omitempty"` // EP cells only
	Runner  string `json:"runner"`         // runner label
	// Environment is the GitHub environment that the cell's job runs in; empty for none.
	Environment   string   `json:"environment,omitempty"`
	Arch          string   `json:"arch"`      // amd64 or arm64: which binary the cell downloads
	Launcher      string   `json:"launcher"`  // bare or slurm
	Container     string   `json:"container"` // none, pyxis or docker
	Image         string   `json:"image,omitempty"`
	Launch        Launch   `json:"launch"`
	Vendor        string   `json:"vendor"`      // of the platform: nvidia, amd or host
	Product       string   `json:"product"`     // of the platform's devices; a cell refuses other ones
	DeviceArch    string   `json:"device_arch"` // of the platform's devices: sm_90, gfx942, host
	Maturity      string   `json:"maturity"`    // of the backend, for its documents
	Retries       int      `json:"retries"`     // further attempts of a failed case, as the backend's definition allows
	Nodes         int      `json:"nodes"`
	GPUsPerNode   int      `json:"gpus_per_node"`
	ScaleUpDomain int      `json:"scale_up_domain"`
	Wave          int      `json:"wave"`    // from 0; a wave holds at most 256 cells
	Index         int      `json:"index"`   // position over all waves, from 0
	Total         int      `json:"total"`   // cells over all waves
	Minutes       int      `json:"minutes"` // job timeout: estimate with its margin
	CaseIDs       []string `json:"case_ids"`
}

// Launch is what a launcher needs beyond the cell's own fields.
type Launch struct {
	Salloc []string `json:"salloc,omitempty"` // further arguments of the slurm allocation
	Srun   []string `json:"srun,omitempty"`   // further arguments of each slurm step
	Docker []string `json:"docker,omitempty"` // further arguments of docker run
	// Requires names the operator values without which nothing can start.
	Requires []string `json:"requires,omitempty"`
}

// Generator says what made a matrix.
type Generator struct {
	Program string `json:"program"` // cxgen or cxrun
	Version string `json:"version"` // program version; a cell refuses another one
	Format  int    `json:"format"`
}

// Matrix is the plan as a file (matrix_full.json). Cells list case ids; each
// case stands once: in RequestedCases, which existing readers parse, where it is
// one that CollectiveX itself plans (see Case.Upstream), else in RequestedOther.
type Matrix struct {
	Version        int         `json:"version"`
	Generator      Generator   `json:"generator"`
	RequestedCases []Requested `json:"requested_cases"`
	RequestedOther []Requested `json:"requested_other"`
	Include        []Cell      `json:"include"`

	// SHA256 is the hexadecimal digest of the file that the matrix was read from or
	// written to; empty for neither.
	SHA256 string `json:"-"`
}
