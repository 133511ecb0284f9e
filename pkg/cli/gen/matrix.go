package gen

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/compare"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/plural"
)

func newMatrix(s cli.Streams) *cobra.Command {
	var (
		defs    cli.Definitions
		filters planner.Filters
		out     string
		outputs bool
		confirm bool
		waves   int
	)
	cmd := &cobra.Command{
		Use:   "matrix",
		Short: "Plan a run: write the matrix of cases and cells",
		Long: `Plan a run from the definitions and the filters. The matrix lists every case, as
runnable or as unsupported with the reason, and the cells that run them. An unknown
name is an error. Filters that match nothing are not: the matrix is then empty.`,
		Example: `  cxgen matrix --suite smoke -o matrix_full.json
  cxgen matrix --suite ep-core --sku h100-dgxc,mi355x --mode normal`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if confirm && !outputs {
				return cli.UsageError("--confirm lengthens the jobs of --github-output: add that, or leave --confirm out")
			}
			cat, err := defs.Load()
			if err != nil {
				return err
			}
			m, err := planner.Resolve(cat, filters, planner.Machine{})
			if err != nil {
				return cli.UsageError("%w", err)
			}
			if room := waves * plan.WaveCells; len(m.Include) > room {
				return cli.UsageError("the plan has %d cells, and the workflow has jobs for %d: filter the plan, or write the workflow again with these definitions", len(m.Include), room)
			}
			m.Generator = plan.Generator{Program: "cxgen", Version: cli.Version, Format: plan.Format}
			if outputs {
				jobs := m
				if confirm {
					jobs = confirming(m)
				}
				if err := errors.Join(setOutputs(s, jobs), s.AddStepSummary(summary(cat, jobs))); err != nil {
					return err
				}
			}
			if out == "" || out == "-" {
				return m.Write(s.Out)
			}
			if err := m.WriteFile(out); err != nil {
				return cli.EnvironmentError("%w", err)
			}
			_, err = fmt.Fprintln(s.Out, describe(m))
			return err
		},
	}
	defs.AddFlag(cmd.Flags())
	cli.AddFilterFlags(cmd.Flags(), &filters)
	cmd.Flags().StringVarP(&out, "output", "o", "", "write to `FILE`; - is standard output")
	cli.MarkStdout(cmd.Flags(), "output")
	cmd.Flags().BoolVar(&outputs, "github-output", false, "also set the outputs of the workflow's setup job, matrix_N, count_N and archs, and add the plan to its summary")
	cmd.Flags().BoolVar(&confirm, "confirm", false, "give jobs the time to measure their cell again in both stages of a confirmation")
	cmd.Flags().IntVar(&waves, "waves", plan.Waves, "fail if the cells need more than `N` sweep jobs of 256 cells, as many as the workflow has")
	return cmd
}

func describe(m *plan.Matrix) string {
	count := map[string]int{}
	for q := range m.Requested() {
		count[q.Disposition]++
	}
	return size(len(m.Include), count[plan.Runnable], count[plan.Unsupported])
}

func size(cells, runnable, unsupported int) string {
	return fmt.Sprintf("%s, %d runnable and %s", plural.Count(cells, "cell", "cells"), runnable, plural.Count(unsupported, "unsupported case", "unsupported cases"))
}

// summary returns the plan as Markdown: its size and cost, and what each platform runs of it.
func summary(cat *catalog.Catalog, m *plan.Matrix) string {
	cells, cases := map[string]int{}, map[string]int{}
	for _, c := range m.Include {
		cells[c.SKU]++
		cases[c.SKU] += len(c.CaseIDs)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## Plan\n\n%s\n\n| platform | cells | cases |\n|---|--:|--:|\n", estimateOf(cat, m))
	for _, sku := range slices.Sorted(maps.Keys(cells)) {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", sku, cells[sku], cases[sku])
	}
	return b.String()
}

// maxJobMinutes is when GitHub ends a job on a self-hosted runner: after five days.
const maxJobMinutes = 5 * 24 * 60

// confirming returns m with the time for both stages of a confirmation in each cell. A stage is one shard, which
// waits for its allocation once and then measures as many runs as it has pairs.
func confirming(m *plan.Matrix) *plan.Matrix {
	longer := *m
	longer.Include = slices.Clone(m.Include)
	for i := range longer.Include {
		c := &longer.Include[i]
		c.QueueMinutes *= 1 + compare.Stages
		c.Minutes = min(c.Minutes*(1+compare.Stages*compare.Pairs), maxJobMinutes-c.QueueMinutes)
	}
	return &longer
}

func setOutputs(s cli.Streams, m *plan.Matrix) error {
	outputs, err := m.Outputs()
	if err != nil {
		return cli.UsageError("%w", err)
	}
	for _, o := range outputs {
		if err := s.SetOutput(o.Name, o.Value); err != nil {
			return fmt.Errorf("--github-output: %w", err)
		}
	}
	return nil
}
