// Package numeric defines the element types of collective libraries, and codecs for the
// types that Go lacks: bf16, fp16 and fp8.
package numeric

import "fmt"

// Type is an element type. Its value is a value of ncclDataType_t, which is the same in NCCL
// and RCCL. Its name is the name that nccl-tests uses.
type Type int

// The types of NCCL.
const (
	Int8 Type = iota
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

// types is in the order of the enumeration.
var types = [...]struct {
	name string
	size int
}{
	{"int8", 1},
	{"uint8", 1},
	{"int32", 4},
	{"uint32", 4},
	{"int64", 8},
	{"uint64", 8},
	{"half", 2},
	{"float", 4},
	{"double", 8},
	{"bfloat16", 2},
	{"f8e4m3", 1},
	{"f8e5m2", 1},
}

// Types returns all types, in the order of nccl-tests.
func Types() []Type {
	all := make([]Type, len(types))
	for i := range all {
		all[i] = Type(i)
	}
	return all
}

// ParseType returns the type that nccl-tests calls name.
func ParseType(name string) (Type, error) {
	for i, t := range types {
		if t.name == name {
			return Type(i), nil
		}
	}
	return 0, fmt.Errorf("unknown element type %q", name)
}

// String returns the name of nccl-tests for the type.
func (t Type) String() string {
	if t < 0 || int(t) >= len(types) {
		return fmt.Sprintf("type(%d)", int(t))
	}
	return types[t].name
}

// Size returns the size of an element in bytes.
func (t Type) Size() int { return types[t].size }
