package sdma

import (
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/hsa"
)

// stream is a chain of copies, each of which waits for the previous one.
type stream struct {
	device  *device
	number  int
	after   []hsa.Signal // what the next copy waits for
	pending []hsa.Signal // of copies not yet waited for
	ended   []hsa.Signal // events may still need their times
	events  []*event     // recorded before the next copy
}

var _ accel.Stream = (*stream)(nil)

// Handle implements accel.Stream. It is 0, since HIP has no such stream.
func (*stream) Handle() uintptr { return 0 }

func (s *stream) copy(dst, src uintptr, bytes int64) error {
	d := s.device
	to, err := d.end(dst, bytes)
	if err != nil {
		return err
	}
	from, err := d.end(src, bytes)
	if err != nil {
		return err
	}
	engines := d.engines[direction{to.Agent, from.Agent}]
	if len(engines) == 0 {
		return fmt.Errorf("copies in this direction: %w: they use engines of another device", accel.ErrUnsupported)
	}
	if len(s.ended) > 0 { // a new window begins, and the old one's times are no longer needed
		d.free = append(d.free, s.ended...)
		s.ended = nil
	}
	done, err := d.signal()
	if err != nil {
		return err
	}
	if err := d.runtime.Copy(to, from, bytes, s.after, done, engines[s.number%len(engines)]); err != nil {
		d.free = append(d.free, done)
		return err
	}
	s.after = append(s.after[:0:0], done)
	s.pending = append(s.pending, done)
	for _, e := range s.events {
		e.followed = append(e.followed, done)
	}
	s.events = s.events[:0]
	return nil
}

func (s *stream) Record(e accel.Event) error {
	of := e.(*event)
	of.after, of.followed = slices.Clone(s.after), nil
	s.events = append(s.events, of)
	return nil
}

func (s *stream) Wait(e accel.Event) error {
	of := e.(*event)
	s.after = append(slices.Clone(s.after), of.after...)
	s.events = append(s.events, of)
	return nil
}

func (s *stream) Synchronize() error {
	for len(s.pending) > 0 {
		done := s.pending[0]
		s.pending = s.pending[1:]
		s.ended = append(s.ended, done)
		if err := s.device.runtime.Wait(done); err != nil {
			return err
		}
	}
	s.after, s.events = nil, nil
	return nil
}

func (s *stream) Query() (bool, error) {
	for _, done := range s.pending {
		if s.device.runtime.Load(done) > 0 {
			return false, nil
		}
	}
	return true, s.Synchronize()
}

func noGraphs() error {
	return fmt.Errorf("capture copies of the HSA runtime into graphs: %w", accel.ErrUnsupported)
}

func (*stream) BeginCapture() error { return noGraphs() }

func (*stream) EndCapture() (accel.Graph, error) { return nil, noGraphs() }

func (*stream) RecordExternal(accel.Event) error { return noGraphs() }

// Close implements accel.Stream. It waits for the copies.
func (s *stream) Close() error {
	err := s.Synchronize()
	s.device.free = append(s.device.free, s.ended...)
	s.ended = nil
	return err
}

// event is a point between the copies of streams.
type event struct {
	after    []hsa.Signal // that end before it
	followed []hsa.Signal // first copy after it on each stream that recorded it or waited for it
}

func (*event) Handle() uintptr { return 0 }

// Query implements accel.Event: the runner waits for streams.
func (*event) Query() (bool, error) {
	return false, fmt.Errorf("query events of copies of the HSA runtime: %w", accel.ErrUnsupported)
}

func (*event) Close() error { return nil }

// gate is a signal that first copies wait for.
type gate struct {
	runtime *hsa.Runtime
	signal  hsa.Signal
}

func (g *gate) Hold(s accel.Stream) error {
	g.runtime.Store(g.signal, 1)
	of := s.(*stream)
	of.after = append(slices.Clone(of.after), g.signal)
	return nil
}

func (g *gate) Open() { g.runtime.Store(g.signal, 0) }
