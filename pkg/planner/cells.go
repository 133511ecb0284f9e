package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Limits of a cell. GitHub ends a job on a self-hosted runner after six hours.
const (
	DefaultMaxCases = 128
	MaxCellMinutes  = 350
)

// key is what the cases of one cell have in common. Cells are sorted by it.
type key struct {
	sku, backend string
	family       plan.Family
	mode         string
	nodes        int
	precision    string
}

func keyOf(c *plan.Case) key {
	k := key{sku: c.SKU, backend: c.Backend, family: c.Family, nodes: c.Nodes}
	if c.EP() != nil {
		k.mode, k.precision = c.EP().Mode, c.Precision
	}
	return k
}

func (k key) compare(o key) int {
	return cmp.Or(
		cmp.Compare(k.sku, o.sku), cmp.Compare(k.backend, o.backend), cmp.Compare(k.family, o.family),
		cmp.Compare(k.mode, o.mode), cmp.Compare(k.nodes, o.nodes), cmp.Compare(k.precision, o.precision),
	)
}

// id names the cell: {sku}-{backend}[-ll]-{precision}-n{nodes} for EP,
// {sku}-{backend}-{family}-n{nodes} for the rest.
func (k key) id() string {
	factors := []string{k.sku, k.backend}
	switch {
	case k.family != plan.FamilyEP:
		factors = append(factors, string(k.family))
	case k.mode == vocab.ModeLowLatency:
		factors = append(factors, "ll", k.precision)
	case k.mode == vocab.ModeNormal:
		factors = append(factors, k.precision)
	default:
		factors = append(factors, k.mode, k.precision)
	}
	return plan.Slug(append(factors, "n"+strconv.Itoa(k.nodes))...)
}

// cells groups the runnable cases, in their order, into cells within all limits,
// and interleaves the cells of the platforms, so that no pool waits for another.
func cells(cat *catalog.Catalog, m *plan.Matrix, maxCases int) ([]plan.Cell, error) {
	if maxCases == 0 {
		maxCases = DefaultMaxCases
	}
	shards := map[key][]*plan.Case{}
	var keys []key
	for _, requested := range [][]plan.Requested{m.RequestedCases, m.RequestedOther} {
		for i := range requested {
			c := &requested[i].Case
			if requested[i].Disposition != plan.Runnable {
				continue
			}
			k := keyOf(c)
			if shards[k] == nil {
				keys = append(keys, k)
			}
			shards[k] = append(shards[k], c)
		}
	}
	slices.SortFunc(keys, key.compare)
	bySKU := map[string][]plan.Cell{}
	for _, k := range keys {
		cut, err := split(cat, k, shards[k], maxCases)
		if err != nil {
			return nil, err
		}
		bySKU[k.sku] = append(bySKU[k.sku], cut...)
	}
	return number(interleave(cat, bySKU))
}

// split cuts the cases of one key into cells of at most maxCases cases and
// MaxCellMinutes. Cells after the first have their number in the id.
func split(cat *catalog.Catalog, k key, cases []*plan.Case, maxCases int) ([]plan.Cell, error) {
	p, be := cat.Platform(k.sku), cat.Backend(k.backend)
	var out []plan.Cell
	var spent, longest float64
	for _, c := range cases {
		need := float64(be.SetupSeconds) + seconds(p, c)
		if minutes(need, need) > MaxCellMinutes {
			return nil, fmt.Errorf("case %s is estimated at %.0f minutes, more than the %d a cell may take; shorten its ladder or its sampling",
				c.CaseID, need/60, MaxCellMinutes)
		}
		last := len(out) - 1
		if last < 0 || len(out[last].CaseIDs) == maxCases || minutes(spent+need, max(longest, need)) > MaxCellMinutes {
			out = append(out, newCell(p, be, k, c.Scope, len(out)+1))
			last, spent, longest = len(out)-1, 0, 0
		}
		spent, longest = spent+need, max(longest, need)
		out[last].CaseIDs = append(out[last].CaseIDs, c.CaseID)
		out[last].Minutes = minutes(spent, longest)
	}
	return out, nil
}

// minutes returns the job timeout of a cell whose cases are estimated at total
// seconds, the longest of them at longest: the overhead and twice the total, or more
// where the budget of a hung case would otherwise take the time of the others.
func minutes(total, longest float64) int {
	return overheadMinutes + int(math.Ceil(max(2*total, total+float64(budget(longest)))/60))
}

func newCell(p *catalog.Platform, be *catalog.Backend, k key, scope string, number int) plan.Cell {
	id := k.id()
	if number > 1 {
		id = plan.Slug(id, "c"+strconv.Itoa(number))
	}
	la := p.Launch
	requires := la.Requires
	if scope == vocab.ScopeOut {
		requires = slices.Concat(requires, p.ScaleOut.Requires)
	}
	return plan.Cell{
		ID: id, SKU: k.sku, Backend: k.backend, Family: k.family, Mode: k.mode,
		Runner: p.Runner, Environment: p.Environment, Arch: p.CPU, Launcher: la.Launcher, Container: la.Container, Image: p.Image,
		Launch: plan.Launch{Salloc: la.Salloc, Srun: la.Srun, Docker: la.Docker, Requires: requires},
		Vendor: p.Vendor, Product: p.Product, DeviceArch: deviceArch(p.Arch),
		Maturity: be.Maturity, Retries: be.Retries,
		Nodes: k.nodes, GPUsPerNode: p.GPUsPerNode, ScaleUpDomain: p.ScaleUp.Domain,
	}
}

// deviceArch is the architecture as the device itself says it: sm_90 for sm90.
func deviceArch(arch string) string {
	if number, ok := strings.CutPrefix(arch, "sm"); ok {
		return "sm_" + number
	}
	return arch
}

// interleave takes the first cell of each platform, then the second, and so on.
func interleave(cat *catalog.Catalog, bySKU map[string][]plan.Cell) []plan.Cell {
	out := []plan.Cell{}
	for round := 0; ; round++ {
		before := len(out)
		for i := range cat.Platforms {
			if cs := bySKU[cat.Platforms[i].SKU]; round < len(cs) {
				out = append(out, cs[round])
			}
		}
		if len(out) == before {
			return out
		}
	}
}

func number(cells []plan.Cell) ([]plan.Cell, error) {
	if len(cells) > plan.Waves*plan.WaveCells {
		return nil, fmt.Errorf("the plan has %d cells, more than the %d of the workflow's %d waves; filter it", len(cells), plan.Waves*plan.WaveCells, plan.Waves)
	}
	for i := range cells {
		cells[i].Wave, cells[i].Index, cells[i].Total = i/plan.WaveCells, i, len(cells)
	}
	return cells, nil
}
