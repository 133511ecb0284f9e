// Package host is the copy family's backend on a host: memcpy between memory of the rank and shared memory of
// both ranks, which represents the memory of a device.
package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/copies/runner"
	"github.com/collectivex/collectivex/pkg/hostrank"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// Backend is the host backend.
var Backend = backend.Backend{Name: "host", Open: map[plan.Family]rank.Opener{copies.Name: Open}}

// Open opens the runner of a rank of the host backend; it is a rank.Opener. The caller has
// locked its OS thread.
func Open(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
	p, err := parts(ctx, s, c)
	if err != nil {
		return nil, err
	}
	return runner.NewRunner(p), nil
}

func parts(ctx context.Context, s *rank.Session, c plan.Case) (p runner.Parts, err error) {
	device, err := hostrank.Open(s, c.RanksPerNode)
	if err != nil {
		return p, err
	}
	m := &memory{device: device}
	if s.World > 1 {
		if m.group, err = hostrank.Join(ctx, s, device); err != nil {
			return p, errors.Join(err, m.Close())
		}
	}
	return runner.Parts{Device: copier{device}, Memory: m, Facts: hostrank.Facts(device)}, nil
}

// memory implements runner.Memory.
type memory struct {
	device *host.Device
	group  *hostrank.Group // nil: the case has one rank
}

func (m *memory) Close() error {
	var err error
	if m.group != nil {
		err = m.group.Close()
	}
	return errors.Join(err, m.device.Close())
}

// Host implements runner.Memory. There is one kind: mapped pages of the process.
func (m *memory) Host(_ string, bytes int64) (runner.Buffer, error) {
	p, err := m.device.AllocHost(bytes)
	if err != nil {
		return runner.Buffer{}, rank.OutOfMemory(bytes, err)
	}
	return runner.Buffer{
		Memory: pool.HostMemory(unsafe.Slice((*byte)(p), bytes)), At: runner.Place{Host: p},
		Free: func() error { return m.device.FreeHost(p) },
	}, nil
}

func (m *memory) Device(bytes int64) (runner.Buffer, error) {
	p, err := m.device.Alloc(bytes)
	if err != nil {
		return runner.Buffer{}, rank.OutOfMemory(bytes, err)
	}
	return runner.Buffer{
		Memory: pool.HostMemory(host.Bytes(p, bytes)), At: runner.Place{Device: p},
		Free: func() error { return m.device.Free(p) },
	}, nil
}

// Shared implements runner.Memory. The handle is an offset in what the ranks map.
func (m *memory) Shared(bytes int64) (runner.Buffer, []byte, error) {
	b, err := m.Device(bytes)
	if err != nil {
		return b, nil, err
	}
	base := accel.Ptr(uintptr(m.device.Segment().Base()))
	handle, err := json.Marshal(int64(b.At.Device - base))
	return b, handle, err
}

func (m *memory) Open(owner int, handle []byte) (accel.Ptr, func() error, error) {
	var offset int64
	if err := json.Unmarshal(handle, &offset); err != nil {
		return 0, nil, fmt.Errorf("read the handle of rank %d: %w", owner, err)
	}
	at := accel.Ptr(uintptr(unsafe.Add(m.group.Peers[owner].Base(), offset)))
	return at, func() error { return nil }, nil
}
