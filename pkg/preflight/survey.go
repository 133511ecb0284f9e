package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Survey is what a measurement asks of the machine before it is planned. It may
// name paths of this machine: it is for this program, not for documents.
type Survey struct {
	// Present are the GPUs of the inventory.
	Present []inventory.GPU
	// GPUs are those that ranks can use, an entry a vendor: equal devices and the
	// backends that run on them. The vendor with the most comes first.
	GPUs []planner.GPUs
	// Host names the backends that run on the host of this machine.
	Host []string
	// Unusable says of each vendor that has GPUs here and no entry in GPUs how many
	// there are, what failed and what to do.
	Unusable []string
	// Warnings say which devices are left out that nobody asked to leave out.
	Warnings []string
	Findings []Finding
}

// Survey sums an examination of backends up.
func (e *Examiner) Survey(backends []catalog.Backend) Survey {
	s := Survey{Present: e.inventory.GPUs, Findings: e.Examine(backends)}
	for i := range backends {
		name := backends[i].Name
		if slices.Contains(backends[i].Vendors, vocab.Host) && slices.ContainsFunc(s.Findings, func(f Finding) bool { return f.Backend == name && f.State == Ready }) {
			s.Host = append(s.Host, name)
		}
	}
	for _, vendor := range vendorNames {
		d := e.devices[vendor]
		if d.here == 0 {
			continue
		}
		var ready []string
		var why []string // of the backend that lacks least
		for i := range backends {
			b := &backends[i]
			if _, has := e.backends.Find(b.Name); !has || !slices.Contains(b.Vendors, vendor) {
				continue
			}
			switch lacks := lacking(e.on(b, vendor)); {
			case len(lacks) == 0:
				ready = append(ready, b.Name)
			case slices.Contains(b.Vendors, vocab.Host): // it does not need the GPUs
			case why == nil || len(lacks) < len(why):
				why = lacks
			}
		}
		switch {
		case len(ready) > 0:
			s.GPUs = append(s.GPUs, e.plan(vendor, ready))
			if d.note != "" {
				s.Warnings = append(s.Warnings, d.note)
			}
		case e.count(vendor) == 0:
			s.Unusable = append(s.Unusable, why...)
		default:
			s.Unusable = append(s.Unusable, fmt.Sprintf("the %s of this machine cannot be used: %s", gpus(d.here, vendor), strings.Join(why, "; ")))
		}
	}
	slices.SortStableFunc(s.GPUs, func(a, b planner.GPUs) int { return cmp.Compare(b.Count, a.Count) })
	return s
}

// plan is the usable devices of a vendor as plans take them.
func (e *Examiner) plan(vendor string, backends []string) planner.GPUs {
	d := e.devices[vendor]
	var indices []int
	for _, g := range d.usable {
		if g.Index >= 0 {
			indices = append(indices, g.Index)
		}
	}
	return planner.GPUs{
		Vendor:    vendor,
		Product:   d.usable[0].Model(),
		Arch:      strings.ReplaceAll(d.usable[0].Arch, "_", ""),
		Transport: e.inventory.Transport(vendor, indices...),
		Count:     len(d.usable),
		Backends:  backends,
	}
}

// Choose finds the GPUs that run one of the backends, and the first of the
// backends that they run; nil for none.
func (s *Survey) Choose(backends []string) (*planner.GPUs, string) {
	for i := range s.GPUs {
		for _, name := range s.GPUs[i].Backends {
			if slices.Contains(backends, name) {
				return &s.GPUs[i], name
			}
		}
	}
	return nil, ""
}

// Lacks says why a backend cannot run here as it is asked to.
func (s *Survey) Lacks(backend string) []string {
	return s.texts(func(f Finding) bool { return f.Backend == backend && (f.State == Missing || f.Variable != "") })
}

// Misnamed says which libraries of the backends are named by a variable of the
// environment and cannot be used.
func (s *Survey) Misnamed(backends []string) []string {
	return s.texts(func(f Finding) bool { return f.Variable != "" && slices.Contains(backends, f.Backend) })
}

// texts are those of the findings that match, each once.
func (s *Survey) texts(match func(Finding) bool) []string {
	var out []string
	for _, f := range s.Findings {
		if match(f) && !slices.Contains(out, f.Text) {
			out = append(out, f.Text)
		}
	}
	return out
}
