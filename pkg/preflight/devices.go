package preflight

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/dl"
	"github.com/collectivex/collectivex/pkg/inventory"
)

// devices are the GPUs of one vendor, as ranks would get them.
type devices struct {
	here int // that the machine shows, whether they can be used or not
	// usable are those that the driver gives to this process, equal ones, in its
	// order: a rank's device is that of its local rank. Index is −1 where the
	// inventory does not know the device.
	usable []inventory.GPU
	// missing says why a driver that opens gives ranks none.
	missing string
	// note says which ones are left out that nobody asked to leave out.
	note string
}

// driver returns what was found of a vendor's driver, and the zero Library for a host.
func (e *Examiner) driver(vendor string) (l backend.Library) {
	if v := vendors[vendor]; v != nil {
		l = e.libraries[v.driver.Kind]
	}
	return l
}

// shown converts a device that a driver shows to one of the inventory.
func shown(d backend.Device, index int) inventory.GPU {
	return inventory.GPU{Index: index, Vendor: d.Vendor, Product: d.Product, Arch: d.Arch, NUMANode: -1}
}

// devicesOf joins what the inventory has of a vendor and what its driver shows.
func (e *Examiner) devicesOf(vendor string) devices {
	var lost []int
	if vendor == inventory.NVIDIA {
		lost = e.inventory.Lost
	}
	driver, visibility := e.driver(vendor), vendors[vendor].visibility
	d := devices{here: cmp.Or(e.count(vendor)+len(lost), len(driver.Devices), e.inventory.Undriven[vendor])}
	if !driver.Found() {
		return d
	}
	for _, seen := range driver.Devices {
		g := shown(seen, -1)
		for _, o := range e.inventory.GPUs {
			if o.Vendor == vendor && o.At(seen.Address) {
				g.Index = o.Index
			}
		}
		if g.Index < 0 && len(lost) > 0 {
			break // it is the one that is lost, and no rank can pass over a device
		}
		d.usable = append(d.usable, g)
	}
	switch {
	case len(lost) > 0 && len(d.usable) == 0:
		d.missing = fmt.Sprintf("NVML cannot open %s, which ranks would get first: see nvidia-smi, or select others with %s", numbered("device", lost), visibility)
	case len(lost) > 0:
		d.note = fmt.Sprintf("ranks get %d of %s: NVML cannot open %s: see nvidia-smi", len(d.usable), gpus(d.here, vendor), numbered("device", lost))
	}
	if kinds := products(d.usable); len(kinds) > 1 {
		d.usable = nil
		d.missing = fmt.Sprintf("%s shows different devices: %s: select equal ones with %s", driver.Version, strings.Join(kinds, "; "), visibility)
	}
	return d
}

// products says which of the devices, by their place, are of which product.
func products(gpus []inventory.GPU) []string {
	var names []string
	places := map[string][]int{}
	for i, g := range gpus {
		if places[g.Product] == nil {
			names = append(names, g.Product)
		}
		places[g.Product] = append(places[g.Product], i)
	}
	for i, name := range names {
		names[i] = numbered("", places[name]) + " " + name
	}
	return names
}

// numbered spells numbers: device 1, devices 0, 2.
func numbered(what string, numbers []int) string {
	words := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(numbers)), ", "), "[]")
	switch {
	case what == "":
		return words
	case len(numbers) > 1:
		what += "s"
	}
	return what + " " + words
}

// on says what a backend lacks on GPUs of a vendor that are here.
func (e *Examiner) on(b *catalog.Backend, vendor string) []Finding {
	if e.count(vendor) == 0 {
		why := vendors[vendor].hint
		if err := e.driver(vendor).Err; err != nil && !errors.Is(err, dl.ErrNoLibrary) {
			why = err.Error()
		}
		return []Finding{{State: Missing, Text: fmt.Sprintf("%s on the PCI bus, but no driver responds: %s", gpus(e.devices[vendor].here, vendor), why)}}
	}
	found := append(e.missingLibraries(b, vendor), e.misnamedDrivers(b, vendor)...)
	d := e.devices[vendor]
	if d.missing != "" {
		found = append(found, Finding{State: Missing, Text: d.missing})
	}
	if d.note != "" {
		found = append(found, Finding{State: Note, Text: d.note})
	}
	return append(found, e.settings(vendor)...)
}

// misnamedDrivers reports drivers that a variable of the environment names and that cannot be used,
// of the backend's vendors other than the given one. Whoever names a driver wants its GPUs, so those
// of another vendor must not take their place.
func (e *Examiner) misnamedDrivers(b *catalog.Backend, vendor string) []Finding {
	var found []Finding
	for _, v := range b.Vendors {
		if err := e.driver(v).Err; v != vendor && variable(err) != "" {
			found = append(found, Finding{State: Missing, Text: err.Error(), Variable: variable(err)})
		}
	}
	return found
}

// lacking are the findings that keep a backend from running.
func lacking(found []Finding) []string {
	var why []string
	for _, f := range found {
		if f.State == Missing {
			why = append(why, f.Text)
		}
	}
	return why
}
