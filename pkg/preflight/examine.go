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
	Ready   = "ready"   // the backend can run on this machine
	Missing = "missing" // a requirement is missing, so the backend cannot run
	Note    = "note"    // the backend can run, but with a limitation
)

// Finding is one line about a backend or about a tool that starts ranks.
type Finding struct {
	Backend string `json:"backend,omitempty"`
	Tool    string `json:"tool,omitempty"`
	State   string `json:"state"`
	// Text says what is missing, where it was searched for and what to do. It may
	// contain paths of this machine.
	Text string `json:"text"`
	// Variable is the environment variable that names an unusable library.
	Variable string `json:"variable,omitempty"`
	// Held reports that the backend's library is installed, but cannot run for the reason in Text.
	Held bool `json:"held,omitempty"`
}

// Examiner determines what a machine can run.
type Examiner struct {
	inventory inventory.Machine
	libraries map[string]backend.Library
	root      sysfs.Root
	backends  backend.Registry
	devices   map[string]devices // by vendor
}

// NewExaminer returns an examiner for a machine with its libraries, by kind. root contains
// its file systems ("sys", "proc"), and backends are those of this program. If the inventory
// has no device of a vendor, as in a container without NVML, the devices that the driver
// reports are added to it.
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

// Examine reports for each backend whether it can run on this machine and, if not, what is
// missing. Each backend has either one finding in state Ready or at least one in state Missing.
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

// backend returns the vendor on whose GPUs a backend runs, and findings for it. It chooses the
// vendor with the most usable GPUs or, if none is usable, the first vendor with GPUs.
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
	largest := -1
	for _, v := range b.Vendors {
		if e.devices[v].here == 0 {
			continue
		}
		on, usable := e.on(b, v), 0
		if len(lacking(on)) == 0 {
			usable = len(e.devices[v].usable)
		}
		if usable > largest {
			vendor, found, largest = v, on, usable
		}
	}
	if vendor == "" {
		return "", []Finding{{State: Missing, Text: e.withoutGPU(b.Vendors)}}
	}
	return vendor, found
}

// ofBackend returns the first family of a backend for which is returns true, or nil.
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

// withoutGPU returns a text that the machine has no GPU of the vendors. It adds the errors of unusable
// drivers that an environment variable names, since these may be why no GPU was found.
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

// with describes the devices and libraries that a ready backend uses.
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

// named returns the label and version of a library that was found.
func (e *Examiner) named(n *backend.Need) string {
	return strings.TrimSpace(n.Label + " " + e.libraries[n.Kind].Version)
}

// multiplies returns the library, with version and path, through which a backend multiplies matrices
// beside communication, or a note if that library is missing. It returns nothing if Multipliers was
// not called.
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

// sharedMemory creates and maps shared memory as the ranks of the host backend do. It returns a
// finding if that fails.
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
