// Package preflight determines what this machine can run before anything is planned: which
// libraries are installed, what each backend requires, and which requirements are missing.
package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/accel/gemm/blaslt"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/accel/hip"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/pyhost"
)

// Kinds of the libraries that backends on GPUs of a vendor have in common.
const (
	CUDA     = "cuda"
	NVRTC    = "nvrtc"
	CUBLASLt = string(blaslt.CUBLASLt)

	HIP       = "hip"
	HIPRTC    = "hiprtc"
	HIPBLASLt = string(blaslt.HIPBLASLt)
)

// vendor is a vendor of GPUs with its libraries.
type vendor struct {
	label      string // in messages
	visibility string // environment variables that select its devices
	hint       string // advice if its driver does not respond
	driver     *backend.Need
	compiler   *backend.Need
	multiplier *backend.Need // multiplies matrices beside communication
	load       func() (*gpu.Driver, error)
	compile    func() (*gpu.Compiler, error)
}

// vendorNames orders the vendors; the names are the inventory's.
var vendorNames = []string{inventory.NVIDIA, inventory.AMD}

var vendors = map[string]*vendor{
	inventory.NVIDIA: {
		label: "NVIDIA", visibility: "CUDA_VISIBLE_DEVICES",
		hint:   "nvidia-smi shows whether its driver works; in a container, start it with --gpus all",
		driver: &backend.Need{Kind: CUDA}, compiler: &backend.Need{Kind: NVRTC}, multiplier: multiplier(blaslt.CUBLASLt, "cuBLASLt"),
		load: cuda.Load, compile: cuda.OpenCompiler,
	},
	inventory.AMD: {
		label: "AMD", visibility: "HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES",
		hint:   "load amdgpu; in a container, start it with --device /dev/kfd --device /dev/dri",
		driver: &backend.Need{Kind: HIP}, compiler: &backend.Need{Kind: HIPRTC}, multiplier: multiplier(blaslt.HIPBLASLt, "hipBLASLt"),
		load: hip.Load, compile: hip.OpenCompiler,
	},
}

func multiplier(kind blaslt.Kind, label string) *backend.Need {
	return &backend.Need{Kind: string(kind), Label: label, Find: func(context.Context) backend.Library {
		lib, version, err := blaslt.Find(kind)
		if err != nil {
			return backend.Library{Err: err}
		}
		return backend.Opened(lib.File, version)
	}}
}

// python is the interpreter of python3 on PATH, with its shared library. Every module needs it.
var python = &backend.Need{Kind: "python", Label: "Python"}

// pythonTimeout limits the time to examine python3 and to find the other libraries.
const pythonTimeout = time.Minute

// libraries maps each kind to the library of a machine.
type libraries map[string]backend.Library

// found records what was found for a need.
func (all libraries) found(n *backend.Need, l backend.Library) {
	l.Kind = n.Kind
	all[n.Kind] = l
}

// Libraries opens drivers, compilers and the libraries that backends need, each in its own namespace.
// It returns them by kind. A driver that reports no device counts as missing.
func Libraries(needs []*backend.Need) map[string]backend.Library {
	ctx, cancel := context.WithTimeout(context.Background(), pythonTimeout)
	defer cancel()
	all := libraries{}
	for _, name := range vendorNames {
		v := vendors[name]
		driver, compiler := v.open()
		all.found(v.driver, driver)
		all.found(v.compiler, compiler)
	}
	var modules []*backend.Need
	for _, n := range needs {
		if n.Module != nil {
			modules = append(modules, n)
		} else {
			all.found(n, n.Find(ctx))
		}
	}
	all.throughPython(ctx, modules)
	return all
}

// Multipliers opens the libraries that multiply matrices beside communication. Libraries omits them,
// since they are large and only cases that multiply matrices need them.
func Multipliers() map[string]backend.Library {
	all := libraries{}
	for _, v := range vendors {
		all.found(v.multiplier, v.multiplier.Find(context.Background()))
	}
	return all
}

// open opens the driver and the compiler that matches it, or any compiler if there is no driver.
func (v *vendor) open() (driver, compiler backend.Library) {
	compile := v.compile
	if d, err := v.load(); err != nil {
		driver = backend.Library{Err: err}
	} else {
		driver = backend.Opened(d.Library().File, d.Version())
		driver.Devices, driver.Err = visible(d)
		compile = d.Compiler
	}
	c, err := compile()
	if err != nil {
		return driver, backend.Library{Err: err}
	}
	return driver, backend.Opened(c.Library().File, c.Version())
}

// visible returns the devices that a driver reports to this process. None is an error.
func visible(d *gpu.Driver) ([]backend.Device, error) {
	count, err := d.Count()
	if err != nil {
		return nil, err
	}
	if count == 0 {
		return nil, fmt.Errorf("%s sees no device: %s", d.Version(), d.NoDevice())
	}
	devices := make([]backend.Device, count)
	for i := range devices {
		info, err := d.Describe(i)
		if err != nil {
			return nil, err
		}
		arch, _, _ := strings.Cut(info.Arch, ":") // gfx942:sramecc+:xnack-, as the compiler wants it
		devices[i] = backend.Device{Vendor: info.Vendor, Product: info.Product, Arch: arch, Address: info.PCIBusID, Unshared: d.SharesVirtual(i)}
	}
	return devices, nil
}

// throughPython finds the Python interpreter and modules, without importing the modules.
func (all libraries) throughPython(ctx context.Context, needs []*backend.Need) {
	modules, read := map[string][]string{}, []string{}
	for _, n := range needs {
		modules[n.Module.Name] = append(modules[n.Module.Name], n.Module.Distributions...)
		if n.Module.Sources && !slices.Contains(read, n.Module.Name) {
			read = append(read, n.Module.Name)
		}
	}
	e, err := pyhost.Find(ctx, command.Host{}, modules, read...)
	interpreter := backend.Library{Err: err}
	if err == nil {
		interpreter = interpreterOf(e)
	}
	all.found(python, interpreter)
	for _, n := range needs {
		if interpreter.Found() {
			all.found(n, inEnvironment(e, n.Module))
		} else {
			all.found(n, backend.Library{Err: interpreter.Err})
		}
	}
}

func interpreterOf(e *pyhost.Environment) backend.Library {
	l, err := e.Library()
	if err != nil {
		return backend.Library{Err: err}
	}
	defer l.Close()
	return backend.Opened(l.File, e.Version.String())
}

// inEnvironment finds a module in an environment.
func inEnvironment(e *pyhost.Environment, m *backend.Module) backend.Library {
	version, ok := e.Packages[m.Name]
	if !ok {
		return backend.Library{Err: fmt.Errorf("no module %s for Python %s of %s: install %s there, or put the bin directory of an environment that has it first in PATH",
			m.Name, e.Version, e.Executable, m.Install)}
	}
	l := backend.Library{Version: version}
	if m.Check != nil {
		l.Held, l.Err = m.Check(e)
	}
	return l
}
