// Package engine is the copy family's backend on GPUs: the driver's asynchronous copies, which the copy engines
// of a device perform (on AMD, SDMA).
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/gate"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/copies/runner"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sysfs"
	"github.com/collectivex/collectivex/pkg/transfer/device"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// Backend is the copy engine backend.
var Backend = backend.Backend{Name: "ce", Open: map[plan.Family]rank.Opener{copies.Name: Open}}

// Open opens the runner of a rank, on CUDA, or on HIP where CUDA's driver is not installed;
// it is a rank.Opener. A rank drives the device of its local rank, near whose NUMA node it
// runs, and has locked its OS thread.
func Open(ctx context.Context, s *rank.Session, _ plan.Case) (rank.Runner, error) {
	g, err := gpurank.OpenAny(s)
	if err != nil {
		return nil, err
	}
	parts, err := Parts(ctx, s, g)
	if err != nil {
		return nil, err
	}
	return g.Around(runner.NewRunner(parts)), nil
}

// Parts returns the parts for copies by the driver of g. It takes over g: the returned Memory closes it,
// or Parts does if it fails.
func Parts(ctx context.Context, s *rank.Session, g *gpurank.GPU) (runner.Parts, error) {
	var err error
	m := &memory{gpu: g, rank: s.LocalRank}
	if m.gate, err = newGate(ctx, g.Device); err == nil {
		m.pools, err = device.NewPools(ctx, g.Device)
	}
	if err != nil {
		return runner.Parts{}, errors.Join(err, m.Close())
	}
	facts := g.Facts(g.DriverAs("driver"))
	m.node = facts.NUMANode
	parts := runner.Parts{Device: g.Device, Memory: m, Facts: facts}
	if m.gate != nil {
		parts.Gate = m.gate
	}
	return parts, nil
}

// memory implements runner.Memory.
type memory struct {
	gpu   *gpurank.GPU
	rank  int // local
	pools *device.Pools
	gate  *gate.Gate // nil: kernels cannot be compiled here
	node  int        // NUMA node of the device, -1 if it is unknown
}

func (m *memory) Close() error {
	var err error
	if m.gate != nil {
		err = m.gate.Close()
	}
	if m.pools != nil {
		err = errors.Join(err, m.pools.Close())
	}
	return errors.Join(rank.Coded(result.ReasonDevice, err), m.gpu.Close())
}

func (m *memory) Device(bytes int64) (runner.Buffer, error) {
	pool, err := m.pools.AllocPool(bytes)
	if err != nil {
		return runner.Buffer{}, err
	}
	return onDevice(pool), nil
}

func onDevice(p *device.Pool) runner.Buffer {
	return runner.Buffer{Memory: p.Memory, At: runner.Place{Device: p.Base}, Free: p.Close}
}

func (m *memory) Shared(bytes int64) (runner.Buffer, []byte, error) {
	at, handle, err := m.gpu.AllocShared(bytes)
	if err != nil {
		return runner.Buffer{}, nil, gpurank.AllocError(bytes, err)
	}
	b := onDevice(m.pools.NewPool(at, bytes))
	text, err := json.Marshal(handle)
	if err != nil {
		return runner.Buffer{}, nil, errors.Join(err, b.Free())
	}
	return b, text, nil
}

func (m *memory) Open(owner int, handle []byte) (accel.Ptr, func() error, error) {
	if err := gpurank.Reaches(m.gpu.Device, m.rank, owner, ": the driver would copy through the host"); err != nil {
		return 0, nil, err
	}
	var h gpu.SharedHandle
	if err := json.Unmarshal(handle, &h); err != nil {
		return 0, nil, fmt.Errorf("read the handle of rank %d: %w", owner, err)
	}
	at, err := gpurank.OpenShared(m.gpu.Device, owner, h)
	return at, func() error { return rank.Coded(result.ReasonDevice, m.gpu.CloseShared(at)) }, err
}

func (m *memory) Host(kind string, bytes int64) (runner.Buffer, error) {
	if kind == copies.Pinned {
		p, err := m.gpu.AllocHost(bytes)
		if err != nil {
			return runner.Buffer{}, gpurank.AllocError(bytes, err)
		}
		return onHost(p, bytes, func() error { return m.gpu.FreeHost(p) }), nil
	}
	p, unmap, err := m.process(kind, bytes)
	if err != nil {
		return runner.Buffer{}, err
	}
	if kind == copies.Pageable {
		return onHost(p, bytes, unmap), nil
	}
	if err := m.gpu.RegisterHost(p, bytes); err != nil {
		return runner.Buffer{}, errors.Join(gpurank.AllocError(bytes, err), unmap())
	}
	return onHost(p, bytes, func() error { return errors.Join(m.gpu.UnregisterHost(p), unmap()) }), nil
}

// process returns memory of the process on the NUMA node near the rank or, for PinnedFar, on another one.
func (m *memory) process(kind string, bytes int64) (unsafe.Pointer, func() error, error) {
	if kind == copies.PinnedFar {
		node, err := farNode(m.node, sysfs.Here().NUMANodes())
		if err != nil {
			return nil, nil, rank.Refused("%v", err)
		}
		p, free, err := onNode(node, bytes)
		return p, free, rank.Coded(result.ReasonEnvironment, err)
	}
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, nil, gpurank.AllocError(bytes, fmt.Errorf("host memory: %w", err))
	}
	return p, func() error { return unix.MunmapPtr(p, uintptr(bytes)) }, nil
}

func onHost(p unsafe.Pointer, bytes int64, free func() error) runner.Buffer {
	return runner.Buffer{
		Memory: pool.HostMemory(unsafe.Slice((*byte)(p), bytes)), At: runner.Place{Host: p},
		Free: func() error { return rank.Coded(result.ReasonDevice, free()) },
	}
}

// newGate returns the gate of a device, or nil if kernels cannot be compiled here.
func newGate(ctx context.Context, d accel.Device) (*gate.Gate, error) {
	g, err := gate.New(ctx, d)
	if errors.Is(err, accel.ErrUnsupported) {
		return nil, nil
	}
	return g, rank.Coded(result.ReasonDevice, err)
}
