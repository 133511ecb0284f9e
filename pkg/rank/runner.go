package rank

import (
	"context"

	"github.com/collectivex/collectivex/pkg/plan"
)

// Runner does the cases of one group in this rank. It is opened once per
// group, so that what is slow to set up (device, communicator, imports) stays
// warm from case to case.
type Runner interface {
	// Run does one case exactly as it says, or returns an error (an *Error where
	// the reason has a code). Samples are emitted as they come.
	Run(ctx context.Context, s *Session, c plan.Case) error
	Close() error
}

// Opener opens the runner of a group; c is the group's first case and says
// family and backend.
type Opener func(ctx context.Context, s *Session, c plan.Case) (Runner, error)
