package runner

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

// maxArithmetic is the maximum size, in bytes, of an operation of the arithmetic pass. The host fills
// and checks these operations.
const maxArithmetic = 1 << 20

// unwritten is the byte that fills result buffers before an operation of the arithmetic pass. In each
// type it makes a number that no operation delivers.
const unwritten = 0x5a

// arithmetic runs the case's smallest and largest size once each, untimed, with inputs whose results
// are inexact, infinite or NaN, and emits the verdict. It does nothing if all results of the operation
// are exact.
func (r *Runner) arithmetic(ctx context.Context, s *rank.Session, sp spec, l ladder) error {
	a, ok := sp.arithmetic()
	if !ok {
		return nil
	}
	f := sp.form(Pair{})
	sizes := make([]int64, len(l.rungs))
	for i, r := range l.rungs {
		sizes[i] = max(min(r.Requested, maxArithmetic), f.minBytes())
	}
	sizes = slices.Compact([]int64{slices.Min(sizes), slices.Max(sizes)})
	largest := align(f.Extent(sizes[len(sizes)-1]).Bytes)
	memory, err := r.parts.Comm.Alloc(ctx, 2*largest, sp.block.Registration)
	if err != nil {
		return err
	}
	b := &bench{backend: r.parts, spec: sp, session: s, stream: r.stream, memory: memory}
	var verdict workload.ArithmeticVerdict
	for _, size := range sizes {
		v, err := b.arithmetic(ctx, a, f, f.Extent(size), largest)
		if err != nil {
			return errors.Join(err, memory.Close())
		}
		verdict.Add(v)
	}
	return errors.Join(s.Emit(kindArithmetic, verdict), memory.Close())
}

// arithmetic returns the inputs of the case's arithmetic pass, if it has one.
func (s spec) arithmetic() (workload.Arithmetic, bool) {
	if !s.op.Reduces() {
		return workload.Arithmetic{}, false
	}
	return workload.NewArithmetic(s.dtype, s.redop, s.World, seed(s.CaseID, window{Mode: kindArithmetic}, 0))
}

// arithmetic runs one operation out of place and checks its result on this rank.
func (b *bench) arithmetic(ctx context.Context, a workload.Arithmetic, f Form, e Extent, recvAt int64) (v workload.ArithmeticVerdict, err error) {
	size := int64(b.spec.dtype.Size())
	c := b.spec.call(b.spec.seat)
	c.Count, c.Send, c.Recv = e.Count, b.memory.Ptr(), b.memory.Ptr().Add(recvAt)
	in, out := make([]byte, e.Send*size), bytes.Repeat([]byte{unwritten}, int(e.Recv*size))
	a.Fill(in, b.spec.seat, e.Send)
	if err := errors.Join(accel.Write(b.backend.Device, b.stream, c.Send, in), accel.Write(b.backend.Device, b.stream, c.Recv, out)); err != nil {
		return v, rank.Coded(result.ReasonDevice, err)
	}
	if err := b.enqueue(ctx, []Call{c}); err != nil {
		return v, err
	}
	if err := ctx.Err(); err != nil {
		return v, err // an aborted operation leaves undefined results
	}
	regions := f.Outputs(e, b.spec.seat)
	if len(regions) == 0 {
		return v, nil
	}
	got, err := accel.Read[byte](b.backend.Device, b.stream, c.Recv, len(out))
	if err != nil {
		return v, rank.Coded(result.ReasonDevice, err)
	}
	return a.Check(got, regions), nil
}

// foldArithmetic combines the verdicts of the ranks. It returns nil if a rank has none.
func (s spec) foldArithmetic(tracks []track) *result.Arithmetic {
	var all workload.ArithmeticVerdict
	for _, t := range tracks {
		if t.arithmetic == nil {
			return nil
		}
		all.Add(*t.arithmetic)
	}
	a := &result.Arithmetic{
		Passed: all.Checked > 0 && all.Wrong == 0, Accumulation: s.dtype.String(),
		Checked: all.Checked, Wrong: all.Wrong,
	}
	if all.Bound > 0 && !all.NonFinite {
		a.MaxError, a.Bound = &all.Error, &all.Bound
	}
	if len(all.Failed) > 0 {
		a.Reasons = result.Reasons{result.ReasonCheck.With("arithmetic_as_declared %s, %d of %d elements", strings.Join(all.Failed, ", "), all.Wrong, all.Checked)}
	}
	return a
}
