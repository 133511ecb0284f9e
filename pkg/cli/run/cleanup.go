package run

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/launch"
)

func newCleanup(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "cleanup",
		Short: "Cancel and remove what killed shards left on this machine",
		Long: `Cancel the Slurm jobs, and remove the scratch directories, of shards, sweeps and benches on
this machine that were killed before they could do so themselves. Running ones are not
affected. cxrun searches /dev/shm, the directory for temporary files, and storage.stage of
the platforms in the file that CX_OPERATOR_CONFIG names.

The exit code is 3 if a job could not be cancelled or a directory not removed. The
next cleanup, or the next shard on this machine, tries again.`,
		Example: `  cxrun cleanup`,
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			around, err := newCluster(s)
			if err != nil {
				return err
			}
			removed, err := launch.Cleanup(c.Context(), command.Host{}, around.stages())
			fmt.Fprintf(s.Out, "removed what %d killed shards left\n", removed)
			if err != nil {
				return cli.EnvironmentError("%w", err)
			}
			return nil
		},
	}
}
