// Package gen is the commands of cxgen: one file per command.
package gen

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
)

// Main runs cxgen and returns its exit code.
func Main(ctx context.Context, s cli.Streams, args []string) int {
	return cli.Execute(ctx, s, newRoot, args)
}

func newRoot(s cli.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:     "cxgen",
		Short:   "Plan CollectiveX runs and emit their GitHub Actions workflow",
		Version: cli.Build(),
		Args:    cli.UnknownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.AddCommand(newValidate(s), newMatrix(s), newWorkflow(s), newSchema())
	return root
}
