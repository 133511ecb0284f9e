package gen

import (
	"context"
	"fmt"
	"math"
	"path"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/fleet"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/workflow"
)

// estimate is what a dispatch would run.
type estimate struct {
	Inputs      map[string]string `json:"inputs"` // of the workflow, those that differ from its defaults
	Cells       int               `json:"cells"`
	Cases       int               `json:"cases"` // runnable ones
	Unsupported int               `json:"unsupported"`
	GPUHours    float64           `json:"gpu_hours"`     // expected; without hosts
	MaxGPUHours float64           `json:"max_gpu_hours"` // until the timeouts of all jobs
}

func newEstimate(cat *catalog.Catalog, filters planner.Filters) (estimate, error) {
	filters, inputs, err := workflow.Values(cat, filters)
	var m *plan.Matrix
	if err == nil {
		m, err = planner.Resolve(cat, filters, planner.Machine{})
	}
	if err == nil {
		_, err = m.Outputs()
	}
	if err != nil {
		return estimate{}, cli.UsageError("%w", err)
	}
	e := estimateOf(cat, m)
	e.Inputs = inputs
	return e, nil
}

// estimateOf returns the size and cost of a plan, without inputs.
func estimateOf(cat *catalog.Catalog, m *plan.Matrix) estimate {
	e := estimate{Cells: len(m.Include)}
	hours := map[string]float64{} // by case
	for q := range m.Requested() {
		if q.Disposition != plan.Runnable {
			e.Unsupported++
			continue
		}
		e.Cases++
		hours[q.Case.CaseID] = planner.Estimate(cat, &q.Case).Hours()
	}
	for i := range m.Include {
		c := &m.Include[i]
		if c.Vendor == "host" {
			continue
		}
		gpus := float64(c.Nodes * c.GPUsPerNode)
		for _, id := range c.CaseIDs {
			e.GPUHours += gpus * hours[id]
		}
		e.MaxGPUHours += gpus * float64(c.Minutes) / 60
	}
	e.GPUHours, e.MaxGPUHours = math.Round(100*e.GPUHours)/100, math.Round(100*e.MaxGPUHours)/100
	return e
}

func (e estimate) String() string {
	return fmt.Sprintf("%s, about %.1f GPU-hours, at most %.1f", size(e.Cells, e.Cases, e.Unsupported), e.GPUHours, e.MaxGPUHours)
}

// dispatched is what cxgen dispatch prints as JSON.
type dispatched struct {
	Dispatched bool   `json:"dispatched"`
	RunID      int64  `json:"run_id"` // 0: not dispatched
	URL        string `json:"url"`
	Ref        string `json:"ref"`
	estimate
}

func (d *dispatched) start(ctx context.Context, c *fleet.Client) error {
	run, err := c.Dispatch(ctx, fleet.Request{Workflow: path.Base(workflow.File), Ref: d.Ref, Inputs: d.Inputs, MarkInput: workflow.RequestInput})
	if err == nil {
		d.Dispatched, d.RunID, d.URL, d.Ref = true, run.ID, run.URL, run.Ref
	}
	return err
}

func newDispatch(s cli.Streams, clock fleet.Clock) *cobra.Command {
	var (
		defs    cli.Definitions
		filters planner.Filters
		ref     string
		dry     bool
	)
	r := &remote{s: s, clock: clock}
	cmd := &cobra.Command{
		Use:   "dispatch",
		Short: "Start a run of the workflow on GitHub",
		Long: `Start a run of the workflow on GitHub and print its URL.

The filters are checked against the definitions first. Standard error reports how many
cells and cases the run has and how many GPU-hours it will take: as expected, and at
most, if every job runs into its timeout. Each input of the workflow takes one value,
or all of them.

A run is dispatched once. If GitHub's answer is lost, cxgen looks for the run. If it
does not find it, the exit code is 3 and nothing is sent again.`,
		Example: `  cxgen dispatch --repo acme/fleet --suite smoke
  cxgen dispatch --repo acme/fleet --suite ep-core --sku mi355x --dry-run --json
  cxgen dispatch --suite smoke | cxgen watch - | cxgen fetch - -o run`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cat, err := defs.Load()
			var e estimate
			if err == nil {
				e, err = newEstimate(cat, filters)
			}
			if err != nil {
				return err
			}
			out := dispatched{estimate: e, Ref: ref}
			s.Tell("%s", e)
			if e.Cells == 0 {
				return cli.UsageError("no case matches the filters, so there is nothing to run; nothing was dispatched")
			}
			if !dry {
				client, err := r.client(c.Context(), fleet.RunRef{})
				if err != nil {
					return err
				}
				if err := out.start(c.Context(), client); err != nil {
					return unreachable(err)
				}
			}
			return r.print(out, func() {
				if out.Dispatched {
					fmt.Fprintln(s.Out, out.URL)
				}
			})
		},
	}
	defs.AddFlag(cmd.Flags())
	cli.AddFilterFlags(cmd.Flags(), &filters)
	r.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&ref, "ref", "", "run the workflow of `BRANCH` or tag instead of the default branch's")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "report what would run, and start nothing")
	return cmd
}
