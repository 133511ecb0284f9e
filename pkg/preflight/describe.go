package preflight

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/inventory"
)

// Description describes this machine in the words of documents. All of it may be published.
type Description struct {
	Program string            `json:"program"` // and its version
	Host    map[string]string `json:"host"`
	inventory.Machine
	State     inventory.State   `json:"state"`
	Libraries []backend.Library `json:"libraries"`
	// Backends lists the backends that can run on this machine.
	Backends []string `json:"backends"`
	// Environment has the allow-listed variables that ranks would inherit.
	Environment map[string]string `json:"environment"`
}

// Describe returns the description of the machine for the findings of Examine. The caller fills in
// Program, Host, State and Environment.
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

// listed returns the libraries that a description lists, in order. For each vendor these are its own
// libraries and then other libraries for its devices. Libraries without a vendor come last.
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
