package preflight

import "github.com/collectivex/collectivex/pkg/inventory"

// Description is what this machine is, as documents will say it. All of it may
// be published.
type Description struct {
	Program string            `json:"program"` // and its version
	Host    map[string]string `json:"host"`
	inventory.Machine
	State     inventory.State `json:"state"`
	Libraries []Library       `json:"libraries"`
	// Backends can run here.
	Backends []string `json:"backends"`
	// Environment is the allow-listed part that ranks would inherit.
	Environment map[string]string `json:"environment"`
}

// Describe puts together what an examination found.
func (e *Examiner) Describe(findings []Finding) Description {
	d := Description{Machine: e.inventory, Libraries: []Library{}, Backends: []string{}}
	for _, kind := range kinds {
		if l, ok := e.libraries[kind]; ok && l.Found() {
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
