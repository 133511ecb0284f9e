package a2a

import (
	"context"
	_ "embed" // *.cu
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	source "github.com/collectivex/collectivex/pkg/accel/kernels"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/numeric"
)

//go:embed shuffle.cu
var shuffleSource string

//go:embed gather.cu
var gatherSource string

const (
	// minThreads is the minimum block size; smaller blocks save nothing.
	minThreads = 32
	// columns is the number of columns that a thread moves at a time.
	columns = 8
	// maxThreads is CX_MAX_THREADS of shuffle.cu: the size of a block that occupies a whole
	// multiprocessor.
	maxThreads = 1024
)

// threads returns the block size for n work items, up to limit: a power of two, as scans require.
func threads(n, limit int) uint32 {
	t := minThreads
	for t < n && t < limit {
		t *= 2
	}
	return uint32(t)
}

// kernels holds the kernels of shuffle.cu and gather.cu, loaded on one device.
type kernels struct {
	blocks                     int // maximum of a launch
	besideLibrary              int // maximum, with maxThreads each, of a launch that overlaps operations of the library
	layout, pack, convert, sum accel.Kernel

	gatherPack, gatherLayout, gatherExpand, gatherConvert, gatherWeigh, gatherSum accel.Kernel
}

func (k *kernels) compile(ctx context.Context, d *accel.Scope, source string) error {
	k.blocks = accel.Blocks(d)
	// One block of the maximum size on two thirds of the multiprocessors. A block of the library may
	// need a whole multiprocessor, and would wait for the end of a kernel that occupies all of them.
	k.besideLibrary = max(1, d.Info().Multiproc*2/3)
	return d.Kernels(ctx, "a2a.cu", source, map[string]*accel.Kernel{
		"cx_layout": &k.layout, "cx_pack": &k.pack, "cx_convert": &k.convert, "cx_sum": &k.sum,
		"cx_gather_pack": &k.gatherPack, "cx_gather_layout": &k.gatherLayout, "cx_gather_expand": &k.gatherExpand,
		"cx_gather_convert": &k.gatherConvert, "cx_gather_weigh": &k.gatherWeigh, "cx_gather_sum": &k.gatherSum,
	})
}

func allKernels() string { return source.Complete(shuffleSource + gatherSource) }

// params is cx_case of shuffle.cu.
type params struct {
	world, me, hidden, topk, perRank, domain int32
	valueBytes, scaleBytes                   int32
	besideBytes                              int32
	rowBytes                                 int32
	fp8, fnuz                                int32
	max                                      float32
}

func paramsOf(s sizes, rank int, c runner.Codec) params {
	p := params{
		world: int32(s.world), me: int32(rank), hidden: int32(s.hidden), topk: int32(s.topk),
		perRank: int32(s.perRank), domain: int32(s.domain), valueBytes: int32(s.valueBytes), scaleBytes: int32(s.scaleBytes),
	}
	if c.Format != nil {
		p.fp8, p.max = 1, c.Format.Max
	}
	if c.Format == numeric.E4M3FNUZ {
		p.fnuz = 1
	}
	return p
}

// launcher is the signature of perRow and perRowBeside.
type launcher func(s accel.Stream, k accel.Kernel, rows, hidden int, args ...unsafe.Pointer) error

// perRow launches a kernel with one block per row of hidden columns, limited to the blocks that
// can run at once.
func (e *end) perRow(s accel.Stream, k accel.Kernel, rows, hidden int, args ...unsafe.Pointer) error {
	return e.rows(s, k, rows, e.kernels.blocks, threads(hidden/columns, accel.BlockThreads), args...)
}

// perRowBeside is perRow with multiprocessors left free for the library.
func (e *end) perRowBeside(s accel.Stream, k accel.Kernel, rows, hidden int, args ...unsafe.Pointer) error {
	return e.rows(s, k, rows, e.kernels.besideLibrary, threads(hidden/columns, maxThreads), args...)
}

func (e *end) rows(s accel.Stream, k accel.Kernel, rows, blocks int, threads uint32, args ...unsafe.Pointer) error {
	if rows <= 0 {
		return nil
	}
	return k.Launch(s, uint32(min(rows, blocks)), threads, 0, args...)
}

// scan launches a kernel whose blocks each walk n entries.
func (e *end) scan(k accel.Kernel, blocks, n int, args ...unsafe.Pointer) error {
	return k.Launch(e.stream, uint32(blocks), threads(n, maxThreads), 0, args...)
}
