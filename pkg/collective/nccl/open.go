package nccl

import (
	"context"
	"errors"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/data"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/steps"
	stepsrunner "github.com/collectivex/collectivex/pkg/steps/runner"
)

// The backends over these libraries. MSCCLPP supports neither schedules nor overlap.
var (
	NCCL    = backendOf(nccl.NCCL)
	RCCL    = backendOf(nccl.RCCL)
	MSCCLPP = backendOf(nccl.MSCCLPP)
)

func backendOf(kind nccl.Kind) backend.Backend {
	b := backend.Backend{Name: string(kind), Needs: []*backend.Need{gpurank.Needs[kind]}, Open: map[plan.Family]rank.Opener{collective.Name: Open(kind)}}
	if kind != nccl.MSCCLPP {
		b.Open[steps.Name], b.Open[overlap.Name] = OpenSchedule(kind), OpenOverlap(kind)
	}
	return b
}

// Open returns the rank.Opener of the backend for a kind of library. A rank drives the device of its
// local rank and has locked its OS thread.
func Open(kind nccl.Kind) rank.Opener {
	return open(kind, func(_ context.Context, _ *rank.Session, p runner.Parts) (rank.Runner, error) {
		return runner.NewRunner(p)
	})
}

// OpenSchedule returns the rank.Opener for schedules; see Open.
func OpenSchedule(kind nccl.Kind) rank.Opener {
	return open(kind, func(_ context.Context, s *rank.Session, p runner.Parts) (rank.Runner, error) {
		return stepsrunner.NewRunner(s, p, p.Comm.(*comm))
	})
}

// open returns a rank.Opener that opens the parts and passes them to newRunner.
func open(kind nccl.Kind, newRunner func(context.Context, *rank.Session, runner.Parts) (rank.Runner, error)) rank.Opener {
	return func(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
		library, gpu, err := gpurank.OpenNCCL(kind, s)
		if err != nil {
			return nil, err
		}
		parts, err := newParts(ctx, s, library, gpu)
		if err != nil {
			return nil, errors.Join(notOffered(variantOf(c), err), gpu.Close())
		}
		r, err := newRunner(ctx, s, parts)
		if err != nil {
			return nil, errors.Join(err, parts.Comm.Close(), parts.Data.Close(), gpu.Close())
		}
		return gpu.Around(r), nil
	}
}

// newParts returns the parts of a runner on an open device.
func newParts(ctx context.Context, s *rank.Session, l *nccl.Library, g *gpurank.GPU) (runner.Parts, error) {
	d, err := data.New(ctx, g)
	if err != nil {
		return runner.Parts{}, rank.Coded(result.ReasonDevice, err)
	}
	before, _, err := g.Memory()
	if err != nil {
		return runner.Parts{}, errors.Join(rank.Coded(result.ReasonDevice, err), d.Close())
	}
	c, err := join(ctx, s, l, g, "first")
	if err != nil {
		return runner.Parts{}, errors.Join(err, d.Close())
	}
	after, _, err := g.Memory()
	if err != nil {
		return runner.Parts{}, errors.Join(rank.Coded(result.ReasonDevice, err), c.Close(), d.Close())
	}
	return runner.Parts{
		Data: d, Comm: c, Device: g, CommBytes: before - after, Facts: g.Facts(gpurank.LibraryOf(l)),
		Another: func(ctx context.Context, s *rank.Session) (runner.Comm, error) {
			return join(ctx, s, l, g, "another")
		},
	}, nil
}

// join creates a communicator of all ranks. Each communicator of a session has its own name.
func join(ctx context.Context, s *rank.Session, l *nccl.Library, g *gpurank.GPU, name string) (*comm, error) {
	c, err := gpurank.Join(ctx, s, l, name, nccl.Config{NVLinkCentric: true})
	if err != nil {
		return nil, err
	}
	k, err := newComm(c, g)
	if err != nil {
		return nil, errors.Join(gpurank.NCCLError(err), c.Close())
	}
	return k, nil
}
