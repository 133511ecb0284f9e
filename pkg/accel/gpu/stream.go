package gpu

/*
#cgo noescape cx_event_record
#cgo nocallback cx_event_record
#cgo noescape cx_event_query
#cgo nocallback cx_event_query
#cgo noescape cx_stream_wait
#cgo nocallback cx_stream_wait
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
	if err := d.api.err(C.cx_fn_stream_create, C.cx_stream_create(d.api.table, &s.handle)); err != nil {
		return nil, err
	}
	return s, nil
}

// DefaultStream implements accel.DefaultStreamer.
func (d *Device) DefaultStream() accel.Stream { return &stream{api: d.api} }

var _ accel.NativeStream = (*stream)(nil)

type stream struct {
	api    *api
	handle C.uintptr_t
}

func (s *stream) Handle() uintptr { return uintptr(s.handle) }

func (s *stream) QueryFunction() uintptr { return uintptr(unsafe.Pointer(s.api.table.stream_query)) }

func (s *stream) Record(e accel.Event) error {
	return s.api.err(C.cx_fn_event_record,
		C.cx_event_record(s.api.table, C.uintptr_t(e.Handle()), s.handle))
}

func (s *stream) Wait(e accel.Event) error {
	return s.api.err(C.cx_fn_stream_wait, C.cx_stream_wait(s.api.table, s.handle, C.uintptr_t(e.Handle())))
}

func (s *stream) Synchronize() error {
	return s.api.err(C.cx_fn_stream_synchronize, C.cx_stream_synchronize(s.api.table, s.handle))
}

func (s *stream) Query() (bool, error) {
	rc := C.cx_stream_query(s.api.table, s.handle)
	if rc == codeNotReady {
		return false, nil
	}
	return rc == 0, s.api.err(C.cx_fn_stream_query, rc)
}

func (s *stream) BeginCapture() error {
	if !s.api.graphs {
		return fmt.Errorf("capture a graph: %w", accel.ErrUnsupported)
	}
	return s.api.err(C.cx_fn_capture_begin, C.cx_capture_begin(s.api.table, s.handle))
}

func (s *stream) EndCapture() (accel.Graph, error) {
	a := s.api
	var template C.uintptr_t
	if err := a.err(C.cx_fn_capture_end, C.cx_capture_end(a.table, s.handle, &template)); err != nil {
		return nil, err
	}
	g := &graph{api: a}
	err := a.err(C.cx_fn_graph_instantiate, C.cx_graph_instantiate(a.table, &g.handle, template))
	// The executable graph is a copy, so the template can be destroyed.
	err = also(err, a.err(C.cx_fn_graph_destroy, C.cx_graph_destroy(a.table, template)))
	if err != nil {
		return nil, err
	}
	if a.table.graph_upload != nil {
		err = a.err(C.cx_fn_graph_upload, C.cx_graph_upload(a.table, g.handle, s.handle))
		if err == nil {
			err = s.Synchronize()
		}
	}
	if err != nil {
		return nil, also(err, g.Close())
	}
	return g, nil
}

func (s *stream) RecordExternal(e accel.Event) error {
	if s.api.table.event_record_flags == nil {
		return fmt.Errorf("record times inside graphs: %w", accel.ErrUnsupported)
	}
	return s.api.err(C.cx_fn_event_record_flags,
		C.cx_event_record_external(s.api.table, C.uintptr_t(e.Handle()), s.handle))
}

func (s *stream) Close() error {
	return s.api.err(C.cx_fn_stream_destroy, C.cx_stream_destroy(s.api.table, s.handle))
}

// NewEvent implements accel.Device.
func (d *Device) NewEvent() (accel.Event, error) {
	e := &event{api: d.api}
	if err := d.api.err(C.cx_fn_event_create, C.cx_event_create(d.api.table, &e.handle)); err != nil {
		return nil, err
	}
	return e, nil
}

type event struct {
	api    *api
	handle C.uintptr_t
}

func (e *event) Handle() uintptr { return uintptr(e.handle) }

func (e *event) Query() (bool, error) {
	rc := C.cx_event_query(e.api.table, e.handle)
	if rc == codeNotReady {
		return false, nil
	}
	return rc == 0, e.api.err(C.cx_fn_event_query, rc)
}

func (e *event) Close() error {
	return e.api.err(C.cx_fn_event_destroy, C.cx_event_destroy(e.api.table, e.handle))
}

type graph struct {
	api    *api
	handle C.uintptr_t
}

func (g *graph) Launch(s accel.Stream) error {
	return g.api.err(C.cx_fn_graph_launch,
		C.cx_graph_launch(g.api.table, g.handle, C.uintptr_t(s.Handle())))
}

func (g *graph) Close() error {
	return g.api.err(C.cx_fn_graph_exec_destroy, C.cx_graph_exec_destroy(g.api.table, g.handle))
}
