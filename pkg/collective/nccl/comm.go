// Package nccl runs the collective family through libraries with the C interface of NCCL: the backends
// nccl, rccl and mscclpp.
package nccl

/*
#include "enqueue.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/vocab"
	"github.com/collectivex/collectivex/pkg/workload"
)

// comm is the runner.Comm of a communicator, which it closes.
type comm struct {
	c      *nccl.Communicator
	device accel.Device
	end    C.cx_end
	paths  map[runner.Op]string
	// scalars are the factors of the reductions in end.premul.
	scalars  map[numeric.Type]float64
	variant  string       // that the case requires; see collective.Variant
	unchoose func() error // undoes what Choose did; nil for nothing
	kernels  *kernels     // of the algorithm; nil if the library performs it
	live     []*memory
	stop     stop
}

var (
	_ runner.Comm    = (*comm)(nil)
	_ runner.Chooser = (*comm)(nil)
	_ runner.Namer   = (*comm)(nil)
	_ runner.Counter = (*comm)(nil)
)

func newComm(c *nccl.Communicator, d accel.Device) (*comm, error) {
	handle, err := c.Handle()
	if err != nil {
		return nil, err
	}
	k := &comm{c: c, device: d, paths: map[runner.Op]string{}, scalars: map[numeric.Type]float64{}}
	k.end.comm = C.cx_comm(handle)
	k.end.rank, k.end.nranks = C.int(c.Rank()), C.int(c.World())
	for _, op := range runner.Ops() {
		if w, err := choose(c.Library(), op); err == nil {
			k.end.how[op] = w.how
			k.paths[op] = w.path
		}
	}
	return k, nil
}

func (k *comm) Path(op runner.Op) string { return k.paths[op] }

func (k *comm) Enqueue(s accel.Stream, calls []runner.Call, group int) error {
	if k.kernels.perform(calls) {
		return k.kernels.enqueue(s, calls, group)
	}
	return k.enqueue(calls, group, func(at *C.int) C.int {
		return C.cx_nccl_enqueue((*C.cx_nccl)(k.c.Library().Table()), &k.end, C.uintptr_t(s.Handle()),
			(*C.cx_call)(unsafe.Pointer(&calls[0])), C.int(len(calls)), C.int(group), at)
	})
}

func (k *comm) Time(s accel.Stream, calls []runner.Call, group int) (runner.Elapsed, error) {
	native, ok := s.(accel.NativeStream)
	if !ok {
		return runner.Elapsed{}, fmt.Errorf("stream of type %T: want a native stream", s)
	}
	if k.kernels.perform(calls) {
		return k.timeKernels(native, calls, group)
	}
	var e C.cx_elapsed
	err := k.enqueue(calls, group, func(at *C.int) C.int {
		return C.cx_nccl_time((*C.cx_nccl)(k.c.Library().Table()), &k.end, C.uintptr_t(s.Handle()),
			(*C.cx_call)(unsafe.Pointer(&calls[0])), C.int(len(calls)), C.int(group), at,
			C.uintptr_t(native.QueryFunction()), C.int64_t(runner.Patience), &e)
	})
	return runner.Elapsed{Enqueued: time.Duration(e.enqueued), Ended: time.Duration(e.ended)}, err
}

// timeKernels is Time for calls that kernels of this package perform.
func (k *comm) timeKernels(s accel.NativeStream, calls []runner.Call, group int) (e runner.Elapsed, err error) {
	start := time.Now()
	if err := k.kernels.enqueue(s, calls, group); err != nil {
		return e, err
	}
	e.Enqueued = time.Since(start)
	var at C.int
	var waited C.cx_elapsed // of no operation of the library
	C.cx_nccl_time((*C.cx_nccl)(k.c.Library().Table()), &k.end, C.uintptr_t(s.Handle()), nil, 0, 1, &at,
		C.uintptr_t(s.QueryFunction()), C.int64_t(runner.Patience), &waited)
	if waited.ended > 0 {
		e.Ended = time.Since(start)
	}
	return e, nil
}

// enqueue prepares the arguments of the calls and turns the result of call into an error.
func (k *comm) enqueue(calls []runner.Call, group int, call func(at *C.int) C.int) error {
	if len(calls) == 0 {
		return nil
	}
	if _, err := k.c.Handle(); err != nil {
		return gpurank.NCCLError(err)
	}
	if group > 1 && k.c.Library().Kind == nccl.MSCCLPP {
		return rank.Refused("mscclpp has no group calls of several operations")
	}
	for i := range calls {
		if calls[i].RedOp == workload.MulSum {
			if err := k.multiply(calls[i].Type, calls[i].Scalar); err != nil {
				return err
			}
		}
	}
	var at C.int
	failed := call(&at)
	if failed == 0 {
		return nil
	}
	err := k.c.Library().Check(k.Path(calls[at].Op), k.c.Rank(), nccl.Result(failed))
	err = fmt.Errorf("operation %d of %d: %w", int(at)+1, len(calls), err)
	return notOffered(k.variant, gpurank.NCCLError(err))
}

// multiply creates the reduction that multiplies elements of type t by scalar before adding them. It
// reuses the last one for the type if the scalar is the same.
func (k *comm) multiply(t numeric.Type, scalar float64) error {
	if have, ok := k.scalars[t]; ok && have == scalar {
		return nil
	}
	bits, err := scalarBits(t, scalar)
	if err != nil {
		return rank.Refused("%v", err)
	}
	if err := k.forget(t); err != nil {
		return err
	}
	op, err := k.c.NewPreMulSum(int(t), bits)
	if err != nil {
		return gpurank.NCCLError(err)
	}
	k.end.premul[t] = C.int(op)
	k.scalars[t] = scalar
	return nil
}

func (k *comm) forget(t numeric.Type) error {
	if _, ok := k.scalars[t]; !ok {
		return nil
	}
	delete(k.scalars, t)
	return gpurank.NCCLError(k.c.FreePreMulSum(int(k.end.premul[t])))
}

// scalarBits returns the bits of scalar as an element of type t. For integer types it fails unless the
// scalar is an integer from 0 to 127.
func scalarBits(t numeric.Type, scalar float64) (uint64, error) {
	switch t {
	case numeric.Float:
		return uint64(math.Float32bits(float32(scalar))), nil
	case numeric.Double:
		return math.Float64bits(scalar), nil
	case numeric.Half:
		return uint64(numeric.FP16(float32(scalar))), nil
	case numeric.BFloat16:
		return uint64(numeric.BF16(float32(scalar))), nil
	case numeric.F8E4M3:
		return uint64(numeric.E4M3FN.Encode(float32(scalar))), nil
	case numeric.F8E5M2:
		return uint64(numeric.E5M2.Encode(float32(scalar))), nil
	}
	if scalar < 0 || scalar > 127 || scalar != math.Trunc(scalar) {
		return 0, fmt.Errorf("invalid scalar %v for %s: want an integer from 0 to 127", scalar, t)
	}
	return uint64(scalar), nil
}

// AsyncError implements runner.Comm. It aborts the communicator on an error. Otherwise its operations
// would never end, and freeing their memory would wait for them.
func (k *comm) AsyncError() error {
	err := k.c.AsyncError()
	if err != nil {
		k.Abort()
	}
	return gpurank.NCCLError(err)
}

func (k *comm) Abort() {
	k.stop.waits()
	_ = k.c.Abort() // the case has already failed for another reason
}

func (k *comm) Close() error {
	err := k.forgetChoice()
	if _, ended := k.c.Handle(); errors.Is(ended, nccl.ErrEnded) {
		return err
	}
	for t := range k.scalars {
		err = errors.Join(err, k.forget(t))
	}
	return errors.Join(err, gpurank.NCCLError(k.c.Close()))
}

// memory is a buffer with its registration, which is nil if the buffer is not registered.
type memory struct {
	comm         *comm
	at           accel.Ptr
	bytes        int64
	free         func() error
	registration *nccl.Registration
}

// Alloc implements runner.Comm. It prefers the library's allocator, since some libraries can register
// only memory from there.
func (k *comm) Alloc(_ context.Context, bytes int64, registration string) (runner.Memory, error) {
	if registration != vocab.Unregistered && k.c.Library().Kind == nccl.MSCCLPP {
		return nil, rank.Refused("registration %q: mscclpp does not register buffers", registration)
	}
	m := &memory{comm: k, bytes: bytes}
	var err error
	if m.at, m.free, err = gpurank.Alloc(k.c, k.device, bytes); err != nil {
		return nil, err
	}
	k.live = append(k.live, m)
	if registration == vocab.Unregistered {
		return m, nil
	}
	m.registration, err = k.c.Register(m.at, bytes, registration == vocab.SymmetricWindow)
	if err != nil && !errors.Is(err, nccl.ErrNoHandle) {
		return nil, errors.Join(gpurank.NCCLError(err), m.Close())
	}
	return m, nil
}

func (m *memory) Ptr() accel.Ptr { return m.at }

func (m *memory) Registered() bool { return m.registration != nil }

func (m *memory) Close() error {
	m.comm.live = slices.DeleteFunc(m.comm.live, func(other *memory) bool { return other == m })
	return errors.Join(gpurank.Deregister(m.comm.c, m.registration), m.free())
}
