package runner

import (
	"errors"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/gemm"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

// copier copies a matrix between page-locked memory of the host and the device in the place of each product: A from the
// host to where the product would be, or A to the host.
type copier struct {
	device accel.Device
	out    bool
	size   int64 // bytes of an element
	moves  []move
}

// move is what one copy moves.
type move struct {
	from, to accel.Ptr // A, and where the product would be
	host     unsafe.Pointer
	bytes    int64
}

// newCopier returns a copier for a case, as an engine.
func newCopier(d accel.Device, compute string, size int64) Multiplier {
	return Multiplier{Engine: &copier{device: d, out: compute == overlap.CopyOut, size: size}, Compute: compute}
}

// Prepare implements gemm.Engine.
func (c *copier) Prepare(p gemm.Product) (gemm.Multiply, error) {
	m := move{from: p.A, to: p.C, bytes: p.M * p.K * c.size}
	var err error
	if m.host, err = c.device.AllocHost(m.bytes); err != nil {
		return nil, rank.OutOfMemory(m.bytes, err)
	}
	c.moves = append(c.moves, m)
	if c.out {
		return func(s accel.Stream) error { return c.device.CopyOut(s, m.host, m.from, m.bytes) }, nil
	}
	return func(s accel.Stream) error { return c.device.CopyIn(s, m.to, m.host, m.bytes) }, nil
}

// Close implements gemm.Engine. No copy may be in flight.
func (c *copier) Close() (err error) {
	for _, m := range c.moves {
		err = errors.Join(err, c.device.FreeHost(m.host))
	}
	c.moves = nil
	return rank.Coded(result.ReasonDevice, err)
}

// fill prepares the host's memory for a window: A if copies come from there, else the poison of the products.
func (c *copier) fill(s accel.Stream) error {
	for _, m := range c.moves {
		from := m.from
		if c.out {
			from = m.to
		}
		if err := c.device.CopyOut(s, m.host, from, m.bytes); err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
	}
	return nil
}

// collect brings what copies left on the host to where the products would be.
func (c *copier) collect(s accel.Stream) error {
	for _, m := range c.moves {
		if !c.out {
			return nil
		}
		if err := c.device.CopyIn(s, m.to, m.host, m.bytes); err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
	}
	return nil
}

// check compares every element that was copied.
func (c *copier) check(s accel.Stream, data gemm.Data, v gemm.Values) (workload.Verdict, error) {
	total := workload.Verdict{First: -1}
	for _, m := range c.moves {
		found, err := data.Check(s, m.to, v, 0, m.bytes/c.size)
		if err != nil {
			return total, rank.Coded(result.ReasonDevice, err)
		}
		total.Add(found)
	}
	return total, nil
}

// multiplier opens what computes the products of a case, or copies in their place.
func (r *Runner) multiplier(b *bench) (Multiplier, error) {
	if overlap.Copies(b.block.Compute) {
		return newCopier(b.Device, b.block.Compute, b.size), nil
	}
	return r.parts.Multiplier(b.block.Compute)
}
