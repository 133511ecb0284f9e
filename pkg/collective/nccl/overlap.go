package nccl

import (
	"context"
	"errors"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/gemm"
	"github.com/collectivex/collectivex/pkg/accel/gemm/blaslt"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/overlap"
	"github.com/collectivex/collectivex/pkg/dl"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// OpenOverlap is Open for matrix products beside communication.
func OpenOverlap(kind nccl.Kind) rank.Opener {
	return open(kind, func(ctx context.Context, _ *rank.Session, p collective.Parts) (rank.Runner, error) {
		matrix, err := gemm.NewDevice(ctx, p.Device)
		if errors.Is(err, accel.ErrUnsupported) {
			return nil, rank.Refused("nothing compiles the kernels that make and check matrices: %w", err)
		}
		if err != nil {
			return nil, rank.Coded(result.ReasonDevice, err)
		}
		streams, err := overlap.NewDeviceStreams(ctx, p.Device, p.Comm)
		if err != nil {
			return nil, errors.Join(err, matrix.Close())
		}
		r, err := overlap.NewRunner(overlap.Parts{
			Streams: streams, Multiplier: multipliers(kind, p.Device, matrix), Matrix: matrix, Data: p.Data, Comm: p.Comm.(*comm), Device: p.Device, Facts: p.Facts,
		})
		if err != nil {
			return nil, errors.Join(err, streams.Close(), matrix.Close())
		}
		return r, nil
	})
}

// multipliers opens what computes beside a library: the kernel, or the library of its vendor for
// matrices on the current device.
func multipliers(kind nccl.Kind, d accel.Device, matrix *gemm.Device) func(string) (overlap.Multiplier, error) {
	vendor := blaslt.CUBLASLt
	if kind == nccl.RCCL {
		vendor = blaslt.HIPBLASLt
	}
	return func(compute string) (overlap.Multiplier, error) {
		byKernel := overlap.Multiplier{Engine: matrix.Kernel(), Compute: vocab.ComputeKernel}
		if compute == vocab.ComputeKernel {
			return byKernel, nil
		}
		e, err := blaslt.Open(vendor, d)
		switch {
		case errors.Is(err, dl.ErrNoLibrary) && compute == vocab.ComputeAuto:
			return byKernel, nil
		case errors.Is(err, dl.ErrNoLibrary):
			return overlap.Multiplier{}, rank.Coded(result.ReasonNoLibrary, err)
		case errors.Is(err, dl.ErrNoSymbol):
			return overlap.Multiplier{}, rank.Coded(result.ReasonNoSymbol, err)
		case err != nil:
			return overlap.Multiplier{}, rank.Coded(result.ReasonLibrary, err)
		}
		return overlap.Multiplier{
			Engine: e, Compute: string(vendor),
			Library: rank.Library{Kind: string(vendor), Version: e.Version(), SOName: e.SOName(), BuildID: e.BuildID()},
		}, nil
	}
}
