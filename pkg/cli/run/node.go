package run

import (
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/launch"
)

// newNode runs the ranks of one node of a group. srun starts it, not people.
func newNode(s cli.Streams) *cobra.Command {
	var (
		store               string
		world, ranksPerNode int
	)
	cmd := &cobra.Command{
		Use:    "node",
		Short:  "Run the ranks of one node of a group (started by shard through srun)",
		Hidden: true,
		Args:   cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			node, err := strconv.Atoi(s.Getenv("SLURM_NODEID"))
			if err != nil {
				return cli.EnvironmentError("SLURM_NODEID is %q: start this program with srun", s.Getenv("SLURM_NODEID"))
			}
			if world < 1 || ranksPerNode < 1 {
				return cli.UsageError("node needs --world and --ranks-per-node, both at least 1")
			}
			defer leaveStacksToRanks()()
			program, err := os.Executable()
			if err != nil {
				return cli.EnvironmentError("%w", err)
			}
			n := launch.Node{
				Starter: command.Host{}, Program: []string{program, "rank"}, Store: store,
				Places: launch.PlacesOn(world, ranksPerNode, node),
			}
			if err := n.Run(c.Context(), s.Err); err != nil {
				return cli.EnvironmentError("node %d: %w", node, err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&store, "store", "", "`DIR` of the group's store")
	f.IntVar(&world, "world", 0, "ranks of the group")
	f.IntVar(&ranksPerNode, "ranks-per-node", 0, "ranks on each node but the last")
	_ = cmd.MarkFlagRequired("store") // fails for unknown flags alone
	return cmd
}

// leaveStacksToRanks ignores SIGQUIT in this process. Slurm sends it to all processes of a
// step, and the ranks write their stacks. Children do not inherit a handler, unlike an
// ignored signal.
func leaveStacksToRanks() (stop func()) {
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	return func() { signal.Stop(quit) }
}
