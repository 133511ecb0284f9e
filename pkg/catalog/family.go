package catalog

import (
	"reflect"
	"slices"

	"github.com/collectivex/collectivex/pkg/registry"
)

// Family describes how one kind of measurement is defined. Its name is the key of its blocks. Each block
// here is an empty one of the family's type, a pointer whose tags the decoder reads; nil: the family has
// no such block.
type Family struct {
	Name  string
	Cases string // name of its cases in messages: collectives, transfers
	// Suite is one block of a suite, which has a list of them.
	Suite    SuiteBlock
	Backend  BackendBlock
	Support  SupportBlock
	Sampling SamplingBlock
	// Lists are the named definitions of the family in workloads.yaml.
	Lists []List
	// MinWorld and MaxWorld bound the ranks of a case of a family whose Support is Worlds. A MaxWorld of
	// 0 means no bound.
	MinWorld, MaxWorld int
	// Added marks a family that is newer than some definitions: profiles may lack its sample counts. A
	// suite block that needs them checks that they exist.
	Added bool
}

// List describes definitions of one kind in workloads.yaml.
type List struct {
	Kind string
	Key  string // with the options of its tag; see strictyaml.Decoder
	// Of is an empty slice of structs with a field Name. The pointer type may have a method
	// Check(c *Checker).
	Of any
}

// SuiteBlock is the part of a suite for one family.
type SuiteBlock interface {
	// Check reports contradictions to other definitions.
	Check(c *Checker, s *Suite)
	// Worlds lists the numbers of ranks that the block requests, in any order.
	Worlds(c *Catalog, s *Suite) []int
}

// BackendBlock holds a backend's capabilities for a family. It may have these methods, if its family
// needs more than the default:
//
//	Check(c *Checker, b *Backend)
//	Coverage(c *Catalog, p *Platform, b *Backend) []Coverage // see Catalog.Coverage
//	Support(vendor string, worlds []int) SupportBlock        // see Backend.Supports
type BackendBlock any

// SupportBlock lists what a platform runs of a backend's family. It may have a method
// Check(c *Checker, p *Platform, b *Backend).
type SupportBlock any

// SamplingBlock holds a profile's sample counts of one family. It may have a method
// Check(c *Checker).
type SamplingBlock any

// families are in the order of plans, tables and messages.
var families = registry.New(func(f Family) string { return f.Name })

// Register adds a family; see package family. Call it from init functions only: it panics if the family
// is already registered, and once definitions have been read.
func Register(f Family) { families.Add(f) }

// Supports returns the blocks, by family, of a platform with a vendor's devices, or with vendor host,
// that runs everything the backend supports at the given worlds. For a family whose Support is Worlds
// these are the possible worlds of its cases, or all up to MaxWorld.
func (b *Backend) Supports(vendor string, worlds []int) map[string]SupportBlock {
	out := map[string]SupportBlock{}
	for _, f := range families.All() {
		own, has := b.Blocks[f.Name].(interface {
			Support(vendor string, worlds []int) SupportBlock
		})
		_, ranks := f.Support.(*Worlds)
		switch {
		case has:
			if s := own.Support(vendor, worlds); s != nil {
				out[f.Name] = s
			}
		case ranks && b.Blocks[f.Name] != nil:
			if s := f.worlds(worlds); len(s) > 0 {
				out[f.Name] = &s
			}
		}
	}
	return out
}

func (f *Family) worlds(given []int) (out Worlds) {
	if f.MaxWorld == 0 {
		return slices.DeleteFunc(slices.Clone(given), func(w int) bool { return w < f.MinWorld })
	}
	for w := f.MinWorld; w <= min(f.MaxWorld, slices.Max(given)); w++ {
		out = append(out, w)
	}
	return out
}

// empty returns the family's empty block in the field of interface type place, or nil.
func (f *Family) empty(place reflect.Type) any {
	for _, v := range reflect.ValueOf(*f).Fields() {
		if v.Type() == place {
			return v.Interface()
		}
	}
	panic("catalog: families have no " + place.String())
}

// Find returns the definition of type T with a name, or nil.
func Find[T any](c *Catalog, name string) *T {
	for _, list := range c.Lists {
		for _, v := range list {
			if t, ok := v.(*T); ok && nameOf(&v) == name {
				return t
			}
		}
	}
	return nil
}

func nameOf(v *any) string { return reflect.ValueOf(*v).Elem().FieldByName("Name").String() }

// BackendOf returns a backend's block of type T, or nil.
func BackendOf[T any](b *Backend) *T { return blockOf[T](b.Blocks) }

// SamplingOf returns a profile's block of sample counts of type T, or nil.
func SamplingOf[T any](s *Sampling) *T { return blockOf[T](s.Blocks) }

// SupportOf returns the block of type T of what a platform runs of a backend, or nil. s may be nil.
func SupportOf[T any](s *Support) *T {
	if s == nil {
		return nil
	}
	return blockOf[T](s.Blocks)
}

func blockOf[T, B any](blocks map[string]B) *T {
	for _, b := range blocks {
		if t, ok := any(b).(*T); ok {
			return t
		}
	}
	return nil
}
