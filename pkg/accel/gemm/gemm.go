// Package gemm multiplies matrices of integers and checks the products bit for bit. The elements
// need the whole mantissa of their type, and yet no sum is rounded before its end. Their values
// depend only on their places and a seed, so the check can recompute each element of a product.
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

// maxDepth is the maximum of K. Up to it, all partial sums are exact in float32; see Values.
const maxDepth = 1 << 20

// Check returns an error for a dimension below 1, and for a K above maxDepth.
func (s Shape) Check() error {
	if s.M < 1 || s.N < 1 || s.K < 1 || s.K > maxDepth {
		return fmt.Errorf("product of [%d, %d] and [%d, %d]: want dimensions of at least 1, and an inner dimension of at most %d, above which sums are not exact", s.M, s.K, s.K, s.N, maxDepth)
	}
	return nil
}

// Product is one multiplication in the memory of a device.
type Product struct {
	Shape
	Type    numeric.Type // of all elements
	A, B, C accel.Ptr
}

// Check returns an error for a shape that Shape.Check refuses, and for a type that is not in Types.
func (p Product) Check() error {
	if err := p.Shape.Check(); err != nil {
		return err
	}
	if !slices.Contains(Types(), p.Type) {
		return fmt.Errorf("unsupported element type %s for matrix products: want float, bfloat16 or half", p.Type)
	}
	return nil
}

// Outputs are matrices of one shape, each Stride bytes after the one before.
type Outputs struct {
	At     accel.Ptr
	Stride int64
	Count  int
}

// Engine multiplies matrices. It accumulates in float and rounds each sum once to the element type.
type Engine interface {
	// Prepare chooses an algorithm for a product, which may take milliseconds. It fails for
	// shapes and types that the engine does not support.
	Prepare(p Product) (Multiply, error)
	// Close frees the engine and all products it prepared. None of them may be running.
	Close() error
}

// Multiply enqueues a prepared product. Products of one engine may share memory for intermediate
// results, so the caller must not run two of them at the same time.
type Multiply func(s accel.Stream) error

// Values determines the elements of a matrix, which are integers of two kinds.
//
// Each row has one wide element, except in a B with one column. It is s · (2^(p−1) + x), where p is the
// number of bits in the mantissa of the type (float 24, half 11, bfloat16 8) and x is below 2^(p−2). In A,
// x is odd, so that the element needs all p bits. In B, x may be even: if all were odd, cutting the last
// bit in both matrices would cancel out. The scale s is 1 for float. For the other types it is 16, so that
// sums need more bits than half has.
//
// The column of the wide element is a multiple of 16 in A, and a multiple of 16 plus 1 in B. In the
// possible columns of wide elements of A, all elements of B are 1. In the possible columns of wide
// elements of B, all elements of A are −1. The other elements are −2, −1, 1 or 2.
//
// An element of a product thus adds a wide element of A, subtracts a wide element of B, and has K − 2
// terms of at most 4. The sum of any of its terms is at most 3 · 2^22 + 4K, which is at most 2^24 for K up
// to maxDepth. Partial sums are therefore exact in float32, in any order.
//
// Let h(i) = mix(mix(seed ^ low32(i)) + high32(i)), with mix as in workload.Pattern. The element at index
// i, in row-major order, has its sign in bit 31 of h(i) and its magnitude in bit 30. For the wide element of
// a row, h(−1 − row) modulo the number of possible columns selects the column, and mix of h(−1 − row) has
// the bits of x.
type Values struct {
	Type    numeric.Type
	Seed    uint32
	Columns int64 // K of the product
	Right   bool  // the matrix is B
}

// right returns Right as an argument of C functions and kernels.
func (v Values) right() int32 {
	if v.Right {
		return 1
	}
	return 0
}

// Data fills and checks matrices in device memory. Checks wait for the stream.
type Data interface {
	// Fill writes count elements of the matrix, from element first on, to memory at at.
	Fill(s accel.Stream, at accel.Ptr, v Values, first, count int64) error
	// Check compares count elements at at with what Fill writes there.
	Check(s accel.Stream, at accel.Ptr, v Values, first, count int64) (workload.Verdict, error)
	// CheckProducts compares each matrix in c with the product of a and b.
	CheckProducts(s accel.Stream, c Outputs, p Shape, a, b Values) (workload.Verdict, error)
	// CheckedBy returns where checks run: "device" or "host".
	CheckedBy() string
	Close() error
}

// Types lists the element types that can be multiplied.
func Types() []numeric.Type {
	return []numeric.Type{numeric.Float, numeric.BFloat16, numeric.Half}
}
