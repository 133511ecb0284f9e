package accel

import (
	"context"
	"errors"
	"slices"
	"unsafe"
)

// Scope is a device that records the memory, streams, events and modules that are created through
// it. Close releases all of them. The scale-up or scale-out scope of a case is unrelated.
type Scope struct {
	Device
	release []func() error
}

// NewScope returns an empty scope of a device.
func NewScope(d Device) *Scope { return &Scope{Device: d} }

// Defer makes Close call f, before it releases anything created or deferred earlier.
func (s *Scope) Defer(f func() error) { s.release = append(s.release, f) }

// Close releases everything in the scope, in reverse order, and leaves the device open. The scope can
// be used again.
func (s *Scope) Close() (err error) {
	for _, f := range slices.Backward(s.release) {
		err = errors.Join(err, f())
	}
	s.release = nil
	return err
}

// Alloc implements Device. Only Close may free the memory.
func (s *Scope) Alloc(bytes int64) (Ptr, error) {
	p, err := s.Device.Alloc(bytes)
	if err == nil {
		s.Defer(func() error { return s.Device.Free(p) })
	}
	return p, err
}

// AllocHost implements Device. Only Close may free the memory.
func (s *Scope) AllocHost(bytes int64) (unsafe.Pointer, error) {
	p, err := s.Device.AllocHost(bytes)
	if err == nil {
		s.Defer(func() error { return s.Device.FreeHost(p) })
	}
	return p, err
}

// NewStream implements Device. Only Close may close the stream.
func (s *Scope) NewStream() (Stream, error) {
	stream, err := s.Device.NewStream()
	if err == nil {
		s.Defer(stream.Close)
	}
	return stream, err
}

// NewEvent implements Device. Only Close may close the event.
func (s *Scope) NewEvent() (Event, error) {
	e, err := s.Device.NewEvent()
	if err == nil {
		s.Defer(e.Close)
	}
	return e, err
}

// Kernels compiles source with Device.Compile and stores each named kernel of it through its pointer.
// Errors name the source by name.
func (s *Scope) Kernels(ctx context.Context, name, source string, kernels map[string]*Kernel) error {
	m, err := s.Compile(ctx, name, source)
	if err != nil {
		return err
	}
	s.Defer(m.Close)
	for of, k := range kernels {
		if *k, err = m.Kernel(of); err != nil {
			return err
		}
	}
	return nil
}
