package data

/*
#cgo CFLAGS: -O3 -std=c11 -Wall -Wextra
#include "data.h"
*/
import "C"

import (
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Inline implements runner.Data for memory that this process can access: buffers of the host library,
// and copies of device buffers. It ignores the stream, so the caller waits for the stream first.
type Inline struct{}

var _ runner.Data = Inline{}

// Fill implements runner.Data.
func (Inline) Fill(_ accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) error {
	write(p, buf, regions, 0)
	return nil
}

// Poison implements runner.Data.
func (Inline) Poison(_ accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) error {
	write(p, buf, regions, 1)
	return nil
}

func write(p workload.Pattern, buf accel.Ptr, regions []workload.Region, complement C.int) {
	q := pattern(p)
	for _, r := range regions {
		region := region(r)
		C.cx_write(&q, buf.Pointer(), &region, complement)
	}
}

// Check implements runner.Data.
func (Inline) Check(_ accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) (workload.Verdict, error) {
	q := pattern(p)
	v := C.cx_verdict{first: -1}
	for _, r := range regions {
		region := region(r)
		C.cx_check(&q, buf.Pointer(), &region, &v)
	}
	return workload.Verdict{Checked: int64(v.checked), Wrong: int64(v.wrong), First: int64(v.first)}, nil
}

// CheckedBy implements runner.Data.
func (Inline) CheckedBy() string { return "host" }

// Close implements runner.Data.
func (Inline) Close() error { return nil }

// pattern converts workload.Params, which has the layout of cx_pattern.
func pattern(p workload.Pattern) C.cx_pattern {
	params := p.Params()
	return *(*C.cx_pattern)(unsafe.Pointer(&params))
}

func region(r workload.Region) C.cx_region {
	return C.cx_region{
		offset: C.int64_t(r.Offset), count: C.int64_t(r.Count),
		first: C.int64_t(r.First), source: C.int64_t(r.Source),
	}
}
