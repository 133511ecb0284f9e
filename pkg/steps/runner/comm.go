package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Library is the communicator of a library that can run steps.
type Library interface {
	runner.Comm
	// Steps describes how it runs them.
	Steps() Way
	// Load prepares the steps of this rank, of elements of type t, with scratch memory of the given bytes. All ranks call it
	// together, with the same size.
	Load(ctx context.Context, all []*Lowered, t numeric.Type, scratch int64) (Loaded, error)
}

// Way describes how a library runs steps.
type Way struct {
	Path string // its name in documents
	// Serial: it runs one stream, over one channel, and adds only data in the memory of the rank. Programs then run in rounds:
	// local additions, then a group of all messages that can start together.
	Serial bool
}

// Loaded is steps that a library has prepared. Close frees their memory, after all ranks have run the last of them.
type Loaded interface {
	// Run enqueues list i of Load once for each pair of buffers, in order.
	Run(s accel.Stream, i int, buffers []Buffers) error
	Close() error
}

// Buffers are the buffers of a call; their memory layout is two C addresses.
type Buffers struct{ Send, Recv accel.Ptr }

// comm is the library with one of its operations replaced by a program.
type comm struct {
	Library
	rank, world int

	op      runner.Op
	size    int64
	indices map[extent]int
	loaded  Loaded // nil between cases
	buffers []Buffers
}

var _ runner.Comm = (*comm)(nil)

// load replaces operation op on elements of type t by the lists.
func (c *comm) load(ctx context.Context, op runner.Op, t numeric.Type, at []extent, all []*Lowered, scratch int64) error {
	loaded, err := c.Load(ctx, all, t, scratch)
	if err != nil {
		return err
	}
	c.op, c.size, c.loaded, c.indices = op, int64(t.Size()), loaded, map[extent]int{}
	for i, x := range at {
		c.indices[x] = i
	}
	return nil
}

func (c *comm) unload() error {
	loaded := c.loaded
	c.loaded = nil
	return loaded.Close()
}

func (c *comm) Supports(call runner.Call) error {
	if call.Op != c.op {
		return rank.Refused("the program of a %s cannot do %s", c.op, call.Op)
	}
	return nil
}

func (c *comm) Path(runner.Op) string { return c.Steps().Path }

// Enqueue implements runner.Comm. Other operations, with which the ranks synchronise, use the library.
func (c *comm) Enqueue(s accel.Stream, calls []runner.Call, group int) error {
	for from := 0; from < len(calls); {
		if calls[from].Op != c.op {
			if err := c.Library.Enqueue(s, calls[from:from+1], 1); err != nil {
				return err
			}
			from++
			continue
		}
		x := c.extent(&calls[from])
		i, ok := c.indices[x]
		if !ok || group > 1 {
			return rank.Coded(result.ReasonLibrary, fmt.Errorf("no steps for %d elements in groups of %d", x.count, group))
		}
		c.buffers = c.buffers[:0]
		for from < len(calls) && calls[from].Op == c.op && c.extent(&calls[from]) == x {
			c.buffers = append(c.buffers, Buffers{calls[from].Send, calls[from].Recv})
			from++
		}
		if err := c.loaded.Run(s, i, c.buffers); err != nil {
			return err
		}
	}
	return nil
}

// Time implements runner.Comm; the caller waits for completion.
func (c *comm) Time(s accel.Stream, calls []runner.Call, group int) (runner.Elapsed, error) {
	return runner.Time(func() error { return c.Enqueue(s, calls, group) })
}

// extent returns the extent of a call.
func (c *comm) extent(call *runner.Call) extent {
	send, recv := c.op.InPlaceOffsets(call.Count, c.rank)
	return extent{call.Count, call.Recv.Add((send-recv)*c.size) == call.Send}
}

func (c *comm) Close() error {
	if c.loaded == nil {
		return c.Library.Close()
	}
	return errors.Join(c.unload(), c.Library.Close())
}
