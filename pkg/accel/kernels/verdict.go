package kernels

import (
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Verdict holds the result of kernels that compare elements with their expected values.
type Verdict struct{ found accel.Mirror[found] }

// found is how many elements are wrong, and the first of these.
type found struct{ wrong, first uint64 }

// NewVerdict returns a verdict of a scope.
func NewVerdict(s *accel.Scope) (v Verdict, err error) {
	v.found, err = accel.NewMirror[found](s)
	return v, err
}

// Of runs check, which enqueues kernels that compare so many elements, waits for them and returns
// their verdict. verdict is the argument of a kernel for the address of its result.
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
