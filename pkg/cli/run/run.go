// Package run has the commands of cxrun, one file for each.
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

// whileRead interrupts c, as Ctrl-C does, when the reader of standard output or standard error is
// gone. By default the process would end at once, without documents for its cases and without
// removing temporary directories and shared memory. After stop, a write without a reader only
// returns an error.
func whileRead(c *cobra.Command) (stop func()) {
	ctx, forget := signal.NotifyContext(c.Context(), syscall.SIGPIPE)
	c.SetContext(ctx)
	return func() {
		signal.Ignore(syscall.SIGPIPE)
		forget()
	}
}
