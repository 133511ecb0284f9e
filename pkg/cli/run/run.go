// Package run is the commands of cxrun: one file per command.
package run

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
)

// Main runs cxrun and returns its exit code.
func Main(ctx context.Context, s cli.Streams, args []string) int {
	return cli.Execute(ctx, s, newRoot, args)
}

func newRoot(s cli.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:     "cxrun",
		Short:   "Run, check and report collective and expert-parallel benchmarks",
		Version: cli.Build(),
		Args:    cli.UnknownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.AddCommand(newAggregate(s), newBench(s), newCompare(s), newSummarize(s), newReport(s), newDoctor(s), newEnv(s), newExport(s), newPrune(s), newShard(s), newSchedule(s), newStudy(s), newSweep(s), newCleanup(s), newHold(), newPrepare(s), newRank(s), newNode(s), newSurvey(s))
	return root
}

// whileRead makes it an interruption of c, as Ctrl-C is, that the reader of
// standard output or standard error goes. By default that ends this process on
// the spot: cases are left without documents, and temporary directories and
// shared memory stay. After stop such a write is an error and nothing more.
func whileRead(c *cobra.Command) (stop func()) {
	ctx, forget := signal.NotifyContext(c.Context(), syscall.SIGPIPE)
	c.SetContext(ctx)
	return func() {
		signal.Ignore(syscall.SIGPIPE)
		forget()
	}
}
