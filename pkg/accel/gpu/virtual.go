package gpu

/*
#include "api.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"

	"github.com/collectivex/collectivex/pkg/accel"
)

// Values of the virtual memory interface, the same for both vendors.
const (
	memPinned          = 1 // CU_MEM_ALLOCATION_TYPE_PINNED
	memOnDevice        = 1 // CU_MEM_LOCATION_TYPE_DEVICE
	memReadWrite       = 3 // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	memShareAsFileDesc = 1 // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	memShareAsFabric   = 8 // CU_MEM_HANDLE_TYPE_FABRIC
)

// AllocVirtual is Alloc through virtual memory management. This device and every peer that can
// address the memory may read and write it. The memory can be shared as a file descriptor, which
// some libraries require. Free frees it. The error wraps accel.ErrUnsupported if the device or the
// driver has no virtual memory management.
func (d *Device) AllocVirtual(size int64) (accel.Ptr, error) {
	return d.allocVirtual(size, memShareAsFileDesc)
}

// AllocFabric is AllocVirtual for memory that devices of other hosts can map over NVLink. Libraries
// share it by handles of type FABRIC. The error wraps accel.ErrUnsupported if the device has no such
// handles. The driver returns CUDA_ERROR_NOT_PERMITTED to a process without an IMEX channel.
func (d *Device) AllocFabric(size int64) (accel.Ptr, error) {
	const what = "memory that devices of other hosts can map"
	number := d.driver.vendor.Numbers.VMMFabric
	if number == 0 {
		return 0, fmt.Errorf("allocate %s, on devices of %s: %w", what, d.driver.vendor.Name, accel.ErrUnsupported)
	}
	has, err := d.driver.Attribute(number, d.index)
	if code, ok := errors.AsType[*Error](err); ok && code.Code == codeInvalid { // an older driver without this attribute
		has, err = 0, nil
	}
	if err != nil {
		return 0, err
	}
	if has == 0 {
		return 0, fmt.Errorf("allocate %s (attribute %d of device %d is 0): %w", what, number, d.index, accel.ErrUnsupported)
	}
	p, err := d.allocVirtual(size, memShareAsFabric)
	if code, ok := errors.AsType[*Error](err); ok && code.Code == codeNotPermitted {
		return 0, fmt.Errorf("%w: give the process an IMEX channel, such as /dev/nvidia-caps-imex-channels/channel0, and start nvidia-imex", err)
	}
	return p, err
}

// allocVirtual allocates memory that can be shared by the given types of handles.
func (d *Device) allocVirtual(size int64, handles C.int) (p accel.Ptr, err error) {
	if size <= 0 {
		return 0, fmt.Errorf("allocate %d bytes: a size must be positive", size)
	}
	has, err := d.hasVMM()
	if err != nil {
		return 0, err
	}
	if !has {
		return 0, fmt.Errorf("virtual memory management: %w", accel.ErrUnsupported)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("allocate %d bytes of virtual memory: %w", size, err)
		}
	}()
	a := d.api
	prop := d.virtual(handles)
	granule, err := d.granule(handles)
	if err != nil {
		return 0, err
	}
	bytes := (C.size_t(size) + granule - 1) / granule * granule
	access, err := d.everyPeer()
	if err != nil {
		return 0, err
	}
	var handle C.cx_mem
	if err := a.err(C.cx_fn_vmm_create, C.cx_vmm_create(a.table, &handle, bytes, &prop)); err != nil {
		return 0, err
	}
	return d.mapVirtual(handle, bytes, granule, access)
}

// SharesVirtual returns nil if ExportVirtual and ImportVirtual can share memory of device index.
// Otherwise it returns the reason, as an error that wraps accel.ErrUnsupported.
func (d *Driver) SharesVirtual(index int) error {
	if d.vendor.Numbers.VMMFile == 0 {
		return fmt.Errorf("share virtual memory by file descriptors (the call differs between releases of %s): %w", d.vendor.Driver.What, accel.ErrUnsupported)
	}
	if !d.api.vmm || !d.api.share {
		return fmt.Errorf("share virtual memory by file descriptors (%s lacks the functions): %w", d.Version(), accel.ErrUnsupported)
	}
	for _, number := range []int{d.vendor.Numbers.VMM, d.vendor.Numbers.VMMFile} {
		has, err := d.Attribute(number, index)
		if err != nil {
			return err
		}
		if has == 0 {
			return fmt.Errorf("share virtual memory by file descriptors (attribute %d of device %d is 0): %w", number, index, accel.ErrUnsupported)
		}
	}
	return nil
}

// ExportVirtual returns a file that stands for memory from AllocVirtual, and the size of that memory
// in bytes, rounded up to the driver's granularity. A process that receives the file can map the
// memory with ImportVirtual. The memory exists until every process has freed its mapping and closed
// its descriptors of the file. The error wraps accel.ErrUnsupported if SharesVirtual returns one.
func (d *Device) ExportVirtual(p accel.Ptr) (f *os.File, bytes int64, err error) {
	if err := d.driver.SharesVirtual(d.index); err != nil {
		return nil, 0, err
	}
	memory, ok := d.bases[p]
	if !ok || memory.mapped == 0 {
		return nil, 0, errors.New("export virtual memory: AllocVirtual did not allocate it")
	}
	var descriptor C.int
	if err := d.api.err(C.cx_fn_vmm_export, C.cx_vmm_export(d.api.table, &descriptor, memory.handle)); err != nil {
		return nil, 0, err
	}
	return os.NewFile(uintptr(descriptor), "device memory"), memory.mapped, nil
}

// ImportVirtual maps the memory that f stands for, of the size that ExportVirtual returned. The
// memory may be on another device that this one can access. This device can read and write it. Free
// unmaps it. The caller may close f after the call.
func (d *Device) ImportVirtual(f *os.File, bytes int64) (accel.Ptr, error) {
	if err := d.driver.SharesVirtual(d.index); err != nil {
		return 0, err
	}
	granule, err := d.granule(memShareAsFileDesc)
	if err != nil {
		return 0, err
	}
	var handle C.cx_mem
	if err := d.api.err(C.cx_fn_vmm_import, C.cx_vmm_import(d.api.table, &handle, C.int(f.Fd()))); err != nil {
		return 0, err
	}
	return d.mapVirtual(handle, C.size_t(bytes), granule, []C.cx_access{{location: location(d.dev), flags: memReadWrite}})
}

func (d *Device) hasVMM() (bool, error) {
	if !d.api.vmm {
		return false, nil
	}
	has, err := d.driver.Attribute(d.driver.vendor.Numbers.VMM, d.index)
	return has != 0, err
}

// virtual describes memory of this device that can be shared by the given types of handles.
func (d *Device) virtual(handles C.int) C.cx_mem_prop {
	return C.cx_mem_prop{_type: memPinned, handle_types: handles, location: location(d.dev)}
}

// granule returns the granularity of virtual memory in bytes.
func (d *Device) granule(handles C.int) (n C.size_t, err error) {
	prop := d.virtual(handles)
	err = d.api.err(C.cx_fn_vmm_granularity, C.cx_vmm_granularity(d.api.table, &n, &prop))
	return n, err
}

// mapVirtual maps memory at an address that is a multiple of align. If it fails, it releases the
// memory.
func (d *Device) mapVirtual(handle C.cx_mem, bytes, align C.size_t, access []C.cx_access) (accel.Ptr, error) {
	a := d.api
	var at C.cx_ptr
	if err := a.err(C.cx_fn_vmm_reserve, C.cx_vmm_reserve(a.table, &at, bytes, align)); err != nil {
		return 0, also(err, a.err(C.cx_fn_vmm_release, C.cx_vmm_release(a.table, handle)))
	}
	mapped := allocation{mapped: int64(bytes), handle: handle}
	if err := a.err(C.cx_fn_vmm_map, C.cx_vmm_map(a.table, at, bytes, handle)); err != nil {
		return 0, also(err, d.releaseVirtual(at, mapped))
	}
	if err := a.err(C.cx_fn_vmm_access, C.cx_vmm_access(a.table, at, bytes, &access[0], C.size_t(len(access)))); err != nil {
		return 0, also(err, d.freeVirtual(accel.Ptr(at), mapped))
	}
	d.bases[accel.Ptr(at)] = mapped
	return accel.Ptr(at), nil
}

// everyPeer returns access rights for this device and all devices that can address it.
func (d *Device) everyPeer() ([]C.cx_access, error) {
	access := []C.cx_access{{location: location(d.dev), flags: memReadWrite}}
	count, err := d.driver.Count()
	if err != nil {
		return nil, err
	}
	for peer := range count {
		if peer == d.index {
			continue
		}
		can, err := d.driver.CanAccessPeer(peer, d.index)
		if err != nil {
			return nil, err
		}
		if can {
			dev, err := d.driver.device(peer)
			if err != nil {
				return nil, err
			}
			access = append(access, C.cx_access{location: location(dev), flags: memReadWrite})
		}
	}
	return access, nil
}

func location(dev C.int) C.cx_location { return C.cx_location{_type: memOnDevice, id: dev} }

func (d *Device) freeVirtual(p accel.Ptr, v allocation) error {
	unmap := d.api.err(C.cx_fn_vmm_unmap, C.cx_vmm_unmap(d.api.table, C.cx_ptr(p), C.size_t(v.mapped)))
	return also(unmap, d.releaseVirtual(C.cx_ptr(p), v))
}

// releaseVirtual frees memory and its reserved addresses, after they are unmapped.
func (d *Device) releaseVirtual(p C.cx_ptr, v allocation) error {
	return also(
		d.api.err(C.cx_fn_vmm_release, C.cx_vmm_release(d.api.table, v.handle)),
		d.api.err(C.cx_fn_vmm_address_free, C.cx_vmm_address_free(d.api.table, p, C.size_t(v.mapped))))
}
