package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/gate"
	collective "github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// deviceStreams runs windows on two streams of a device, timed by events.
type deviceStreams struct {
	device        *accel.Scope
	comm          collective.Comm
	gate          *gate.Gate
	opened        accel.Event
	communication side
	compute       side
}

var _ Streams = (*deviceStreams)(nil)

// side is a stream and the events around its tasks.
type side struct {
	stream       accel.Stream
	starts, ends []accel.Event
}

// NewDeviceStreams returns two streams of a device. Communication runs through comm. A gate holds both streams until everything is
// enqueued. If its kernel cannot be compiled, the error is a refusal.
func NewDeviceStreams(ctx context.Context, d accel.Device, comm collective.Comm) (Streams, error) {
	s := &deviceStreams{device: accel.NewScope(d), comm: comm}
	var err error
	s.gate, err = gate.New(ctx, d)
	if errors.Is(err, accel.ErrUnsupported) {
		return nil, rank.Refused("compile the kernel of the start gate: %w", err)
	}
	if err == nil {
		s.device.Defer(s.gate.Close)
		s.opened, err = s.device.NewEvent()
	}
	for _, of := range []*side{&s.communication, &s.compute} {
		if err == nil {
			of.stream, err = s.device.NewStream()
		}
	}
	if err != nil {
		return nil, errors.Join(rank.Coded(result.ReasonDevice, err), s.Close())
	}
	return s, nil
}

func (*deviceStreams) SharedProcessor() bool { return false }

func (s *deviceStreams) Close() error { return rank.Coded(result.ReasonDevice, s.device.Close()) }

func (s *deviceStreams) Run(ctx context.Context, w Window, meet func(context.Context) error) (Times, error) {
	t, err := s.run(ctx, w, meet)
	if err != nil {
		return t, err
	}
	if t.Communication, err = s.spans(&s.communication, len(w.Communication)); err != nil {
		return t, err
	}
	t.Compute, err = s.spans(&s.compute, len(w.Compute))
	return t, err
}

func (s *deviceStreams) run(ctx context.Context, w Window, meet func(context.Context) error) (t Times, err error) {
	defer s.gate.Open()
	if err := s.hold(); err != nil {
		return t, rank.Coded(result.ReasonDevice, err)
	}
	if err := s.enqueue(w); err != nil {
		return t, err
	}
	if err := meet(ctx); err != nil {
		return t, err
	}
	t.Opened = time.Now()
	s.gate.Open()
	for _, of := range []*side{&s.communication, &s.compute} {
		if err := collective.Wait(ctx, s.comm, of.stream); err != nil {
			return t, err
		}
	}
	return t, nil
}

// hold makes both streams wait for the start gate.
func (s *deviceStreams) hold() error {
	if err := s.gate.Hold(s.communication.stream); err != nil {
		return err
	}
	if err := s.communication.stream.Record(s.opened); err != nil {
		return err
	}
	return s.compute.stream.Wait(s.opened)
}

// enqueue enqueues the tasks of a window, communication first unless the window is early.
func (s *deviceStreams) enqueue(w Window) error {
	if w.Early {
		for i := range w.Compute {
			if err := s.task(&s.compute, i, w.Compute[i]); err != nil {
				return err
			}
		}
		if n := len(w.Compute); n > 0 {
			if err := s.communication.stream.Wait(s.compute.ends[n-1]); err != nil {
				return rank.Coded(result.ReasonDevice, err)
			}
		}
	}
	for i, task := range w.Communication {
		if err := s.task(&s.communication, i, task); err != nil {
			return err
		}
	}
	if w.Early {
		return nil
	}
	for i, task := range w.Compute {
		if task.After >= 0 {
			if err := s.compute.stream.Wait(s.communication.ends[task.After]); err != nil {
				return rank.Coded(result.ReasonDevice, err)
			}
		}
		if err := s.task(&s.compute, i, task); err != nil {
			return err
		}
	}
	return nil
}

// task enqueues task i of a side between two events.
func (s *deviceStreams) task(of *side, i int, task Task) error {
	for _, events := range []*[]accel.Event{&of.starts, &of.ends} {
		if len(*events) > i {
			continue
		}
		e, err := s.device.NewEvent()
		if err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
		*events = append(*events, e)
	}
	if err := of.stream.Record(of.starts[i]); err != nil {
		return rank.Coded(result.ReasonDevice, err)
	}
	if err := task.Enqueue(of.stream); err != nil {
		return err
	}
	return rank.Coded(result.ReasonDevice, of.stream.Record(of.ends[i]))
}

// spans returns the times of the tasks of a side.
func (s *deviceStreams) spans(of *side, tasks int) ([]Span, error) {
	spans := make([]Span, tasks)
	for i := range spans {
		for _, at := range []struct {
			event accel.Event
			to    *float64
		}{{of.starts[i], &spans[i].Start}, {of.ends[i], &spans[i].End}} {
			us, err := s.device.Elapsed(s.opened, at.event)
			if err != nil {
				return nil, rank.Coded(result.ReasonDevice, fmt.Errorf("time of task %d: %w", i, err))
			}
			*at.to = us
		}
	}
	return spans, nil
}
