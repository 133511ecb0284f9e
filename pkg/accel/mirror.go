package accel

import "unsafe"

// Mirror is a value without pointers in the memory of a device, and its copy in page-locked memory
// of the host.
type Mirror[T any] struct {
	Device Ptr
	Host   *T
	scope  *Scope
}

// NewMirror returns a mirror in memory of a scope, which frees it.
func NewMirror[T any](s *Scope) (m Mirror[T], err error) {
	m.scope = s
	if m.Device, err = s.Alloc(m.bytes()); err != nil {
		return m, err
	}
	p, err := s.AllocHost(m.bytes())
	m.Host = (*T)(p)
	return m, err
}

func (m Mirror[T]) bytes() int64 { return int64(unsafe.Sizeof(*new(T))) }

// In enqueues the copy to the device.
func (m Mirror[T]) In(s Stream) error {
	return m.scope.CopyIn(s, m.Device, unsafe.Pointer(m.Host), m.bytes())
}

// Out copies the value to the host and waits for the stream.
func (m Mirror[T]) Out(s Stream) error {
	if err := m.scope.CopyOut(s, unsafe.Pointer(m.Host), m.Device, m.bytes()); err != nil {
		return err
	}
	return s.Synchronize()
}

// Scratch is device memory that grows on demand.
type Scratch struct {
	Device Device
	At     Ptr
	bytes  int64
}

// Grow ensures a size of at least bytes. The content is lost if the memory has to grow.
func (m *Scratch) Grow(bytes int64) error {
	if bytes <= m.bytes {
		return nil
	}
	if err := m.Free(); err != nil {
		return err
	}
	at, err := m.Device.Alloc(bytes)
	if err == nil {
		m.At, m.bytes = at, bytes
	}
	return err
}

// Free frees the memory, if there is any. Grow may follow.
func (m *Scratch) Free() (err error) {
	if m.At != 0 {
		err = m.Device.Free(m.At)
	}
	m.At, m.bytes = 0, 0
	return err
}
