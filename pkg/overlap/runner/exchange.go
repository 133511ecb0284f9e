package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/collectivex/collectivex/pkg/accel"
	collective "github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/schedule"
	steps "github.com/collectivex/collectivex/pkg/steps/runner"
	"github.com/collectivex/collectivex/pkg/workload"
)

// exchange is the communication of a row.
type exchange interface {
	// fill writes the data that this rank sends in a window, and poisons its receive buffers.
	fill(t turn) error
	// deliver writes the data that the communication of a window should deliver.
	deliver(t turn) error
	// tasks returns the tasks of a window. If whole is true, the communication is in one piece.
	tasks(whole bool) []Task
	// check compares the delivered data.
	check(t turn) (workload.Verdict, error)
	// end returns the address after an element that this rank receives.
	end() accel.Ptr
	// path returns overlap.Measurement.CommunicationPath.
	path() string
	// program describes the communication steps. It is nil if operations of the library communicate.
	program() *schedule.About
	close() error
}

// poison is a byte whose repetition is NaN in every element type.
const poison = 0xff

// collectives implements the communication of form beside. Each collective has buffers of its own.
type collectives struct {
	*bench
	form   collective.Form
	extent collective.Extent
	data   workload.Pattern
	calls  []collective.Call
	comm   collective.Comm
	about  *schedule.About // nil without a schedule
	unload func() error    // frees the schedule; nil without one
}

// slotBytes returns the bytes for the buffers of one collective.
func slotBytes(e collective.Extent, size int64) int64 { return align(e.Send*size) + align(e.Recv*size) }

// newCollectives returns n collectives with buffers from an address on.
func newCollectives(ctx context.Context, b *bench, number int, f collective.Form, e collective.Extent, op workload.RedOp, at accel.Ptr, n int) (*collectives, error) {
	data, err := workload.NewPattern(f.Type, op, f.World, 0)
	if err != nil {
		return nil, rank.Coded(result.ReasonRefused, err)
	}
	c := &collectives{bench: b, form: f, extent: e, data: data, comm: b.Comm}
	if of := b.block; of.Algorithm != "" {
		s := &schedule.Spec{Op: of.Op, Algorithm: of.Algorithm, Width: of.Width, Segments: of.Segments}
		if c.comm, c.about, c.unload, err = steps.Instead(ctx, b.session, fmt.Sprintf("overlap-scratch-%d", number), b.Comm, s, f, e); err != nil {
			return nil, err
		}
	}
	for range n {
		call := collective.Call{Op: f.Op, RedOp: op, Type: f.Type, Count: e.Count, Send: at, Recv: at.Add(align(e.Send * b.size))}
		if err := c.comm.Supports(call); err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.calls = append(c.calls, call)
		at = at.Add(slotBytes(e, b.size))
	}
	return c, nil
}

func (c *collectives) pattern(t turn, slot int) workload.Pattern {
	return c.data.Seeded(c.seed(t, slot))
}

func (c *collectives) outputs() []workload.Region {
	return c.form.Outputs(c.extent, c.session.Rank)
}

func (c *collectives) fill(t turn) error {
	for i, call := range c.calls {
		p := c.pattern(t, i)
		if err := c.Data.Fill(c.stream, p, call.Send, c.form.Inputs(c.extent, c.session.Rank)); err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
		if err := c.Data.Poison(c.stream, p, call.Recv, c.outputs()); err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
	}
	return nil
}

func (c *collectives) deliver(t turn) error {
	for i, call := range c.calls {
		if err := c.Data.Fill(c.stream, c.pattern(t, i), call.Recv, c.outputs()); err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
	}
	return nil
}

func (c *collectives) tasks(bool) []Task {
	return []Task{{Enqueue: func(s accel.Stream) error { return c.comm.Enqueue(s, c.calls, 1) }}}
}

func (c *collectives) check(t turn) (workload.Verdict, error) {
	total := workload.Verdict{First: -1}
	for i, call := range c.calls {
		v, err := c.Data.Check(c.stream, c.pattern(t, i), call.Recv, c.outputs())
		if err != nil {
			return total, rank.Coded(result.ReasonDevice, err)
		}
		total.Add(v)
	}
	return total, nil
}

func (c *collectives) end() accel.Ptr {
	regions := c.outputs()
	final := regions[len(regions)-1]
	return c.calls[len(c.calls)-1].Recv.Add((final.Offset + final.Count) * c.size)
}

func (c *collectives) path() string { return c.comm.Path(c.form.Op) }

func (c *collectives) program() *schedule.About { return c.about }

func (c *collectives) close() error {
	if c.unload == nil {
		return nil
	}
	return c.unload()
}

// gathering implements the communication of a linear layer. It gathers the parts of X of all ranks, in rank order.
type gathering struct {
	*bench
	x     accel.Ptr
	part  int64 // elements of a rank's part of X
	whole collective.Call
	// pieces are the broadcasts of form linear-broadcast.
	pieces []collective.Call
	// loaded holds the lists of steps of form linear-rotation. about describes their program.
	loaded steps.Loaded
	about  *schedule.About
}

func newGathering(ctx context.Context, b *bench, x accel.Ptr, elements int64) (*gathering, error) {
	world := b.session.World
	g := &gathering{bench: b, x: x, part: elements / int64(world)}
	g.whole = collective.Call{Op: collective.AllGather, Type: b.dtype, Count: g.part, Send: g.at(b.session.Rank), Recv: x}
	calls := []collective.Call{g.whole}
	if b.block.Form == overlap.LinearBroadcast {
		for root := range world {
			g.pieces = append(g.pieces, collective.Call{Op: collective.Broadcast, Type: b.dtype, Root: root, Count: g.part, Send: g.at(root), Recv: g.at(root)})
		}
		calls = append(calls, g.pieces[0])
	}
	for _, call := range calls {
		if err := b.Comm.Supports(call); err != nil {
			return nil, err
		}
	}
	if b.block.Form == overlap.LinearRotation {
		form := collective.Form{Op: collective.AllGather, Type: b.dtype, World: world}
		lists, about, err := steps.Rotation(ctx, b.session, b.Comm, form, g.part)
		if err != nil {
			return nil, err
		}
		g.about = about
		if g.loaded, err = b.Comm.Load(ctx, lists, b.dtype, 0); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// rotated returns the rank i positions after this one.
func (g *gathering) rotated(i int) int {
	return (g.session.Rank + i + g.session.World) % g.session.World
}

// at returns the address of a rank's part of X.
func (g *gathering) at(of int) accel.Ptr { return g.x.Add(int64(of) * g.part * g.size) }

func (g *gathering) elements() int64 { return g.part * int64(g.session.World) }

func (g *gathering) fill(t turn) error {
	if err := g.Device.Set(g.stream, g.x, poison, g.elements()*g.size); err != nil {
		return rank.Coded(result.ReasonDevice, err)
	}
	own := int64(g.session.Rank) * g.part
	return rank.Coded(result.ReasonDevice, g.Matrix.Fill(g.stream, g.at(g.session.Rank), g.values(t), own, g.part))
}

func (g *gathering) deliver(t turn) error {
	return rank.Coded(result.ReasonDevice, g.Matrix.Fill(g.stream, g.x, g.values(t), 0, g.elements()))
}

func (g *gathering) tasks(whole bool) (tasks []Task) {
	enqueue := func(call *collective.Call) {
		tasks = append(tasks, Task{Enqueue: func(s accel.Stream) error { return g.Comm.Enqueue(s, []collective.Call{*call}, 1) }})
	}
	switch {
	case whole:
		enqueue(&g.whole)
	case g.loaded == nil:
		for i := range g.pieces {
			enqueue(&g.pieces[i])
		}
	default:
		buffers := []steps.Buffers{{Send: g.at(g.session.Rank), Recv: g.x}}
		for i := range g.session.World - 1 {
			tasks = append(tasks, Task{Enqueue: func(s accel.Stream) error { return g.loaded.Run(s, i, buffers) }})
		}
	}
	return tasks
}

func (g *gathering) check(t turn) (workload.Verdict, error) {
	v, err := g.Matrix.Check(g.stream, g.x, g.values(t), 0, g.elements())
	return v, rank.Coded(result.ReasonDevice, err)
}

func (g *gathering) end() accel.Ptr { return g.at(g.rotated(1)).Add(g.part * g.size) }

func (g *gathering) path() string {
	if g.loaded != nil {
		return g.Comm.Steps().Path
	}
	return g.Comm.Path(collective.Broadcast)
}

func (g *gathering) program() *schedule.About { return g.about }

func (g *gathering) close() error {
	if g.loaded == nil {
		return nil
	}
	return g.loaded.Close()
}
