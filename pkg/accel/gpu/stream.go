package gpu

/*
#cgo noescape cx_event_record
#cgo nocallback cx_event_record
#cgo noescape cx_stream_query
#cgo nocallback cx_stream_query
#cgo noescape cx_stream_synchronize
#cgo nocallback cx_stream_synchronize
#cgo noescape cx_graph_launch
#cgo nocallback cx_graph_launch
#include "api.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
)

// NewStream implements accel.Device. The stream does not synchronise with the
// default stream.
func (d *Device) NewStream() (accel.Stream, error) {
	s := &stream{api: d.api}
	if err := d.api.err(d.api.symbols.StreamCreate, C.cx_stream_create(d.api.table, &s.handle)); err != nil {
		return nil, err
	}
	return s, nil
}

var _ accel.NativeStream = (*stream)(nil)

type stream struct {
	api    *api
	handle C.uintptr_t
}

func (s *stream) Handle() uintptr { return uintptr(s.handle) }

// QueryFunction implements accel.NativeStream.
func (s *stream) QueryFunction() uintptr { return uintptr(unsafe.Pointer(s.api.table.stream_query)) }

func (s *stream) Record(e accel.Event) error {
	return s.api.err(s.api.symbols.EventRecord,
		C.cx_event_record(s.api.table, C.uintptr_t(e.Handle()), s.handle))
}

func (s *stream) Synchronize() error {
	return s.api.err(s.api.symbols.StreamSynchronize, C.cx_stream_synchronize(s.api.table, s.handle))
}

func (s *stream) Query() (bool, error) {
	rc := C.cx_stream_query(s.api.table, s.handle)
	if rc == codeNotReady {
		return false, nil
	}
	return rc == 0, s.api.err(s.api.symbols.StreamQuery, rc)
}

func (s *stream) BeginCapture() error {
	if !s.api.graphs {
		return fmt.Errorf("graphs: %w", accel.ErrUnsupported)
	}
	return s.api.err(s.api.symbols.CaptureBegin, C.cx_capture_begin(s.api.table, s.handle))
}

func (s *stream) EndCapture() (accel.Graph, error) {
	a := s.api
	var template C.uintptr_t
	if err := a.err(a.symbols.CaptureEnd, C.cx_capture_end(a.table, s.handle, &template)); err != nil {
		return nil, err
	}
	g := &graph{api: a}
	err := a.err(a.symbols.GraphInstantiate, C.cx_graph_instantiate(a.table, &g.handle, template))
	// The executable graph is a copy, so the template can be destroyed.
	err = also(err, a.err(a.symbols.GraphDestroy, C.cx_graph_destroy(a.table, template)))
	if err != nil {
		return nil, err
	}
	if a.table.graph_upload != nil {
		err = a.err(a.symbols.GraphUpload, C.cx_graph_upload(a.table, g.handle, s.handle))
		if err == nil {
			err = s.Synchronize()
		}
	}
	if err != nil {
		return nil, also(err, g.Close())
	}
	return g, nil
}

func (s *stream) Close() error {
	return s.api.err(s.api.symbols.StreamDestroy, C.cx_stream_destroy(s.api.table, s.handle))
}

// NewEvent implements accel.Device.
func (d *Device) NewEvent() (accel.Event, error) {
	e := &event{api: d.api}
	if err := d.api.err(d.api.symbols.EventCreate, C.cx_event_create(d.api.table, &e.handle)); err != nil {
		return nil, err
	}
	return e, nil
}

type event struct {
	api    *api
	handle C.uintptr_t
}

func (e *event) Handle() uintptr { return uintptr(e.handle) }

func (e *event) Close() error {
	return e.api.err(e.api.symbols.EventDestroy, C.cx_event_destroy(e.api.table, e.handle))
}

type graph struct {
	api    *api
	handle C.uintptr_t
}

func (g *graph) Launch(s accel.Stream) error {
	return g.api.err(g.api.symbols.GraphLaunch,
		C.cx_graph_launch(g.api.table, g.handle, C.uintptr_t(s.Handle())))
}

func (g *graph) Close() error {
	return g.api.err(g.api.symbols.GraphExecDestroy, C.cx_graph_exec_destroy(g.api.table, g.handle))
}
