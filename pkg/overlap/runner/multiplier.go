package runner

import (
	"context"
	"errors"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/gemm"
	"github.com/collectivex/collectivex/pkg/accel/gemm/blaslt"
	collective "github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/dl"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	steps "github.com/collectivex/collectivex/pkg/steps/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// NewDeviceRunner returns a runner on the device of p that communicates through l. It owns p and l, and does not use p.Comm.
func NewDeviceRunner(ctx context.Context, p collective.Parts, l steps.Library) (*Runner, error) {
	matrix, err := gemm.NewDevice(ctx, p.Device)
	if errors.Is(err, accel.ErrUnsupported) {
		return nil, rank.Refused("compile the kernels that fill and check matrices: %w", err)
	}
	if err != nil {
		return nil, rank.Coded(result.ReasonDevice, err)
	}
	streams, err := NewDeviceStreams(ctx, p.Device, l)
	if err != nil {
		return nil, errors.Join(err, matrix.Close())
	}
	r, err := NewRunner(Parts{
		Streams: streams, Multiplier: multipliers(p.Device, matrix), Matrix: matrix, Data: p.Data, Comm: l, Device: p.Device, Facts: p.Facts,
	})
	if err != nil {
		return nil, errors.Join(err, streams.Close(), matrix.Close())
	}
	return r, nil
}

// multipliers returns a function for Parts.Multiplier. It opens the kernel, or the library of the device's vendor.
func multipliers(d accel.Device, matrix *gemm.Device) func(string) (Multiplier, error) {
	vendor := blaslt.CUBLASLt
	if d.Info().Vendor == vocab.AMD {
		vendor = blaslt.HIPBLASLt
	}
	return func(compute string) (Multiplier, error) {
		byKernel := Multiplier{Engine: matrix.Kernel(), Compute: overlap.ComputeKernel}
		if compute == overlap.ComputeKernel {
			return byKernel, nil
		}
		e, err := blaslt.Open(vendor, d)
		switch {
		case errors.Is(err, dl.ErrNoLibrary) && compute == overlap.ComputeAuto:
			return byKernel, nil
		case errors.Is(err, dl.ErrNoLibrary):
			return Multiplier{}, rank.Coded(result.ReasonNoLibrary, err)
		case errors.Is(err, dl.ErrNoSymbol):
			return Multiplier{}, rank.Coded(result.ReasonNoSymbol, err)
		case err != nil:
			return Multiplier{}, rank.Coded(result.ReasonLibrary, err)
		}
		return Multiplier{
			Engine: e, Compute: string(vendor),
			Library: rank.LibraryOf(string(vendor), e.Version(), e.File),
		}, nil
	}
}
