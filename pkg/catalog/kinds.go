package catalog

import (
	"maps"

	"github.com/collectivex/collectivex/pkg/vocab"
)

// vocabulary has the closed lists that are no family's own; see Family.Vocabulary.
var vocabulary = map[string][]string{
	"vendor":       vocab.Vendors(),
	"cpu":          {"amd64", "arm64"},
	"transport":    {"nvlink", "mnnvl", "xgmi", "pcie", "shm"},
	"scope":        vocab.Scopes(),
	"operator key": OperatorKeys(),
	"launcher":     {"bare", "slurm"},
	"container":    {"none", "pyxis", "docker"},
	"maturity":     {"production", "candidate", "reference"},
}

// Words lists the words of a kind, as `in` tags name it: a closed list in the order
// of plans and tables, or the names that the definitions introduce.
func (c *Catalog) Words(kind string) []string { return c.words()[kind] }

// Asked lists the words of a kind that the suites use, in any order.
func (c *Catalog) Asked(kind string) []string { return c.asked[kind] }

// words lists the words of every kind.
func (c *Catalog) words() map[string][]string {
	all := maps.Clone(vocabulary)
	all["suite"] = namesOf(c.Suites, func(s *Suite) string { return s.Name })
	all["platform"] = namesOf(c.Platforms, func(p *Platform) string { return p.SKU })
	all["backend"] = namesOf(c.Backends, func(b *Backend) string { return b.Name })
	all["workload"] = namesOf(c.Workloads, func(w *Workload) string { return w.Name })
	all["routing"] = namesOf(c.Routings, func(r *Routing) string { return r.Name })
	all["capability set"] = namesOf(c.Capabilities, func(s *Capabilities) string { return s.Name })
	all["sampling"] = namesOf(c.Sampling, func(s *Sampling) string { return s.Name })
	for _, f := range families.All() {
		for kind, words := range f.Vocabulary {
			if all[kind] != nil {
				panic("catalog: two vocabularies are called " + kind)
			}
			all[kind] = words
		}
	}
	return all
}
