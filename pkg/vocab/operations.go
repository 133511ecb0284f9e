package vocab

// Operation describes a collective operation, or is zero for an unknown one.
type Operation struct {
	Name       string // nccl-tests' name
	Reduces    bool   // takes a reduction operator
	Rooted     bool   // one rank is the root
	InPlace    bool   // input and output can share a buffer
	Traffic    bool   // a file defines what it moves, instead of sizes
	PowerOfTwo bool   // the number of ranks must be a power of two
	Pairs      Pairing
}

// Pairing selects the pairs of ranks on which an operation is measured, one pair at a time, while the
// other ranks are idle.
type Pairing int

// Pairings.
const (
	NoPairs        Pairing = iota // all ranks work together
	OrderedPairs                  // every rank to every other
	UnorderedPairs                // each two ranks once, in both directions
)

// Count returns the number of pairs among world ranks.
func (p Pairing) Count(world int) int {
	switch p {
	case OrderedPairs:
		return world * (world - 1)
	case UnorderedPairs:
		return world * (world - 1) / 2
	default:
		return 0
	}
}

var operations = []Operation{
	{Name: "all_reduce", Reduces: true, InPlace: true},
	{Name: "all_gather", InPlace: true},
	{Name: "reduce_scatter", Reduces: true, InPlace: true},
	{Name: "alltoall"},
	{Name: "broadcast", Rooted: true, InPlace: true},
	{Name: "sendrecv"},
	{Name: "reduce", Reduces: true, Rooted: true, InPlace: true},
	{Name: "gather", Rooted: true, InPlace: true},
	{Name: "scatter", Rooted: true, InPlace: true},
	{Name: "alltoallv", Traffic: true},
	{Name: "p2p", Pairs: OrderedPairs},
	{Name: "p2p_bidir", Pairs: UnorderedPairs},
	{Name: "hypercube", InPlace: true, PowerOfTwo: true},
	{Name: "halo"},
}

// Op returns the operation of that name.
func Op(name string) Operation {
	for i := range operations { // of 100,000 cases: without allocations
		if operations[i].Name == name {
			return operations[i]
		}
	}
	return Operation{}
}

// Ops lists the names of the collective operations.
var Ops = List("op", namesOf(operations)...)

func namesOf(all []Operation) (names []string) {
	for _, o := range all {
		names = append(names, o.Name)
	}
	return names
}

// DTypes lists the element types of collectives, with nccl-tests' names.
var DTypes = List("dtype",
	"int8", "uint8", "int32", "uint32", "int64", "uint64",
	"half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2")

// RedOps lists the reduction operators, with nccl-tests' names.
var RedOps = List("redop", "sum", "prod", "max", "min", "avg", "mulsum")

// Placements of an operation's buffers.
const (
	OutOfPlace = "out_of_place"
	InPlace    = "in_place"
)

// Placements lists the placements of an operation's buffers.
var Placements = List("placement", OutOfPlace, InPlace)

// Timing modes of collective cases; docs/documents.md says what each covers.
const (
	Pipelined    = "pipelined"
	Blocking     = "blocking"
	PerIteration = "per_iteration"
	Graph        = "graph"
)

// TimingModes lists the timing modes of collective cases.
var TimingModes = List("timing mode", Pipelined, Blocking, PerIteration, Graph)

// Ends of an operation of a pipelined window, before the next one is issued.
const (
	WaitOperation = "operation" // the host waits for it
	WaitBarrier   = "barrier"   // the same, and a barrier of all ranks
)

// Waits lists the ends of an operation of a pipelined window.
var Waits = List("wait", WaitOperation, WaitBarrier)

// States of the buffers before an operation.
const (
	Cold      = "cold"       // caches emptied
	Warm      = "warm"       // reused
	Shifted   = "shifted"    // one message further at each operation, as in nccl-tests
	Fresh     = "fresh"      // reused; its rank has just written the input
	FreshCold = "fresh-cold" // as Fresh, after caches were emptied
)

// BufferStates lists the states of buffers.
var BufferStates = List("buffers", Cold, Warm, Shifted, Fresh, FreshCold)

// InputWritten reports whether ranks write their input just before an operation on buffers of a
// state.
func InputWritten(state string) bool { return state == Fresh || state == FreshCold }

// CachesEmptied reports whether caches are emptied before operations on buffers of a state.
func CachesEmptied(state string) bool { return state == Cold || state == FreshCold }

// Registrations of buffers with the library.
const (
	Unregistered      = "none"
	LocalRegistration = "local"
	SymmetricWindow   = "symmetric"
)

// Registrations lists the registrations in the order of nccl-tests' -R.
var Registrations = List("registration", Unregistered, LocalRegistration, SymmetricWindow)
