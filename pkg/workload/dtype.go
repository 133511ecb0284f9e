// Package workload makes the data that is measured: tokens and routing for the
// expert-parallel family, and exactly reducible buffers for the collectives.
package workload

import "fmt"

// DType is an element type of a collective. Its values are NCCL's
// (ncclDataType_t) and its names those of nccl-tests.
type DType uint32

// The element types.
const (
	Int8 DType = iota
	Uint8
	Int32
	Uint32
	Int64
	Uint64
	Half
	Float
	Double
	BFloat16
	F8E4M3
	F8E5M2
)

// format describes the bits of an element type. Integers have no exponent.
type format struct {
	name     string
	size     int    // bytes
	mantissa uint32 // stored fraction bits; 0 for integers
	bias     int32  // exponent bias; 0 for integers
	signed   bool   // signed integers only
	// exact is the number of bits b such that every integer up to 2^b has an exact
	// encoding; 30 for double, so that sums of the pattern fit 32 bits.
	exact uint32
	// summands is the most ranks that contribute to one element of a sum. It is
	// lower where the type has few bits.
	summands uint32
}

var formats = [...]format{
	Int8:     {name: "int8", size: 1, signed: true, summands: 16},
	Uint8:    {name: "uint8", size: 1, summands: 16},
	Int32:    {name: "int32", size: 4, signed: true, summands: 64},
	Uint32:   {name: "uint32", size: 4, summands: 64},
	Int64:    {name: "int64", size: 8, signed: true, summands: 64},
	Uint64:   {name: "uint64", size: 8, summands: 64},
	Half:     {name: "half", size: 2, mantissa: 10, bias: 15, exact: 11, summands: 64},
	Float:    {name: "float", size: 4, mantissa: 23, bias: 127, exact: 24, summands: 64},
	Double:   {name: "double", size: 8, mantissa: 52, bias: 1023, exact: 30, summands: 64},
	BFloat16: {name: "bfloat16", size: 2, mantissa: 7, bias: 127, exact: 8, summands: 16},
	F8E4M3:   {name: "f8e4m3", size: 1, mantissa: 3, bias: 7, exact: 4, summands: 4},
	F8E5M2:   {name: "f8e5m2", size: 1, mantissa: 2, bias: 15, exact: 3, summands: 4},
}

// DTypes lists all element types in NCCL's order.
func DTypes() []DType {
	all := make([]DType, len(formats))
	for i := range all {
		all[i] = DType(i)
	}
	return all
}

// ParseDType returns the type with nccl-tests' name.
func ParseDType(name string) (DType, error) {
	for i, f := range formats {
		if f.name == name {
			return DType(i), nil
		}
	}
	return 0, fmt.Errorf("unknown element type %q: known are int8 … f8e5m2, spelled as by nccl-tests", name)
}

func (t DType) String() string { return formats[t].name }

// Size is the bytes of one element.
func (t DType) Size() int { return formats[t].size }

// Floating reports whether t is a floating-point type.
func (t DType) Floating() bool { return formats[t].mantissa > 0 }

// RedOp is a reduction. The first five values are NCCL's (ncclRedOp_t); a
// mulsum has to be created in the library (PreMulSum).
type RedOp uint32

// The reductions. NoRedOp is that of operations that only copy.
const (
	Sum RedOp = iota
	Prod
	Max
	Min
	Avg
	MulSum
	NoRedOp
)

var redOpNames = [...]string{Sum: "sum", Prod: "prod", Max: "max", Min: "min", Avg: "avg", MulSum: "mulsum", NoRedOp: ""}

// RedOps lists the reductions in NCCL's order, NoRedOp left out.
func RedOps() []RedOp { return []RedOp{Sum, Prod, Max, Min, Avg, MulSum} }

// ParseRedOp returns the reduction with nccl-tests' name; the empty name is NoRedOp.
func ParseRedOp(name string) (RedOp, error) {
	for i, n := range redOpNames {
		if n == name {
			return RedOp(i), nil
		}
	}
	return 0, fmt.Errorf("unknown reduction %q: known are sum, prod, max, min, avg, mulsum", name)
}

func (o RedOp) String() string { return redOpNames[o] }

// MulSumScalar is what rank multiplies its input by in a mulsum: 1 on even
// ranks and 2 on odd ones, as in nccl-tests.
func MulSumScalar(rank int) int { return 1 + rank&1 }
