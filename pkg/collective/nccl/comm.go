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
	variant  string // that the case requires; see collective.Variant
	unchoose func() // undoes what Choose did; nil for nothing
}

var (
	_ runner.Comm    = (*comm)(nil)
	_ runner.Chooser = (*comm)(nil)
	_ runner.Namer   = (*comm)(nil)
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
	var e C.cx_elapsed
	err := k.enqueue(calls, group, func(at *C.int) C.int {
		return C.cx_nccl_time((*C.cx_nccl)(k.c.Library().Table()), &k.end, C.uintptr_t(s.Handle()),
			(*C.cx_call)(unsafe.Pointer(&calls[0])), C.int(len(calls)), C.int(group), at,
			C.uintptr_t(native.QueryFunction()), C.int64_t(runner.Patience), &e)
	})
	return runner.Elapsed{Enqueued: time.Duration(e.enqueued), Ended: time.Duration(e.ended)}, err
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

func (k *comm) Abort() { _ = k.c.Abort() } // the case has already failed for another reason

func (k *comm) Close() error {
	if _, err := k.c.Handle(); errors.Is(err, nccl.ErrEnded) {
		return nil
	}
	var err error
	if k.unchoose != nil {
		k.unchoose()
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
	free         func() error
	registration *nccl.Registration
}

// Alloc implements runner.Comm. It prefers the library's allocator, since some libraries can register
// only memory from there.
func (k *comm) Alloc(_ context.Context, bytes int64, registration string) (runner.Memory, error) {
	if registration != vocab.Unregistered && k.c.Library().Kind == nccl.MSCCLPP {
		return nil, rank.Refused("registration %q: mscclpp does not register buffers", registration)
	}
	m := &memory{comm: k}
	var err error
	if m.at, m.free, err = gpurank.Alloc(k.c, k.device, bytes); err != nil {
		return nil, err
	}
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
	return errors.Join(gpurank.Deregister(m.comm.c, m.registration), m.free())
}
