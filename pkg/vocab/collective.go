package vocab

import "slices"

// operation is what plans have to know of a collective operation.
type operation struct {
	name     string
	reduces  bool // takes a reduction operator
	inPlace  bool // has an in-place form
	pairwise bool // between two ranks, while the others are idle
	traffic  bool // a file says what it moves, in place of sizes
}

var operations = []operation{
	{name: "all_reduce", reduces: true, inPlace: true},
	{name: "all_gather", inPlace: true},
	{name: "reduce_scatter", reduces: true, inPlace: true},
	{name: "alltoall"},
	{name: "broadcast", inPlace: true},
	{name: "sendrecv"},
	{name: "reduce", reduces: true, inPlace: true},
	{name: "gather", inPlace: true},
	{name: "scatter", inPlace: true},
	{name: "alltoallv", traffic: true},
	{name: "p2p", pairwise: true},
	{name: "p2p_bidir", pairwise: true},
	{name: "hypercube", inPlace: true},
}

func find(op string) operation {
	i := slices.IndexFunc(operations, func(o operation) bool { return o.name == op })
	if i < 0 {
		return operation{}
	}
	return operations[i]
}

// Ops lists the collective operations, with nccl-tests' names.
func Ops() []string {
	names := make([]string, len(operations))
	for i, o := range operations {
		names[i] = o.name
	}
	return names
}

// Reduces reports whether op takes a reduction operator.
func Reduces(op string) bool { return find(op).reduces }

// HasInPlace reports whether op has an in-place form.
func HasInPlace(op string) bool { return find(op).inPlace }

// Pairwise reports whether op is between two ranks, while the others are idle.
func Pairwise(op string) bool { return find(op).pairwise }

// TakesTraffic reports whether a file says what op moves, in place of sizes.
func TakesTraffic(op string) bool { return find(op).traffic }

// Pairs returns the number of pairs of ranks that a pairwise op is measured on, and
// 0 for any other op. p2p counts each direction.
func Pairs(op string, world int) int {
	switch op {
	case "p2p":
		return world * (world - 1)
	case "p2p_bidir":
		return world * (world - 1) / 2
	default:
		return 0
	}
}

// DTypes lists the element types of collectives, with nccl-tests' names.
func DTypes() []string {
	return []string{
		"int8", "uint8", "int32", "uint32", "int64", "uint64",
		"half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2",
	}
}

// RedOps lists the reduction operators, with nccl-tests' names.
func RedOps() []string { return []string{"sum", "prod", "max", "min", "avg", "mulsum"} }

// Placements of an operation's buffers.
const (
	OutOfPlace = "out_of_place"
	InPlace    = "in_place"
)

// Placements lists the placements of an operation's buffers.
func Placements() []string { return []string{OutOfPlace, InPlace} }

// Timing modes of collective cases; docs/documents.md says what each covers.
const (
	Pipelined    = "pipelined"
	Blocking     = "blocking"
	PerIteration = "per_iteration"
	Graph        = "graph"
)

// TimingModes lists the timing modes of collective cases.
func TimingModes() []string { return []string{Pipelined, Blocking, PerIteration, Graph} }

// States of the buffers before an operation: caches emptied, reused, or moved by
// one message from operation to operation as nccl-tests does.
const (
	Cold    = "cold"
	Warm    = "warm"
	Shifted = "shifted"
)

// BufferStates lists the states of buffers.
func BufferStates() []string { return []string{Cold, Warm, Shifted} }

// Registrations of buffers with the library.
const (
	Unregistered      = "none"
	LocalRegistration = "local"
	SymmetricWindow   = "symmetric"
)

// Registrations lists the registrations in the order of nccl-tests' -R.
func Registrations() []string {
	return []string{Unregistered, LocalRegistration, SymmetricWindow}
}
