package catalog

import (
	"github.com/collectivex/collectivex/pkg/operator"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// vocabulary holds the closed lists that only definitions use.
var vocabulary = map[string][]string{
	"cpu":          {"amd64", "arm64"},
	"transport":    {"nvlink", "mnnvl", "xgmi", "pcie", "shm"},
	"operator key": operator.Keys(),
	"launcher":     {vocab.Bare, vocab.Slurm},
	"container":    {vocab.NoContainer, vocab.Pyxis, vocab.Docker},
	"store":        {"files", vocab.StoreTCP},
	"task":         {"rank", "node"},
	"rdma fabric":  {operator.EFA},
	"maturity":     {"production", "candidate", "reference"},
}

// Words lists the words of a kind, as `in` tags name it: a closed list in the order of plans and
// tables, or the names introduced by the definitions.
func (c *Catalog) Words(kind string) []string { return c.words()[kind] }

// Asked lists the words of a kind that suites use, in any order.
func (c *Catalog) Asked(kind string) []string { return c.asked[kind] }

// words lists the words of every kind.
func (c *Catalog) words() map[string][]string {
	lists := map[string][]string{}
	for kind, list := range c.Lists {
		lists[kind] = namesOf(list, nameOf)
	}
	all := vocab.Kinds()
	for _, more := range []map[string][]string{vocabulary, lists, {
		"suite":          namesOf(c.Suites, func(s *Suite) string { return s.Name }),
		"platform":       namesOf(c.Platforms, func(p *Platform) string { return p.SKU }),
		"backend":        namesOf(c.Backends, func(b *Backend) string { return b.Name }),
		"capability set": namesOf(c.Capabilities, func(s *Capabilities) string { return s.Name }),
		"sampling":       namesOf(c.Sampling, func(s *Sampling) string { return s.Name }),
	}} {
		for kind, words := range more {
			if all[kind] != nil {
				panic("catalog: two vocabularies are called " + kind)
			}
			all[kind] = words
		}
	}
	return all
}
