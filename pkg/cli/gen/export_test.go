package gen

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/fleet"
)

// MainAt is Main with a clock for the commands that talk to GitHub.
func MainAt(ctx context.Context, s cli.Streams, args []string, clock fleet.Clock) int {
	return cli.Execute(ctx, s, program{clock}.newRoot, args)
}

// NewRoot returns the program's commands.
func NewRoot(s cli.Streams, clock fleet.Clock) *cobra.Command { return program{clock}.newRoot(s) }
