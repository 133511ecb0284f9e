package nccl

import (
	"context"
	_ "embed" // add.cu
	"errors"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/kernels"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/steps"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

//go:embed add.cu
var addKernels string

func addSource() string { return kernels.Complete(addKernels) }

var _ steps.Library = (*comm)(nil)

// Steps implements steps.Library: each round is a group of ncclSend and ncclRecv. Streams of
// one communicator would not run at the same time, and NCCL promises no progress for two.
func (k *comm) Steps() steps.Way {
	return steps.Way{Path: nccl.GroupedSendRecv, Serial: true}
}

// loaded is the steps of a rank and what they need on its device.
type loaded struct {
	comm    *comm
	lists   [][]piece
	size    int64 // of an element, in bytes
	scratch collective.Memory
	module  accel.Module // nil if no step adds
	add     accel.Kernel
	args    *addition
	group   []nccl.Message // memory of a call
}

// piece is messages that go as one group, or one copy or addition.
type piece []steps.Step

// addition is the arguments of the kernel of add.cu.
type addition struct {
	to, from accel.Ptr
	count    int64
	dtype    int32
}

// Load implements steps.Library.
func (k *comm) Load(ctx context.Context, all []*steps.Lowered, t numeric.Type, scratch int64) (steps.Loaded, error) {
	if err := k.c.Library().Need("ncclSend", "ncclRecv"); err != nil {
		return nil, rank.Coded(result.ReasonNoSymbol, err)
	}
	l := &loaded{comm: k, size: int64(t.Size()), args: &addition{dtype: int32(t)}}
	adds := false
	for _, list := range all {
		pieces := split(nil, list.Before)
		for _, nodes := range list.Streams { // at most one
			for _, n := range nodes {
				pieces = split(pieces, n.Steps)
			}
		}
		pieces = split(pieces, list.After)
		for _, p := range pieces {
			adds = adds || p[0].Kind == steps.Add
		}
		l.lists = append(l.lists, pieces)
	}
	var err error
	if adds {
		if l.module, err = k.device.Compile(ctx, "add.cu", addSource()); err != nil {
			return nil, rank.Coded(result.ReasonDevice, err)
		}
		if l.add, err = l.module.Kernel("cx_add"); err != nil {
			return nil, errors.Join(rank.Coded(result.ReasonDevice, err), l.Close())
		}
	}
	if l.scratch, err = k.Alloc(ctx, max(1, scratch), vocab.Unregistered); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// split appends the pieces of steps that start together.
func split(pieces []piece, list []steps.Step) []piece {
	message := func(s steps.Step) bool { return s.Kind == steps.Send || s.Kind == steps.Recv }
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && message(list[from]) && message(list[to]) {
			to++
		}
		pieces = append(pieces, list[from:to])
		from = to
	}
	return pieces
}

// Run implements steps.Loaded.
func (l *loaded) Run(s accel.Stream, i int, buffers []steps.Buffers) error {
	for _, b := range buffers {
		for _, p := range l.lists[i] {
			if err := l.run(s, p, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// run enqueues a piece.
func (l *loaded) run(s accel.Stream, p piece, b steps.Buffers) error {
	first := &p[0]
	switch first.Kind {
	case steps.Copy:
		return rank.Coded(result.ReasonDevice, l.comm.device.Copy(s, l.at(first.To, b), l.at(first.From, b), first.Count*l.size))
	case steps.Add:
		l.args.to, l.args.from, l.args.count = l.at(first.To, b), l.at(first.From, b), first.Count
		blocks := min((first.Count+accel.BlockThreads-1)/accel.BlockThreads, int64(accel.Blocks(l.comm.device)))
		return rank.Coded(result.ReasonDevice, l.add.Launch(s, uint32(blocks), accel.BlockThreads, 0,
			unsafe.Pointer(&l.args.to), unsafe.Pointer(&l.args.from), unsafe.Pointer(&l.args.count), unsafe.Pointer(&l.args.dtype)))
	}
	l.group = l.group[:0]
	for i := range p {
		m := nccl.Message{Peer: int32(p[i].Peer), Sends: p[i].Kind == steps.Send, Bytes: p[i].Count * l.size}
		if m.At = l.at(p[i].To, b); m.Sends {
			m.At = l.at(p[i].From, b)
		}
		l.group = append(l.group, m)
	}
	return gpurank.NCCLError(l.comm.c.SendRecv(s, l.group))
}

// at is the address of a place in the buffers of a call.
func (l *loaded) at(p steps.Place, b steps.Buffers) accel.Ptr {
	base := b.Send
	switch p.Buffer {
	case steps.RecvBuffer:
		base = b.Recv
	case steps.Scratch:
		base = l.scratch.Ptr()
	}
	return base.Add(p.Element * l.size)
}

// Close implements steps.Loaded.
func (l *loaded) Close() error {
	var err error
	if l.scratch != nil {
		err = l.scratch.Close()
	}
	if l.module != nil {
		err = errors.Join(err, rank.Coded(result.ReasonDevice, l.module.Close()))
	}
	return err
}
