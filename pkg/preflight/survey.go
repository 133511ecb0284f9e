package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Survey summarizes what a machine can run, for planning a measurement. It may contain paths
// of this machine, so it must not be published.
type Survey struct {
	// Present lists the GPUs of the inventory.
	Present []inventory.GPU
	// GPUs has an entry for each vendor with GPUs that ranks can use: equal devices and the
	// backends that run on them. The vendor with the most devices comes first.
	GPUs []planner.GPUs
	// PerCall names the backends whose library takes the algorithm for each call.
	PerCall []string
	// Host names the backends that run on the host of this machine.
	Host []string
	// Addresses lists, by vendor, the PCI addresses of the devices that the driver reports, in its order. A rank
	// uses the device whose position is its local rank.
	Addresses map[string][]string
	// Unusable has a text for each vendor with GPUs in this machine but no entry in GPUs: the
	// number of GPUs, what failed and what to do.
	Unusable []string
	// Warnings name devices that are skipped although the user did not exclude them.
	Warnings []string
	Findings []Finding
}

// Survey examines backends and summarizes the findings.
func (e *Examiner) Survey(backends []catalog.Backend) Survey {
	s := Survey{Present: e.inventory.GPUs, Findings: e.Examine(backends), Addresses: map[string][]string{}}
	for i := range backends {
		name := backends[i].Name
		if of, ok := e.backends.Find(name); ok && slices.ContainsFunc(of.Needs, func(n *backend.Need) bool { return e.libraries[n.Kind].PerCall }) {
			s.PerCall = append(s.PerCall, name)
		}
		if slices.Contains(backends[i].Vendors, vocab.Host) && slices.ContainsFunc(s.Findings, func(f Finding) bool { return f.Backend == name && f.State == Ready }) {
			s.Host = append(s.Host, name)
		}
	}
	for _, vendor := range vendorNames {
		d := e.devices[vendor]
		if d.here == 0 {
			continue
		}
		for _, seen := range e.driver(vendor).Devices {
			s.Addresses[vendor] = append(s.Addresses[vendor], strings.ToLower(seen.Address))
		}
		var ready []string
		var why []string // what the backend with the fewest missing requirements lacks
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

// plan describes the usable devices of a vendor for the planner.
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

// Choose returns the first GPUs that run one of the backends, and that backend. The order of
// backends in Survey.GPUs decides between several. It returns nil if there are none.
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

// Lacks returns why a backend cannot run on this machine with the libraries that environment
// variables name.
func (s *Survey) Lacks(backend string) []string {
	return s.texts(func(f Finding) bool { return f.Backend == backend && (f.State == Missing || f.Variable != "") })
}

// Misnamed returns a text for each unusable library of the backends that an environment
// variable names.
func (s *Survey) Misnamed(backends []string) []string {
	return s.texts(func(f Finding) bool { return f.Variable != "" && slices.Contains(backends, f.Backend) })
}

// texts returns the distinct texts of the findings for which match returns true.
func (s *Survey) texts(match func(Finding) bool) []string {
	var out []string
	for _, f := range s.Findings {
		if match(f) && !slices.Contains(out, f.Text) {
			out = append(out, f.Text)
		}
	}
	return out
}
