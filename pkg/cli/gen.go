package cli

import "github.com/spf13/cobra"

func genRoot(s Streams) *cobra.Command {
	root := &cobra.Command{
		Use:     "cxgen",
		Short:   "Plan CollectiveX runs and emit their GitHub Actions workflow",
		Version: Version,
		Args:    unknownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	return root
}

// unknownCommand refuses words that are no command of c, which cobra would
// otherwise take as arguments of the root.
func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError("unknown command %q; see '%s --help'", args[0], c.CommandPath())
}
