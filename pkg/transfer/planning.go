package transfer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// poolSlack is the size of a pool as a multiple of the largest burst: blocks of a burst are interleaved
// with others, and consecutive bursts use different ones.
const poolSlack = 2

// cases requests the cases of a block: by backend, lane, handle, cache and arrangement.
func cases(r *planner.Resolver, block catalog.SuiteBlock) {
	b := block.(*SuiteBlock)
	if len(r.Worlds([]int{Ranks})) == 0 {
		return
	}
	for _, be := range r.Backends(b.Backends) {
		support := catalog.SupportOf[Support](r.Platform.Support(be.Name))
		if support == nil {
			continue
		}
		of := pairing{b, be, support}
		handles := b.Handles
		if len(handles) == 0 {
			handles = []string{""}
		}
		for _, lane := range planner.Ordered(support.Lanes, b.Lanes) {
			for _, handle := range handles {
				for _, name := range b.Caches {
					for _, arrangement := range b.Arrangements {
						addCase(r, of, lane, catalog.BackendOf[Backend](be).CaseHandle(handle), CacheOf(r.Catalog, name), arrangement)
					}
				}
			}
		}
	}
}

// pairing is a block of a suite on a backend of the platform.
type pairing struct {
	*SuiteBlock
	backend *catalog.Backend
	support *Support
}

func addCase(r *planner.Resolver, of pairing, lane, handle string, cache *Cache, arrangement string) {
	c := plan.Case{Family: Name, Sampling: cmp.Or(of.Sampling, r.Suite.Sampling), Contract: Contract}
	t := New(cache, catalog.SamplingOf[Sampling](r.SamplingProfile(c.Sampling)))
	t.Mode, t.Handle, t.Routing, t.ISLLadder, t.PageTokens, t.BatchSizes, t.Ops = lane, handle, arrangement, of.ISL, of.PageTokens, of.Batches, of.Ops
	t.Device, t.PoolBudget = of.support.Device, cmp.Or(int64(of.support.PoolBudget), t.PoolBudget)
	opsLack := ""
	if allowed := of.support.Ops; len(allowed) > 0 {
		if t.Ops = planner.Ordered(of.Ops, allowed); len(t.Ops) == 0 {
			t.Ops, opsLack = of.Ops, fmt.Sprintf("platform %s runs backend %s with the operations %v only", r.Platform.SKU, of.backend.Name, allowed)
		}
	}
	c.Precision, c.Block = cache.Precision, t
	r.Place(&c, of.backend, Ranks)
	r.Request(of.backend, &c, handleLacks(of.backend, &c, r.Platform.Vendor), opsLack)
}

// New returns the block of a transfer of a cache, without lane, arrangement, ladders and operations.
func New(cache *Cache, sampling *Sampling) *Block {
	t := &Block{
		EP: Ranks, Workload: cache.Name, Phase: Phase, Seed: cache.Seed,
		Timing:        plan.Repetitions{Warmup: sampling.Warmup, Reps: sampling.Reps, Trials: sampling.Trials},
		SustainMillis: sampling.SustainMillis, PoolSlack: poolSlack, PoolBudget: MaxPoolBytes, Layers: cache.Layers,
	}
	for _, e := range cache.Entries {
		t.Entries = append(t.Entries, CacheEntry{Regions: e.Regions, Tokens: e.Tokens, Bytes: int64(e.Bytes), Window: e.Window})
	}
	return t
}

// lacks names the factor of the case that the backend does not support, or returns "".
func lacks(be *catalog.Backend, c *plan.Case) string {
	has, t := catalog.BackendOf[Backend](be), Of(c)
	if has == nil {
		return fmt.Sprintf("backend %s has no transfers", be.Name)
	}
	kept, dropped := t.Points()
	switch {
	case c.World != Ranks:
		return fmt.Sprintf("a transfer has %d ranks, not %d", Ranks, c.World)
	case !slices.Contains(has.Lanes, t.Mode):
		return fmt.Sprintf("backend %s has no lane %s", be.Name, t.Mode)
	case t.Handle != "" && has.Handle(t.Handle) == nil:
		return fmt.Sprintf("backend %s does not support handle %s", be.Name, t.Handle)
	case len(planner.Ordered(has.Ops, t.Ops)) < len(t.Ops):
		return fmt.Sprintf("backend %s supports only the operations %v", be.Name, has.Ops)
	case len(kept) == 0:
		return "every burst exceeds a limit, the smallest with " + t.Exceeds(dropped[0])
	}
	return has.Lacks(t.Mode)
}

// handleLacks names the devices whose memory the handle of a case supports if the platform has other
// devices, or returns "".
func handleLacks(be *catalog.Backend, c *plan.Case, vendor string) string {
	h := catalog.BackendOf[Backend](be).Handle(Of(c).Handle)
	if h == nil || slices.Contains(h.Vendors, vendor) {
		return ""
	}
	return fmt.Sprintf("backend %s opens pools by handle %s on devices of %s only", be.Name, h.Name, strings.Join(h.Vendors, " and "))
}

// place places the ranks of a lane between nodes: one rank on each of two. Other lanes stay on one
// host.
func place(p *catalog.Platform, c *plan.Case) {
	lane := Of(c).Mode
	if vocab.BetweenNodes(lane) {
		c.Nodes, c.GPUsPerNode, c.RanksPerNode = Ranks, 1, 1
		c.Scope, c.ScaleOutTransport, c.Transport = vocab.ScopeOut, new(lane), lane
	}
	c.TopologyClass = p.Product + "-kv-" + lane
}

// key gives each lane its own cells.
func key(c *plan.Case) planner.Key {
	lane := Of(c).Mode
	return planner.Key{Mode: lane, Label: "kv-" + lane}
}

// Times of a case of CollectiveX's own suite, as it plans them, unless the platform has others; see
// Support.
const (
	cellMinutes = 210
	caseSeconds = 11400
)

// times returns the times of a case of CollectiveX's own suite. Those of others are estimated.
func times(p *catalog.Platform, c *plan.Case) (minutes, seconds int) {
	if !upstream(c) {
		return 0, 0
	}
	s := catalog.SupportOf[Support](p.Support(c.Backend))
	if s == nil {
		s = &Support{}
	}
	return cmp.Or(s.CellMinutes, cellMinutes), cmp.Or(s.CaseSeconds, caseSeconds)
}

// CheckedReps is how many bursts of a trial are checked.
const CheckedReps = 3

// otherChecks is the number of checks that an operation is charged for small transfers, sustained bursts
// and released requests. There are several times as many, but a check runs at the speed of memory, and
// the estimate at the speed of the fabric.
const otherChecks = 7

// seconds assumes that a check fills and reads both pools at the pace of the fabric, and that a block
// costs a microsecond.
func seconds(c *plan.Case, pace catalog.Pace) float64 {
	t := Of(c)
	kept, _ := t.Points()
	bursts := float64(t.Timing.Trials * (t.Timing.Warmup + t.Timing.Reps))
	checks := float64(t.Timing.Trials * CheckedReps)
	check := 4 * float64(t.PoolSlack) * float64(largest(kept)) / (pace.GBps * 1e3)
	micros := otherChecks * check
	for _, p := range kept {
		micros += 2 * bursts * (pace.Micros + float64(p.Blocks) + float64(p.Bytes)/(pace.GBps*1e3)) // bulk rows too
		micros += 2 * checks * check
	}
	return float64(len(t.Ops)) * (micros/1e6 + float64(t.SustainMillis)/1e3)
}
