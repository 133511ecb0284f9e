package run

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/launch"
)

// newHold keeps a container up for the ranks of a group. The shard starts it, not people.
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
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "", "`DIR` of the allocation")
	f.BoolVar(&dump, "dump", false, "make the ranks write their stacks, and end")
	_ = cmd.MarkFlagRequired("dir") // fails for unknown flags alone
	return cmd
}
