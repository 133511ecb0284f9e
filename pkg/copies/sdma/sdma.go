// Package sdma is the copy family's backend on AMD GPUs that uses only their copy engines (SDMA): copies of the HSA
// runtime on engines that the program names, where HIP chooses between engines and kernels. Memory, and the kernels that
// check it, use HIP.
package sdma

import (
	"context"
	"errors"
	"os"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/copies/engine"
	"github.com/collectivex/collectivex/pkg/copies/runner"
	"github.com/collectivex/collectivex/pkg/dl"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/hsa"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// disabling lists variables that make the runtime copy by kernels on the multiprocessors, without an error.
var disabling = []string{"HSA_ENABLE_SDMA", "HSA_ENABLE_PEER_SDMA"}

// Backend is the SDMA backend.
var Backend = backend.Backend{
	Name: "sdma", Open: map[plan.Family]rank.Opener{copies.Name: Open},
	Needs: []*backend.Need{{Kind: "hsa", Label: "HSA", Vendor: vocab.AMD, Find: findRuntime}},
}

// findRuntime finds the HSA runtime and tests that it starts.
func findRuntime(context.Context) backend.Library {
	r, err := hsa.Open()
	if err != nil {
		return backend.Library{Err: err}
	}
	found := backend.Opened(r.File, r.Version())
	found.Err = r.Close()
	return found
}

// Open opens the runner of a rank; it is a rank.Opener. A rank drives the device of its local rank,
// and has locked its OS thread.
func Open(ctx context.Context, s *rank.Session, _ plan.Case) (rank.Runner, error) {
	for _, name := range disabling {
		if os.Getenv(name) == "0" {
			return nil, rank.Refused("%s=0 makes the HSA runtime copy by kernels: unset it", name)
		}
	}
	g, err := gpurank.Open("hip", s)
	if err != nil {
		return nil, err
	}
	parts, err := engine.Parts(ctx, s, g)
	if err != nil {
		return nil, err
	}
	m := &memory{Memory: parts.Memory}
	if err := m.open(g); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	parts.Facts.Library = rank.LibraryOf("hsa", m.runtime.Version(), m.runtime.File)
	parts.Device, parts.Memory, parts.Gate, parts.Engines = m.device, m, m.gate, m.device.numbers
	return g.Around(runner.NewRunner(parts)), nil
}

// memory is HIP memory, registered with its owners in the HSA runtime.
type memory struct {
	runner.Memory
	runtime *hsa.Runtime
	device  *device
	gate    *gate
}

func (m *memory) open(d accel.Device) (err error) {
	if m.runtime, err = hsa.Open(); err != nil {
		switch {
		case errors.Is(err, dl.ErrNoLibrary):
			return rank.Coded(result.ReasonNoLibrary, err)
		case errors.Is(err, dl.ErrNoSymbol):
			return rank.Coded(result.ReasonNoSymbol, err)
		}
		return coded(err)
	}
	if m.device, err = newDevice(m.runtime, d); err != nil {
		return coded(err)
	}
	closed, err := m.runtime.NewSignal(1)
	m.gate = &gate{m.runtime, closed}
	return coded(err)
}

func (m *memory) Close() error {
	var err error
	if m.gate != nil {
		err = m.runtime.Destroy(m.gate.signal)
	}
	if m.device != nil {
		err = errors.Join(err, m.device.close())
	}
	if m.runtime != nil {
		err = errors.Join(err, m.runtime.Close())
	}
	return errors.Join(coded(err), m.Memory.Close())
}

func coded(err error) error {
	if errors.Is(err, hsa.ErrNoEngine) {
		return rank.Refused("%w: another program copies on this device", err)
	}
	return rank.Coded(result.ReasonDevice, err)
}

// adopted registers a buffer with the runtime until it is freed.
func (m *memory) adopted(b runner.Buffer, at uintptr) (runner.Buffer, error) {
	free := b.Free
	if err := m.device.adopt(at); err != nil {
		return runner.Buffer{}, errors.Join(coded(err), free())
	}
	b.Free = func() error {
		m.device.forget(at)
		return free()
	}
	return b, nil
}

func (m *memory) Host(kind string, bytes int64) (runner.Buffer, error) {
	b, err := m.Memory.Host(kind, bytes)
	if err != nil {
		return b, err
	}
	return m.adopted(b, uintptr(b.At.Host))
}

func (m *memory) Device(bytes int64) (runner.Buffer, error) {
	b, err := m.Memory.Device(bytes)
	if err != nil {
		return b, err
	}
	return m.adopted(b, uintptr(b.At.Device))
}

func (m *memory) Shared(bytes int64) (runner.Buffer, []byte, error) {
	b, handle, err := m.Memory.Shared(bytes)
	if err != nil {
		return b, handle, err
	}
	b, err = m.adopted(b, uintptr(b.At.Device))
	return b, handle, err
}

func (m *memory) Open(owner int, handle []byte) (accel.Ptr, func() error, error) {
	at, shut, err := m.Memory.Open(owner, handle)
	if err != nil {
		return at, shut, err
	}
	if err := m.device.adopt(uintptr(at)); err != nil {
		return 0, nil, errors.Join(coded(err), shut())
	}
	return at, func() error {
		m.device.forget(uintptr(at))
		return shut()
	}, nil
}
