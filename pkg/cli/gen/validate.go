package gen

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

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
and mode, which world sizes run: yes, no, or "-" if no suite includes it. A further
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
				plural.Count(len(cat.Lists["workload"]), "workload", "workloads"), plural.Count(len(cat.Suites), "suite", "suites"))
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
	type row [3]string // SKU, backend, mode
	var rows []row
	cells := map[row]map[int]string{}
	worlds := map[int]bool{}
	for _, c := range coverage {
		r := row{c.SKU, c.Backend, c.Mode}
		if cells[r] == nil {
			rows, cells[r] = append(rows, r), map[int]string{}
		}
		cells[r][c.World] = "no"
		if c.Runs {
			cells[r][c.World] = "yes"
		}
		worlds[c.World] = true
	}
	table := [][]string{{"SKU", "BACKEND", "MODE"}}
	for _, n := range slices.Sorted(maps.Keys(worlds)) {
		table[0] = append(table[0], "W"+strconv.Itoa(n))
	}
	for _, r := range rows {
		line := r[:]
		for _, n := range slices.Sorted(maps.Keys(worlds)) {
			line = append(line, cmp.Or(cells[r][n], "-"))
		}
		table = append(table, line)
	}
	return cli.Table(w, table)
}

// printReasons prints each reason for which something does not run once, with
// what it covers.
func printReasons(w io.Writer, coverage []catalog.Coverage) {
	type reason struct{ backend, text string }
	var order []reason
	covers := map[reason][]string{} // lines such as "b300 normal W8 W16"
	for _, c := range coverage {
		if c.Runs {
			continue
		}
		r, row := reason{c.Backend, c.Reason}, c.SKU+" "+c.Mode+" "
		lines := covers[r]
		if lines == nil {
			order = append(order, r)
		}
		if last := len(lines) - 1; last < 0 || !strings.HasPrefix(lines[last], row) {
			covers[r] = append(lines, fmt.Sprintf("%sW%d", row, c.World))
		} else {
			lines[last] += fmt.Sprintf(" W%d", c.World)
		}
	}
	slices.SortStableFunc(order, func(a, b reason) int { return cmp.Compare(a.backend, b.backend) })
	for _, r := range order {
		fmt.Fprintf(w, "\n%s: %s\n", r.backend, sanitize.Line(r.text))
		for _, c := range covers[r] {
			fmt.Fprintf(w, "  %s\n", c)
		}
	}
}
