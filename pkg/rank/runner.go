package rank

import (
	"context"

	"github.com/collectivex/collectivex/pkg/plan"
)

// Runner runs the cases of one group in this rank. It is opened once per group, so that resources that are slow
// to set up (device, communicator, imports) are reused.
type Runner interface {
	// Run runs one case exactly as specified, or returns an error (an *Error if the reason has a code). It
	// emits samples as they are measured.
	Run(ctx context.Context, s *Session, c plan.Case) error
	Close() error
}

// Opener opens the runner of a group; c is the group's first case and determines family and backend.
type Opener func(ctx context.Context, s *Session, c plan.Case) (Runner, error)
