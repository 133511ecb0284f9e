// Package device runs programs in rounds on a GPU. It runs the local copies and additions of a rank. The caller's Send carries the
// messages between ranks.
package device

import (
	"context"
	_ "embed" // add.cu
	"errors"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/kernels"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	stepsrunner "github.com/collectivex/collectivex/pkg/steps/runner"
)

//go:embed add.cu
var addKernels string

func addSource() string { return kernels.Complete(addKernels) }

// Rounds holds the steps of a rank and their device resources. It implements stepsrunner.Loaded.
type Rounds struct {
	device  *accel.Scope
	lists   [][]group
	size    int64 // of an element, in bytes
	scratch runner.Memory
	send    Send
	add     accel.Kernel // nil if there are no additions
	args    *addition
	moved   []Message // reused by all groups
}

var _ stepsrunner.Loaded = (*Rounds)(nil)

// Message is a send or a receive of a rank in a call.
type Message struct {
	*stepsrunner.Step
	List  int       // index in Load's lists
	At    accel.Ptr // source of a send, destination of a receive
	Bytes int64
}

// Send enqueues the messages of a call that start together. It must not retain the list.
type Send func(s accel.Stream, b stepsrunner.Buffers, messages []Message) error

// group holds messages that start together, or one copy or addition.
type group []stepsrunner.Step

// addition holds the arguments of the kernel of add.cu.
type addition struct {
	to, from accel.Ptr
	count    int64
	dtype    int32
}

// Load prepares lists of steps in rounds on elements of type t. The result owns the scratch memory.
func Load(ctx context.Context, d accel.Device, all []*stepsrunner.Lowered, t numeric.Type, scratch runner.Memory, send Send) (*Rounds, error) {
	r := &Rounds{device: accel.NewScope(d), size: int64(t.Size()), scratch: scratch, send: send, args: &addition{dtype: int32(t)}}
	adds := false
	for _, list := range all {
		groups := split(nil, list.Before)
		for _, nodes := range list.Streams { // at most one stream
			for _, n := range nodes {
				groups = split(groups, n.Steps)
			}
		}
		groups = split(groups, list.After)
		for _, g := range groups {
			adds = adds || g[0].Kind == stepsrunner.Add
		}
		r.lists = append(r.lists, groups)
	}
	if !adds {
		return r, nil
	}
	if err := r.device.Kernels(ctx, "add.cu", addSource(), map[string]*accel.Kernel{"cx_add": &r.add}); err != nil {
		return nil, errors.Join(rank.Coded(result.ReasonDevice, err), r.Close())
	}
	return r, nil
}

func isMessage(s stepsrunner.Step) bool {
	return s.Kind == stepsrunner.Send || s.Kind == stepsrunner.Recv
}

// split divides a list of steps into groups and appends these.
func split(groups []group, list []stepsrunner.Step) []group {
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && isMessage(list[from]) && isMessage(list[to]) {
			to++
		}
		groups = append(groups, list[from:to])
		from = to
	}
	return groups
}

// Run implements stepsrunner.Loaded.
func (r *Rounds) Run(s accel.Stream, i int, buffers []stepsrunner.Buffers) error {
	for _, b := range buffers {
		for _, g := range r.lists[i] {
			if err := r.run(s, i, g, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// run enqueues a group of list i.
func (r *Rounds) run(s accel.Stream, i int, g group, b stepsrunner.Buffers) error {
	first := &g[0]
	switch first.Kind {
	case stepsrunner.Copy:
		return rank.Coded(result.ReasonDevice, r.device.Copy(s, r.At(first.To, b), r.At(first.From, b), first.Count*r.size))
	case stepsrunner.Add:
		r.args.to, r.args.from, r.args.count = r.At(first.To, b), r.At(first.From, b), first.Count
		return rank.Coded(result.ReasonDevice, r.add.Launch(s, accel.BlocksFor(r.device, first.Count), accel.BlockThreads, 0,
			unsafe.Pointer(&r.args.to), unsafe.Pointer(&r.args.from), unsafe.Pointer(&r.args.count), unsafe.Pointer(&r.args.dtype)))
	}
	r.moved = r.moved[:0]
	for j := range g {
		m := Message{Step: &g[j], List: i, Bytes: g[j].Count * r.size}
		if m.At = r.At(m.To, b); m.Kind == stepsrunner.Send {
			m.At = r.At(m.From, b)
		}
		r.moved = append(r.moved, m)
	}
	return r.send(s, b, r.moved)
}

// At returns the address of a place in the buffers of a call.
func (r *Rounds) At(p stepsrunner.Place, b stepsrunner.Buffers) accel.Ptr {
	base := b.Send
	switch p.Buffer {
	case stepsrunner.RecvBuffer:
		base = b.Recv
	case stepsrunner.Scratch:
		base = r.scratch.Ptr()
	}
	return base.Add(p.Element * r.size)
}

// Close implements stepsrunner.Loaded.
func (r *Rounds) Close() error {
	return errors.Join(r.scratch.Close(), rank.Coded(result.ReasonDevice, r.device.Close()))
}
