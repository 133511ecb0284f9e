package runner

import (
	"context"
	"errors"
	"slices"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// tileBytes is the period, in bytes, of the input of the repeatability pass.
const tileBytes = 1 << 20

// repeated is what one rank found in the repeatability pass of a rung. First.Rank is not set.
type repeated struct {
	Requested int64  `json:"requested"`
	Placement string `json:"placement"`
	result.Repeatability
}

// repeatable runs the operation of each rung as often as the case requires, untimed and always on the same
// input, and emits where results differ from the first one. The result of a sum of the input depends on the
// order of its summands. Operations that do not reduce have no such pass, since their results are exact.
func (r *Runner) repeatable(ctx context.Context, s *rank.Session, sp spec, l ladder) error {
	if sp.block.Measure.Repeatable == 0 || !sp.op.Reduces() {
		return nil
	}
	largest := int64(slotAlign)
	for i := range l.rungs {
		largest = max(largest, align(l.rungs[i].Bytes))
	}
	off := align(sp.unaligned())
	memory, err := r.parts.Comm.Alloc(ctx, 2*(largest+off), sp.block.Registration)
	if err != nil {
		return err
	}
	b := &bench{backend: r.parts, spec: sp, session: s, stream: r.stream, memory: memory}
	tile := make([]byte, min(largest, tileBytes))
	sp.data.Seeded(seed(sp.CaseID, window{Mode: kindRepeatable}, 0)).Inexact(tile, sp.seat)
	var all []repeated
	for _, b.rung = range l.rungs {
		v, err := b.runAgain(ctx, tile, largest+off)
		if err != nil {
			return errors.Join(b.at(err), memory.Close())
		}
		all = append(all, repeated{b.rung.Requested, b.rung.Placement, v})
	}
	return errors.Join(s.Emit(kindRepeatable, all), memory.Close())
}

// runAgain runs the operation of the current rung again and again and compares its results on this rank with
// the first one. Out of place, the result is recvAt bytes after the input.
func (b *bench) runAgain(ctx context.Context, tile []byte, recvAt int64) (v result.Repeatability, err error) {
	size := int64(b.spec.dtype.Size())
	c := b.spec.call(b.spec.seat)
	c.Count, c.Send = b.rung.Count, b.memory.Ptr().Add(b.spec.unaligned())
	c.Recv = c.Send.Add(recvAt)
	input, inPlace := c.Send, b.rung.Placement == vocab.InPlace
	if inPlace {
		c.Send, c.Recv = b.together(input, b.rung.Count)
	}
	compared := int64(0)
	if len(b.outputs(b.rung)) > 0 {
		compared = min(b.rung.Recv*size, result.MaxCompared/size*size)
	}
	first, next := make([]byte, compared), make([]byte, compared)
	v = result.Repeatability{Operations: b.spec.block.Measure.Repeatable, Compared: compared / size}
	for i := range v.Operations {
		to := next
		if i == 0 {
			to = first
		}
		if i == 0 || inPlace {
			err = b.lay(tile, input, b.rung.Bytes)
		}
		if !inPlace && b.rung.Recv > 0 { // so that an operation that does nothing is found
			err = errors.Join(err, b.backend.Device.Set(b.stream, c.Recv, byte(i), b.rung.Recv*size))
		}
		if err != nil {
			return v, rank.Coded(result.ReasonDevice, err)
		}
		if err := b.enqueue(ctx, []Call{c}); err != nil {
			return v, err
		}
		if err := ctx.Err(); err != nil { // see window
			return v, err
		}
		if compared == 0 {
			continue
		}
		if err := errors.Join(b.backend.Device.CopyOut(b.stream, unsafe.Pointer(&to[0]), c.Recv, compared), b.stream.Synchronize()); err != nil {
			return v, rank.Coded(result.ReasonDevice, err)
		}
		if i > 0 {
			v.Compare(first, next, size, i)
		}
	}
	return v, nil
}

// lay fills device memory with copies of tile.
func (b *bench) lay(tile []byte, at accel.Ptr, bytes int64) error {
	have := min(int64(len(tile)), bytes)
	err := accel.Write(b.backend.Device, b.stream, at, tile[:have])
	for err == nil && have < bytes {
		n := min(have, bytes-have)
		err = b.backend.Device.Copy(b.stream, at.Add(have), at, n)
		have += n
	}
	return err
}

// foldRepeatable combines what the ranks found of a rung; nil if one of them has nothing.
func foldRepeatable(r rungRecord, tracks []track, group []int) *result.Repeatability {
	var all result.Repeatability
	for number, t := range tracks {
		i := slices.IndexFunc(t.repeated, func(v repeated) bool { return v.Requested == r.Requested && v.Placement == r.Placement })
		if i < 0 {
			return nil
		}
		v := t.repeated[i].Repeatability
		if group != nil {
			number = group[number]
		}
		all.Add(number, v)
	}
	return &all
}
