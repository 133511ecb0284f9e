package plan

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/catalog"
)

// Machine is what the machine at hand really is, as cxrun found it. It stands
// in for the static facts of the local platform; the zero value leaves them.
type Machine struct {
	Arch string // of the processor or device: x86-64, sm90, gfx942
	CPU  string // amd64 or arm64
}

// in returns the catalog with the facts of the machine in the platform that
// stands for the machine at hand.
func (m Machine) in(cat *catalog.Catalog) *catalog.Catalog {
	if m == (Machine{}) {
		return cat
	}
	out := *cat
	out.Platforms = slices.Clone(cat.Platforms)
	for i := range out.Platforms {
		if p := &out.Platforms[i]; p.Local {
			p.Arch, p.CPU = m.Arch, m.CPU
		}
	}
	return &out
}
