package catalog

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/vocab"
)

// TransferFamily is transfers of memory between two ranks.
var TransferFamily = Family{
	Name:  vocab.FamilyTransfer,
	Suite: &TransferSuite{}, Backend: &TransferBackend{}, Support: &TransferSupport{}, Sampling: &TransferSampling{},
	Added: true,
}

// transferRanks is how many ranks every transfer has.
const transferRanks = 2

// Transfer returns what the backend does of the transfer family, or nil.
func (b *Backend) Transfer() *TransferBackend {
	return BlockOf[TransferBackend](b.Blocks, vocab.FamilyTransfer)
}

// Transfer returns what runs of the backend's transfers, or nil.
func (s *Support) Transfer() *TransferSupport {
	return BlockOf[TransferSupport](s.Blocks, vocab.FamilyTransfer)
}

// Transfer returns the profile's sample counts of transfer cases, or nil.
func (s *Sampling) Transfer() *TransferSampling {
	return BlockOf[TransferSampling](s.Blocks, vocab.FamilyTransfer)
}

// Cache is the form of a KV cache in memory.
type Cache struct {
	Name      string       `yaml:",name"`
	Precision string       `yaml:"precision" in:"precision"`
	Layers    int          `yaml:"layers" min:"1"`
	Seed      uint64       `yaml:"seed"`
	Entries   []CacheEntry `yaml:"entries"`
}

// CacheEntry is a part of a cache; see plan.CacheEntry.
type CacheEntry struct {
	Regions int   `yaml:"regions" min:"1" max:"100000"`
	Tokens  int   `yaml:"tokens" min:"1" max:"1048576"`
	Bytes   Bytes `yaml:"bytes" min:"8"`
	Window  int   `yaml:"window,optional" min:"1" max:"1048576"`
}

// Cache returns the cache of that name, or nil.
func (c *Catalog) Cache(name string) *Cache {
	return find(c.Caches, name, func(k *Cache) string { return k.Name })
}

func (k *Cache) check(c *Checker) {
	if len(k.Entries) == 0 {
		c.Diagnose(k, "cache %q has no entries", k.Name)
	}
}

// RefusePage says why the cache has no pages of so many tokens, and which come closest; empty if it
// has. Blocks hold whole entries, and whole words of 8 bytes, each of which is checked.
func (k *Cache) RefusePage(page int) string {
	why := k.unfit(page)
	if why == "" {
		return ""
	}
	for larger := page + 1; larger <= mostPageTokens; larger++ {
		if k.unfit(larger) == "" {
			return fmt.Sprintf("%s; use pages of %d tokens", why, larger)
		}
	}
	return why
}

// mostPageTokens is the largest page of a suite.
const mostPageTokens = 1 << 20

// unfit says why pages of so many tokens do not fit the entries; empty if they do.
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

// TransferSuite is what a suite asks of the transfer family.
type TransferSuite []TransferBlock

// TransferBlock asks for the product of its caches, lanes and arrangements, on each backend
// that the platform lists with the lane.
type TransferBlock struct {
	Caches       []string `yaml:"caches" in:"kv cache"`
	Backends     []string `yaml:"backends" in:"backend"`
	Lanes        []string `yaml:"lanes" in:"lane"`
	Handles      []string `yaml:"handles,optional" in:"handle"` // each backend's first unless said
	Arrangements []string `yaml:"arrangements" in:"arrangement" default:"[paged]"`
	ISL          []int    `yaml:"isl" min:"1" max:"16777216"`
	PageTokens   []int    `yaml:"page_tokens" min:"1" max:"1048576"`
	Batches      []int    `yaml:"batches" min:"1" max:"65536"`
	Ops          []string `yaml:"ops" in:"transfer op" default:"[pull, push]"`
	Sampling     string   `yaml:"sampling,optional" in:"sampling"` // the suite's unless said
}

// TransferBackend is what a backend does of the transfer family.
type TransferBackend struct {
	Lanes []string `yaml:"lanes" in:"lane"`
	Ops   []string `yaml:"ops" in:"transfer op"`
	// Handles are by which rank 1 can open the pool of rank 0; the first is that of cases that name
	// none. A backend without has a way of its own.
	Handles []BackendHandle `yaml:"handles,optional"`
	// Unsupported are the lanes that do not run, and why.
	Unsupported []UnsupportedLane `yaml:"unsupported,optional"`
}

// BackendHandle is a handle, and the vendors of the devices whose memory it opens.
type BackendHandle struct {
	Name    string   `yaml:",name" in:"handle"`
	Vendors []string `yaml:",value" in:"vendor"`
}

func (t *TransferBackend) handles() (names []string) {
	for i := range t.Handles {
		names = append(names, t.Handles[i].Name)
	}
	return names
}

// CaseHandle is what a case says of a handle: nothing of the first, as cases say that name none.
func (t *TransferBackend) CaseHandle(name string) string {
	if len(t.Handles) > 0 && t.Handles[0].Name == name {
		return ""
	}
	return name
}

// Handle returns what the backend says of a handle, or nil.
func (t *TransferBackend) Handle(name string) *BackendHandle {
	return find(t.Handles, name, func(h *BackendHandle) string { return h.Name })
}

// UnsupportedLane is a lane on which no transfer of a backend runs.
type UnsupportedLane struct {
	Lane   string `yaml:",name" in:"lane"`
	Reason string `yaml:",value"`
}

// Lacks returns why the backend's transfers do not run on a lane; empty if they do.
func (t *TransferBackend) Lacks(lane string) string {
	if u := find(t.Unsupported, lane, func(u *UnsupportedLane) string { return u.Lane }); u != nil {
		return u.Reason
	}
	return ""
}

// TransferSupport lists the lanes that run.
type TransferSupport struct {
	Lanes []string `yaml:",value" in:"lane"`
}

// TransferSampling is the transfer part of a profile; see plan.Transfer.
type TransferSampling struct {
	Warmup        int `yaml:"warmup" min:"0" max:"10000"`
	Reps          int `yaml:"reps" min:"1" max:"10000"`
	Trials        int `yaml:"trials" min:"1" max:"1000"`
	SustainMillis int `yaml:"sustain_ms" min:"1" max:"600000"`
}

// Check implements SamplingBlock. The nonce of a checked burst has 16 bits.
func (*TransferSampling) Check(*Checker) {}

// Check implements BackendBlock.
func (t *TransferBackend) Check(c *Checker, b *Backend) {
	for i := range t.Unsupported {
		if u := &t.Unsupported[i]; !slices.Contains(t.Lanes, u.Lane) {
			c.Diagnose(u, "backend %q has no lane %q%s", b.Name, u.Lane, Hint(u.Lane, t.Lanes))
		}
	}
}

// Check implements SupportBlock.
func (s *TransferSupport) Check(c *Checker, p *Platform, b *Backend) {
	for i, lane := range s.Lanes {
		if lane == vocab.LaneRDMA && p.ScaleOut == nil {
			c.Diagnose(&s.Lanes[i], "lane %q joins two nodes, and the platform has no scale_out", lane)
		}
		if vocab.OfHost(lane) != (p.Vendor == vocab.Host) {
			c.Diagnose(&s.Lanes[i], "lane %q does not join the memory of %s", lane, p.Product)
		}
		if !slices.Contains(b.Transfer().Lanes, lane) {
			c.Diagnose(&s.Lanes[i], "backend %q has no lane %q%s", b.Name, lane, Hint(lane, b.Transfer().Lanes))
		}
	}
}

// Check implements SuiteBlock.
func (e *TransferSuite) Check(c *Checker, s *Suite) {
	for i := range *e {
		(*e)[i].check(c, s)
	}
}

func (b *TransferBlock) check(c *Checker, s *Suite) {
	if profile := cmp.Or(b.Sampling, s.Sampling); c.SamplingProfile(profile).Transfer() == nil {
		c.Diagnose(b, "profile %q has no sample counts of transfers; give it a block %q", profile, vocab.FamilyTransfer)
	}
	for _, ladder := range []*[]int{&b.ISL, &b.PageTokens, &b.Batches} {
		if !slices.IsSorted(*ladder) || len(slices.Compact(slices.Clone(*ladder))) < len(*ladder) {
			c.Diagnose(ladder, "the numbers must ascend")
		}
	}
	for _, name := range b.Caches {
		for i, page := range b.PageTokens {
			if why := c.Cache(name).RefusePage(page); why != "" {
				c.Diagnose(&b.PageTokens[i], "cache %q has no pages of %d tokens: %s", name, page, why)
			}
		}
	}
	has := Offering[TransferBackend](c, vocab.FamilyTransfer, b.Backends)
	Offered(c, "lane", b.Lanes, has, func(h *TransferBackend) []string { return h.Lanes })
	Offered(c, "handle", b.Handles, has, (*TransferBackend).handles)
	Offered(c, "operation", b.Ops, has, func(h *TransferBackend) []string { return h.Ops })
}

// Worlds implements SuiteBlock.
func (*TransferSuite) Worlds(*Catalog, *Suite) []int { return []int{transferRanks} }

// Coverage implements BackendBlock: a row for the platforms that list a lane.
func (t *TransferBackend) Coverage(_ *Catalog, p *Platform, b *Backend) []Coverage {
	s := p.Support(b.Name)
	if s == nil || s.Transfer() == nil {
		return nil
	}
	row := Coverage{SKU: p.SKU, Backend: b.Name, Mode: "transfers", World: transferRanks}
	for _, lane := range s.Transfer().Lanes {
		row.Reason = t.Lacks(lane)
		if row.Runs = row.Reason == ""; row.Runs {
			break
		}
	}
	return []Coverage{row}
}

// Support implements BackendBlock: the lanes on which transfers run, of a host or of devices, if
// two ranks can run.
func (t *TransferBackend) Support(vendor string, worlds []int) SupportBlock {
	if !slices.Contains(worlds, transferRanks) {
		return nil
	}
	return &TransferSupport{Lanes: slices.DeleteFunc(slices.Clone(t.Lanes), func(lane string) bool {
		return vocab.OfHost(lane) != (vendor == vocab.Host) || t.Lacks(lane) != ""
	})}
}
