package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	copybench "github.com/collectivex/collectivex/pkg/copies/bench"
	epbench "github.com/collectivex/collectivex/pkg/ep/bench"
	overlapbench "github.com/collectivex/collectivex/pkg/overlap/bench"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/regular"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/schedule"
	transferbench "github.com/collectivex/collectivex/pkg/transfer/bench"
	"github.com/collectivex/collectivex/pkg/vocab"
)

func newBench(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench OP",
		Short: "Measure collectives (nccl-tests), KV caches (NIXL), copies (nvbandwidth), expert parallelism, overlap",
		Long: `Measure one collective operation on this machine, without a plan and without MPI.
Flags and columns have the names and the meaning of nccl-tests'; docs/bench.md lists
the differences flag by flag.

'cxrun bench ep' measures expert-parallel dispatch and combine, 'cxrun bench schedule' a
collective by the steps of a schedule, 'cxrun bench kv' transfers of KV caches by NIXL and
other libraries, 'cxrun bench copy' copies of memory as nvbandwidth does, and
'cxrun bench overlap' matrix products beside communication.

Operations: ` + strings.Join(vocab.Ops(), ", ") + `.

The results that the timed windows leave, and all results of one untimed window, are
checked bit for bit. The exit code is 1 if a result is wrong, a case failed or a
threshold is missed, and 3 if this machine cannot run the case.`,
		Example: `  cxrun bench all_reduce -b 8 -e 1G -f 2
  cxrun bench all_reduce -b 8 -e 4G -f 2 -d bfloat16 -G 20 -R 2 --json
  cxrun bench broadcast -r -1 -b 1M -e 1M --trials 20 --percentiles
  cxrun bench all_gather -b 1M -e 1G -f 4 --min-busbw 1G=300 --max-time 1M=40
  cxrun bench reduce_scatter --backend host -t 4 -b 1K -e 1M -f 4`,
		ValidArgs: vocab.Ops(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError("bench takes one operation, not %d; operations are %s", len(args), strings.Join(vocab.Ops(), ", "))
			}
			return nil
		},
	}
	flags, groups := bench.NewFlags(cmd.Flags())
	cmd.RunE = func(c *cobra.Command, args []string) error {
		return benchCollective(c, s, flags, args, func() (bench.Request, error) { return flags.Request(args[0]) })
	}
	cmd.SetUsageFunc(usage(groups))
	complete(cmd, map[string][]string{
		"op": append(vocab.RedOps(), catalog.All), "datatype": append(vocab.DTypes(), catalog.All),
		"buffers": bench.Buffers(), "backend": append(slices.Sorted(maps.Keys(families()[plan.FamilyCollective].Backends)), bench.Auto),
	})
	cmd.AddCommand(newBenchOf(s, epbench.Command), newBenchSchedule(s), newBenchOf(s, transferbench.Command), newBenchOf(s, copybench.Command), newBenchOf(s, overlapbench.Command))
	return cmd
}

func newBenchSchedule(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule (FILE | COLLECTIVE NAME)",
		Short: "Measure a collective by the steps of a schedule, with nccl-tests' flags",
		Long: `Measure a collective by the steps of a schedule on this machine: what 'cxrun schedule
show' prints, between real ranks. Flags, columns, checks and exit codes are those of
'cxrun bench'; 'cxrun schedule list' lists the schedules.

FILE is a plan of MSCCL or MSCCL++. It is verified first, for each placement that it is for;
findings begin with the file, and line and column of the op. The plan says how many ranks there are, and sizes have to divide into its chunks.`,
		Example: `  cxrun bench schedule all_reduce ring --backend host -b 1K -e 1M -f 32
  cxrun bench schedule all_gather rotation --backend nccl -g 2 -b 64K -e 256M -f 4
  cxrun bench schedule all_gather hierarchical_sliced --width 2 --backend host -t 4 -b 1M -e 1M
  cxrun bench schedule ring.xml --backend nccl -b 96K -e 96M -f 8`,
		Args: ofSchedule,
	}
	flags, groups := bench.NewScheduleFlags(cmd.Flags())
	cmd.RunE = func(c *cobra.Command, args []string) error {
		return benchCollective(c, s, flags.Flags, args, func() (bench.Request, error) {
			if len(args) == 2 {
				return flags.Request(args[0], args[1])
			}
			content, plan, err := readPlan(s, c, args[0])
			if err != nil {
				return bench.Request{}, err
			}
			_, err = verified(c.Context(), plan.Program, plan)
			if found, ok := errors.AsType[schedule.Findings](err); ok {
				return bench.Request{}, fmt.Errorf("%s: correct the plan; 'cxrun schedule verify %s' lists all findings", found[0], args[0])
			}
			if err != nil {
				return bench.Request{}, err
			}
			return flags.PlanRequest(args[0], content, plan.Program)
		})
	}
	cmd.SetUsageFunc(usage(groups))
	complete(cmd, map[string][]string{
		"datatype": append(vocab.DTypes(), catalog.All), "buffers": bench.Buffers(),
		"backend": append(slices.Sorted(maps.Keys(families()[plan.FamilySchedule].Backends)), bench.Auto),
	})
	return cmd
}

// complete gives the shell the values of flags.
func complete(c *cobra.Command, values map[string][]string) {
	for flag, words := range values {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // fails for unknown flags alone
	}
}

// usage prints the flags of a command in groups.
func usage(groups []bench.Group) func(*cobra.Command) error {
	return func(c *cobra.Command) error {
		w := c.OutOrStderr()
		fmt.Fprintf(w, "Usage:\n  %s\n\nExamples:\n%s\n%s", c.UseLine(), c.Example, bench.Usage(groups))
		return nil
	}
}

// benchCollective measures what request asks for and shows it in nccl-tests' columns.
func benchCollective(c *cobra.Command, s cli.Streams, flags *bench.Flags, args []string, ask func() (bench.Request, error)) error {
	defer whileRead(c)()
	started := time.Now()
	request, err := ask()
	if err != nil {
		return err
	}
	b, err := newBenchRun(c.Context(), s, flags.Output, request.Family(), request.World,
		func(_ *catalog.Catalog, be *catalog.Backend, world int) (planner.Direct, error) {
			return request.Plan(be, world)
		})
	if err != nil {
		return err
	}
	defer b.drop()
	b.cell.files = request.Files

	var model *regular.AtomicFile
	if request.Model != "" {
		if model, err = regular.CreateAtomic(request.Model); err != nil {
			return cli.EnvironmentError("--model: %w", err)
		}
		defer model.Abort() // without effect once it is committed
	}
	program := "cxrun " + cli.Build()
	report := bench.NewReport(&request, bench.NewHead(program, arguments(c, args...), started, b.place.backend.Name, b.world))
	table := bench.NewTable(b.shown, &request)
	if !flags.JSON {
		table.Head(program, b.place.backend.Name, b.place.note, b.world)
	}
	var grow func(result.Document)
	if !flags.JSON {
		grow = func(d result.Document) {
			if partial, ok := bench.Collective(d); ok {
				table.Grow(partial)
			}
		}
	}
	err = b.run(c.Context(), s, func(d result.Document) error {
		answer, ok := report.Add(&request, d)
		if !ok {
			return fmt.Errorf("document of type %T for a collective case", d)
		}
		if !flags.JSON {
			table.Document(answer)
		}
		return nil
	}, grow)
	if err != nil {
		return err
	}
	if !flags.JSON && !report.Nothing() {
		table.Foot(report)
	}
	if err := b.end(s, report, report.Violations, report.Err()); err != nil || model == nil {
		return err
	}
	return writeModel(c.Context(), s, model, b.place.backend.Name, b.world, request.Messages())
}

// writeModel measures and writes a model of the machine.
func writeModel(ctx context.Context, s cli.Streams, f *regular.AtomicFile, backend string, ranks int, messages *bench.Messages) error {
	m, err := measureModel(ctx, s, backend, ranks, messages, func() {})
	if err != nil {
		return fmt.Errorf("--model: %w", err)
	}
	if err = m.Write(f); err == nil {
		err = f.Commit()
	}
	if err != nil {
		return cli.EnvironmentError("--model: %w", err)
	}
	return nil
}

// newBenchOf is the command of a family.
func newBenchOf(s cli.Streams, of bench.Command) *cobra.Command {
	cmd := &cobra.Command{Use: of.Use, Short: of.Short, Long: of.Long, Example: of.Example, ValidArgs: of.Words}
	if len(of.Words) == 0 {
		cmd.Args = cli.NoArgs
	}
	asked, groups := of.Flags(cmd.Flags())
	cmd.RunE = func(c *cobra.Command, words []string) error { return benchOf(c, s, of, asked, words) }
	cmd.SetUsageFunc(usage(groups))
	complete(cmd, of.Values)
	complete(cmd, map[string][]string{"backend": append(slices.Sorted(maps.Keys(families()[of.Family].Backends)), bench.Auto)})
	return cmd
}

// benchOf measures what the flags and words of a command ask for.
func benchOf(c *cobra.Command, s cli.Streams, of bench.Command, asked bench.Measurement, words []string) error {
	defer whileRead(c)()
	started := time.Now()
	ranks, err := asked.Ranks(words)
	if err != nil {
		return err
	}
	o := asked.Options()
	b, err := newBenchRun(c.Context(), s, *o, of.Family, ranks, asked.Plan(words))
	if err != nil {
		return err
	}
	defer b.drop()

	program := "cxrun " + cli.Build()
	report := asked.Report(bench.NewHead(program, arguments(c, words...), started, b.place.backend.Name, b.world))
	if !o.JSON {
		fmt.Fprintf(b.shown, "# %s: %s\n", program, report.Title(fmt.Sprintf("on backend %s (%s)", b.place.backend.Name, b.place.note)))
	}
	err = b.run(c.Context(), s, func(d result.Document) error {
		if err := report.Add(d); err != nil {
			return err
		}
		if !o.JSON && !bench.Lacking(d.Head().Outcome) {
			report.Print(b.shown, d)
		}
		return nil
	}, nil)
	if err != nil {
		return err
	}
	return report.Explain(b.end(s, report, report.Broken(), report.Err()))
}

// arguments are the command line as the flags were understood, in a form that the command takes.
func arguments(c *cobra.Command, words ...string) []string {
	out := slices.Concat(strings.Fields(c.CommandPath())[1:], words)
	c.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok { // String puts brackets around it
			value = strings.Join(list.GetSlice(), ",")
		}
		out = append(out, "--"+f.Name+"="+value)
	})
	return out
}
