package result

import (
	"bytes"
	"math/bits"
)

// MaxCompared is the maximum number of bytes of a result, from its start, that is compared with the first result.
const MaxCompared = 256 << 20

// Repeatability compares the results of operations on one input with the first result, bit for bit.
type Repeatability struct {
	Operations int   `json:"operations"`        // the first included
	Compared   int64 `json:"compared_elements"` // of each result, summed over ranks
	// Elements and Bits are those that differ, summed over operations and ranks.
	Elements int64 `json:"different_elements"`
	Bits     int64 `json:"different_bits"`
	// First is the first difference, in the order of operations, ranks and elements; missing if there is none.
	First *Difference `json:"first,omitempty"`
	// AsDeclared reports whether the declared arithmetic allows all results although some differ, such as with
	// and without fused operations. It is missing if none differs, and for collectives.
	AsDeclared *bool `json:"as_declared,omitempty"`
}

// Difference is a bit of a result that differs from the first result.
type Difference struct {
	Operation int `json:"operation"` // 1 is the one after the first
	Rank      int `json:"rank"`
	// Token is a token of the rank, whose elements are then counted from 0; missing for collectives.
	Token   *int64 `json:"token,omitempty"`
	Element int64  `json:"element"`
	Bit     int    `json:"bit"` // 0 is the lowest
}

// Compare adds the elements, of size bytes each, in which the result of an operation differs from the first one,
// and reports whether there are any.
func (v *Repeatability) Compare(first, result []byte, size int64, operation int) bool {
	if bytes.Equal(first, result) {
		return false
	}
	for at := int64(0); at < int64(len(first)); at += size {
		element := int64(0)
		for i := range size {
			x := first[at+i] ^ result[at+i]
			if x != 0 && v.First == nil {
				v.First = &Difference{Operation: operation, Element: at / size, Bit: 8*int(i) + bits.TrailingZeros8(x)}
			}
			element += int64(bits.OnesCount8(x))
		}
		if v.Bits += element; element > 0 {
			v.Elements++
		}
	}
	return true
}

// Add adds what a rank found. Ranks are added in ascending order.
func (v *Repeatability) Add(rank int, found Repeatability) {
	v.Operations = found.Operations
	v.Compared += found.Compared
	v.Elements += found.Elements
	v.Bits += found.Bits
	if found.First != nil && (v.First == nil || found.First.Operation < v.First.Operation) {
		first := *found.First
		first.Rank = rank
		v.First = &first
	}
	if a := found.AsDeclared; a != nil && (v.AsDeclared == nil || !*a) {
		v.AsDeclared = a
	}
}

// Repeatability checks that what a case with a number of operations on world ranks found does not contradict itself.
func (p *Problems) Repeatability(at string, v *Repeatability, operations, world int) {
	f := v.First
	within := f == nil || 0 < f.Operation && f.Operation < operations && 0 <= f.Rank && f.Rank < world &&
		0 <= f.Element && f.Element < v.Compared && 0 <= f.Bit && f.Bit < 64
	p.Check(v.Operations == operations && 0 <= v.Elements && v.Elements <= v.Bits && (v.Elements > 0) == (f != nil) && v.Elements <= v.Compared*int64(operations-1) &&
		(f != nil || v.AsDeclared == nil) && within, "%s: repeatable %+v contradicts identity.case or itself", at, *v)
}
