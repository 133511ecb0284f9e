// Package gate holds streams of a device until the host opens them, so that all work is
// enqueued before any of it begins.
package gate

import (
	"context"
	_ "embed" // gate.cu
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/kernels"
)

//go:embed gate.cu
var kernel string

// Gate is a kernel that waits until the host sets a word in page-locked memory.
type Gate struct {
	scope  *accel.Scope
	kernel accel.Kernel
	word   *uint32
}

// New returns a gate of the device. The error wraps accel.ErrUnsupported if the device has no
// compiler for kernels.
func New(ctx context.Context, d accel.Device) (*Gate, error) {
	const wordBytes = 4
	g := &Gate{scope: accel.NewScope(d)}
	err := g.scope.Kernels(ctx, "gate.cu", kernels.Complete(kernel), map[string]*accel.Kernel{"cx_gate": &g.kernel})
	if err == nil {
		var p unsafe.Pointer
		p, err = g.scope.AllocHost(wordBytes)
		g.word = (*uint32)(p)
	}
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Hold closes the gate and enqueues it on the stream. Work enqueued later on that stream waits for
// Open.
func (g *Gate) Hold(s accel.Stream) error {
	atomic.StoreUint32(g.word, 0)
	return g.kernel.Launch(s, 1, 1, 0, accel.Arg(uintptr(unsafe.Pointer(g.word))))
}

// Open lets the stream of the last Hold continue.
func (g *Gate) Open() { atomic.StoreUint32(g.word, 1) }

// Close frees the gate. No stream may be waiting for it.
func (g *Gate) Close() error { return g.scope.Close() }
