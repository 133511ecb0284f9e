package python

import (
	"context"
	_ "embed" // kernels.cu

	"github.com/collectivex/collectivex/pkg/accel"
	source "github.com/collectivex/collectivex/pkg/accel/kernels"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

//go:embed kernels.cu
var kernelSource string

// maxHidden is 8 × CX_MAX_VECTORS of kernels.cu.
const maxHidden = 8 * 2048

// kernels holds the kernels of kernels.cu, loaded on one device.
type kernels struct {
	cast, stage, scales accel.Kernel
	blocks              uint32
}

func newKernels(ctx context.Context, d *accel.Scope) (*kernels, error) {
	k := &kernels{blocks: uint32(accel.Blocks(d))}
	return k, d.Kernels(ctx, "ep_python.cu", source.Complete(kernelSource), map[string]*accel.Kernel{
		"cx_py_cast": &k.cast, "cx_py_stage": &k.stage, "cx_py_scales": &k.scales,
	})
}

// geometry locates the rows of a case's dispatches: one group for each local expert, or one in
// all, with room for capacity rows each. Strides of scales are in floats. If Sparse, rows without
// an expert are empty; otherwise a group is filled from its first row on.
type geometry struct {
	Groups       int   `json:"groups"`
	Capacity     int   `json:"capacity"`
	GroupScales  int64 `json:"group_scales"`
	RowScales    int64 `json:"row_scales"`
	ColumnScales int64 `json:"column_scales"`
	Sparse       bool  `json:"sparse"`
	// Tuning is what the library runs with; nil: it has no such choices.
	Tuning *result.Tuning `json:"tuning"`
	// StagedElsewhere: staged rows go into memory of the library.
	StagedElsewhere bool `json:"staged_elsewhere"`
}

// rows returns the number of row slots.
func (g geometry) rows() int { return g.Groups * g.Capacity }

// arrived is cx_arrived of kernels.cu.
type arrived struct {
	values, scales, counts, present      accel.Ptr
	groupScales, rowScales, columnScales int64
	groups, capacity, rows, topk, hidden int32
	fp8, fnuz, _                         int32
}

// memory is the device memory of a case.
type memory struct {
	device        *accel.Scope
	codes, scales accel.Ptr // of the rows to send, if the adapter casts them
	others        accel.Ptr // bf16 rows, in the order of the received ones
	arrivedScales accel.Ptr // of all row slots, row after row
}

// newMemory allocates the memory that the adapter needs besides the library's. Where the library
// provides memory for staged rows, others is 0. Even on error the result must be released.
func newMemory(device accel.Device, m mode, c runner.Codec, g geometry, tokens, hidden int) (*memory, error) {
	of := &memory{device: accel.NewScope(device)}
	casts := c.Format != nil && !m.cast.inKernel
	for _, part := range []struct {
		at    *accel.Ptr
		bytes int
		want  bool
	}{
		{&of.codes, tokens * hidden, casts},
		{&of.scales, 4 * tokens * c.Scales(hidden), casts && c.Block},
		{&of.others, 2 * g.rows() * hidden, !g.StagedElsewhere},
		{&of.arrivedScales, 4 * g.rows() * c.Scales(hidden), c.Block},
	} {
		if !part.want {
			continue
		}
		var err error
		if *part.at, err = of.device.Alloc(int64(max(1, part.bytes))); err != nil {
			return of, rank.OutOfMemory(int64(part.bytes), err)
		}
	}
	return of, nil
}

// castRows enqueues the cast of the problem's rows.
func (a *adapter) castRows() error {
	fnuz := int32(0)
	if a.d.Codec.Format == numeric.E4M3FNUZ {
		fnuz = 1
	}
	p := a.problem
	if p.Tokens == 0 {
		return nil
	}
	return a.kernels.cast.Launch(a.stream, min(a.kernels.blocks, uint32(p.Tokens)), accel.BlockThreads, 0,
		accel.Arg(p.X), accel.Arg(a.memory.codes), accel.Arg(a.memory.scales), accel.Arg(int32(p.Tokens)), accel.Arg(int32(p.Hidden)),
		accel.Arg(fnuz), accel.Arg(a.d.Codec.Format.Max))
}
