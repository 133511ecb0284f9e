package gemm

/*
#cgo CFLAGS: -O3 -std=c11 -Wall -Wextra
#include "loop.h"
*/
import "C"

import (
	"errors"
	"fmt"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Loop is an Engine for floats in memory that this process can reach. It multiplies in a plain loop
// on the calling thread and does not use the stream.
type Loop struct{}

var _ Engine = Loop{}

// Prepare implements Engine.
func (Loop) Prepare(p Product) (Multiply, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if p.Type != numeric.Float {
		return nil, fmt.Errorf("unsupported element type %s for matrix products on the host: want float", p.Type)
	}
	return func(accel.Stream) error {
		C.cx_gemm_multiply(p.c(), (*C.float)(p.A.Pointer()), (*C.float)(p.B.Pointer()), (*C.float)(p.C.Pointer()))
		return nil
	}, nil
}

// Close implements Engine.
func (Loop) Close() error { return nil }

// Inline implements Data for memory that this process can reach. It does not use the stream, so the
// caller waits for the stream first.
type Inline struct{}

var _ Data = Inline{}

// Fill implements Data.
func (Inline) Fill(_ accel.Stream, at accel.Ptr, v Values, first, count int64) error {
	C.cx_gemm_fill(v.c(), at.Pointer(), C.int64_t(first), C.int64_t(count))
	return nil
}

// Check implements Data.
func (Inline) Check(_ accel.Stream, at accel.Ptr, v Values, first, count int64) (workload.Verdict, error) {
	out := C.cx_gemm_verdict{first: -1}
	C.cx_gemm_check(v.c(), at.Pointer(), C.int64_t(first), C.int64_t(count), &out)
	return verdict(out), nil
}

// CheckProducts implements Data.
func (Inline) CheckProducts(_ accel.Stream, c Outputs, p Shape, a, b Values) (workload.Verdict, error) {
	out := C.cx_gemm_verdict{first: -1}
	if C.cx_gemm_check_products(c.At.Pointer(), C.int64_t(c.Stride), C.int(c.Count), p.c(), a.c(), b.c(), &out) != 0 {
		return verdict(out), errors.New("check matrix products: out of host memory")
	}
	return verdict(out), nil
}

// CheckedBy implements Data.
func (Inline) CheckedBy() string { return "host" }

// Close implements Data.
func (Inline) Close() error { return nil }

func verdict(v C.cx_gemm_verdict) workload.Verdict {
	return workload.Verdict{Checked: int64(v.checked), Wrong: int64(v.wrong), First: int64(v.first)}
}

func (s Shape) c() C.cx_gemm_shape {
	return C.cx_gemm_shape{m: C.int64_t(s.M), n: C.int64_t(s.N), k: C.int64_t(s.K)}
}

func (v Values) c() C.cx_gemm_values {
	return C.cx_gemm_values{_type: C.int(v.Type), right: C.int(v.right()), seed: C.uint32_t(v.Seed), columns: C.int64_t(v.Columns)}
}
