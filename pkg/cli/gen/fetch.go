package gen

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/fleet"
	"github.com/collectivex/collectivex/pkg/plural"
)

// tellArtifact reports what became of an artifact.
func tellArtifact(s cli.Streams, a fleet.Artifact) {
	if a.Error != "" {
		s.Tell("%s: %s: %s", a.Name, a.State, a.Error)
		return
	}
	digest := ", digest verified"
	if !a.Verified {
		digest = "; GitHub gave no digest to verify"
	}
	s.Tell("%s: %s, %s%s", a.Name, a.State, plural.Count(a.Files, "file", "files"), digest)
}

func newFetch(s cli.Streams, clock fleet.Clock) *cobra.Command {
	var (
		dir     string
		samples bool
	)
	r := &remote{s: s, clock: clock}
	cmd := &cobra.Command{
		Use:   "fetch RUN -o DIR",
		Short: "Download the matrix, the documents and the dataset of a run",
		Long: `Download the artifacts of a run into DIR: matrix/, the newest attempt of each cell in
cells/CELL/, and aggregate/. Unchanged artifacts are kept, so that the command
continues where it was interrupted, and fetches what is new after a re-run. Digests are
verified. Archives that would write outside of their directory, or too much, are
refused. Raw samples are most of the bytes of a run, and only traces need them; they
are fetched with --samples only.

The exit code is 1 if an artifact has expired, is damaged or is missing; the others
are fetched. RUN is a number, a URL, or - for the first line of standard input.`,
		Example: `  cxgen fetch https://github.com/acme/fleet/actions/runs/1001 -o run
  cxgen fetch 1001 --repo acme/fleet -o run --samples --json
  cxgen watch 1001 --repo acme/fleet | cxgen fetch - -o run`,
		Args: oneRun,
		RunE: func(c *cobra.Command, args []string) error {
			client, id, err := r.run(c.Context(), args[0])
			if err != nil {
				return err
			}
			kinds := fleet.Documents()
			if samples {
				kinds = append(kinds, fleet.KindSamples)
			}
			f, err := client.Fetch(c.Context(), id, dir, kinds, func(a fleet.Artifact) { tellArtifact(s, a) })
			if err != nil {
				return unreachable(err)
			}
			if err := r.print(f, func() {
				if !f.Completed() {
					s.Tell("run %d is not over: fetch again later for the rest", id)
				}
				fmt.Fprintln(s.Out, filepath.Clean(dir))
			}); err != nil {
				return err
			}
			return f.Err()
		},
	}
	r.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&dir, "output", "o", "", "write into `DIR`")
	_ = cmd.MarkFlagRequired("output") // fails only for unknown flags
	cmd.Flags().BoolVar(&samples, "samples", false, "also download the raw samples, into cells/CELL/samples/")
	return cmd
}
