package machine

import (
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/plan"
)

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
		if l := e.libraries[kind]; l.Found() {
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

// Plan is the machine as plans take it. Its GPUs are those of the vendor whose
// driver shows the most devices; they take part where a backend can run on
// them and they are all of one product, since a rank's device is its local rank.
func (d *Description) Plan() plan.Machine {
	m := plan.Machine{CPU: d.Host["arch"]}
	best, most := "", 0
	for _, l := range d.Libraries {
		if l.Devices > most {
			best, most = map[string]string{CUDA: inventory.NVIDIA, HIP: inventory.AMD}[l.Kind], l.Devices
		}
	}
	var gpus []inventory.GPU
	for _, g := range d.GPUs {
		if g.Vendor == best {
			gpus = append(gpus, g)
		}
	}
	if len(gpus) == 0 || !d.drivesGPUs() || slices.ContainsFunc(gpus, func(g inventory.GPU) bool { return g.Product != gpus[0].Product }) {
		return m
	}
	m.GPUs = &plan.GPUs{
		Vendor:    best,
		Product:   gpus[0].Model(),
		Arch:      strings.ReplaceAll(gpus[0].Arch, "_", ""),
		Transport: d.Transport(best),
		Count:     min(most, len(gpus)),
		Backends:  d.Backends,
	}
	return m
}

// drivesGPUs reports whether a backend that can run here runs on GPUs.
func (d *Description) drivesGPUs() bool {
	return slices.ContainsFunc(d.Backends, func(name string) bool { return name != hostBackend })
}
