package gen

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/sanitize"
)

func newValidate(s cli.Streams) *cobra.Command {
	var (
		defs    cli.Definitions
		reasons bool
	)
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check the definitions and show what they cover",
		Long: `Check the definitions. If they have errors, all are printed with file, line and
column, and the exit code is 2. Otherwise a table shows, for each platform, backend
and mode, which world sizes run: yes, no, or "-" if no suite asks for it. A further
table follows for each set of capabilities.`,
		Example: `  cxgen validate --reasons
  cxgen validate --definitions matrix`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cat, err := defs.Load()
			if err != nil {
				return err
			}
			sets := append([]string{""}, cat.Words("capability set")...)
			for _, set := range sets {
				if set != "" {
					fmt.Fprintf(s.Out, "\nWith the capabilities %s:\n\n", set)
				}
				coverage := cat.With(set).Coverage()
				if err := printCoverage(s.Out, coverage); err != nil {
					return err
				}
				if reasons {
					printReasons(s.Out, coverage)
				}
			}
			_, err = fmt.Fprintf(s.Out, "\n%s, %s, %s, %s\n",
				plural.Count(len(cat.Platforms), "platform", "platforms"), plural.Count(len(cat.Backends), "backend", "backends"),
				plural.Count(len(cat.Workloads), "workload", "workloads"), plural.Count(len(cat.Suites), "suite", "suites"))
			return err
		},
	}
	defs.AddFlag(cmd.Flags())
	cmd.Flags().BoolVar(&reasons, "reasons", false, "also give the reason for each no")
	return cmd
}

// printCoverage prints a row for each platform, backend and mode, and a column
// for each world size.
func printCoverage(w io.Writer, coverage []catalog.Coverage) error {
	var worlds []int
	for _, c := range coverage {
		worlds = append(worlds, c.World)
	}
	slices.Sort(worlds)
	worlds = slices.Compact(worlds)

	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "SKU\tBACKEND\tMODE")
	for _, n := range worlds {
		fmt.Fprintf(tw, "\tW%d", n)
	}
	fmt.Fprintln(tw)
	for len(coverage) > 0 {
		n := sameRow(coverage)
		fmt.Fprintf(tw, "%s\t%s\t%s", coverage[0].SKU, coverage[0].Backend, coverage[0].Mode)
		for _, world := range worlds {
			fmt.Fprint(tw, "\t", stand(coverage[:n], world))
		}
		fmt.Fprintln(tw)
		coverage = coverage[n:]
	}
	return tw.Flush()
}

// sameRow counts the leading combinations that differ in nothing but the world.
func sameRow(coverage []catalog.Coverage) int {
	for i, c := range coverage {
		if f := coverage[0]; c.SKU != f.SKU || c.Backend != f.Backend || c.Mode != f.Mode {
			return i
		}
	}
	return len(coverage)
}

func stand(row []catalog.Coverage, world int) string {
	for _, c := range row {
		switch {
		case c.World != world:
		case c.Runs:
			return "yes"
		default:
			return "no"
		}
	}
	return "-"
}

// printReasons prints why what does not run does not: each reason once, with
// what it covers.
func printReasons(w io.Writer, coverage []catalog.Coverage) {
	type reason struct{ backend, text string }
	var order []reason
	covers := map[reason][]string{}
	for len(coverage) > 0 {
		n := sameRow(coverage)
		worlds := map[reason][]string{}
		for _, c := range coverage[:n] {
			if c.Runs {
				continue
			}
			r := reason{c.Backend, c.Reason}
			if covers[r] == nil && worlds[r] == nil {
				order = append(order, r)
			}
			worlds[r] = append(worlds[r], "W"+strconv.Itoa(c.World))
		}
		for r, ws := range worlds {
			covers[r] = append(covers[r], fmt.Sprintf("%s %s %s", coverage[0].SKU, coverage[0].Mode, strings.Join(ws, " ")))
		}
		coverage = coverage[n:]
	}
	slices.SortStableFunc(order, func(a, b reason) int { return cmp.Compare(a.backend, b.backend) })
	for _, r := range order {
		fmt.Fprintf(w, "\n%s: %s\n", r.backend, sanitize.Line(r.text))
		for _, c := range covers[r] {
			fmt.Fprintf(w, "  %s\n", c)
		}
	}
}
