package gemm

import (
	"context"
	_ "embed" // values.h and gemm.cu
	"errors"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/kernels"
	"github.com/collectivex/collectivex/pkg/workload"
)

//go:embed values.h
var valuesSource string

//go:embed gemm.cu
var gemmKernels string

func source() string { return kernels.Complete(workload.HashSource + valuesSource + gemmKernels) }

// Device fills and checks matrices with kernels that are compiled at run time.
type Device struct {
	device                               *accel.Scope
	multiply, fill, check, checkProducts accel.Kernel
	verdict                              kernels.Verdict
}

var _ Data = (*Device)(nil)

// kernel is an Engine that runs a kernel of a Device.
type kernel struct{ *Device }

// Kernel returns an engine that runs a kernel without matrix units, so it is far slower than a
// library. Closing g closes the engine.
func (g *Device) Kernel() Engine { return kernel{g} }

func (kernel) Close() error { return nil }

// NewDevice compiles the kernels. The error wraps accel.ErrUnsupported if the device has no
// compiler for kernels.
func NewDevice(ctx context.Context, d accel.Device) (*Device, error) {
	g := &Device{device: accel.NewScope(d)}
	err := g.device.Kernels(ctx, "gemm.cu", source(), map[string]*accel.Kernel{
		"cx_gemm": &g.multiply, "cx_gemm_fill": &g.fill, "cx_gemm_check": &g.check, "cx_gemm_check_products": &g.checkProducts,
	})
	if err == nil {
		g.verdict, err = kernels.NewVerdict(g.device)
	}
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// tile is the number of rows, and of columns, that a block computes at a time. gemm.cu has the same
// number.
const tile = 64

// tiles returns the number of blocks for a product.
func (s Shape) tiles() uint32 {
	const maxBlocks = 1 << 20 // blocks loop over further tiles
	up := func(n int64) int64 { return (n + tile - 1) / tile }
	return uint32(min(up(s.M)*up(s.N), maxBlocks))
}

func (g kernel) Prepare(p Product) (Multiply, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	return func(s accel.Stream) error {
		return g.multiply.Launch(s, p.tiles(), accel.BlockThreads, 0,
			accel.Arg(p.A), accel.Arg(p.B), accel.Arg(p.C), accel.Arg(p.M), accel.Arg(p.N), accel.Arg(p.K), accel.Arg(int32(p.Type)))
	}, nil
}

// Fill implements Data.
func (g *Device) Fill(s accel.Stream, at accel.Ptr, v Values, first, count int64) error {
	return g.fill.Launch(s, accel.BlocksFor(g.device, count), accel.BlockThreads, 0,
		accel.Arg(at), accel.Arg(int32(v.Type)), accel.Arg(v.Seed), accel.Arg(v.right()), accel.Arg(v.Columns), accel.Arg(first), accel.Arg(count))
}

// Check implements Data.
func (g *Device) Check(s accel.Stream, at accel.Ptr, v Values, first, count int64) (workload.Verdict, error) {
	return g.verdict.Of(s, count, func(verdict unsafe.Pointer) error {
		return g.check.Launch(s, accel.BlocksFor(g.device, count), accel.BlockThreads, 0,
			accel.Arg(at), accel.Arg(int32(v.Type)), accel.Arg(v.Seed), accel.Arg(v.right()), accel.Arg(v.Columns), accel.Arg(first), accel.Arg(count), verdict)
	})
}

// CheckProducts implements Data.
func (g *Device) CheckProducts(s accel.Stream, c Outputs, p Shape, a, b Values) (workload.Verdict, error) {
	return g.verdict.Of(s, int64(c.Count)*p.M*p.N, func(verdict unsafe.Pointer) error {
		return g.checkProducts.Launch(s, p.tiles(), accel.BlockThreads, 0,
			accel.Arg(c.At), accel.Arg(c.Stride), accel.Arg(int32(c.Count)), accel.Arg(p.M), accel.Arg(p.N), accel.Arg(p.K),
			accel.Arg(a.Seed), accel.Arg(b.Seed), accel.Arg(int32(a.Type)), verdict)
	})
}

// CheckedBy implements Data.
func (*Device) CheckedBy() string { return "device" }

// Close implements Data.
func (g *Device) Close() error { return g.device.Close() }
