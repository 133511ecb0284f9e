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

// The commands that launchers start on nodes and in containers. People do not.

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
	cmd.Flags().StringVar(&dir, "dir", "", "`DIR` of the allocation")
	cmd.Flags().StringVar(&step, "step", "", "the `STEP` of the preparation")
	return cmd
}

func newHold() *cobra.Command {
	var (
		dir  string
		dump bool
	)
	cmd := &cobra.Command{
		Use:    "hold",
		Short:  "Keep a container up for ranks (started by shard)",
		Hidden: true,
		Args:   cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if dump {
				launch.DumpRanks(os.Args[0])
				return nil
			}
			if err := launch.Hold(c.Context(), dir); err != nil {
				return cli.EnvironmentError("%w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`DIR` of the allocation")
	cmd.Flags().BoolVar(&dump, "dump", false, "make the ranks write their stacks, and end")
	return cmd
}

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
			// Slurm sends SIGQUIT to all processes of a step. The ranks write their stacks; this
			// process ignores it, with a handler, since ranks would inherit an ignored signal.
			quit := make(chan os.Signal, 1)
			signal.Notify(quit, syscall.SIGQUIT)
			defer signal.Stop(quit)
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
	cmd.Flags().StringVar(&store, "store", "", "`DIR` of the group's store")
	cmd.Flags().IntVar(&world, "world", 0, "ranks of the group")
	cmd.Flags().IntVar(&ranksPerNode, "ranks-per-node", 0, "ranks on each node but the last")
	return cmd
}
