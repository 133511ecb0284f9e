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
	here int // number of devices in the machine, usable or not
	// usable are the devices that ranks can use, all of one product, in the order of the driver. A
	// rank uses the device whose position is its local rank. Index is −1 for a device that the
	// inventory does not have.
	usable []inventory.GPU
	// missing says why ranks can use no device although the driver works.
	missing string
	// note names devices that are skipped although the user did not exclude them.
	note string
}

// driver returns the driver of a vendor, or the zero Library for a host.
func (e *Examiner) driver(vendor string) (l backend.Library) {
	if v := vendors[vendor]; v != nil {
		l = e.libraries[v.driver.Kind]
	}
	return l
}

// shown converts a device that a driver reports to a GPU of the inventory.
func shown(d backend.Device, index int) inventory.GPU {
	return inventory.GPU{Index: index, Vendor: d.Vendor, Product: d.Product, Arch: d.Arch, NUMANode: -1}
}

// devicesOf combines the GPUs of a vendor in the inventory with the devices that its driver reports.
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
			break // this is a lost device, and ranks cannot skip a device
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

// products lists the products of the devices, each with the positions of its devices.
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

// numbered formats numbers after a noun: device 1, devices 0, 2.
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

// on returns what a backend lacks on the GPUs of a vendor in this machine, and notes.
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

// misnamedDrivers reports unusable drivers that an environment variable names, of the backend's vendors
// except the given one. A user who names a driver expects its GPUs, so cxrun must not use the GPUs of
// another vendor instead.
func (e *Examiner) misnamedDrivers(b *catalog.Backend, vendor string) []Finding {
	var found []Finding
	for _, v := range b.Vendors {
		if err := e.driver(v).Err; v != vendor && variable(err) != "" {
			found = append(found, Finding{State: Missing, Text: err.Error(), Variable: variable(err)})
		}
	}
	return found
}

// lacking returns the texts of the findings that prevent a backend from running.
func lacking(found []Finding) []string {
	var why []string
	for _, f := range found {
		if f.State == Missing {
			why = append(why, f.Text)
		}
	}
	return why
}
