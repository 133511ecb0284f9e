package planner

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/operator"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Limits of a cell. Without a confirmation, a job ends within the six hours that GitHub gives jobs by default,
// unless its family has other Times.
const (
	DefaultMaxCases = 128
	MaxCellMinutes  = 350
)

// key holds what the cases of one cell have in common. Cells are sorted by it.
type key struct {
	sku, backend string
	family       plan.Family
	nodes        int
	Key
}

func keyOf(c *plan.Case) key {
	k := key{sku: c.SKU, backend: c.Backend, family: c.Family, nodes: c.Nodes, Key: Key{Label: string(c.Family)}}
	if own := familyOf(c).Key; own != nil {
		k.Key = own(c)
	}
	return k
}

func (k key) compare(o key) int {
	return cmp.Or(
		cmp.Compare(k.sku, o.sku), cmp.Compare(k.backend, o.backend), cmp.Compare(k.family, o.family),
		cmp.Compare(k.Mode, o.Mode), cmp.Compare(k.nodes, o.nodes), cmp.Compare(k.Precision, o.Precision),
	)
}

// id returns the id of the cell: {sku}-{backend}-{label}-n{nodes}. The label is the name of the family
// unless its Key returns another one.
func (k key) id() string { return plan.Slug(k.sku, k.backend, k.Label, "n"+strconv.Itoa(k.nodes)) }

// cells groups the runnable cases, in their order, into cells within all limits, and interleaves the
// cells of the platforms, so that no runner pool waits for another.
func cells(cat *catalog.Catalog, m *plan.Matrix, maxCases int) ([]plan.Cell, error) {
	maxCases = cmp.Or(maxCases, DefaultMaxCases)
	type shard struct {
		key
		cases []*plan.Case
	}
	shards := map[key]*shard{}
	var last *shard
	for q := range m.Requested() {
		if q.Disposition != plan.Runnable {
			continue
		}
		if k := keyOf(&q.Case); last == nil || last.key != k { // most follow one of the same cell
			if last = shards[k]; last == nil {
				last = &shard{key: k}
				shards[k] = last
			}
		}
		last.cases = append(last.cases, &q.Case)
	}
	bySKU := map[string][]plan.Cell{}
	for _, s := range slices.SortedFunc(maps.Values(shards), func(a, b *shard) int { return a.compare(b.key) }) {
		cut, err := split(cat, s.key, s.cases, maxCases)
		if err != nil {
			return nil, err
		}
		bySKU[s.sku] = append(bySKU[s.sku], cut...)
	}
	return number(interleave(cat, bySKU))
}

// split divides the cases of one key into cells of at most maxCases cases and MaxCellMinutes, with cells of
// their own for cases of other Times. Cells after the first have their number in the id.
func split(cat *catalog.Catalog, k key, cases []*plan.Case, maxCases int) ([]plan.Cell, error) {
	p, be := cat.Platform(k.sku), cat.Backend(k.backend)
	var out []plan.Cell
	var spent, longest float64
	alone := false // the last cell has a case of other Times
	for _, c := range cases {
		need := estimate(p, be, c)
		own, _ := times(p, c)
		if own == 0 && minutes(need, need) > MaxCellMinutes {
			return nil, fmt.Errorf("case %s is estimated at %.0f minutes, more than the %d a cell may take; shorten its ladder or its sampling",
				c.CaseID, need/60, MaxCellMinutes)
		}
		last := len(out) - 1
		if last < 0 || alone || own > 0 || len(out[last].CaseIDs) == maxCases || minutes(spent+need, max(longest, need)) > MaxCellMinutes {
			out = append(out, newCell(p, be, k, c, len(out)+1))
			last, spent, longest, alone = len(out)-1, 0, 0, own > 0
		}
		spent, longest = spent+need, max(longest, need)
		out[last].CaseIDs = append(out[last].CaseIDs, c.CaseID)
		out[last].Minutes = cmp.Or(own, minutes(spent, longest))
	}
	return out, nil
}

// estimate returns the seconds of a case on its platform, including the set-up of its rank group. It
// determines only cells, job timeouts and budgets.
func estimate(p *catalog.Platform, be *catalog.Backend, c *plan.Case) float64 {
	pace := p.ScaleUp.Pace
	if out := scaleOut(p, c); out != nil {
		pace = out.Pace
	}
	return float64(be.SetupSeconds) + familyOf(c).Seconds(c, pace)
}

// Estimate returns the expected time of a case of the plan, including the set-up of its rank group. It
// is rough, for sizing in advance.
func Estimate(cat *catalog.Catalog, c *plan.Case) time.Duration {
	return time.Duration(estimate(cat.Platform(c.SKU), cat.Backend(c.Backend), c) * float64(time.Second))
}

// Measuring returns the expected time of a case on the machine, once its ranks have started. It is rough.
func (m Machine) Measuring(cat *catalog.Catalog, c *plan.Case) time.Duration {
	return time.Duration(familyOf(c).Seconds(c, m.in(cat).Platform(c.SKU).ScaleUp.Pace) * float64(time.Second))
}

// budget returns the seconds after which a case counts as hung: a minute plus ten times its estimate,
// since estimates are rough and machines are shared, but at most CollectiveX's hour and a half.
func budget(estimate float64) int { return min(60+int(math.Ceil(10*estimate)), 5400) }

// OverheadMinutes is job time besides measuring: downloads, allocation, images.
const OverheadMinutes = 15

// minutes returns the job timeout of a cell, given the estimated seconds of all its cases and of the
// longest: the overhead and twice the total, or more if a hung case could otherwise use up the time of
// the others.
func minutes(total, longest float64) int {
	return OverheadMinutes + int(math.Ceil(max(2*total, total+float64(budget(longest)))/60))
}

// defaultQueueMinutes is the default maximum wait for an allocation.
const defaultQueueMinutes = 60

// newCell returns the cell of a number for cases like c.
func newCell(p *catalog.Platform, be *catalog.Backend, k key, c *plan.Case, number int) plan.Cell {
	id := k.id()
	if number > 1 {
		id = plan.Slug(id, "c"+strconv.Itoa(number))
	}
	la := p.Launch
	requires := la.Requires
	if out := scaleOut(p, c); out != nil {
		requires = slices.Concat(requires, out.Requires)
	}
	if be.OwnAdapters {
		requires = slices.DeleteFunc(slices.Clone(requires), func(key string) bool { return key == operator.RDMADevicesKey })
	}
	store := ""
	if la.Store == vocab.StoreTCP {
		store = la.Store
		if la.Launcher != "bare" && !slices.Contains(requires, operator.StoreAddressKey) {
			requires = slices.Concat(requires, []string{operator.StoreAddressKey})
		}
	}
	taskPer := la.TaskPer
	if taskPer == "rank" {
		taskPer = "" // normalize the default
	}
	queue := la.QueueMinutes
	if la.Launcher == "slurm" && queue == 0 {
		queue = defaultQueueMinutes
	}
	return plan.Cell{
		ID: id, SKU: k.sku, Backend: k.backend, Family: k.family, Mode: k.Mode,
		Runner: p.Runner, Environment: p.Environment, Arch: p.CPU, Launcher: la.Launcher, Container: la.Container, Image: p.ImageFor(be.Name),
		Launch: plan.Launch{Salloc: la.Salloc, Srun: la.Srun, Docker: la.Docker, Store: store, TaskPer: taskPer, Requires: requires},
		Vendor: p.Vendor, Product: p.Product, DeviceArch: deviceArch(p.Arch),
		Maturity: be.Maturity, Retries: be.Retries,
		Nodes: k.nodes, GPUsPerNode: p.GPUsPerNode, ScaleUpDomain: p.ScaleUp.Domain, QueueMinutes: queue,
	}
}

// deviceArch returns the architecture as the device reports it: sm_90 for sm90.
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
