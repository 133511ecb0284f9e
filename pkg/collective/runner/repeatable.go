package runner

import (
	"bytes"
	"context"
	"errors"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// maxCompared is the maximum number of bytes of a result, from its start, that the repeatability pass
// compares. The host keeps a copy of the first result.
const maxCompared = 256 << 20

// tileBytes is the period, in bytes, of the input of the repeatability pass.
const tileBytes = 1 << 20

// repeated is what one rank found in the repeatability pass of a rung. First.Rank is not set.
type repeated struct {
	Requested int64  `json:"requested"`
	Placement string `json:"placement"`
	collective.Repeatability
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
	sp.data.Seeded(seed(sp.CaseID, window{Mode: kindRepeatable}, 0)).Inexact(tile, s.Rank)
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
func (b *bench) runAgain(ctx context.Context, tile []byte, recvAt int64) (v collective.Repeatability, err error) {
	size := int64(b.spec.dtype.Size())
	c := b.spec.call(b.session.Rank)
	c.Count, c.Send = b.rung.Count, b.memory.Ptr().Add(b.spec.unaligned())
	c.Recv = c.Send.Add(recvAt)
	input, inPlace := c.Send, b.rung.Placement == vocab.InPlace
	if inPlace {
		c.Send, c.Recv = b.together(input, b.rung.Count)
	}
	compared := int64(0)
	if len(b.outputs(b.rung)) > 0 {
		compared = min(b.rung.Recv*size, maxCompared/size*size)
	}
	first, next := make([]byte, compared), make([]byte, compared)
	v = collective.Repeatability{Operations: b.spec.block.Measure.Repeatable, Compared: compared / size}
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
			differ(&v, first, next, size, i)
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

// differ adds the elements and bits in which the result of an operation differs from the first one.
func differ(v *collective.Repeatability, first, result []byte, size int64, operation int) {
	if bytes.Equal(first, result) {
		return
	}
	for at := int64(0); at < int64(len(first)); at += size {
		element := int64(0)
		for i := range size {
			x := first[at+i] ^ result[at+i]
			if x != 0 && v.First == nil {
				v.First = &collective.Difference{Operation: operation, Element: at / size, Bit: 8*int(i) + bits.TrailingZeros8(x)}
			}
			element += int64(bits.OnesCount8(x))
		}
		if v.Bits += element; element > 0 {
			v.Elements++
		}
	}
}

// foldRepeatable combines what the ranks found of a rung; nil if one of them has nothing.
func foldRepeatable(r rungRecord, tracks []track) *collective.Repeatability {
	var all collective.Repeatability
	for number, t := range tracks {
		i := slices.IndexFunc(t.repeated, func(v repeated) bool { return v.Requested == r.Requested && v.Placement == r.Placement })
		if i < 0 {
			return nil
		}
		v := t.repeated[i].Repeatability
		all.Operations = v.Operations
		all.Compared += v.Compared
		all.Elements += v.Elements
		all.Bits += v.Bits
		if v.First != nil && (all.First == nil || v.First.Operation < all.First.Operation) {
			first := *v.First
			first.Rank = number
			all.First = &first
		}
	}
	return &all
}
