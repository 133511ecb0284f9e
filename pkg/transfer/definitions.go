package transfer

import (
	"fmt"
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// SuiteBlock requests the product of its caches, lanes and arrangements, on each backend that the
// platform lists with the lane.
type SuiteBlock struct {
	Caches       []string `yaml:"caches" in:"kv cache"`
	Backends     []string `yaml:"backends" in:"backend"`
	Lanes        []string `yaml:"lanes" in:"lane"`
	Handles      []string `yaml:"handles,optional" in:"handle"` // default: each backend's first
	Arrangements []string `yaml:"arrangements" in:"arrangement" default:"[paged]"`
	ISL          []int    `yaml:"isl" min:"1" max:"16777216"`
	PageTokens   []int    `yaml:"page_tokens" min:"1" max:"1048576"`
	Batches      []int    `yaml:"batches" min:"1" max:"65536"`
	Ops          []string `yaml:"ops" in:"transfer op" default:"[pull, push]"`
	Sampling     string   `yaml:"sampling,optional" in:"sampling"` // default: the suite's
}

// Backend holds a backend's capabilities for the transfer family.
type Backend struct {
	Lanes []string `yaml:"lanes" in:"lane"`
	Ops   []string `yaml:"ops" in:"transfer op"`
	// Handles are the handles by which rank 1 can open the pool of rank 0; the first is the default. A
	// backend without any has a mechanism of its own.
	Handles []catalog.Handle `yaml:"handles,optional"`
	// DeviceFilter: the library can be restricted to a network device; see Support.Device.
	DeviceFilter bool `yaml:"device_filter,optional"`
	// Unsupported lists the lanes that do not run, and why.
	Unsupported []UnsupportedLane `yaml:"unsupported,optional"`
}

func (t *Backend) handles() (names []string) {
	for i := range t.Handles {
		names = append(names, t.Handles[i].Name)
	}
	return names
}

// CaseHandle returns a handle as cases name it: the backend's first is "".
func (t *Backend) CaseHandle(name string) string {
	if len(t.Handles) > 0 && t.Handles[0].Name == name {
		return ""
	}
	return name
}

// Handle returns the backend's handle of that name, or nil.
func (t *Backend) Handle(name string) *catalog.Handle {
	for i := range t.Handles {
		if t.Handles[i].Name == name {
			return &t.Handles[i]
		}
	}
	return nil
}

// UnsupportedLane is a lane on which no transfer of a backend runs.
type UnsupportedLane struct {
	Lane   string `yaml:",name" in:"lane"`
	Reason string `yaml:",value"`
}

// Lacks returns why the backend's transfers do not run on a lane, or "".
func (t *Backend) Lacks(lane string) string {
	for _, u := range t.Unsupported {
		if u.Lane == lane {
			return u.Reason
		}
	}
	return ""
}

// Moves implements catalog.LaneBlock.
func (t *Backend) Moves() catalog.Moves {
	moves := catalog.Moves{What: "transfers", Handles: t.Handles}
	for _, lane := range t.Lanes {
		moves.Lanes = append(moves.Lanes, catalog.Lane{Name: lane, Lacks: t.Lacks(lane)})
	}
	return moves
}

// Support lists the supported lanes, and what the platform restricts.
type Support struct {
	Lanes []string `yaml:"lanes,value" in:"lane"`
	Ops   []string `yaml:"ops,optional" in:"transfer op"` // default: the backend's
	// Device is Block.Device.
	Device string `yaml:"device,optional" in:"published text"`
	// PoolBudget is Block.PoolBudget; default: MaxPoolBytes.
	PoolBudget catalog.Bytes `yaml:"pool_budget,optional" min:"1"`
	// CellMinutes and CaseSeconds replace those of CollectiveX's own cases between nodes; see times.
	CellMinutes int `yaml:"cell_minutes,optional" min:"1" max:"7000"`
	CaseSeconds int `yaml:"case_seconds,optional" min:"1" max:"420000"`
}

// Sampling holds the transfer sample counts of a profile; see Block.
type Sampling struct {
	Warmup        int `yaml:"warmup" min:"0" max:"10000"`
	Reps          int `yaml:"reps" min:"1" max:"10000"`
	Trials        int `yaml:"trials" min:"1" max:"1000"`
	SustainMillis int `yaml:"sustain_ms" min:"1" max:"600000"`
}

// Check implements catalog.BackendBlock.
func (t *Backend) Check(c *catalog.Checker, b *catalog.Backend) {
	for i := range t.Unsupported {
		if u := &t.Unsupported[i]; !slices.Contains(t.Lanes, u.Lane) {
			c.Diagnose(u, "backend %q has no lane %q%s", b.Name, u.Lane, vocab.Hint(u.Lane, t.Lanes))
		}
	}
}

// Check implements catalog.SupportBlock.
func (s *Support) Check(c *catalog.Checker, p *catalog.Platform, b *catalog.Backend) {
	for i, lane := range s.Lanes {
		if lane == vocab.LaneRDMA && p.ScaleOut == nil {
			c.Diagnose(&s.Lanes[i], "lane %q joins two nodes, and the platform has no scale_out", lane)
		}
		if vocab.OfHost(lane) != (p.Vendor == vocab.Host) {
			c.Diagnose(&s.Lanes[i], "lane %q does not join the memory of %s", lane, p.Product)
		}
		if !slices.Contains(catalog.BackendOf[Backend](b).Lanes, lane) {
			c.Diagnose(&s.Lanes[i], "backend %q has no lane %q%s", b.Name, lane, vocab.Hint(lane, catalog.BackendOf[Backend](b).Lanes))
		}
	}
	if s.Device != "" && !catalog.BackendOf[Backend](b).DeviceFilter {
		c.Diagnose(&s.Device, "backend %q has no device_filter, and takes no network device", b.Name)
	}
	for i, op := range s.Ops {
		if has := catalog.BackendOf[Backend](b).Ops; !slices.Contains(has, op) {
			c.Diagnose(&s.Ops[i], "backend %q has no operation %q%s", b.Name, op, vocab.Hint(op, has))
		}
	}
}

// Check implements catalog.SuiteBlock.
func (b *SuiteBlock) Check(c *catalog.Checker, s *catalog.Suite) {
	c.Sampled(b, string(Name), b.Sampling, s)
	for _, ladder := range []*[]int{&b.ISL, &b.PageTokens, &b.Batches} {
		c.Ascend(ladder)
	}
	for _, name := range b.Caches {
		for i, page := range b.PageTokens {
			if why := CacheOf(c.Catalog, name).RefusePage(page); why != "" {
				c.Diagnose(&b.PageTokens[i], "cache %q has no pages of %d tokens: %s", name, page, why)
			}
		}
	}
	has := catalog.Offering[Backend](c, string(Name), b.Backends)
	catalog.Offered(c, "lane", b.Lanes, has, func(h *Backend) []string { return h.Lanes })
	catalog.Offered(c, "handle", b.Handles, has, (*Backend).handles)
	catalog.Offered(c, "operation", b.Ops, has, func(h *Backend) []string { return h.Ops })
}

// Worlds implements catalog.SuiteBlock.
func (*SuiteBlock) Worlds(*catalog.Catalog, *catalog.Suite) []int { return []int{Ranks} }

// Coverage implements catalog.BackendBlock: a row if the platform lists a lane.
func (t *Backend) Coverage(_ *catalog.Catalog, p *catalog.Platform, b *catalog.Backend) []catalog.Coverage {
	s := catalog.SupportOf[Support](p.Support(b.Name))
	if s == nil {
		return nil
	}
	row := catalog.Coverage{SKU: p.SKU, Backend: b.Name, Mode: "transfers", World: Ranks}
	for _, lane := range s.Lanes {
		row.Reason = t.Lacks(lane)
		if row.Runs = row.Reason == ""; row.Runs {
			break
		}
	}
	return []catalog.Coverage{row}
}

// Support implements catalog.BackendBlock: the lanes, of a host or of devices, on which transfers run,
// if two ranks can run.
func (t *Backend) Support(vendor string, worlds []int) catalog.SupportBlock {
	if !slices.Contains(worlds, Ranks) {
		return nil
	}
	return &Support{Lanes: slices.DeleteFunc(slices.Clone(t.Lanes), func(lane string) bool {
		return vocab.OfHost(lane) != (vendor == vocab.Host) || t.Lacks(lane) != ""
	})}
}

// Cache describes the memory layout of a KV cache.
type Cache struct {
	Name      string      `yaml:",name"`
	Precision string      `yaml:"precision" in:"precision"`
	Layers    int         `yaml:"layers" min:"1"`
	Seed      uint64      `yaml:"seed"`
	Entries   []CachePart `yaml:"entries"`
}

// CachePart is the definition of a CacheEntry.
type CachePart struct {
	Regions int           `yaml:"regions" min:"1" max:"100000"`
	Tokens  int           `yaml:"tokens" min:"1" max:"1048576"`
	Bytes   catalog.Bytes `yaml:"bytes" min:"8"`
	Window  int           `yaml:"window,optional" min:"1" max:"1048576"`
}

// CacheOf returns the cache of that name, or nil.
func CacheOf(c *catalog.Catalog, name string) *Cache { return catalog.Find[Cache](c, name) }

// Check refuses a cache without entries.
func (k *Cache) Check(c *catalog.Checker) {
	if len(k.Entries) == 0 {
		c.Diagnose(k, "cache %q has no entries", k.Name)
	}
}

// RefusePage returns why the cache has no pages of page tokens, and the closest valid sizes, or "".
// Blocks hold whole entries and whole words of 8 bytes, because checks compare whole words.
func (k *Cache) RefusePage(page int) string {
	why := k.unfit(page)
	if why == "" {
		return ""
	}
	for larger := page + 1; larger <= maxPageTokens; larger++ {
		if k.unfit(larger) == "" {
			return fmt.Sprintf("%s; use pages of %d tokens", why, larger)
		}
	}
	return why
}

// maxPageTokens is the maximum page size of a suite, in tokens.
const maxPageTokens = 1 << 20

// unfit returns why pages of page tokens do not fit the entries, or "".
func (k *Cache) unfit(page int) string {
	least := math.MaxInt
	for _, e := range k.Entries {
		least = min(least, e.Tokens)
		size := int64(max(1, page/e.Tokens)) * int64(e.Bytes)
		switch {
		case page > e.Tokens && page%e.Tokens != 0:
			return fmt.Sprintf("pages of %d tokens do not hold whole entries, of %d tokens", page, e.Tokens)
		case size%8 != 0:
			return fmt.Sprintf("a block of %d bytes is not a multiple of 8", size)
		}
	}
	if page < least {
		return fmt.Sprintf("every block holds at least %d tokens", least)
	}
	return ""
}
