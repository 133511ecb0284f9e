package workload

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/numeric"
)

// format describes the bits of an element type.
type format struct {
	mantissa uint32 // stored fraction bits; 0 for integers
	bias     int32  // exponent bias; 0 for integers
	signed   bool   // signed integers only
	// exact is the largest b such that every integer up to 2^b has an exact encoding; 30
	// for double, so that sums of the pattern fit into 32 bits.
	exact uint32
	// summands is the maximum number of ranks that contribute to one element of a sum. It
	// is smaller for types with few bits.
	summands uint32
}

var formats = [...]format{
	numeric.Int8:     {signed: true, summands: 16},
	numeric.Uint8:    {summands: 16},
	numeric.Int32:    {signed: true, summands: 64},
	numeric.Uint32:   {summands: 64},
	numeric.Int64:    {signed: true, summands: 64},
	numeric.Uint64:   {summands: 64},
	numeric.Half:     {mantissa: 10, bias: 15, exact: 11, summands: 64},
	numeric.Float:    {mantissa: 23, bias: 127, exact: 24, summands: 64},
	numeric.Double:   {mantissa: 52, bias: 1023, exact: 30, summands: 64},
	numeric.BFloat16: {mantissa: 7, bias: 127, exact: 8, summands: 16},
	numeric.F8E4M3:   {mantissa: 3, bias: 7, exact: 4, summands: 4},
	numeric.F8E5M2:   {mantissa: 2, bias: 15, exact: 3, summands: 4},
}

// RedOp is a reduction. The first five have NCCL's values (ncclRedOp_t). A mulsum must first be
// created in the library (PreMulSum).
type RedOp uint32

// The reductions. NoRedOp belongs to operations that only copy.
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

// RedOps lists the reductions in NCCL's order, without NoRedOp.
func RedOps() []RedOp { return []RedOp{Sum, Prod, Max, Min, Avg, MulSum} }

// ParseRedOp returns the reduction with nccl-tests' name; the empty name is NoRedOp.
func ParseRedOp(name string) (RedOp, error) {
	for i, n := range redOpNames {
		if n == name {
			return RedOp(i), nil
		}
	}
	return 0, fmt.Errorf("unknown reduction %q: use sum, prod, max, min, avg or mulsum", name)
}

func (o RedOp) String() string { return redOpNames[o] }

// MulSumScalar returns the factor of rank in a mulsum: 1 on even ranks and 2 on odd ones,
// as in nccl-tests.
func MulSumScalar(rank int) int { return 1 + rank&1 }
