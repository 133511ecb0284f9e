package result

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/plan"
)

// EPFactorsOf returns the twenty factors of an EP case. measured replaces the
// ladder that was asked for, unless it is empty.
func EPFactorsOf(c plan.Case, measured []int) EPFactors {
	ladder := c.Ladder
	if len(measured) > 0 {
		points := make([]string, len(measured))
		for i, t := range measured {
			points[i] = strconv.Itoa(t)
		}
		ladder = strings.Join(points, " ")
	}
	return EPFactors{
		Backend: c.Backend, EP: c.EPSize, Experts: c.Experts, GPUsPerNode: c.GPUsPerNode,
		Hidden: c.Hidden, Ladder: ladder, Mode: c.Mode, Nodes: c.Nodes, Phase: c.Phase,
		Precision: c.Precision, Routing: c.Routing, ScaleUpDomain: c.ScaleUpDomain,
		ScaleUpTransport: c.ScaleUpTransport, ScaleOutTransport: c.ScaleOutTransport,
		Scope: c.Scope, Suite: c.Suite, TopK: c.TopK, TopologyClass: c.TopologyClass,
		Transport: c.Transport, Workload: c.Workload,
	}
}

// comparisonFactors is everything that must match before two documents may stand in
// one line. Rows are matched by tokens per rank or bytes, so ladders are not
// in it, but for the rung that places replicated experts; neither are the suite, the repeat, or the SKU, whose product and
// fabric are in the topology class. The library's version is a factor beside
// the key (implementation.library_version), so that old and new compare.
type comparisonFactors struct {
	Family            plan.Family           `json:"family"`
	Backend           string                `json:"backend"`
	World             int                   `json:"world"`
	Nodes             int                   `json:"nodes"`
	GPUsPerNode       int                   `json:"gpus_per_node"`
	ScaleUpDomain     int                   `json:"scale_up_domain"`
	ScaleUpTransport  string                `json:"scale_up_transport"`
	ScaleOutTransport *string               `json:"scale_out_transport"`
	TopologyClass     string                `json:"topology_class"`
	Precision         string                `json:"precision"`
	Contract          string                `json:"contract"`
	Sampling          string                `json:"sampling"`
	Env               map[string]string     `json:"env"` // of the case itself
	EP                *epComparison         `json:"ep,omitempty"`
	Collective        *collectiveComparison `json:"collective,omitempty"`
	Environment       map[string]string     `json:"environment"`
}

type epComparison struct {
	Workload string `json:"workload"`
	Mode     string `json:"mode"`
	Phase    string `json:"phase"`
	Routing  string `json:"routing"`
	Hidden   int    `json:"hidden"`
	TopK     int    `json:"topk"`
	Experts  int    `json:"experts"`
	Seed     uint64 `json:"seed"`
	// BalancedRung decides where replicated experts are; see plan.Case.
	BalancedRung int           `json:"balanced_rung,omitempty"`
	Timing       plan.EPTiming `json:"timing"`
}

type collectiveComparison struct {
	Op           string                `json:"op"`
	RedOp        string                `json:"redop"`
	Root         int                   `json:"root"`
	Buffers      string                `json:"buffers"`
	Registration string                `json:"registration"`
	Unalign      int64                 `json:"unalign"`
	Traffic      [][]int64             `json:"traffic,omitempty"`
	Measure      plan.CollectiveTiming `json:"measure"`
}

// ComparisonKey is equal exactly where two cases, each run under its
// environment (the part that documents publish), may be compared: the first
// 32 hexadecimal digits of the SHA-256 of the factors named above as JSON.
func ComparisonKey(c plan.Case, environment map[string]string) (string, error) {
	k := comparisonFactors{
		Family: c.Family, Backend: c.Backend, World: c.World, Nodes: c.Nodes,
		GPUsPerNode: c.GPUsPerNode, ScaleUpDomain: c.ScaleUpDomain,
		ScaleUpTransport: c.ScaleUpTransport, ScaleOutTransport: c.ScaleOutTransport,
		TopologyClass: c.TopologyClass, Precision: c.Precision, Contract: c.Contract,
		Sampling: c.Sampling, Env: c.Env, Environment: environment,
	}
	if k.Environment == nil {
		k.Environment = map[string]string{}
	}
	switch {
	case c.Family == plan.FamilyEP && c.EP != nil:
		k.EP = &epComparison{
			Workload: c.Workload, Mode: c.Mode, Phase: c.Phase, Routing: c.Routing,
			Hidden: c.Hidden, TopK: c.TopK, Experts: c.Experts, Seed: c.Seed, BalancedRung: c.BalancedRung(), Timing: c.Timing,
		}
	case c.Family == plan.FamilyCollective && c.Collective != nil:
		k.Collective = &collectiveComparison{
			Op: c.Op, RedOp: c.RedOp, Root: c.Root, Buffers: c.Buffers,
			Registration: c.Registration, Unalign: c.Unalign, Traffic: c.Traffic, Measure: c.Measure,
		}
	default:
		return "", fmt.Errorf("case %s: family %q without its block", c.CaseID, c.Family)
	}
	return hashed(k)
}

// RowKey is equal exactly where two rows of collective documents may be compared,
// timing mode by timing mode: the first 32 hexadecimal digits of the SHA-256 of
// the document's comparison key, the requested bytes, the placement, the ranks of
// a pairwise operation and the buffer slots, as JSON. The slots follow from the
// device's caches and memory and, for shifted buffers, from the case's largest
// size, which the key of the document does not have.
func RowKey(comparisonKey string, r *CollectiveRow) (string, error) {
	return hashed(struct {
		Key       string `json:"comparison_key"`
		Requested int64  `json:"requested_bytes"`
		Placement string `json:"placement"`
		Src       *int   `json:"src,omitempty"`
		Dst       *int   `json:"dst,omitempty"`
		Slots     int    `json:"buffer_slots"`
	}{comparisonKey, r.Requested, r.Placement, r.Src, r.Dst, r.Slots})
}

// hashed is the first 32 hexadecimal digits of the SHA-256 of v as JSON.
func hashed(v any) (string, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16]), nil
}

// Factors returns the factors of an EP document, the zero value where it has
// none.
func (d *EPDocument) Factors() EPFactors {
	f, _ := epFactors(d.Identity.CaseFactors.Case)
	return f
}
