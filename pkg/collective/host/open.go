package host

import (
	"context"
	"errors"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/data"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/hostrank"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/steps"
)

// Backend is the host backend.
var Backend = backend.Backend{Name: "host", Open: map[plan.Family]rank.Opener{
	collective.Name: Open, steps.Name: OpenSchedule, overlap.Name: OpenOverlap,
}}

// Open is the rank.Opener of the host backend. The caller has locked its OS thread.
func Open(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
	p, err := openParts(ctx, s, c)
	if err != nil {
		return nil, err
	}
	return runner.NewRunner(p)
}

// openParts opens the parts of a runner.
func openParts(ctx context.Context, s *rank.Session, c plan.Case) (runner.Parts, error) {
	device, err := hostrank.Open(s, c.RanksPerNode)
	if err != nil {
		return runner.Parts{}, err
	}
	comm, err := NewComm(ctx, s, device)
	if err != nil {
		return runner.Parts{}, errors.Join(err, device.Close())
	}
	return runner.Parts{
		Data: data.Inline{}, Comm: comm, Device: device, Facts: hostrank.Facts(device),
		Another: func(ctx context.Context, s *rank.Session) (runner.Comm, error) { return NewComm(ctx, s, device) },
	}, nil
}
