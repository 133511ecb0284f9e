package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	collectivebench "github.com/collectivex/collectivex/pkg/collective/bench"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/safefile"
	"github.com/collectivex/collectivex/pkg/schedule"
	stepsbench "github.com/collectivex/collectivex/pkg/steps/bench"
	"github.com/collectivex/collectivex/pkg/vocab"
)

func newBench(s cli.Streams) *cobra.Command {
	cmd, asked := newBenchOf(s, collectivebench.Command)
	flags := asked.(*collectivebench.Flags)
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return cli.UsageError("bench takes one operation, not %d; operations are %s", len(args), strings.Join(vocab.Ops(), ", "))
		}
		return nil
	}
	cmd.RunE = func(c *cobra.Command, args []string) error {
		return benchOf(c, s, collectivebench.Command, flags, args, func(b *benchRun, measure func() error) error {
			return withModel(c.Context(), s, b, flags.Asked(), measure)
		})
	}
	cmd.AddCommand(newBenchSchedule(s))
	for _, of := range commands {
		sub, _ := newBenchOf(s, *of)
		cmd.AddCommand(sub)
	}
	return cmd
}

func newBenchSchedule(s cli.Streams) *cobra.Command {
	cmd, asked := newBenchOf(s, stepsbench.Command)
	cmd.Args = ofSchedule
	measure := cmd.RunE
	cmd.RunE = func(c *cobra.Command, args []string) error {
		asked.(*stepsbench.Flags).Read = func(file string) ([]byte, *schedule.Program, error) {
			f := scheduled{Streams: s}
			content, err := f.readPlan(c, file)
			if err != nil {
				return nil, nil, err
			}
			_, err = f.verified(c.Context())
			if found, ok := errors.AsType[schedule.Findings](err); ok {
				return nil, nil, fmt.Errorf("%s: correct the plan; 'cxrun schedule verify %s' lists all findings", found[0], file)
			}
			return content, f.program, err
		}
		return measure(c, args)
	}
	return cmd
}

// complete makes the shell complete flags with their values.
func complete(c *cobra.Command, values map[string][]string) {
	for flag, words := range values {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // fails only for unknown flags
	}
}

func usage(groups []bench.Group) func(*cobra.Command) error {
	return func(c *cobra.Command) error {
		w := c.OutOrStderr()
		fmt.Fprintf(w, "Usage:\n  %s\n\nExamples:\n%s\n%s", c.UseLine(), c.Example, bench.Usage(groups))
		return nil
	}
}

// withModel calls measure, and then writes the model of the machine if the request asks for it.
func withModel(ctx context.Context, s cli.Streams, b *benchRun, request *collectivebench.Request, measure func() error) error {
	if request.Model == "" {
		return measure()
	}
	if b.cell.team != nil {
		return cli.UsageError("--model: not supported by processes that a launcher started together: start one with -g")
	}
	model, err := safefile.CreateAtomic(request.Model)
	if err != nil {
		return cli.EnvironmentError("--model: %w", err)
	}
	defer model.Abort() // without effect once it is committed
	if err := measure(); err != nil {
		return err
	}
	return writeModel(ctx, s, model, b.place.backend.Name, b.world, stepsbench.MessagesOf(request))
}

func writeModel(ctx context.Context, s cli.Streams, f *safefile.AtomicFile, backend string, ranks int, messages *stepsbench.Messages) error {
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

// newBenchOf returns the command of a family, and what its flags fill.
func newBenchOf(s cli.Streams, of bench.Command) (*cobra.Command, bench.Measurement) {
	cmd := &cobra.Command{Use: of.Use, Short: of.Short, Long: of.Long, Example: of.Example, ValidArgs: of.Words}
	if len(of.Words) == 0 {
		cmd.Args = cli.NoArgs
	}
	asked, groups := of.Flags(cmd.Flags())
	cmd.RunE = func(c *cobra.Command, words []string) error { return benchOf(c, s, of, asked, words, nil) }
	cmd.SetUsageFunc(usage(groups))
	complete(cmd, of.Values)
	complete(cmd, map[string][]string{"backend": append(slices.Sorted(maps.Keys(families()[of.Family].Backends)), bench.Auto)})
	return cmd, asked
}

// benchOf measures what the flags and words of a command ask for. If around is not nil, benchOf
// calls it with the function that measures, and around must call that.
func benchOf(c *cobra.Command, s cli.Streams, of bench.Command, asked bench.Measurement, words []string, around func(b *benchRun, measure func() error) error) error {
	defer whileRead(c)()
	began := time.Now()
	group, err := startedTogether(s)
	if err != nil {
		return err
	}
	o := asked.Options()
	ranks, err := asked.Ranks(words)
	if err == nil {
		ranks, err = group.ranks(o, ranks)
	}
	if err == nil {
		err = fromDevice(os.Getenv(firstDevice), group)
	}
	if err != nil {
		return group.once(err)
	}
	cat, p, err := benchPlace(c.Context(), s, *o, of.Family)
	if err == nil && p.machine.GPUs == nil && hidden() != "" && o.Backend != bench.HostBackend {
		err = cli.EnvironmentError("no device is left%s", hidden())
	} else if cli.Code(err) == cli.ExitEnvironment {
		err = cli.EnvironmentError("%w%s", err, hidden())
	}
	if err != nil {
		return group.once(err)
	}
	measure := func(team *launch.Team) error {
		base, err := readBaseline(s, o) // on the host of rank 0
		if err != nil {
			return err
		}
		if of, ok := asked.(bench.PerCaller); ok {
			of.PerCall(slices.Contains(p.survey.PerCall, p.backend.Name))
		}
		b, err := newBenchRun(c.Context(), s, *o, cat, p, ranks, team, func(cat *catalog.Catalog, be *catalog.Backend, world int) (planner.Direct, error) {
			return asked.Plan(words, cat, be, world)
		})
		if err != nil {
			return err
		}
		defer b.drop()
		b.base = base
		if of, ok := asked.(bench.Endless); ok {
			b.endless = of.Endless()
		}
		c.SetContext(b.turn) // for what else is measured
		if f, ok := asked.(bench.Filed); ok {
			b.cell.files = f.Files()
		}
		documents := func() error { return b.measure(c, s, asked, words, began) }
		if around == nil {
			return documents()
		}
		return around(b, documents)
	}
	if group == nil {
		return measure(nil)
	}
	return group.run(c.Context(), s, &p, strings.Join(arguments(c, words...), " "), o.Wait, measure)
}

// firstDevice is nccl-tests' variable with the device of the first rank, among those that are visible.
const firstDevice = "NCCL_TESTS_DEVICE"

// visibleDevices lists the variables that make devices visible to drivers, which stop at the first device that does not
// exist.
var visibleDevices = []string{"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}

// maxDevices is the maximum number of devices of a host: eight with eight partitions each.
const maxDevices = 64

// fromDevice hides the devices before the one that firstDevice names, from this process and its ranks.
func fromDevice(first string, group *together) error {
	if first == "" {
		return nil
	}
	n, err := strconv.Atoi(first)
	switch {
	case err != nil || n < 0 || n >= maxDevices:
		return cli.UsageError("%s=%s: want the number of a device, from 0", firstDevice, first)
	case group != nil:
		return cli.UsageError("%s: not supported with processes that %s started, each of which uses the device of its local rank: unset it", firstDevice, group.Launcher())
	}
	for _, name := range visibleDevices {
		var shown []string
		if list, set := os.LookupEnv(name); set {
			shown = strings.Split(list, ",")
		} else {
			for device := range maxDevices {
				shown = append(shown, strconv.Itoa(device))
			}
		}
		if n >= len(shown) {
			return cli.UsageError("%s=%d: %s has %s", firstDevice, n, name, plural.Count(len(shown), "device", "devices"))
		}
		if err := os.Setenv(name, strings.Join(shown[n:], ",")); err != nil {
			return err
		}
	}
	return nil
}

// hidden returns the end of a message that devices are lacking, if firstDevice hides some.
func hidden() string {
	first := os.Getenv(firstDevice)
	if n, err := strconv.Atoi(first); err != nil || n == 0 {
		return ""
	}
	return fmt.Sprintf("; %s=%s hides the devices before number %s: choose a lower one, or unset it", firstDevice, first, first)
}

// measure runs the measurement and prints the documents as they come.
func (b *benchRun) measure(c *cobra.Command, s cli.Streams, asked bench.Measurement, words []string, started time.Time) error {
	table := !asked.Options().JSON
	program := "cxrun " + cli.Build()
	report := asked.Report(bench.NewHead(program, arguments(c, words...), started, b.place.backend.Name, b.world))
	follower, follows := report.(bench.Follower)
	if width, ok := s.Terminal(s.Out); ok && follows {
		follower.Fit(width)
	}
	if table {
		fmt.Fprintf(b.shown, "# %s: %s\n", program, report.Title(fmt.Sprintf("on backend %s (%s)", b.place.backend.Name, b.place.note)))
	}
	b.begin(s, table)
	var to hearer
	if table && follows {
		to.grow = func(d result.Document) { follower.Grow(b.shown, d) }
	}
	var slower []string
	to.show = func(d result.Document) {
		if table && (follows || !bench.Lacking(d.Head().Outcome)) {
			report.Print(b.shown, d)
		}
	}
	to.count = func(d result.Document) {
		lines := b.base.slower(d)
		slower = append(slower, lines...)
		report.Regressed(lines)
		report.Add(d)
	}
	to.cut = func(cycle int) {
		text := fmt.Sprintf("stopped in cycle %d, which does not count", cycle)
		if cycle == 1 {
			text = "stopped in cycle 1: no cycle is complete"
		}
		if table {
			fmt.Fprintf(b.shown, "# %s\n", text)
		} else {
			s.Tell("cxrun: %s", text)
		}
	}
	if err := b.run(c.Context(), s, to); err != nil {
		return err
	}
	if table && follows {
		follower.Foot(b.shown)
	}
	return report.Explain(b.end(s, report, slices.Concat(report.Broken(), slower), report.Err()))
}

// arguments returns the command line with the flags as they were parsed.
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
