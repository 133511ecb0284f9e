package runner

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Op is an operation. C code of the backends uses the same values.
type Op uint32

// The operations.
const (
	AllReduce Op = iota
	AllGather
	ReduceScatter
	AllToAll
	Broadcast
	SendRecv // ring: to the next rank, from the previous one
	Reduce
	Gather
	Scatter
	AllToAllV // parts of unequal sizes, see Form.Traffic
	P2P       // from the first rank of a pair to the second; all others are idle
	P2PBidir  // both directions at once
	Hypercube // an all_gather in log2(world) steps, with rank^1, rank^2, rank^4, …
	Halo      // ring: each rank exchanges half of its buffer with each neighbour
)

// shape is an operation of the vocabulary and the sizes of its buffers in counts.
type shape struct {
	vocab.Operation
	send, recv extent
	// flow returns the number of elements from each rank (row) to each rank (column), for an operation
	// with sizes whose calls list these numbers. It is nil for other operations.
	flow func(f Form, count int64) [][]int64
}

// extent is the length of a buffer in counts.
type extent int

const (
	one    extent = iota // count elements
	two                  // count elements for each neighbour
	all                  // count elements for every rank
	listed               // elements as listed in the traffic
)

// parts returns the length of the buffer in counts, in a world of ranks.
func (e extent) parts(world int64) int64 { return [...]int64{one: 1, two: 2, all: world}[e] }

// whole reports whether the buffers of a rank have a single part.
func (s shape) whole() bool { return s.send == one && s.recv == one }

var shapes = [...]shape{
	AllReduce:     {vocab.Op("all_reduce"), one, one, nil},
	AllGather:     {vocab.Op("all_gather"), one, all, nil},
	ReduceScatter: {vocab.Op("reduce_scatter"), all, one, nil},
	AllToAll:      {vocab.Op("alltoall"), all, all, nil},
	Broadcast:     {vocab.Op("broadcast"), one, one, nil},
	SendRecv:      {vocab.Op("sendrecv"), one, one, nil},
	Reduce:        {vocab.Op("reduce"), one, one, nil},
	Gather:        {vocab.Op("gather"), one, all, nil},
	Scatter:       {vocab.Op("scatter"), all, one, nil},
	AllToAllV:     {vocab.Op("alltoallv"), listed, listed, nil},
	P2P:           {vocab.Op("p2p"), one, one, Form.between},
	P2PBidir:      {vocab.Op("p2p_bidir"), one, one, Form.between},
	Hypercube:     {vocab.Op("hypercube"), one, all, nil},
	Halo:          {vocab.Op("halo"), two, two, Form.neighbours},
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
		if s.Name == name {
			return Op(i), nil
		}
	}
	return 0, fmt.Errorf("unknown collective operation %q", name)
}

func (o Op) String() string { return shapes[o].Name }

// Reduces reports whether the operation combines elements.
func (o Op) Reduces() bool { return shapes[o].Reduces }

// Rooted reports whether one rank is the root.
func (o Op) Rooted() bool { return shapes[o].Rooted }

// Pairwise reports whether the operation is between two ranks while the others are idle.
func (o Op) Pairwise() bool { return shapes[o].Pairs != vocab.NoPairs }

// Pairs lists the pairs of ranks on which the operation is measured, or the zero pair once if all ranks
// take part.
func (o Op) Pairs(world int) []Pair {
	if !o.Pairwise() {
		return []Pair{{}}
	}
	var pairs []Pair
	for src := range world {
		for dst := range world {
			if src < dst || src > dst && shapes[o].Pairs == vocab.OrderedPairs {
				pairs = append(pairs, Pair{Src: src, Dst: dst})
			}
		}
	}
	return pairs
}

// Exchanges reports whether the calls of the operation list the amount for each rank; see
// Form.Exchange.
func (o Op) Exchanges() bool { return shapes[o].flow != nil || shapes[o].send == listed }

// InPlace reports whether input and output can share a buffer.
func (o Op) InPlace() bool { return shapes[o].InPlace }

// InPlaceOffsets returns the offsets, in elements, of a rank's send and receive buffers in a common
// buffer, as NCCL requires them.
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

// BusFactor returns the ratio of busbw to algbw; see collective.BusFactor.
func (o Op) BusFactor(world int) float64 { return collective.BusFactor(o.String(), world) }

// AlgBW returns bytes (nccl-tests' size column) over time, in GB/s = 1e9 bytes per second.
func AlgBW(bytes int64, us float64) float64 { return float64(bytes) / us / 1e3 }
