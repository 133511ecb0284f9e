package preflight

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/inventory"
)

// Description is what this machine is, as documents will say it. All of it may
// be published.
type Description struct {
	Program string            `json:"program"` // and its version
	Host    map[string]string `json:"host"`
	inventory.Machine
	State     inventory.State   `json:"state"`
	Libraries []backend.Library `json:"libraries"`
	// Backends can run here.
	Backends []string `json:"backends"`
	// Environment is the allow-listed part that ranks would inherit.
	Environment map[string]string `json:"environment"`
}

// Describe puts together what an examination found.
func (e *Examiner) Describe(findings []Finding) Description {
	d := Description{Machine: e.inventory, Libraries: []backend.Library{}, Backends: []string{}}
	for _, n := range e.listed() {
		if l, ok := e.libraries[n.Kind]; ok && l.Found() {
			d.Libraries = append(d.Libraries, l)
		}
	}
	for _, f := range findings {
		if f.State == Ready {
			d.Backends = append(d.Backends, f.Backend)
		}
	}
	return d
}

// listed returns the libraries that a description lists, in order: for each vendor its own libraries
// and then the other libraries for its devices, and last the libraries of no vendor.
func (e *Examiner) listed() (all []*backend.Need) {
	needs := slices.DeleteFunc(e.backends.Needs(), func(n *backend.Need) bool { return n.Unlisted })
	add := func(vendor string) {
		for _, n := range needs {
			if n.Vendor == vendor {
				all = withInterpreter(all, n)
			}
		}
	}
	for _, name := range vendorNames {
		v := vendors[name]
		all = append(all, v.driver, v.compiler, v.multiplier)
		add(name)
	}
	add("")
	return all
}
