package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/preflight"
	"github.com/collectivex/collectivex/pkg/sanitize"
	"github.com/collectivex/collectivex/pkg/vocab"
)

func newDoctor(s cli.Streams) *cobra.Command {
	var (
		defs   cli.Definitions
		names  []string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Report which backends can run here, and what the others lack",
		Long: `Report for every backend, one line each, whether this machine can run it. If not, the
line says what is missing, where it was looked for, and what to do. Lines about Slurm and
container engines follow, which start ranks where a platform says so.

The exit code is 3 if a backend named with --backend cannot run.`,
		Example: `  cxrun doctor
  cxrun doctor --backend nccl`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cat, err := defs.Load()
			if err != nil {
				return err
			}
			backends, err := chosen(cat, names)
			if err != nil {
				return err
			}
			findings := here().examiner(preflight.Multipliers()).Examine(backends)
			if len(names) == 0 {
				findings = append(findings, preflight.Tools(c.Context(), launch.SlurmClient{Starter: command.Host{}})...)
			}
			if c.Context().Err() != nil { // what was not examined is not missing
				return errInterrupted
			}
			if asJSON {
				err = s.JSON(findings)
			} else {
				err = printFindings(s, findings)
			}
			if err != nil || len(names) == 0 {
				return err
			}
			return missing(findings)
		},
	}
	f := cmd.Flags()
	defs.AddFlag(f)
	f.StringSliceVar(&names, "backend", nil, "report only these `BACKENDS`; exit 3 if one cannot run")
	f.BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// chosen returns the named backends; all of them without names.
func chosen(cat *catalog.Catalog, names []string) ([]catalog.Backend, error) {
	if len(names) == 0 {
		return cat.Backends, nil
	}
	var known []string
	for i := range cat.Backends {
		known = append(known, cat.Backends[i].Name)
	}
	var out []catalog.Backend
	var errs []error
	for _, name := range names {
		if b := cat.Backend(name); b != nil {
			out = append(out, *b)
		} else {
			errs = append(errs, fmt.Errorf("unknown backend %q%s", name, vocab.Hint(name, known)))
		}
	}
	if len(errs) > 0 {
		return nil, cli.UsageError("%w", errors.Join(errs...))
	}
	return out, nil
}

// stateColours has a colour for every state, so that the cells of a column have escapes of the same length.
var stateColours = map[string]string{preflight.Ready: cli.Green, preflight.Missing: cli.Red, preflight.Note: cli.Yellow}

// printFindings prints what is ready first, and once what several backends lack.
func printFindings(s cli.Streams, findings []preflight.Finding) error {
	w := tabwriter.NewWriter(s.Out, 0, 8, 2, ' ', 0)
	for _, f := range folded(inOrder(findings)) {
		state := s.Paint(s.Out, stateColours[f.State], f.State)
		fmt.Fprintf(w, "%s%s\t%s\t%s\n", f.Backend, f.Tool, state, sanitize.Line(f.Text))
	}
	return w.Flush()
}

// inOrder returns the findings of ready backends, then the others, then those of tools, ready ones first.
func inOrder(findings []preflight.Finding) []preflight.Finding {
	ready := map[string]bool{}
	for _, f := range findings {
		if f.State == preflight.Ready {
			ready[f.Backend+f.Tool] = true
		}
	}
	out := slices.Clone(findings)
	place := func(f preflight.Finding) int {
		n := 0
		if f.Tool != "" {
			n = 2
		}
		if !ready[f.Backend+f.Tool] {
			n++
		}
		return n
	}
	slices.SortStableFunc(out, func(a, b preflight.Finding) int { return place(a) - place(b) })
	return out
}

// folded returns the findings with one in the place of those of several backends that lack the same, such as all
// backends of another vendor.
func folded(findings []preflight.Finding) (out []preflight.Finding) {
	names := map[string][]string{} // by what they lack
	for _, f := range findings {
		if f.State == preflight.Missing && f.Tool == "" {
			names[f.Text] = append(names[f.Text], f.Backend)
		}
	}
	for _, f := range findings {
		switch of := names[f.Text]; {
		case f.State != preflight.Missing || f.Tool != "" || len(of) == 1:
			out = append(out, f)
		case f.Backend == of[0]:
			f.Backend, f.Text = plural.Count(len(of), "backend", "backends"), strings.Join(of, ", ")+": "+f.Text
			out = append(out, f)
		}
	}
	return out
}

// missing returns an error that names the backends that cannot run, nil if all can.
func missing(findings []preflight.Finding) error {
	var names []string
	for _, f := range findings {
		if f.State == preflight.Missing && !slices.Contains(names, f.Backend) {
			names = append(names, f.Backend)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return cli.EnvironmentError("this machine cannot run %s", strings.Join(names, ", "))
}
