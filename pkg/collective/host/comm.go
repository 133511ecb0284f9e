// Package host is a collective library for machines without accelerators. Its ranks are processes of
// one host, and operations copy between memory that all of them map. It makes every step of a
// measurement possible on any machine.
package host

/*
#cgo CFLAGS: -O3 -std=c11 -D_GNU_SOURCE -Wall -Wextra
#include <stdlib.h>
#include "comm.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	hostdev "github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/hostrank"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Comm is the communicator of one rank.
type Comm struct {
	device *hostdev.Device
	group  *hostrank.Group

	mu sync.Mutex // serializes Abort and Close
	c  *C.cx_comm // nil after Close
}

var _ runner.Comm = (*Comm)(nil)

// NewComm joins the ranks of s, all on this host, into a communicator.
func NewComm(ctx context.Context, s *rank.Session, d *hostdev.Device) (*Comm, error) {
	return newComm(ctx, s, d, false)
}

// newComm is NewComm for ranks that may share processors with other threads. If shared is true, a
// waiting rank yields its processor earlier.
func newComm(ctx context.Context, s *rank.Session, d *hostdev.Device, shared bool) (*Comm, error) {
	group, err := hostrank.Join(ctx, s, d)
	if err != nil {
		return nil, err
	}
	c := &Comm{device: d, group: group}
	if err := c.open(ctx, s, shared); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// open opens this rank's communicator on the control memory of rank 0. The other ranks allocate control
// memory too, so that later allocations have the same offset in all heaps; see Alloc.
func (c *Comm) open(ctx context.Context, s *rank.Session, shared bool) error {
	own := c.device.Segment()
	at, err := c.device.Alloc(int64(C.cx_control_bytes(C.int(s.World))))
	if err != nil {
		return rank.Coded(result.ReasonMemory, err)
	}
	controls, err := rank.Gather(ctx, s, "host-control", int64(at)-int64(uintptr(own.Base())))
	if err != nil {
		return err
	}
	heaps := make([]unsafe.Pointer, s.World)
	pids := make([]C.int, s.World)
	crowded := C.int(0)
	for r, p := range c.group.Peers {
		heaps[r], pids[r] = p.Base(), C.int(p.PID)
		if !p.Pinned || shared {
			crowded = 1
		}
	}
	c.c = C.cx_open(unsafe.Add(heaps[0], controls[0]), C.int(s.Rank), C.int(s.World), &heaps[0], C.int64_t(own.Handle().Bytes),
		&pids[0], crowded, C.int64_t(c.device.Info().L2Bytes))
	if c.c == nil {
		return errors.New("open a communicator: out of host memory")
	}
	return nil
}

// Supports implements runner.Comm. The library supports all calls.
func (c *Comm) Supports(runner.Call) error { return nil }

// Path implements runner.Comm.
func (c *Comm) Path(runner.Op) string { return "native" }

// memory is an allocation on the heap of the device.
type memory struct {
	device *hostdev.Device
	ptr    accel.Ptr
}

func (m memory) Ptr() accel.Ptr   { return m.ptr }
func (m memory) Registered() bool { return false }
func (m memory) Close() error     { return m.device.Free(m.ptr) }

// Alloc implements runner.Comm. All ranks map the memory, so there is no registration.
func (c *Comm) Alloc(_ context.Context, bytes int64, registration string) (runner.Memory, error) {
	if registration != vocab.Unregistered {
		return nil, rank.Refused("registration %q: not supported for host memory", registration)
	}
	ptr, err := c.device.Alloc(bytes)
	if err != nil {
		return nil, rank.OutOfMemory(bytes, err)
	}
	m := memory{c.device, ptr}
	offset := int64(ptr) - int64(uintptr(c.device.Segment().Base()))
	if err := c.agree(fmt.Sprintf("%d %d", offset, bytes)); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	for _, peer := range c.group.Others() {
		if err := peer.Populate(offset, bytes); err != nil {
			return nil, errors.Join(rank.Coded(result.ReasonMemory, err), m.Close())
		}
	}
	return m, nil
}

// agree waits for all ranks. It fails unless all ranks pass the same text.
func (c *Comm) agree(what string) error {
	h := fnv.New32a()
	_, _ = h.Write([]byte(what)) // never fails
	var culprit C.int
	return failure(C.cx_agree(c.c, C.uint32_t(h.Sum32()), &culprit), culprit)
}

// Enqueue implements runner.Comm. It runs the operations one by one, ignores group, and returns when
// they have ended.
func (c *Comm) Enqueue(_ accel.Stream, calls []runner.Call, _ int) error {
	if len(calls) == 0 {
		return nil
	}
	var culprit C.int
	rc := C.cx_enqueue(c.c, (*C.cx_call)(unsafe.Pointer(&calls[0])), C.int64_t(len(calls)), &culprit)
	if rc == C.CX_OK {
		return nil
	}
	return failure(rc, culprit)
}

// Time implements runner.Comm. Operations end inside Enqueue.
func (c *Comm) Time(s accel.Stream, calls []runner.Call, group int) (runner.Elapsed, error) {
	e, err := runner.Time(func() error { return c.Enqueue(s, calls, group) })
	e.Ended = e.Enqueued
	return e, err
}

func failure(rc, culprit C.int) error {
	switch rc {
	case C.CX_OK:
		return nil
	case C.CX_DIED:
		return rank.Coded(result.ReasonRankDied, fmt.Errorf("rank %d ended during an operation", culprit))
	case C.CX_DISAGREE:
		return rank.Coded(result.ReasonLibrary, fmt.Errorf("rank %d called a different operation", culprit))
	case C.CX_OUTSIDE:
		return rank.Coded(result.ReasonLibrary, errors.New("a buffer lies outside memory from Alloc"))
	default:
		return rank.Coded(result.ReasonLibrary, errors.New("the communicator was aborted"))
	}
}

// AsyncError implements runner.Comm. It returns nil, since operations end inside Enqueue.
func (c *Comm) AsyncError() error { return nil }

// Abort implements runner.Comm. It ends the operations of all ranks.
func (c *Comm) Abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c != nil {
		C.cx_abort(c.c)
	}
}

// Close implements runner.Comm.
func (c *Comm) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c != nil {
		C.cx_close(c.c)
		c.c = nil
	}
	return c.group.Close()
}

// callBytes is the size of a call in C. runner.Call must have the same size.
const callBytes = C.sizeof_cx_call
