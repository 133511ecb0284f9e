// Package plan is the contract between planning and measuring: the case, the cell, the matrix, and their
// files. It does not depend on definitions, so ranks can import it; package planner creates its values.
package plan

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/collectivex/collectivex/pkg/vocab"
)

// MatrixVersion is the version every matrix and every document carries.
// Readers accept 1 only, so it never changes.
const MatrixVersion = 1

// Format numbers the layout of the matrix file. A cell refuses a matrix of
// another format.
const Format = 1

// Case is one measurement as requested. planner.Resolve creates it once, and it travels unchanged to the
// document that answers it: later stages never default, repair or re-derive a field.
//
// The struct has the common fields, and Block those of the family; in JSON, both are members of one flat
// object, as existing readers expect.
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
	// Sampling names the sampling profile whose numbers are in the family block.
	Sampling string `json:"sampling"`
	// Contract names what the timed interval covers, such as layout-and-dispatch-v1.
	Contract string `json:"contract"`

	ScaleUpDomain     int     `json:"scale_up_domain"`     // devices in one scale-up domain
	Scope             string  `json:"scope"`               // scale-up or scale-out
	ScaleUpTransport  string  `json:"scale_up_transport"`  // nvlink, mnnvl, xgmi, shm
	ScaleOutTransport *string `json:"scale_out_transport"` // null inside one domain
	Transport         string  `json:"transport"`
	TopologyClass     string  `json:"topology_class"`

	// Env is the environment that the definitions add for the ranks of this case.
	Env map[string]string `json:"env,omitempty"`

	// Block is never nil in a matrix or a document.
	Block Block `json:"-" block:"family"`
}

// Placed reports whether all nodes of the case have the same number of ranks.
func (c *Case) Placed() bool {
	return c.World > 0 && c.Nodes > 0 && c.RanksPerNode > 0 && c.World/c.Nodes == c.RanksPerNode && c.World%c.Nodes == 0
}

// Dispositions of a requested case.
const (
	Runnable    = "runnable"
	Unsupported = "unsupported"
)

func init() { vocab.Register("disposition", Runnable, Unsupported) }

// Requested is one case of the matrix with its disposition. An unsupported case does not run, and has
// its reason here.
type Requested struct {
	SKU         string  `json:"sku"`
	Disposition string  `json:"disposition" in:"disposition"`
	Reason      *string `json:"reason"`
	Detail      *string `json:"detail"`
	Case        Case    `json:"case"`
	// BudgetSeconds is the time after which a case counts as hung: its estimate with a generous margin; 0
	// if it is unsupported.
	BudgetSeconds int `json:"budget_seconds,omitempty"`
}

// Why returns the reason of an unsupported case and its detail; each may be empty.
func (r *Requested) Why() (reason, detail string) {
	if r.Reason != nil {
		reason = *r.Reason
	}
	if r.Detail != nil {
		detail = *r.Detail
	}
	return reason, detail
}

// Cell is one job of the workflow's matrix: the cases of one shard, run in order in one allocation.
type Cell struct {
	ID      string `json:"id"`
	SKU     string `json:"sku"`
	Backend string `json:"backend"`
	Family  Family `json:"family"`
	Mode    string `json:"mode,omitempty"` // EP cells only
	Runner  string `json:"runner"`         // runner label
	// Environment is the GitHub environment that the cell's job runs in; empty for none.
	Environment   string `json:"environment,omitempty"`
	Arch          string `json:"arch"`      // amd64 or arm64: which binary the cell downloads
	Launcher      string `json:"launcher"`  // bare or slurm
	Container     string `json:"container"` // none, pyxis or docker
	Image         string `json:"image,omitempty"`
	Launch        Launch `json:"launch"`
	Vendor        string `json:"vendor"`      // of the platform: nvidia, amd or host
	Product       string `json:"product"`     // of the platform's devices; a cell refuses other ones
	DeviceArch    string `json:"device_arch"` // of the platform's devices: sm_90, gfx942, host
	Maturity      string `json:"maturity"`    // of the backend, for its documents
	Retries       int    `json:"retries"`     // further attempts of a failed case, from the backend's definition
	Nodes         int    `json:"nodes"`
	GPUsPerNode   int    `json:"gpus_per_node"`
	ScaleUpDomain int    `json:"scale_up_domain"`
	Wave          int    `json:"wave"`    // from 0; a wave holds at most 256 cells
	Index         int    `json:"index"`   // position over all waves, from 0
	Total         int    `json:"total"`   // cells over all waves
	Minutes       int    `json:"minutes"` // from when the ranks have their machines: the estimate and a margin
	// QueueMinutes is the longest wait for an allocation; missing if none is needed. The job's timeout is
	// the sum of Minutes and QueueMinutes.
	QueueMinutes int      `json:"queue_minutes,omitempty"`
	CaseIDs      []string `json:"case_ids"`
}

// Launch holds the launcher's parameters beyond the cell's own fields.
type Launch struct {
	Salloc []string `json:"salloc,omitempty"` // further arguments of the slurm allocation
	Srun   []string `json:"srun,omitempty"`   // further arguments of each slurm step
	Docker []string `json:"docker,omitempty"` // further arguments of docker run
	// Store is how shard and ranks exchange data: tcp, or empty for files.
	Store string `json:"store,omitempty"`
	// TaskPer is the unit of a task of a slurm step: node (the task starts the ranks of the node), or
	// empty for a rank.
	TaskPer string `json:"task_per,omitempty"`
	// Requires names the operator values without which nothing can start.
	Requires []string `json:"requires,omitempty"`
}

// Generator identifies the program that wrote a matrix.
type Generator struct {
	Program string `json:"program"` // cxgen or cxrun
	Version string `json:"version"` // program version; a cell refuses any other
	Format  int    `json:"format" in:"format"`
}

// Matrix is the plan as a file (matrix_full.json). Cells list case ids. Each case appears once: in
// RequestedCases, which existing readers parse, if CollectiveX itself plans it (see Case.Upstream),
// else in RequestedOther.
type Matrix struct {
	Version        int         `json:"version" in:"version"`
	Generator      Generator   `json:"generator"`
	RequestedCases []Requested `json:"requested_cases"`
	RequestedOther []Requested `json:"requested_other"`
	Include        []Cell      `json:"include"`

	// SHA256 is the hexadecimal digest of the file that the matrix was read from or written to; empty if
	// there is none.
	SHA256 string `json:"-"`
	// Archived reports whether another version wrote the matrix; see ReadArchived.
	Archived bool `json:"-"`
}

// Differences returns the JSON names of the members in which the case differs from o, sorted.
func (c Case) Differences(o Case) (names []string) {
	if reflect.DeepEqual(c, o) {
		return nil
	}
	a, b := c.members(), o.members()
	for name := range b {
		if _, has := a[name]; !has {
			a[name] = nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if !bytes.Equal(a[name], b[name]) {
			names = append(names, name)
		}
	}
	return names
}

// members returns the JSON of each member of the case.
func (c Case) members() (of map[string]json.RawMessage) {
	text, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(text, &of)
	}
	if err != nil {
		return map[string]json.RawMessage{"case": []byte(err.Error())}
	}
	return of
}
