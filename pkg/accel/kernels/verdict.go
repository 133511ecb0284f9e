package kernels

import (
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Verdict holds the result of kernels that compare elements with their expected values.
type Verdict struct{ found accel.Mirror[found] }

// found is the number of wrong elements and the index of the first one.
type found struct{ wrong, first uint64 }

// NewVerdict returns a verdict in memory of a scope, which frees it.
func NewVerdict(s *accel.Scope) (v Verdict, err error) {
	v.found, err = accel.NewMirror[found](s)
	return v, err
}

// Of calls check, which enqueues kernels that compare elements elements in total. It waits for them
// and returns their verdict. check passes verdict to each kernel as the address of its result.
func (v Verdict) Of(s accel.Stream, elements int64, check func(verdict unsafe.Pointer) error) (workload.Verdict, error) {
	of := workload.Verdict{First: -1}
	*v.found.Host = found{first: ^uint64(0)}
	if err := v.found.In(s); err != nil {
		return of, err
	}
	if err := check(accel.Arg(v.found.Device)); err != nil {
		return of, err
	}
	if err := v.found.Out(s); err != nil {
		return of, err
	}
	of.Checked = elements
	if v.found.Host.wrong > 0 {
		of.Wrong, of.First = int64(v.found.Host.wrong), int64(v.found.Host.first)
	}
	return of, nil
}
