package catalog

import (
	"fmt"
	"math"
)

// Cache is the form of a KV cache in memory.
type Cache struct {
	Name      string       `yaml:",name"`
	Precision string       `yaml:"precision" in:"precision"`
	Layers    int          `yaml:"layers" min:"1"`
	Seed      uint64       `yaml:"seed"`
	Entries   []CacheEntry `yaml:"entries"`
}

// CacheEntry is a part of a cache; see package transfer.
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
