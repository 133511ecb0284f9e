package gen

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
)

func newValidate(s cli.Streams) *cobra.Command {
	var defs cli.Definitions
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check the definitions",
		Long:  `Check the definitions and list every fault with its position.`,
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cat, err := defs.Load()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.Out, "%d platforms, %d backends, %d suites: sound\n", len(cat.Platforms), len(cat.Backends), len(cat.Suites))
			return err
		},
	}
	defs.AddFlag(cmd.Flags())
	return cmd
}
