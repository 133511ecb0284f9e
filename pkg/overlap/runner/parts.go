// Package runner measures cases of the overlap family on a rank, through the parts of a backend.
package runner

import (
	"context"
	"time"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/gemm"
	collective "github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/rank"
	steps "github.com/collectivex/collectivex/pkg/steps/runner"
)

// Task is work of one side that is timed as a whole.
type Task struct {
	// Enqueue adds the work to the stream of its side.
	Enqueue func(s accel.Stream) error
	// After is the index of the communication task that must end before a computation task begins, or −1.
	After int
}

// Window is the work of both sides after one start gate. A side may be empty.
type Window struct {
	Communication, Compute []Task
	// Early makes the computation run first, without waiting for its dependencies. FaultEarly sets it.
	Early bool
}

// Times are the times of one window.
type Times struct {
	Opened time.Time // when the gate opened
	// Communication and Compute are the times of each task.
	Communication, Compute []Span
}

// Span is the time of a task, in microseconds from the opening of the gate.
type Span struct{ Start, End float64 }

// Streams run the two sides of a window at the same time.
type Streams interface {
	// Run enqueues both sides behind one gate, calls meet to synchronise the ranks, opens the gate, and
	// returns when both sides have ended.
	Run(ctx context.Context, w Window, meet func(context.Context) error) (Times, error)
	// SharedProcessor reports whether both sides take turns on one processor.
	SharedProcessor() bool
	Close() error
}

// Multiplier is an engine with its description in documents.
type Multiplier struct {
	gemm.Engine
	Compute string       // see overlap.Computes; not auto
	Library rank.Library // zero if the engine is not a library
}

// Parts are what a backend provides for a Runner, which closes them.
type Parts struct {
	Streams Streams
	// Multiplier opens the engine of a case. compute is one of overlap.Computes.
	Multiplier func(compute string) (Multiplier, error)
	Matrix     gemm.Data
	Data       collective.Data // of the collectives of form beside
	Comm       steps.Library
	Device     accel.Device
	Facts      rank.Facts
}

// last returns the end of the last task, or 0 without tasks.
func last(spans []Span) (end float64) {
	for _, s := range spans {
		end = max(end, s.End)
	}
	return end
}

// active returns how long tasks of one side were active before a time, in microseconds. Tasks of one side never overlap.
func active(spans []Span, before float64) (sum float64) {
	for _, s := range spans {
		sum += max(0, min(s.End, before)-s.Start)
	}
	return sum
}
