package gen

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/fleet"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/workflow"
)

func newRunners(s cli.Streams, clock fleet.Clock) *cobra.Command {
	var (
		defs       cli.Definitions
		exitStatus bool
	)
	r := &remote{s: s, clock: clock}
	cmd := &cobra.Command{
		Use:   "runners",
		Short: "Show which runner labels of the definitions are served, and which are not",
		Long: `List the runner labels of the platforms in the definitions, with the runners of the
repository and of its organization that have them: online, busy among the online, and
offline. The last column counts the cells that wait for the label in runs that are
queued or in progress. GitHub ends a job that has waited for a day.

The token needs the permission to list runners, which GITHUB_TOKEN of a job never has.`,
		Example: `  cxgen runners --repo acme/fleet
  cxgen runners --repo acme/fleet --exit-status --json`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cat, err := defs.Load()
			if err != nil {
				return err
			}
			wanted := map[string][]string{}
			for i := range cat.Platforms {
				p := &cat.Platforms[i]
				wanted[p.Runner] = append(wanted[p.Runner], p.SKU)
			}
			client, err := r.client(c.Context(), fleet.RunRef{})
			if err != nil {
				return err
			}
			labels, err := client.Runners(c.Context(), path.Base(workflow.File), wanted)
			if err != nil {
				return unreachable(err)
			}
			var unserved []string
			for _, l := range labels {
				if l.Unserved() {
					unserved = append(unserved, l.Name)
				}
			}
			if err := r.print(struct {
				Labels   []fleet.Label `json:"labels"`
				Unserved int           `json:"unserved"`
			}{labels, len(unserved)}, func() { _ = printLabels(s, labels) }); err != nil {
				return err
			}
			if exitStatus && len(unserved) > 0 {
				return fmt.Errorf("no online runner serves %s: %s", plural.Count(len(unserved), "label", "labels"), strings.Join(unserved, ", "))
			}
			return nil
		},
	}
	defs.AddFlag(cmd.Flags())
	r.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&exitStatus, "exit-status", false, "exit 1 if no online runner serves a label")
	return cmd
}

func printLabels(s cli.Streams, labels []fleet.Label) error {
	table := [][]string{{"LABEL", "PLATFORMS", "ONLINE", "BUSY", "OFFLINE", "WAITING", ""}}
	for _, l := range labels {
		note := ""
		switch {
		case l.Hosted:
			note = "GitHub's own"
		case l.Unserved():
			note = "no online runner"
		}
		table = append(table, []string{
			l.Name, strings.Join(l.SKUs, " "), strconv.Itoa(l.Online), strconv.Itoa(l.Busy), strconv.Itoa(l.Offline), strconv.Itoa(l.Waiting), note,
		})
	}
	return cli.Table(s.Out, table)
}
