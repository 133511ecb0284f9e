// Package backend describes a backend to the rest of the program: one value, which holds how ranks
// open it and what it requires of a machine.
package backend

import (
	"cmp"
	"context"
	"slices"

	"github.com/collectivex/collectivex/pkg/dl"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/pyhost"
	"github.com/collectivex/collectivex/pkg/rank"
)

// Backend is what a package provides for a backend of matrix/backends.yaml. Several packages may
// provide something for one backend, each for families of its own.
type Backend struct {
	Name string
	// Open opens its ranks, by family. It is nil if cases have no ranks.
	Open map[plan.Family]rank.Opener
	// Needs are the libraries without which it cannot run, besides the driver of the devices.
	Needs []*Need
	// Compiles reports that it cannot run without kernels that are compiled at run time. Other backends
	// check data on copies instead.
	Compiles bool
	// Loopback reports that the ranks of a host connect over its loopback interface.
	Loopback bool
	// Listens names who can reach the ranks from outside while they run; empty: nobody.
	Listens string
}

// Need is a library that backends need, or a module of Python.
type Need struct {
	Kind     string // its name in descriptions of machines
	Label    string // precedes a version that does not name the library
	Variable string // of the environment, which names its file; empty: none
	Vendor   string // whose devices it drives; empty: any vendor's, or none
	Unlisted bool   // descriptions of machines leave it out
	// Find opens the library and reports what was found. It is nil if Module is set.
	Find   func(ctx context.Context) Library
	Module *Module
}

// Module is a module of Python, which is found without importing it.
type Module struct {
	Name          string
	Distributions []string // that may bring it
	Install       string   // what to install if it is missing
	// Check returns why an installed module cannot be used. held reports that the cause can be
	// removed without installing anything. A nil Check accepts every module of the name.
	Check func(e *pyhost.Environment) (held bool, err error)
	// Sources reports that Check reads the classes that the sources of the module define.
	Sources bool
}

// Library is a library as it was found on a machine, or why it was not. All but Path and Err may
// be published.
type Library struct {
	Kind    string `json:"kind"`
	Version string `json:"version"`
	SOName  string `json:"soname,omitempty"`
	BuildID string `json:"build_id,omitempty"`
	Path    string `json:"-"` // file that was loaded
	Err     error  `json:"-"` // nil if it can be used
	// Held reports that the library is installed, and that the cause of Err can be removed without
	// installing anything.
	Held bool `json:"-"`
	// Devices lists the devices that a driver shows to this process, in its order.
	Devices []Device `json:"-"`
	// Lanes is what keeps the library from lanes of transfers, by lane; nil: nothing.
	Lanes map[string]error `json:"-"`
	// PerCall reports that calls of the library take a configuration with the algorithm to use.
	PerCall bool `json:"-"`
	// Drives is the vendor whose devices a communication library drives.
	Drives string `json:"-"`
}

// Device is a device as its driver reports it.
type Device struct {
	Vendor, Product, Arch string
	Address               string // on the PCI bus
	// Unshared is why other processes cannot map its virtual memory; nil if they can.
	Unshared error
}

// Found reports whether the library is installed and can be used.
func (l *Library) Found() bool { return l.Err == nil }

// Opened describes a library that was loaded from a file.
func Opened(f dl.File, version string) Library {
	return Library{Version: version, SOName: f.SOName(), BuildID: f.BuildID(), Path: f.Path()}
}

// Registry is the backends of a program, in the order in which descriptions list their libraries.
type Registry []Backend

// Find returns what all packages together provide for a backend, without Open; ok is false if none
// does.
func (r Registry) Find(name string) (b Backend, ok bool) {
	b.Name = name
	for i := range r {
		if r[i].Name == name {
			ok = true
			b.Needs = append(b.Needs, r[i].Needs...)
			b.Compiles = b.Compiles || r[i].Compiles
			b.Loopback = b.Loopback || r[i].Loopback
			b.Listens = cmp.Or(b.Listens, r[i].Listens)
		}
	}
	return b, ok
}

// Needs returns the libraries that any backend needs, each once.
func (r Registry) Needs() (all []*Need) {
	for i := range r {
		for _, n := range r[i].Needs {
			if !slices.Contains(all, n) {
				all = append(all, n)
			}
		}
	}
	return all
}
