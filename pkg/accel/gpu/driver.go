package gpu

/*
#include "api.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/dl"
)

// Driver is a loaded and initialised driver library. A process opens it once and never
// closes it, because drivers do not support unloading.
type Driver struct {
	vendor  Vendor
	api     *api
	lib     *dl.Library
	version int
	// compiler opens the run-time compiler once.
	compiler func() (*Compiler, error)
}

// Load finds, binds and initialises the vendor's driver library. The error wraps
// dl.ErrNoLibrary if the library is missing, and dl.ErrNoSymbol if it lacks a function.
func Load(v Vendor) (*Driver, error) {
	lib, err := v.Driver.Open()
	if err != nil {
		return nil, err
	}
	a, err := newAPI(lib, v.Dialect)
	if err != nil {
		return nil, v.Driver.Unusable(fmt.Errorf("too old or a different library: %w", err))
	}
	d := &Driver{vendor: v, api: a, lib: lib}
	if err := a.err(C.cx_fn_init, C.cx_init(a.table)); err != nil {
		return nil, fmt.Errorf("%s: %w%s", v.Driver.What, err, v.hint(err))
	}
	var code C.int
	if err := a.err(C.cx_fn_version, C.cx_version(a.table, &code)); err != nil {
		return nil, err
	}
	d.version = int(code)
	d.compiler = sync.OnceValues(func() (*Compiler, error) { return OpenCompiler(v.Compiler(d.version)) })
	return d, nil
}

// Library returns the library that was loaded.
func (d *Driver) Library() *dl.Library { return d.lib }

// Version returns the driver's version, such as "CUDA 13.0".
func (d *Driver) Version() string { return d.vendor.Version(d.version) }

// Count returns the number of devices visible to this process.
func (d *Driver) Count() (int, error) {
	var n C.int
	err := d.api.err(C.cx_fn_device_count, C.cx_device_count(d.api.table, &n))
	var code *Error
	if errors.As(err, &code) && code.Code == codeNoDevice {
		return 0, nil
	}
	return int(n), err
}

// NoDevice returns advice for the user if Count returns 0.
func (d *Driver) NoDevice() string { return d.vendor.Hints[codeNoDevice] }

// Compiler opens the run-time compiler for this driver; see OpenCompiler.
func (d *Driver) Compiler() (*Compiler, error) { return d.compiler() }

// Attribute returns an integer attribute of device index, by the vendor's number.
func (d *Driver) Attribute(number, index int) (int, error) {
	dev, err := d.device(index)
	if err != nil {
		return 0, err
	}
	var v C.int
	err = d.api.err(C.cx_fn_device_attribute, C.cx_device_attribute(d.api.table, &v, C.int(number), dev))
	return int(v), err
}

// Properties fills buf with the property structure of a device. The caller knows the layout of the
// structure and provides a buf that is large enough.
func (d *Driver) Properties(buf []byte, index int) error {
	return d.api.err(C.cx_fn_device_properties,
		C.cx_device_properties(d.api.table, pointerTo(buf), C.int(index)))
}

// CanAccessPeer reports whether device index can address the memory of device peer.
func (d *Driver) CanAccessPeer(index, peer int) (bool, error) {
	a, err := d.device(index)
	if err != nil {
		return false, err
	}
	b, err := d.device(peer)
	if err != nil {
		return false, err
	}
	var can C.int
	err = d.api.err(C.cx_fn_can_access_peer, C.cx_can_access_peer(d.api.table, &can, a, b))
	return can != 0, err
}

// Describe returns the accel.Info of device index, except TotalBytes, without opening the device.
func (d *Driver) Describe(index int) (accel.Info, error) {
	dev, err := d.device(index)
	if err != nil {
		return accel.Info{}, err
	}
	a := d.api
	var name, bus [256]C.char
	if err := a.err(C.cx_fn_device_name, C.cx_device_name(a.table, &name[0], C.int(len(name)), dev)); err != nil {
		return accel.Info{}, err
	}
	if err := a.err(C.cx_fn_device_bus_id, C.cx_device_bus_id(a.table, &bus[0], C.int(len(bus)), dev)); err != nil {
		return accel.Info{}, err
	}
	arch, err := d.vendor.Arch(d, index)
	if err != nil {
		return accel.Info{}, err
	}
	multiprocessors, err := d.Attribute(d.vendor.Numbers.Multiprocessors, index)
	if err != nil {
		return accel.Info{}, err
	}
	l2, err := d.Attribute(d.vendor.Numbers.L2Bytes, index)
	if err != nil {
		return accel.Info{}, err
	}
	return accel.Info{
		Vendor:    d.vendor.Name,
		Product:   C.GoString(&name[0]),
		Arch:      arch,
		Runtime:   d.Version(),
		Multiproc: multiprocessors,
		L2Bytes:   int64(l2),
		PCIBusID:  C.GoString(&bus[0]),
	}, nil
}

func (d *Driver) device(index int) (C.int, error) {
	var dev C.int
	err := d.api.err(C.cx_fn_device_get, C.cx_device_get(d.api.table, &dev, C.int(index)))
	return dev, err
}

// Open makes device index current on the calling OS thread, which the caller has locked. Compiled
// kernels are cached in cacheDir, or in the user's cache directory if cacheDir is empty.
func (d *Driver) Open(index int, cacheDir string) (*Device, error) {
	count, err := d.Count()
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= count {
		return nil, fmt.Errorf("no device %d: %d %s devices are visible to this process", index, count, d.vendor.Name)
	}
	dev, err := d.device(index)
	if err != nil {
		return nil, err
	}
	if err := d.api.failed("bind device", C.cx_bind(d.api.table, dev)); err != nil {
		return nil, fmt.Errorf("device %d: %w", index, err)
	}
	g := &Device{driver: d, api: d.api, dev: dev, index: index, cacheDir: cacheDir, bases: map[accel.Ptr]allocation{}}
	g.info, err = d.Describe(index)
	if err == nil {
		_, g.info.TotalBytes, err = g.Memory()
	}
	if err != nil {
		return nil, also(fmt.Errorf("device %d: %w", index, err), g.Close())
	}
	return g, nil
}
