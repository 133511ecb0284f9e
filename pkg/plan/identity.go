package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/vocab"
)

// ID returns the id that the fields of the case spell. Every CaseID is made
// here, and whoever reads a case recomputes it here. Factors are lower case,
// joined by one dash:
//
//	{sku}-{backend}-{workload}-{mode}-{phase}-ep{N}-{routing}-{precision}[-{contract}][-r{repeat}]
//	{sku}-{backend}-{op}[-{traffic}]-{type}[-{redop}][-root{N}]-w{world}-{buffers}[-reg-{registration}][-r{repeat}]
//
// Defaults are left out, so that ids of EP cases are CollectiveX's: the contract
// ContractLayout, root 0, registration none, the first repeat. The case must have
// the block of its family.
func (c *Case) ID() string {
	factors := make([]string, 0, 12)
	factors = append(factors, c.SKU, c.Backend)
	if c.EP != nil {
		factors = append(factors, c.Workload, c.Mode, c.Phase, "ep"+strconv.Itoa(c.EPSize), c.Routing, c.Precision)
		if c.Contract != ContractLayout {
			factors = append(factors, c.Contract)
		}
	} else {
		factors = append(factors, c.Op, c.TrafficName, c.Precision, c.RedOp)
		if c.Root > 0 {
			factors = append(factors, "root"+strconv.Itoa(c.Root))
		}
		factors = append(factors, "w"+strconv.Itoa(c.World), c.Buffers)
		if c.Registration != vocab.Unregistered {
			factors = append(factors, "reg", c.Registration)
		}
	}
	if c.Repeat > 1 {
		factors = append(factors, "r"+strconv.Itoa(c.Repeat))
	}
	return Slug(factors...)
}

// upstreamWorkloads are the workloads of CollectiveX's own plans.
var upstreamWorkloads = []string{"deepseek-v3", "deepseek-v4-pro"}

// Upstream reports whether the case is one that CollectiveX itself plans: EP with
// uniform routing, the layout contract and a workload of its own, in its first
// repeat. The public dashboard gives one label to all cases that differ in these
// alone, so it is shown no others: they stand in requested_other and have a record
// type that it skips.
func (c *Case) Upstream() bool {
	return c.EP != nil && c.Routing == "uniform" && c.Contract == ContractLayout && c.Repeat == 1 &&
		slices.Contains(upstreamWorkloads, c.Workload)
}

// BalancedRung returns the rung, in tokens per rank, whose trace places the
// replicated experts of a *-eplb routing: the largest of the ladder. It is 0 for
// every other case.
func (c *Case) BalancedRung() int {
	if c.EP == nil || !strings.HasSuffix(c.Routing, "-eplb") {
		return 0
	}
	rungs := strings.Fields(c.Ladder)
	if len(rungs) == 0 {
		return 0
	}
	largest, err := strconv.Atoi(rungs[len(rungs)-1])
	if err != nil {
		return 0 // the runner refuses such a ladder
	}
	return largest
}

// Slug joins the factors of an id: lower case, runs of characters outside a–z
// and 0–9 become one '-', none at either end.
func Slug(factors ...string) string {
	id := make([]byte, 0, 96)
	for _, f := range factors {
		dash := len(id) > 0
		for _, r := range f {
			if r >= 'A' && r <= 'Z' {
				r += 'a' - 'A'
			}
			if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
				dash = len(id) > 0
				continue
			}
			if dash {
				id = append(id, '-')
				dash = false
			}
			id = append(id, byte(r))
		}
	}
	return string(id)
}
