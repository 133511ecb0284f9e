package preflight

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/sysfs"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// States of a Finding.
const (
	Ready   = "ready"   // the backend can run here
	Missing = "missing" // it cannot, and why
	Note    = "note"    // it can, with less than it could have
)

// Finding is one line about one backend, or about one tool that starts ranks.
type Finding struct {
	Backend string `json:"backend,omitempty"`
	Tool    string `json:"tool,omitempty"`
	State   string `json:"state"`
	// Text says what is missing, where it was looked for and what to do. It may
	// name paths of this machine.
	Text string `json:"text"`
	// Variable of the environment that names a library which cannot be used.
	Variable string `json:"variable,omitempty"`
	// Held reports that the backend's library is here, and that what Text says keeps it from running.
	Held bool `json:"held,omitempty"`
}

// Examiner knows the machine it examines.
type Examiner struct {
	inventory inventory.Machine
	libraries map[string]backend.Library
	root      sysfs.Root
	backends  backend.Registry
	devices   map[string]devices // by vendor
}

// NewExaminer returns an examiner of a machine, its libraries and its file
// systems ("sys", "proc"), with which this program measures by the backends. Devices
// that a driver shows and the inventory does not have, as in a container without NVML,
// join the inventory.
func NewExaminer(m inventory.Machine, libraries map[string]backend.Library, root fs.FS, backends backend.Registry) *Examiner {
	e := &Examiner{inventory: m, libraries: libraries, root: sysfs.Root{FS: root}, backends: backends, devices: map[string]devices{}}
	for _, vendor := range vendorNames {
		e.devices[vendor] = e.devicesOf(vendor)
		for i, d := range e.driver(vendor).Devices {
			if !slices.ContainsFunc(m.GPUs, func(o inventory.GPU) bool { return o.Vendor == vendor }) {
				e.inventory.GPUs = append(e.inventory.GPUs, shown(d, i))
			}
		}
	}
	return e
}

// Examine says of each backend whether it can run here and, where not, what is
// missing. A backend has one ready finding, or at least one that is missing.
func (e *Examiner) Examine(backends []catalog.Backend) []Finding {
	var all []Finding
	for i := range backends {
		b := &backends[i]
		vendor, found := e.backend(b)
		if len(lacking(found)) == 0 {
			text := e.with(b, vendor)
			lanes, notes := e.lanes(b)
			if len(lanes) > 0 {
				text += "; " + b.Moves().What + " over " + strings.Join(lanes, ", ")
			}
			by, without := e.multiplies(b, vendor)
			text, notes = text+by, append(notes, without...)
			if of, _ := e.backends.Find(b.Name); of.Listens != "" {
				notes = append(notes, Finding{State: Note, Text: of.Listens})
			}
			found = slices.Insert(append(found, notes...), 0, Finding{State: Ready, Text: text})
		}
		for _, f := range found {
			f.Backend = b.Name
			all = append(all, f)
		}
	}
	return all
}

// backend finds what a backend lacks, and the vendor whose GPUs it runs on: that
// with the most for it, or the first one that has any here.
func (e *Examiner) backend(b *catalog.Backend) (vendor string, found []Finding) {
	if _, ok := e.backends.Find(b.Name); !ok {
		return "", []Finding{{State: Missing, Text: "not supported by this version of cxrun"}}
	}
	if computed(b) {
		return "", nil
	}
	if slices.Contains(b.Vendors, vocab.Host) {
		return "", append(sharedMemory(), e.missingLibraries(b, vocab.Host)...)
	}
	most := -1
	for _, v := range b.Vendors {
		if e.devices[v].here == 0 {
			continue
		}
		on, usable := e.on(b, v), 0
		if len(lacking(on)) == 0 {
			usable = len(e.devices[v].usable)
		}
		if usable > most {
			vendor, found, most = v, on, usable
		}
	}
	if vendor == "" {
		return "", []Finding{{State: Missing, Text: e.withoutGPU(b.Vendors)}}
	}
	return vendor, found
}

// ofBackend returns the first family of a backend that is so, or nil.
func ofBackend(b *catalog.Backend, is func(*family.Family) bool) *family.Family {
	for _, f := range family.All() {
		if b.Blocks[string(f.Plan.Name)] != nil && is(f) {
			return f
		}
	}
	return nil
}

// computed reports whether cases of the backend have no ranks.
func computed(b *catalog.Backend) bool {
	return ofBackend(b, func(f *family.Family) bool { return f.Computed }) != nil
}

func (e *Examiner) count(vendor string) int {
	n := 0
	for i := range e.inventory.GPUs {
		if e.inventory.GPUs[i].Vendor == vendor {
			n++
		}
	}
	return n
}

// withoutGPU says that the machine has no GPU of the vendors. It adds the drivers that a variable of
// the environment names and that cannot be used, since they may be why no GPU was found.
func (e *Examiner) withoutGPU(of []string) string {
	var names, misnamed []string
	for _, v := range of {
		names = append(names, vendors[v].label)
		if err := e.driver(v).Err; variable(err) != "" {
			misnamed = append(misnamed, "; "+err.Error())
		}
	}
	return fmt.Sprintf("no %s GPU in this machine: use a machine that has one", strings.Join(names, " or ")) + strings.Join(misnamed, "")
}

func gpus(n int, vendor string) string {
	name := vendors[vendor].label + " GPU"
	return plural.Count(n, name, name+"s")
}

// with says on what a ready backend runs.
func (e *Examiner) with(b *catalog.Backend, vendor string) string {
	text, of := "processes over shared memory", vocab.Host
	switch d := e.devices[vendor]; {
	case computed(b):
		return "simulated in the process of cxrun: needs no devices"
	case vendor == "":
		if be, _ := e.backends.Find(b.Name); be.Loopback {
			text = "processes of this host"
		}
	case len(d.usable) < d.here:
		of, text = vendor, fmt.Sprintf("%d of %s", len(d.usable), gpus(d.here, vendor))
	default:
		of, text = vendor, gpus(len(d.usable), vendor)
	}
	parts := []string{text}
	for _, n := range e.needs(b, of) {
		parts = append(parts, e.named(n))
	}
	return strings.Join(parts, ", ")
}

// named is a library that was found, with its version.
func (e *Examiner) named(n *backend.Need) string {
	return strings.TrimSpace(n.Label + " " + e.libraries[n.Kind].Version)
}

// multiplies says through which library, of which version and file, a backend multiplies matrices
// beside communication, or notes what it lacks. Where nobody looked, it says nothing.
func (e *Examiner) multiplies(b *catalog.Backend, vendor string) (by string, without []Finding) {
	v := vendors[vendor]
	if v == nil {
		return "", nil
	}
	l, looked := e.libraries[v.multiplier.Kind]
	family := ofBackend(b, func(f *family.Family) bool { return f.Multiplies })
	switch {
	case family == nil || !looked:
		return "", nil
	case !l.Found():
		// It names no variable: only the cases that multiply with the library need it.
		return "", []Finding{{State: Note, Text: fmt.Sprintf("%s; until then matrix products of %s are computed by a kernel, without matrix units", l.Err, family.Plan.Name)}}
	}
	return fmt.Sprintf("; matrix products of %s by %s (%s)", family.Plan.Name, e.named(v.multiplier), l.Path), nil
}

// sharedMemory tries what the ranks of the host backend do: one makes memory,
// another maps it.
func sharedMemory() []Finding {
	const bytes = 1 << 20
	s, err := host.NewSegment("cx-doctor", bytes)
	if err != nil {
		return []Finding{{State: Missing, Text: err.Error()}}
	}
	defer s.Close()
	peer, err := host.OpenSegment(s.Handle())
	if err != nil {
		return []Finding{{State: Missing, Text: err.Error() + ": ranks must see each other's /proc entries"}}
	}
	defer peer.Close()
	return nil
}
