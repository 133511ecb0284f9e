package catalog

import (
	"reflect"

	"github.com/collectivex/collectivex/pkg/registry"
)

// Family is what the definitions say of one kind of measurement. Its name is the
// key of its blocks. Each block here is an empty one of the family's type, a
// pointer whose tags the decoder reads; nil: there is none in that place.
type Family struct {
	Name     string
	Suite    SuiteBlock
	Backend  BackendBlock
	Support  SupportBlock
	Sampling SamplingBlock
	// Added marks a family that definitions from before it do not know: profiles may lack
	// its sample counts. A suite block that needs them checks that they are there.
	Added bool
}

// SuiteBlock is what a suite asks of a family.
type SuiteBlock interface {
	// Check reports what contradicts other definitions.
	Check(c *Checker, s *Suite)
	// Worlds lists the numbers of ranks that the block asks for, in any order.
	Worlds(c *Catalog, s *Suite) []int
}

// BackendBlock is what a backend does of a family.
type BackendBlock interface {
	Check(c *Checker, b *Backend)
	// Coverage lists what suites ask of backend b on platform p.
	Coverage(c *Catalog, p *Platform, b *Backend) []Coverage
	// Support is what a platform of a vendor's devices, or of vendor host, lists of the
	// backend if it runs all of it at the given worlds, or nil where that is nothing.
	Support(vendor string, worlds []int) SupportBlock
}

// SupportBlock is what a platform runs of a backend's family.
type SupportBlock interface {
	Check(c *Checker, p *Platform, b *Backend)
}

// SamplingBlock is the family's part of a profile of sample counts.
type SamplingBlock interface {
	Check(c *Checker)
}

// families stand in the order of plans, tables and messages.
var families = registry.New(func(f Family) string { return f.Name })

// Register adds a family; see package family. It is for init functions:
// it panics if the family is registered already, and once definitions have been read.
func Register(f Family) { families.Add(f) }

// empty returns the family's empty block whose field has the interface type place, or
// nil.
func (f *Family) empty(place reflect.Type) any {
	for _, v := range reflect.ValueOf(*f).Fields() {
		if v.Type() == place {
			return v.Interface()
		}
	}
	panic("catalog: families have no " + place.String())
}

// BlockOf returns the block of a family, or nil.
func BlockOf[T any, B any](blocks map[string]B, family string) *T {
	b, _ := any(blocks[family]).(*T)
	return b
}
