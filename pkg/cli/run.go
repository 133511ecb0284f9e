package cli

import "github.com/spf13/cobra"

func runRoot(s Streams) *cobra.Command {
	root := &cobra.Command{
		Use:     "cxrun",
		Short:   "Run, check and report collective and expert-parallel benchmarks",
		Version: Version,
		Args:    unknownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	return root
}
