package run

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/launch"
)

// newPrepare prepares a node for ranks. Launchers start it, not people.
func newPrepare(s cli.Streams) *cobra.Command {
	var dir, step string
	cmd := &cobra.Command{
		Use:    "prepare",
		Short:  "Prepare a node for the ranks of a cell (started by shard)",
		Hidden: true,
		Args:   cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			node, _ := strconv.Atoi(s.Getenv("SLURM_NODEID")) // a host without Slurm is node 0
			if err := launch.Prepare(c.Context(), command.Host{}, dir, step, node); err != nil {
				return cli.EnvironmentError("prepare node %d: %w", node, err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "", "`DIR` of the allocation")
	f.StringVar(&step, "step", "", "the `STEP` of the preparation")
	_ = cmd.MarkFlagRequired("dir")  // fails for unknown flags alone
	_ = cmd.MarkFlagRequired("step") // as above
	return cmd
}
