package eplib

/*
#include <stdlib.h>
#include "abi.h"
*/
import "C"

import (
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/numeric"
)

// Array is an array in device memory, row-major. The zero Array means no array.
type Array struct {
	At   accel.Ptr
	Type numeric.Type
	Dims []int // at most three
	// Window is the symmetric window that begins at At and into which peers write; nil if
	// there is none. See Config.ZeroCopy.
	Window *nccl.Registration
}

// Update sets the routing of the tokens that this rank sends.
type Update struct {
	Expert Array // Int32 or Int64 [tokens][K]; −1 for no expert
	// With HighThroughput, the library writes the number of rows of each expert to Counts,
	// Int32 [L], and the total number of rows to Received, Int32 [1]. With LowLatency both
	// must be zero.
	Counts, Received Array
}

// Dispatch sends rows. With Flat and RankMajor it also sends the weights, and each received
// row has K local experts and their weights.
type Dispatch struct {
	X      Array // Bfloat16 [tokens][H]
	Weight Array // Float [tokens][K]; not with ExpertMajor
	// FP8 makes the library send the rows as F8E4M3, with a scale for each 128 columns; with
	// LowLatency only.
	FP8      bool
	Received Array // see Layout
	Scales   Array // Float, as Received with H/128 columns; with FP8 only
	// ReceivedExpert and ReceivedWeight are the experts of each row, as numbered on this rank
	// or −1, and their weights, Float: with Flat Int64 [rows][K], with RankMajor Int32
	// [W][C][K].
	ReceivedExpert, ReceivedWeight Array
	// Counts is Int32 [L], the rows of each expert; with ExpertMajor only. RankCounts is
	// Int32 [W], the rows from each rank; with RankMajor only.
	Counts, RankCounts Array
}

// Combine returns rows to the ranks that sent them, and adds the rows of each token.
type Combine struct {
	Rows   Array // Bfloat16, arranged like the rows that the last dispatch received
	Weight Array // Float [tokens][K], factors of the rows; with ExpertMajor only
	Out    Array // Bfloat16 [tokens][H]
}

// Call is an operation of a group with its arguments.
type Call struct {
	group *Group
	c     *C.cx_ep_call
}

// Update makes the call of an update.
func (g *Group) Update(u Update) *Call {
	c := g.call(C.CX_EP_UPDATE)
	c.c.ids = c.add(u.Expert)
	c.c.info.expertCounters, c.c.info.receivedTotal = c.add(u.Counts), c.add(u.Received)
	if c.c.info.expertCounters != nil || c.c.info.receivedTotal != nil {
		c.c.hasInfo = 1
	}
	return c
}

// Dispatch makes the call of a dispatch.
func (g *Group) Dispatch(d Dispatch) *Call {
	c := g.call(C.CX_EP_DISPATCH)
	c.c.in.tokens, c.c.in.weights = c.add(d.X), c.add(d.Weight)
	c.c.dispatched.tokens, c.c.dispatched.scales = c.add(d.Received), c.add(d.Scales)
	c.c.dispatched.ids, c.c.dispatched.weights = c.add(d.ReceivedExpert), c.add(d.ReceivedWeight)
	c.c.info.expertCounters, c.c.info.sourceRankCounters = c.add(d.Counts), c.add(d.RankCounts)
	c.c.info.idKind, c.c.hasInfo = C.CX_EP_LOCAL_IDS, 1
	if d.FP8 {
		c.c.config.quantization = C.CX_EP_QUANT_DS_FP8E3M4
	}
	return c
}

// Combine makes the call of a combine.
func (g *Group) Combine(m Combine) *Call {
	c := g.call(C.CX_EP_COMBINE)
	c.c.in.tokens = c.add(m.Rows)
	c.c.combined.tokens, c.c.combined.weights = c.add(m.Out), c.add(m.Weight)
	return c
}

func (g *Group) call(kind C.int) *Call { return &Call{group: g, c: C.cx_ep_new_call(kind)} }

// add adds an array to a call. It returns nil for the zero Array.
func (c *Call) add(a Array) *C.cx_ep_tensor {
	if a.At == 0 {
		return nil
	}
	var sizes [3]C.size_t
	for i, n := range a.Dims {
		sizes[i] = C.size_t(n)
	}
	var window unsafe.Pointer
	if a.Window != nil {
		window = a.Window.Handle()
	}
	return C.cx_ep_add(c.c, C.int(a.Type), C.uintptr_t(a.At), window, C.int(len(a.Dims)), &sizes[0])
}

// Enqueue enqueues the call on the stream. All ranks must enqueue calls in the same order.
func (c *Call) Enqueue(s accel.Stream) error {
	var name *C.char
	result := C.cx_ep_enqueue(c.group.lib.table, c.group.handle, c.c, C.uintptr_t(s.Handle()), &name)
	if result == 0 {
		return nil
	}
	return c.group.check(C.GoString(name), result)
}

// Free frees the call. Its work may still be running.
func (c *Call) Free() { C.free(unsafe.Pointer(c.c)) }
