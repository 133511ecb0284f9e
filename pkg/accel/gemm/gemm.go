// Package gemm multiplies matrices whose products are known exactly: small whole numbers that
// are functions of their place, so that each element of a product can be computed again from
// scratch and compared bit for bit.
package gemm

import (
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Shape is the shape of C [M, N] = A [M, K] times the transpose of B [N, K], all row-major.
type Shape struct{ M, N, K int64 }

// maxDepth is the largest K: the sum of as many products of two elements, at most 4 each in
// magnitude, is a whole number that float holds exactly, and so is each partial sum.
const maxDepth = 1 << 22

// Check refuses what is not a matrix product, or not an exact one.
func (s Shape) Check() error {
	if s.M < 1 || s.N < 1 || s.K < 1 || s.K > maxDepth {
		return fmt.Errorf("product of [%d, %d] and [%d, %d]: want at least 1 row, column and depth, and a depth of at most %d, to which sums are exact", s.M, s.K, s.K, s.N, maxDepth)
	}
	return nil
}

// Product is one multiplication in the memory of a device.
type Product struct {
	Shape
	Type    numeric.Type // of all elements
	A, B, C accel.Ptr
}

// Check refuses what cannot be computed exactly, and types without matrices.
func (p Product) Check() error {
	if err := p.Shape.Check(); err != nil {
		return err
	}
	if !slices.Contains(Types(), p.Type) {
		return fmt.Errorf("there are no products of %s: want float, bfloat16 or half", p.Type)
	}
	return nil
}

// Outputs are matrices of one shape, each Stride bytes after the one before.
type Outputs struct {
	At     accel.Ptr
	Stride int64
	Count  int
}

// Engine multiplies. Sums are of float, and rounded once to the element type.
type Engine interface {
	// Prepare chooses how to compute a product, which may take milliseconds. It refuses shapes
	// and types that the engine does not have.
	Prepare(p Product) (Multiply, error)
	// Close frees the engine and what it prepared, none of which is under way.
	Close() error
}

// Multiply enqueues a product that was prepared. Products of one engine may share memory for
// intermediate results: each begins when the one before has ended.
type Multiply func(s accel.Stream) error

// Values are the elements of a matrix of a type: element i, counted by rows, is −2, −1, 1 or 2 by bits
// of
//
//	mix(mix(seed ^ low32(i)) + high32(i))
//
// with mix as in workload.Pattern: bit 31 is the sign, bit 30 the magnitude.
type Values struct {
	Type numeric.Type
	Seed uint32
}

// Data makes and checks matrices where they are. Checks wait for the stream.
type Data interface {
	// Fill writes count elements from element first of the matrix on to at.
	Fill(s accel.Stream, at accel.Ptr, v Values, first, count int64) error
	// Check compares as many with what Fill writes.
	Check(s accel.Stream, at accel.Ptr, v Values, first, count int64) (workload.Verdict, error)
	// CheckProducts compares matrices, each of which is the product of a and b.
	CheckProducts(s accel.Stream, c Outputs, p Shape, a, b Values) (workload.Verdict, error)
	// CheckedBy is device, or host.
	CheckedBy() string
	Close() error
}

// Types lists the element types that can be multiplied.
func Types() []numeric.Type {
	return []numeric.Type{numeric.Float, numeric.BFloat16, numeric.Half}
}
