// Package run is the commands of cxrun: one file per command.
package run

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
)

// Main runs cxrun and returns its exit code.
func Main(ctx context.Context, s cli.Streams, args []string) int {
	root := &cobra.Command{
		Use:     "cxrun",
		Short:   "Run, check and report collective and expert-parallel benchmarks",
		Version: cli.Build(),
		Args:    cli.UnknownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.AddCommand(newAggregate(s), newBench(s), newSummarize(s), newDoctor(s), newEnv(s), newShard(s), newSweep(s), newRank(s), newSurvey(s)) //nolint:contextcheck // commands get their context from cobra
	return cli.Execute(ctx, s, root, args)
}
