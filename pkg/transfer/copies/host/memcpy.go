package host

/*
#include <stdint.h>
#include <string.h>

static void cx_memcpy(uintptr_t dst, uintptr_t src, size_t bytes) {
	memcpy((void *)dst, (void *)src, bytes);
}
*/
import "C"

import (
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/host"
)

// copier is the device, with the memcpy of the C library for large copies. Go's copy writes past the
// caches from 1 MiB on, where the C library waits for more, and is then up to half as fast again as
// the memcpy of other programs. Below, the two are equally fast, and a call of C is not free.
type copier struct{ *host.Device }

// largeCopy is from how many bytes on copies call the C library.
const largeCopy = 1 << 20

// CopyIn implements accel.Device.
func (d copier) CopyIn(s accel.Stream, dst accel.Ptr, src unsafe.Pointer, bytes int64) error {
	if bytes < largeCopy {
		return d.Device.CopyIn(s, dst, src, bytes)
	}
	C.cx_memcpy(C.uintptr_t(dst), C.uintptr_t(uintptr(src)), C.size_t(bytes))
	return nil
}

// CopyOut implements accel.Device.
func (d copier) CopyOut(s accel.Stream, dst unsafe.Pointer, src accel.Ptr, bytes int64) error {
	if bytes < largeCopy {
		return d.Device.CopyOut(s, dst, src, bytes)
	}
	C.cx_memcpy(C.uintptr_t(uintptr(dst)), C.uintptr_t(src), C.size_t(bytes))
	return nil
}

// Copy implements accel.Device.
func (d copier) Copy(s accel.Stream, dst, src accel.Ptr, bytes int64) error {
	if bytes < largeCopy {
		return d.Device.Copy(s, dst, src, bytes)
	}
	C.cx_memcpy(C.uintptr_t(dst), C.uintptr_t(src), C.size_t(bytes))
	return nil
}
