package collective

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Op is an operation. C code of the backends knows the values.
type Op uint32

// The operations.
const (
	AllReduce Op = iota
	AllGather
	ReduceScatter
	AllToAll
	Broadcast
	SendRecv // ring: to the next rank, from the one before
	Reduce
	Gather
	Scatter
)

// shape is what sets an operation apart from the others. Everything else is
// derived from it.
type shape struct {
	name    string
	reduces bool
	rooted  bool
	// send and recv are the parts of one rank's count in its buffers, all or one.
	send, recv extent
	// noInPlace: no buffer can hold input and output at once.
	noInPlace bool
}

// extent is how many counts long a buffer is.
type extent int

const (
	one extent = iota // count elements
	all               // count elements for every rank
)

var shapes = [...]shape{
	AllReduce:     {name: "all_reduce", reduces: true},
	AllGather:     {name: "all_gather", recv: all},
	ReduceScatter: {name: "reduce_scatter", reduces: true, send: all},
	AllToAll:      {name: "alltoall", send: all, recv: all, noInPlace: true},
	Broadcast:     {name: "broadcast", rooted: true},
	SendRecv:      {name: "sendrecv", noInPlace: true},
	Reduce:        {name: "reduce", reduces: true, rooted: true},
	Gather:        {name: "gather", rooted: true, recv: all},
	Scatter:       {name: "scatter", rooted: true, send: all},
}

// Ops lists the operations.
func Ops() []Op {
	ops := make([]Op, len(shapes))
	for i := range ops {
		ops[i] = Op(i)
	}
	return ops
}

// ParseOp returns the operation with nccl-tests' name.
func ParseOp(name string) (Op, error) {
	for i, s := range shapes {
		if s.name == name {
			return Op(i), nil
		}
	}
	return 0, fmt.Errorf("unknown collective operation %q", name)
}

func (o Op) String() string { return shapes[o].name }

// Reduces reports whether the operation combines elements.
func (o Op) Reduces() bool { return shapes[o].reduces }

// Rooted reports whether one rank is the root.
func (o Op) Rooted() bool { return shapes[o].rooted }

// InPlace reports whether input and output can share a buffer.
func (o Op) InPlace() bool { return !shapes[o].noInPlace }

// partAlign is the bytes that one rank's part of a buffer is a multiple of, as
// in nccl-tests.
const partAlign = 16

// Extent is how much an operation moves.
type Extent struct {
	Bytes int64 // nccl-tests' size column: the larger of the two buffers
	Count int64 // nccl-tests' count column, and Call.Count
	Send  int64 // elements of a send buffer
	Recv  int64 // elements of a receive buffer
}

// Extent returns what a requested size in bytes comes to. Where ranks have
// parts of a buffer, a part is rounded down to 16 bytes, as nccl-tests does;
// else the size is rounded down to whole elements. It may come to nothing.
func (o Op) Extent(bytes int64, t numeric.Type, world int) Extent {
	s, size := shapes[o], int64(t.Size())
	e := Extent{Count: bytes / size}
	if s.send == all || s.recv == all {
		e.Count = e.Count / int64(world) / (partAlign / size) * (partAlign / size)
	}
	e.Send, e.Recv = e.Count, e.Count
	if s.send == all {
		e.Send *= int64(world)
	}
	if s.recv == all {
		e.Recv *= int64(world)
	}
	e.Bytes = max(e.Send, e.Recv) * size
	return e
}

// InPlaceOffsets returns where, in elements, the send and receive buffers of a
// rank begin in a common buffer, as NCCL wants them.
func (o Op) InPlaceOffsets(count int64, rank int) (send, recv int64) {
	switch s := shapes[o]; {
	case s.recv == all:
		return int64(rank) * count, 0
	case s.send == all:
		return 0, int64(rank) * count
	default:
		return 0, 0
	}
}

// Inputs returns what rank's send buffer holds before the operation.
func (o Op) Inputs(e Extent, rank, root int) []workload.Region {
	if (o == Broadcast || o == Scatter) && rank != root {
		return nil
	}
	return []workload.Region{{Count: e.Send, Source: rank}}
}

// Outputs returns what rank's receive buffer holds after the operation; nothing
// where it has no part in the result.
func (o Op) Outputs(e Extent, rank, world, root int) []workload.Region {
	if (o == Reduce || o == Gather) && rank != root {
		return nil
	}
	mine := int64(rank) * e.Count
	switch o {
	case AllReduce, Reduce:
		return []workload.Region{{Count: e.Count, Source: workload.AllRanks}}
	case ReduceScatter:
		return []workload.Region{{Count: e.Count, First: mine, Source: workload.AllRanks}}
	case Broadcast:
		return []workload.Region{{Count: e.Count, Source: root}}
	case Scatter:
		return []workload.Region{{Count: e.Count, First: mine, Source: root}}
	case SendRecv:
		return []workload.Region{{Count: e.Count, Source: (rank + world - 1) % world}}
	}
	// all_gather, gather, alltoall: a part from every rank
	regions := make([]workload.Region, world)
	for r := range regions {
		regions[r] = workload.Region{Offset: int64(r) * e.Count, Count: e.Count, Source: r}
		if o == AllToAll {
			regions[r].First = mine
		}
	}
	return regions
}

// BusFactor is what algbw is multiplied by for busbw, as in nccl-tests: the
// part of the data that must cross each rank's link.
func (o Op) BusFactor(world int) float64 {
	n := float64(world)
	switch o {
	case AllReduce:
		return 2 * (n - 1) / n
	case AllGather, ReduceScatter, AllToAll, Gather, Scatter:
		return (n - 1) / n
	default: // broadcast, reduce, sendrecv
		return 1
	}
}

// AlgBW is bytes (nccl-tests' size column) over time, in GB/s = 1e9 bytes per second.
func AlgBW(bytes int64, us float64) float64 { return float64(bytes) / us / 1e3 }
