// Package gen has the commands of cxgen, one file for each.
package gen

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/fleet"
)

// Main runs cxgen and returns its exit code.
func Main(ctx context.Context, s cli.Streams, args []string) int {
	return cli.Execute(ctx, s, program{fleet.Wall{}}.newRoot, args)
}

type program struct {
	clock fleet.Clock // of the commands that talk to GitHub
}

func (p program) newRoot(s cli.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:     "cxgen",
		Short:   "Plan CollectiveX runs, emit their GitHub Actions workflow and operate it",
		Version: cli.Build(),
		Args:    cli.UnknownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.AddCommand(newValidate(s), newMatrix(s), newWorkflow(s),
		newDispatch(s, p.clock), newWatch(s, p.clock), newFetch(s, p.clock), newHistory(s, p.clock), newCancel(s, p.clock),
		newRerun(s, p.clock), newRunners(s, p.clock))
	return root
}
