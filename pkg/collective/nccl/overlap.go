package nccl

import (
	"context"

	collective "github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/overlap/runner"
	"github.com/collectivex/collectivex/pkg/rank"
)

// OpenOverlap returns the rank.Opener for matrix products beside communication; see Open.
func OpenOverlap(kind nccl.Kind) rank.Opener {
	return open(kind, func(ctx context.Context, _ *rank.Session, p collective.Parts) (rank.Runner, error) {
		return runner.NewDeviceRunner(ctx, p, p.Comm.(*comm))
	})
}
