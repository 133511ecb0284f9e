package gemm

import (
	"context"
	_ "embed" // gemm.cu
	"errors"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/kernels"
	"github.com/collectivex/collectivex/pkg/workload"
)

//go:embed gemm.cu
var gemmKernels string

func source() string { return kernels.Complete(workload.HashSource + gemmKernels) }

// Device makes and checks matrices by kernels that are compiled at run time.
type Device struct {
	device                               *accel.Scope
	multiply, fill, check, checkProducts accel.Kernel
	verdict                              accel.Ptr // what checks write
	found                                *found    // its copy on the host
}

var _ Data = (*Device)(nil)

// kernel is an Engine by a kernel of a Device. It uses no matrix units.
type kernel struct{ *Device }

// Kernel returns an engine by a kernel that uses no matrix units, so that it is far slower than a
// library. It ends with g.
func (g *Device) Kernel() Engine { return kernel{g} }

func (kernel) Close() error { return nil }

// found is the verdict of a check.
type found struct{ wrong, first uint64 }

const foundBytes = int64(unsafe.Sizeof(found{}))

// NewDevice compiles the kernels. Its error wraps accel.ErrUnsupported if nothing compiles
// kernels here.
func NewDevice(ctx context.Context, d accel.Device) (*Device, error) {
	g := &Device{device: accel.NewScope(d)}
	err := g.device.Kernels(ctx, "gemm.cu", source(), map[string]*accel.Kernel{
		"cx_gemm": &g.multiply, "cx_gemm_fill": &g.fill, "cx_gemm_check": &g.check, "cx_gemm_check_products": &g.checkProducts,
	})
	if err == nil {
		g.verdict, err = g.device.Alloc(foundBytes)
	}
	if err == nil {
		var host unsafe.Pointer
		host, err = g.device.AllocHost(foundBytes)
		g.found = (*found)(host)
	}
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// tile is the rows and columns that a block computes at a time; gemm.cu has it too.
const tile = 64

// tiles is the blocks of a product.
func (s Shape) tiles() uint32 {
	const most = 1 << 20 // blocks walk over the others
	up := func(n int64) int64 { return (n + tile - 1) / tile }
	return uint32(min(up(s.M)*up(s.N), most))
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
	return g.fill.Launch(s, g.blocks(count), accel.BlockThreads, 0,
		accel.Arg(at), accel.Arg(v.Seed), accel.Arg(first), accel.Arg(count), accel.Arg(int32(v.Type)))
}

// blocks are enough for elements, one a thread.
func (g *Device) blocks(elements int64) uint32 {
	return uint32(min((elements+accel.BlockThreads-1)/accel.BlockThreads, int64(accel.Blocks(g.device))))
}

// Check implements Data.
func (g *Device) Check(s accel.Stream, at accel.Ptr, v Values, first, count int64) (workload.Verdict, error) {
	return g.judge(s, count, func(verdict unsafe.Pointer) error {
		return g.check.Launch(s, g.blocks(count), accel.BlockThreads, 0,
			accel.Arg(at), accel.Arg(v.Seed), accel.Arg(first), accel.Arg(count), accel.Arg(int32(v.Type)), verdict)
	})
}

// CheckProducts implements Data.
func (g *Device) CheckProducts(s accel.Stream, c Outputs, p Shape, a, b Values) (workload.Verdict, error) {
	return g.judge(s, int64(c.Count)*p.M*p.N, func(verdict unsafe.Pointer) error {
		return g.checkProducts.Launch(s, p.tiles(), accel.BlockThreads, 0,
			accel.Arg(c.At), accel.Arg(c.Stride), accel.Arg(int32(c.Count)), accel.Arg(p.M), accel.Arg(p.N), accel.Arg(p.K),
			accel.Arg(a.Seed), accel.Arg(b.Seed), accel.Arg(int32(a.Type)), verdict)
	})
}

// judge runs a check, which compares that many elements.
func (g *Device) judge(s accel.Stream, elements int64, check func(verdict unsafe.Pointer) error) (workload.Verdict, error) {
	v := workload.Verdict{First: -1}
	*g.found = found{first: ^uint64(0)}
	if err := g.device.CopyIn(s, g.verdict, unsafe.Pointer(g.found), foundBytes); err != nil {
		return v, err
	}
	if err := check(accel.Arg(g.verdict)); err != nil {
		return v, err
	}
	if err := g.device.CopyOut(s, unsafe.Pointer(g.found), g.verdict, foundBytes); err != nil {
		return v, err
	}
	if err := s.Synchronize(); err != nil {
		return v, err
	}
	v.Checked = elements
	if g.found.wrong > 0 {
		v.Wrong, v.First = int64(g.found.wrong), int64(g.found.first)
	}
	return v, nil
}

// CheckedBy implements Data.
func (*Device) CheckedBy() string { return "device" }

// Close implements Data.
func (g *Device) Close() error { return g.device.Close() }
