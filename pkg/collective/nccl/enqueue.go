package nccl

/*
#include <stdlib.h>
#include "abi.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/numeric"
)

// How is the way an operation is done: by an entry point of the library or, where
// it has none, by grouped sends and receives.
type How int

// The ways.
const (
	AllReduce        How = C.CX_ALL_REDUCE
	AllGather        How = C.CX_ALL_GATHER
	ReduceScatter    How = C.CX_REDUCE_SCATTER
	Broadcast        How = C.CX_BROADCAST
	Reduce           How = C.CX_REDUCE
	AlltoAll         How = C.CX_ALLTOALL
	AllToAll         How = C.CX_ALLTOALL_OLD
	AlltoAllGrouped  How = C.CX_ALLTOALL_GROUPED
	AlltoAllv        How = C.CX_ALLTOALLV
	AllToAllv        How = C.CX_ALLTOALLV_OLD
	AlltoAllvGrouped How = C.CX_ALLTOALLV_GROUPED
	Gather           How = C.CX_GATHER
	GatherGrouped    How = C.CX_GATHER_GROUPED
	Scatter          How = C.CX_SCATTER
	ScatterGrouped   How = C.CX_SCATTER_GROUPED
	SendRecv         How = C.CX_SENDRECV
	Hypercube        How = C.CX_HYPERCUBE
	Pair             How = C.CX_PAIR
)

// ways lists each way's symbols; all have to be there.
var ways = [...]struct {
	path    string
	symbols []string
}{
	AllReduce:        {"ncclAllReduce", []string{"ncclAllReduce"}},
	AllGather:        {"ncclAllGather", []string{"ncclAllGather"}},
	ReduceScatter:    {"ncclReduceScatter", []string{"ncclReduceScatter"}},
	Broadcast:        {"ncclBroadcast", []string{"ncclBroadcast"}},
	Reduce:           {"ncclReduce", []string{"ncclReduce"}},
	AlltoAll:         {"ncclAlltoAll", []string{"ncclAlltoAll"}},
	AllToAll:         {"ncclAllToAll", []string{"ncclAllToAll"}},
	AlltoAllGrouped:  {grouped, sendRecv},
	AlltoAllv:        {"ncclAlltoAllv", []string{"ncclAlltoAllv"}},
	AllToAllv:        {"ncclAllToAllv", []string{"ncclAllToAllv"}},
	AlltoAllvGrouped: {grouped, sendRecv},
	Gather:           {"ncclGather", []string{"ncclGather"}},
	GatherGrouped:    {grouped, sendRecv},
	Scatter:          {"ncclScatter", []string{"ncclScatter"}},
	ScatterGrouped:   {grouped, sendRecv},
	SendRecv:         {grouped, sendRecv},
	Hypercube:        {grouped, sendRecv},
	Pair:             {grouped, sendRecv},
}

const grouped = "grouped-send-recv"

var sendRecv = []string{"ncclSend", "ncclRecv"}

// Path names the way in documents: the entry point, or grouped-send-recv.
func (h How) Path() string { return ways[h].path }

// Choose returns the first of the ways that the library can go. The error of
// none wraps dl.ErrNoSymbol.
func (l *Library) Choose(alternatives ...How) (How, error) {
	var first error
	for _, h := range alternatives {
		err := l.can(h)
		if err == nil {
			return h, nil
		}
		if first == nil {
			first = err
		}
	}
	return 0, first
}

func (l *Library) can(h How) error {
	for _, symbol := range ways[h].symbols {
		if err := l.need(symbol); err != nil {
			return err
		}
	}
	return nil
}

// Call is one operation. Count is elements as its entry point takes them: per
// rank for the operations that gather or scatter.
type Call struct {
	How        How
	Send, Recv accel.Ptr
	Count      int64
	Type       numeric.Type
	RedOp      int // the library's value
	Root       int // Pair: the rank that sends
	Peer       int // Pair: the rank that receives
}

// Vector is the counts and displacements of an all-to-all of unequal parts, in
// elements, for one rank.
type Vector struct {
	SendCounts, SendDispls, RecvCounts, RecvDispls []int64
}

// SetVector sets the parts for the AlltoAllv calls that follow.
func (c *Communicator) SetVector(v Vector) error {
	flat := make([]int64, 0, 4*c.world)
	for _, part := range [][]int64{v.SendCounts, v.SendDispls, v.RecvCounts, v.RecvDispls} {
		if len(part) != c.world {
			return fmt.Errorf("alltoallv over %d ranks with %d parts", c.world, len(part))
		}
		flat = append(flat, part...)
	}
	if c.vector == nil {
		c.vector = (*C.size_t)(C.calloc(C.size_t(len(flat)), C.size_t(unsafe.Sizeof(C.size_t(0)))))
	}
	to := unsafe.Slice(c.vector, len(flat))
	for i, n := range flat {
		to[i] = C.size_t(n)
	}
	return nil
}

// Enqueue puts calls on the stream in one crossing into C: what it costs a
// call there is what it costs a C program. With group > 1 each group
// consecutive calls become one group call.
func (c *Communicator) Enqueue(s accel.Stream, calls []Call, group int) error {
	if len(calls) == 0 {
		return nil
	}
	if cap(c.calls) < len(calls) {
		c.calls = make([]C.cx_call, len(calls))
	}
	c.calls = c.calls[:len(calls)]
	for i := range calls {
		k := &calls[i]
		c.calls[i] = C.cx_call{
			send: C.uintptr_t(k.Send), recv: C.uintptr_t(k.Recv), count: C.size_t(k.Count), how: C.int32_t(k.How),
			dtype: C.int32_t(k.Type), redop: C.int32_t(k.RedOp), root: C.int32_t(k.Root), peer: C.int32_t(k.Peer),
			width: C.int32_t(k.Type.Size()),
		}
	}
	var at C.int
	result := C.cx_nccl_enqueue(c.lib.table, c.handle, C.int(c.rank), C.int(c.world), C.uintptr_t(s.Handle()), c.vector,
		&c.calls[0], C.int(len(calls)), C.int(max(group, 1)), &at)
	if result == 0 {
		return nil
	}
	err := c.check(calls[at].How.Path(), result)
	return fmt.Errorf("operation %d of %d: %w", int(at)+1, len(calls), err)
}
