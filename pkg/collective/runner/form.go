package runner

import (
	"math/bits"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Form is an operation on a world of ranks. Together with a size it determines which rank sends which
// elements to which rank.
type Form struct {
	Op    Op
	Type  numeric.Type
	World int
	Root  int
	// Traffic holds the bytes from rank (row) to rank (column) of an alltoallv, each a whole number of
	// elements. It is nil for other operations.
	Traffic [][]int64
	// Pair holds the ranks of a pairwise operation.
	Pair Pair
}

// Pair is two ranks; the zero value means no pair.
type Pair = collective.Pair

// Idle reports whether rank takes no part in the operation and enqueues nothing.
func (f Form) Idle(rank int) bool {
	return f.Op.Pairwise() && rank != f.Pair.Src && rank != f.Pair.Dst
}

// partAlign is the unit, in bytes, of one rank's part of a buffer where all parts are equal, as in
// nccl-tests.
const partAlign = 16

// Extent holds the buffer sizes of an operation. If the lengths differ between ranks, Send and Recv are
// the maximum.
type Extent struct {
	Bytes int64 // nccl-tests' size column: the larger of the two buffers
	Count int64 // nccl-tests' count column, and Call.Count; for an alltoallv the elements of the larger buffer
	Send  int64 // elements of a send buffer
	Recv  int64 // elements of a receive buffer

	flow [][]int64 // elements from rank to rank, for alltoallv and pairwise operations
}

// Extent returns the extent of a requested size in bytes. If ranks have equal parts of a buffer, a part
// is rounded down to a multiple of 16 bytes, as in nccl-tests. The traffic of an alltoallv is scaled
// down to the size if it is larger. For other operations the size is rounded down to whole elements.
// The extent may be zero.
func (f Form) Extent(bytes int64) Extent {
	s, size, world := shapes[f.Op], int64(f.Type.Size()), int64(f.World)
	if s.send == listed {
		return f.listed(bytes)
	}
	e := Extent{Count: bytes / size}
	if !s.whole() {
		e.Count = e.Count / max(s.send.parts(world), s.recv.parts(world)) / (partAlign / size) * (partAlign / size)
	}
	e.Send, e.Recv = e.Count*s.send.parts(world), e.Count*s.recv.parts(world)
	e.Bytes = max(e.Send, e.Recv) * size
	if s.flow != nil {
		e.flow = s.flow(f, e.Count)
	}
	return e
}

// minBytes returns the minimum size in bytes that gives every rank at least one element.
func (f Form) minBytes() int64 {
	if s := shapes[f.Op]; !s.whole() {
		return max(s.send.parts(int64(f.World)), s.recv.parts(int64(f.World))) * partAlign
	}
	return int64(f.Type.Size())
}

// between returns the flow of count elements from the first rank of the pair to the second, and back
// for a bidirectional operation.
func (f Form) between(count int64) [][]int64 {
	flow, idle := make([][]int64, f.World), make([]int64, f.World)
	for r := range flow {
		flow[r] = idle
	}
	to := func(src, dst int) {
		flow[src] = make([]int64, f.World)
		flow[src][dst] = count
	}
	to(f.Pair.Src, f.Pair.Dst)
	if f.Op == P2PBidir {
		to(f.Pair.Dst, f.Pair.Src)
	}
	return flow
}

// neighbours returns the flow of count elements from every rank to the next and to the previous rank.
// With two ranks, both neighbours of a rank are its peer. With one rank, both are the rank itself.
func (f Form) neighbours(count int64) [][]int64 {
	flow := make([][]int64, f.World)
	for r := range flow {
		flow[r] = make([]int64, f.World)
		flow[r][(r+1)%f.World] += count
		flow[r][(r+f.World-1)%f.World] += count
	}
	return flow
}

// listed returns the extent of the traffic, scaled down to bytes.
func (f Form) listed(bytes int64) Extent {
	size, largest := int64(f.Type.Size()), collective.TrafficSize(f.Traffic)
	bytes = min(bytes, largest)
	e := Extent{flow: make([][]int64, len(f.Traffic))}
	for from, row := range f.Traffic {
		e.flow[from] = make([]int64, len(row))
		for to, part := range row {
			e.flow[from][to] = scaled(part, bytes, largest) / size
		}
	}
	e.Send, e.Recv = collective.Busiest(e.flow)
	e.Count = max(e.Send, e.Recv)
	e.Bytes = e.Count * size
	return e
}

// scaled returns n·by/of, rounded down, for by ≤ of.
func scaled(n, by, of int64) int64 {
	if by == of {
		return n
	}
	high, low := bits.Mul64(uint64(n), uint64(by))
	quotient, _ := bits.Div64(high, low, uint64(of))
	return int64(quotient)
}

// Inputs returns the contents of rank's send buffer before the operation.
func (f Form) Inputs(e Extent, rank int) []workload.Region {
	n := e.Send
	switch {
	case (f.Op == Broadcast || f.Op == Scatter) && rank != f.Root:
		return nil
	case e.flow != nil:
		n = sum(e.flow[rank])
	}
	if n == 0 {
		return nil
	}
	return []workload.Region{{Count: n, Source: rank}}
}

// Outputs returns the contents of rank's receive buffer after the operation, in ascending order of
// offset. It returns nil if the rank receives no result.
func (f Form) Outputs(e Extent, rank int) []workload.Region {
	if (f.Op == Reduce || f.Op == Gather) && rank != f.Root || e.Count == 0 {
		return nil
	}
	if e.flow != nil {
		return e.received(rank)
	}
	mine := int64(rank) * e.Count
	switch f.Op {
	case AllReduce, Reduce:
		return []workload.Region{{Count: e.Count, Source: workload.AllRanks}}
	case ReduceScatter:
		return []workload.Region{{Count: e.Count, First: mine, Source: workload.AllRanks}}
	case Broadcast:
		return []workload.Region{{Count: e.Count, Source: f.Root}}
	case Scatter:
		return []workload.Region{{Count: e.Count, First: mine, Source: f.Root}}
	case SendRecv:
		return []workload.Region{{Count: e.Count, Source: (rank + f.World - 1) % f.World}}
	}
	// all_gather, gather, alltoall: a part from every rank
	regions := make([]workload.Region, f.World)
	for r := range regions {
		regions[r] = workload.Region{Offset: int64(r) * e.Count, Count: e.Count, Source: r}
		if f.Op == AllToAll {
			regions[r].First = mine
		}
	}
	return regions
}

// untouched returns the regions that an out-of-place operation must not change: the whole send buffer
// and, if rank receives no result, the receive buffer. A buffer that the operation does not read has
// contents that differ from all ranks' inputs.
func (f Form) untouched(e Extent, rank int) (send, recv []workload.Region) {
	if send = f.Inputs(e, rank); send == nil {
		send = []workload.Region{{Count: e.Send, First: e.Send, Source: rank}}
	}
	if len(f.Outputs(e, rank)) == 0 {
		recv = []workload.Region{{Count: e.Recv, First: 2 * e.Send, Source: rank}}
	}
	return send, recv
}

// received returns the parts that rank receives, in the order of sending ranks and without gaps. In the
// sender's buffer, a part follows the parts for lower ranks.
func (e Extent) received(rank int) []workload.Region {
	var regions []workload.Region
	offset := int64(0)
	for from, parts := range e.flow {
		if n := parts[rank]; n > 0 {
			regions = append(regions, workload.Region{Offset: offset, Count: n, First: sum(parts[:rank]), Source: from})
			offset += n
		}
	}
	return regions
}

// Exchange returns four concatenated lists of one number per rank, in elements: sent, send offsets,
// received, receive offsets. These are the arguments of ncclAllToAllv. For a pairwise operation, two more lists
// follow: the numbers of messages to and from each rank, which may have no elements. It returns nil for operations
// whose other arguments determine these numbers.
func (f Form) Exchange(e Extent, rank int) []int64 {
	if e.flow == nil {
		return nil
	}
	words := make([]int64, 4*f.World)
	sent, sentAt := words[:f.World], words[f.World:2*f.World]
	received, receivedAt := words[2*f.World:3*f.World], words[3*f.World:4*f.World]
	outgoing, incoming := int64(0), int64(0)
	for peer := range f.World {
		sent[peer], sentAt[peer] = e.flow[rank][peer], outgoing
		received[peer], receivedAt[peer] = e.flow[peer][rank], incoming
		outgoing += sent[peer]
		incoming += received[peer]
	}
	if f.Op.Pairwise() {
		flow := f.between(1)
		words = append(words, flow[rank]...)
		for _, to := range flow {
			words = append(words, to[rank])
		}
	}
	return words
}

func sum(list []int64) int64 {
	total := int64(0)
	for _, n := range list {
		total += n
	}
	return total
}
