package gpu

/*
#include "api.h"
*/
import "C"

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/accel"
)

// Values of the virtual memory interface, the same for both vendors.
const (
	memPinned          = 1 // CU_MEM_ALLOCATION_TYPE_PINNED
	memOnDevice        = 1 // CU_MEM_LOCATION_TYPE_DEVICE
	memReadWrite       = 3 // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	memShareAsFileDesc = 1 // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
)

// AllocVirtual implements accel.VirtualAllocator. The memory is readable and
// writable by this device and by every peer that can address it, and can be
// shared as a file descriptor, as libraries that map it elsewhere need.
func (d *Device) AllocVirtual(size int64) (p accel.Ptr, err error) {
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
	prop := C.cx_mem_prop{_type: memPinned, handle_types: memShareAsFileDesc, location: location(d.dev)}
	var granule C.size_t
	if err := a.err(C.cx_fn_vmm_granularity, C.cx_vmm_granularity(a.table, &granule, &prop)); err != nil {
		return 0, err
	}
	bytes := (C.size_t(size) + granule - 1) / granule * granule
	var handle C.cx_mem
	if err := a.err(C.cx_fn_vmm_create, C.cx_vmm_create(a.table, &handle, bytes, &prop)); err != nil {
		return 0, err
	}
	var at C.cx_ptr
	if err := a.err(C.cx_fn_vmm_reserve, C.cx_vmm_reserve(a.table, &at, bytes, granule)); err != nil {
		return 0, also(err, a.err(C.cx_fn_vmm_release, C.cx_vmm_release(a.table, handle)))
	}
	mapped := allocation{mapped: int64(bytes), handle: handle}
	if err := a.err(C.cx_fn_vmm_map, C.cx_vmm_map(a.table, at, bytes, handle)); err != nil {
		return 0, also(err, d.releaseVirtual(at, mapped))
	}
	access, err := d.everyPeer()
	if err == nil {
		err = a.err(C.cx_fn_vmm_access, C.cx_vmm_access(a.table, at, bytes, &access[0], C.size_t(len(access))))
	}
	if err != nil {
		return 0, also(err, d.freeVirtual(accel.Ptr(at), mapped))
	}
	d.bases[accel.Ptr(at)] = mapped
	return accel.Ptr(at), nil
}

func (d *Device) hasVMM() (bool, error) {
	if !d.api.vmm {
		return false, nil
	}
	has, err := d.driver.Attribute(d.driver.vendor.Numbers.VMM, d.index)
	return has != 0, err
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

// releaseVirtual frees memory and addresses that are not mapped.
func (d *Device) releaseVirtual(p C.cx_ptr, v allocation) error {
	return also(
		d.api.err(C.cx_fn_vmm_release, C.cx_vmm_release(d.api.table, v.handle)),
		d.api.err(C.cx_fn_vmm_address_free, C.cx_vmm_address_free(d.api.table, p, C.size_t(v.mapped))))
}
