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
	// Steps describes how the library runs steps.
	Steps() Way
	// Load prepares lists of steps of this rank on elements of type t. scratch is the size of the scratch memory in bytes. All
	// ranks call Load together, with the same scratch.
	Load(ctx context.Context, all []*Lowered, t numeric.Type, scratch int64) (Loaded, error)
}

// Way describes how a library runs steps.
type Way struct {
	Path string // name in documents
	// Serial means that the library runs one stream over one channel, and adds only data in the memory of the rank. Programs
	// then run in rounds: local copies and additions, then a group of all messages that can start together.
	Serial bool
}

// Loaded holds lists of steps that a library has prepared. Close frees their memory. All ranks must have run their last steps.
type Loaded interface {
	// Run enqueues list i of Load once for each pair of buffers, in order.
	Run(s accel.Stream, i int, buffers []Buffers) error
	Close() error
}

// Buffers holds the buffers of a call. Its memory layout is that of two C addresses.
type Buffers struct{ Send, Recv accel.Ptr }

// comm is a library with one of its operations replaced by a program.
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

// load replaces operation op on elements of type t by lists of steps. List i is for extent at[i].
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
		return rank.Refused("operation %s: the loaded program is for %s", call.Op, c.op)
	}
	return nil
}

func (c *comm) Path(runner.Op) string { return c.Steps().Path }

// Enqueue implements runner.Comm. It passes other operations, with which the ranks synchronise, to the library.
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
			return rank.Coded(result.ReasonLibrary, fmt.Errorf("no steps are loaded for %d elements in group calls of %d operations", x.count, group))
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
