package gen

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
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
			cat, err := defs.Load()
			if err != nil {
				return err
			}
			m, err := planner.Resolve(cat, filters, planner.Machine{})
			if err != nil {
				return cli.UsageError("%w", err)
			}
			m.Generator = plan.Generator{Program: "cxgen", Version: cli.Version, Format: plan.Format}
			if outputs {
				if err := setOutputs(s, m); err != nil {
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
	cmd.Flags().BoolVar(&outputs, "github-output", false, "also set the outputs of the workflow's setup job: matrix_N, count_N, cells, archs")
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
