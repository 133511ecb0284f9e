package nccl

import (
	"context"
	"errors"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/gemm"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/overlap"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
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
			Streams: streams, Engine: matrix.Kernel(), Matrix: matrix, Data: p.Data, Comm: p.Comm.(*comm), Device: p.Device, Facts: p.Facts,
		})
		if err != nil {
			return nil, errors.Join(err, streams.Close(), matrix.Close())
		}
		return r, nil
	})
}
