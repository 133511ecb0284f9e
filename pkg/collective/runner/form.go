package runner

import (
	"math/bits"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Form is an operation as a group of ranks does it: all that, with a size, says
// which elements go where.
type Form struct {
	Op    Op
	Type  numeric.Type
	World int
	Root  int
	// Traffic is bytes from rank (row) to rank (column) of an alltoallv, whole
	// elements each; nil for the other operations.
	Traffic [][]int64
	// Pair is the ranks of a pairwise operation.
	Pair Pair
}

// Pair is two ranks; the zero value is none.
type Pair = collective.Pair

// Idle reports whether rank has no part in the operation: it enqueues nothing.
func (f Form) Idle(rank int) bool {
	return f.Op.Pairwise() && rank != f.Pair.Src && rank != f.Pair.Dst
}

// partAlign is the bytes that one rank's part of a buffer is a multiple of, as
// in nccl-tests, where all parts are equal.
const partAlign = 16

// Extent is how much an operation moves. Where ranks have buffers of different
// lengths, Send and Recv are the longest.
type Extent struct {
	Bytes int64 // nccl-tests' size column: the larger of the two buffers
	Count int64 // nccl-tests' count column, and Call.Count; of an alltoallv the elements of the larger buffer
	Send  int64 // elements of a send buffer
	Recv  int64 // elements of a receive buffer

	flow [][]int64 // elements from rank to rank, of alltoallv and the pairwise operations
}

// Extent returns what a requested size in bytes comes to. Where ranks have
// equal parts of a buffer, a part is rounded down to 16 bytes, as nccl-tests
// does; the traffic of an alltoallv is scaled down to the size where it is
// larger; else the size is rounded down to whole elements. It may come to
// nothing.
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

// least is the smallest size in bytes that leaves no rank without an element.
func (f Form) least() int64 {
	if s := shapes[f.Op]; !s.whole() {
		return max(s.send.parts(int64(f.World)), s.recv.parts(int64(f.World))) * partAlign
	}
	return int64(f.Type.Size())
}

// between is count elements from one rank of the pair to the other, and back
// where the operation goes both ways.
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

// neighbours is count elements from every rank to the next and to the one before. Two ranks are each
// other's both; one rank is its own.
func (f Form) neighbours(count int64) [][]int64 {
	flow := make([][]int64, f.World)
	for r := range flow {
		flow[r] = make([]int64, f.World)
		flow[r][(r+1)%f.World] += count
		flow[r][(r+f.World-1)%f.World] += count
	}
	return flow
}

// listed is the extent of the traffic, scaled down to bytes.
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

// scaled is n·by/of, rounded down, for by ≤ of.
func scaled(n, by, of int64) int64 {
	if by == of {
		return n
	}
	high, low := bits.Mul64(uint64(n), uint64(by))
	quotient, _ := bits.Div64(high, low, uint64(of))
	return int64(quotient)
}

// Inputs returns what rank's send buffer holds before the operation.
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

// Outputs returns what rank's receive buffer holds after the operation, in the
// order of offsets; nothing where it has no part in the result.
func (f Form) Outputs(e Extent, rank int) []workload.Region {
	if (f.Op == Reduce || f.Op == Gather) && rank != f.Root {
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

// untouched returns what an operation out of place has to leave as it is: the
// whole send buffer and, where rank has no part in the result, the receive
// buffer. What no operation reads is filled all the same, with data that are no
// rank's input.
func (f Form) untouched(e Extent, rank int) (send, recv []workload.Region) {
	if send = f.Inputs(e, rank); send == nil {
		send = []workload.Region{{Count: e.Send, First: e.Send, Source: rank}}
	}
	if len(f.Outputs(e, rank)) == 0 {
		recv = []workload.Region{{Count: e.Recv, First: 2 * e.Send, Source: rank}}
	}
	return send, recv
}

// received is the parts that rank gets, in the order of ranks and without gaps.
// A part stands in its sender's buffer behind those of the ranks before.
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

// Exchange returns who gets how much of what rank sends and who sends it how
// much, where the operation's own arguments do not say it, else nil: four
// lists of one number per rank, all in elements. They are the elements sent,
// where those begin in the send buffer, the elements received, and where those
// begin in the receive buffer. It is what ncclAllToAllv takes.
func (f Form) Exchange(e Extent, rank int) []int64 {
	if e.flow == nil {
		return nil
	}
	words := make([]int64, 4*f.World)
	sent, sentAt := words[:f.World], words[f.World:2*f.World]
	received, receivedAt := words[2*f.World:3*f.World], words[3*f.World:]
	outgoing, incoming := int64(0), int64(0)
	for peer := range f.World {
		sent[peer], sentAt[peer] = e.flow[rank][peer], outgoing
		received[peer], receivedAt[peer] = e.flow[peer][rank], incoming
		outgoing += sent[peer]
		incoming += received[peer]
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
