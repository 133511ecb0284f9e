package gen

import (
	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/fleet"
)

func newCancel(s cli.Streams, clock fleet.Clock) *cobra.Command {
	var force bool
	r := &remote{s: s, clock: clock}
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "Cancel a run on GitHub",
		Long: `Cancel a run on GitHub. Its jobs get time to stop cleanly, unless --force is given. The
exit code is 0 also for a run that is over already. RUN is a number, a URL, or - for the
first line of standard input.`,
		Example: `  cxgen cancel https://github.com/acme/fleet/actions/runs/1001
  cxgen cancel 1001 --repo acme/fleet --force --json`,
		Args: oneRun,
		RunE: func(c *cobra.Command, args []string) error {
			client, id, err := r.run(c.Context(), args[0])
			if err != nil {
				return err
			}
			cancelled, err := client.Cancel(c.Context(), id, force)
			if err != nil {
				return unreachable(err)
			}
			return r.print(struct {
				RunID     int64 `json:"run_id"`
				Cancelled bool  `json:"cancelled"` // false: it was over already
			}{id, cancelled}, func() {
				state := "over already"
				if cancelled {
					state = "being cancelled"
				}
				s.Tell("run %d is %s", id, state)
			})
		},
	}
	r.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&force, "force", false, "do not wait for the jobs, even those that ignore a cancellation")
	return cmd
}
