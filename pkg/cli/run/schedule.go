package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/safefile"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/drawing"
	"github.com/collectivex/collectivex/pkg/schedule/planfile"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	stepsbench "github.com/collectivex/collectivex/pkg/steps/bench"
)

func newSchedule(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Show, verify and simulate collectives as explicit steps",
		Long: `Show, verify and simulate collectives as explicit steps: which rank sends, receives
and adds what, in which order. A schedule is one of those that are known by name, or a plan
of MSCCL or MSCCL++ in a file. docs/schedules.md describes the schedules, the plans and the model.

Nothing is measured. A simulated time says what a model predicts.`,
		Example: `  cxrun schedule list
  cxrun schedule verify all_reduce ring --ranks 8`,
		Args: cli.UnknownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(newScheduleList(s), newScheduleShow(s), newScheduleVerify(s), newScheduleSimulate(s), newScheduleConvert(s))
	return cmd
}

func newScheduleList(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the schedules that are known by name",
		Long:    "List the schedules that are known by name, each with its collective and its rule.",
		Example: "  cxrun schedule list",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var rows [][]string
			for _, a := range schedule.Algorithms() {
				rows = append(rows, []string{string(a.Collective), a.Name, a.Rule})
			}
			return cli.Table(s.Out, rows)
		},
	}
}

func ofSchedule(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return cli.UsageError("%s needs the file of a plan, or a collective and the name of a schedule; see 'cxrun schedule list'", commandOf(c))
	case len(args) > 2:
		return cli.UsageError("unexpected argument %q; see '%s --help'", args[2], c.CommandPath())
	}
	return nil
}

// commandOf returns the path of the command without the program, with which every error begins.
func commandOf(c *cobra.Command) string {
	return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
}

// ofFileOrName are the arguments that name a schedule, in the usage of a command.
const ofFileOrName = "FILE | COLLECTIVE NAME"

// scheduled is the schedule that a command works on: the plan in a file, or a schedule known by name and the
// flags of its shape.
type scheduled struct {
	cli.Streams
	schedule.Shape
	program *schedule.Program
	plan    *planfile.Plan // nil of a schedule that is known by name
}

func (f *scheduled) add(fs *pflag.FlagSet) {
	fs.IntVar(&f.Ranks, "ranks", 8, "make the program of `N` ranks")
	fs.IntVar(&f.Width, "width", 0, stepsbench.WidthUsage)
	fs.IntVar(&f.Segments, "segments", 0, stepsbench.SegmentsUsage)
}

// read reads the program from a file, or generates it from a collective and the name of a schedule.
func (f *scheduled) read(c *cobra.Command, args []string) (err error) {
	if len(args) == 2 {
		f.program, err = atOnce(c.Context(), func() (*schedule.Program, error) { return f.generate(c, args) })
		return err
	}
	for _, name := range []string{"ranks", "segments", "width"} {
		if c.Flags().Changed(name) && !(name == "width" && rowsOfTopology(c)) {
			return cli.UsageError("--%s is for schedules that are known by name; the plan in %s has its own", name, args[0])
		}
	}
	_, err = f.readPlan(c, args[0])
	return err
}

// name returns the program's name, collective and number of ranks.
func (f *scheduled) name() string {
	p := f.program
	return fmt.Sprintf("%s %s of %s", p.Name, p.Collective, plural.Count(p.Ranks, "rank", "ranks"))
}

// rowsOfTopology reports whether --width also sets the rows of the topology.
func rowsOfTopology(c *cobra.Command) bool {
	f := c.Flags().Lookup("topology")
	return f != nil && simulate.HasRows(f.Value.String())
}

// maxPlan is the maximum size of a plan's file, in bytes.
const maxPlan = 16 << 20

// readPlan reads the plan in a file, returns the content of the file, and prints the notes of the plan.
func (f *scheduled) readPlan(c *cobra.Command, file string) ([]byte, error) {
	data, err := safefile.Read(file, maxPlan)
	if errors.Is(err, fs.ErrNotExist) {
		for _, a := range schedule.Algorithms() {
			switch file {
			case string(a.Collective):
				return nil, cli.UsageError("%s needs the name of a schedule after %s; see 'cxrun schedule list'", commandOf(c), file)
			case a.Name:
				return nil, cli.UsageError("%s needs a collective before %s, such as %s; see 'cxrun schedule list'", commandOf(c), file, a.Collective)
			}
		}
	}
	if err == nil {
		f.plan, err = planfile.Read(file, data)
	}
	if err != nil {
		return nil, cli.UsageError("%w", err)
	}
	for _, note := range f.plan.Notes {
		fmt.Fprintln(f.Err, note)
	}
	f.program, f.Ranks = f.plan.Program, f.plan.Program.Ranks
	return data, nil
}

var errInterrupted = errors.New("interrupted")

// atOnce returns the result of f or, as soon as ctx ends, errInterrupted. f can take seconds for a thousand
// ranks, and only its longer parts look at the context themselves.
func atOnce[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		if errors.Is(r.err, context.Canceled) {
			r.err = errInterrupted
		}
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, errInterrupted
	}
}

// verified verifies the program. It reports whether all ranks add in the same order, and returns findings
// as an error. Findings in a plan begin with their place in its file.
func (f *scheduled) verified(ctx context.Context) (uniform bool, err error) {
	return atOnce(ctx, func() (bool, error) {
		if f.plan != nil {
			return f.plan.Verify(ctx)
		}
		return schedule.Correct(ctx, f.program)
	})
}

// generate generates the program of a collective and the name of a schedule.
func (f *scheduled) generate(c *cobra.Command, args []string) (*schedule.Program, error) {
	of, given := schedule.Collective(args[0]), f.Shape
	if rowsOfTopology(c) {
		given.Width = 0
	}
	err := schedule.Unused(of, args[1:], given)
	var p *schedule.Program
	if err == nil {
		p, err = schedule.Generate(args[1], of, f.WithDefaults())
	}
	if err != nil {
		return nil, cli.UsageError("%w", err)
	}
	return p, nil
}

// drawn draws a timeline in a file. The other arguments are as for drawing.Timeline.
func drawn(file string, t *simulate.Timeline, title, note, unit string, each simulate.Picoseconds) error {
	text, err := drawing.Timeline(t, title, note, unit, each)
	if err != nil {
		return cli.UsageError("--svg: %w", err)
	}
	if err := writeFile(file, text); err != nil {
		return cli.EnvironmentError("--svg: %w", err)
	}
	return nil
}

func newScheduleShow(s cli.Streams) *cobra.Command {
	f, svg := scheduled{Streams: s}, ""
	cmd := &cobra.Command{
		Use:   "show " + ofFileOrName,
		Short: "Print the steps of every rank",
		Long: `Print the steps of every rank of a schedule. Steps on one line start and end
together. The chunks of the whole vector are numbered from 0. --svg draws the steps as if
sending a chunk took one unit of time, and nothing else took time.`,
		Example: "  cxrun schedule show all_gather ring --ranks 4\n  cxrun schedule show ring.xml",
		Args:    ofSchedule,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.read(c, args); err != nil {
				return err
			}
			if svg != "" {
				if err := f.drawSteps(c.Context(), svg); err != nil {
					return err
				}
			}
			return f.program.WriteText(s.Out)
		},
	}
	f.add(cmd.Flags())
	cmd.Flags().StringVar(&svg, "svg", "", "draw the steps in `FILE`, too")
	return cmd
}

// drawSteps draws the program as if a chunk took one unit of time.
func (f *scheduled) drawSteps(ctx context.Context, svg string) error {
	p := f.program
	if err := p.Check(); err != nil {
		return cli.UsageError("%w", err)
	}
	const unit = simulate.Nanosecond // of a chunk of one byte
	m := simulate.Machine{Topology: simulate.Full(p.Ranks), Sharing: simulate.Unloaded, PerByte: float64(unit)}
	t, err := simulate.Trace(ctx, p, m, int64(p.Chunks), 1)
	if err != nil {
		return cli.UsageError("%w", err)
	}
	return drawn(svg, t, f.name(), "each chunk takes one unit of time", "time in chunks", unit)
}

func newScheduleVerify(s cli.Streams) *cobra.Command {
	f, sums := scheduled{Streams: s}, false
	cmd := &cobra.Command{
		Use:   "verify " + ofFileOrName,
		Short: "Check that a schedule computes what it should",
		Long: `Check that a schedule computes what it should: follow the data of every rank through
its steps and look for wrong results, reads of undefined memory, data that is added
twice, ranks that wait for each other, and unordered accesses to the same memory.

--sums writes out in which order each rank adds: ((0+1)+2) adds the data of rank 1 to the data
of rank 0, and then the data of rank 2. Sums in the same order are equal bit by bit.

A finding in the plan of a file begins with file, line and column of the op, or with the file
alone where it is about the result of a rank. At most 20 are listed. The exit code is 1 if there
is a finding.`,
		Example: `  cxrun schedule verify all_reduce ring --ranks 8
  cxrun schedule verify all_gather hierarchical_sliced --ranks 16 --width 8
  cxrun schedule verify all_reduce ring_full --ranks 3 --sums
  cxrun schedule verify ring.xml`,
		Args: ofSchedule,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.read(c, args); err != nil {
				return err
			}
			return f.verify(c.Context(), sums)
		},
	}
	f.add(cmd.Flags())
	cmd.Flags().BoolVar(&sums, "sums", false, "write out in which order each rank adds")
	return cmd
}

// verify verifies the program, and prints in which order its ranks add.
func (f *scheduled) verify(ctx context.Context, sums bool) error {
	uniform, err := f.verified(ctx)
	if err != nil {
		return err
	}
	var orders []string
	if sums {
		if orders, err = schedule.Sums(ctx, f.program); err != nil {
			return cli.UsageError("--sums: %w", err)
		}
	}
	_, messages := f.program.SentBytes(0, 1)
	total := 0
	for _, n := range messages {
		total += n
	}
	correct := "correct"
	if f.plan != nil && f.plan.OutOfPlace != nil {
		correct = "correct in place and out of place"
	}
	fmt.Fprintf(f.Out, "%s is %s: %s\n", f.name(), correct, plural.Count(total, "message", "messages"))
	switch {
	case f.program.Collective != schedule.AllReduce:
	case uniform:
		fmt.Fprintln(f.Out, "all ranks add in the same order: their sums are equal bit by bit")
	default:
		fmt.Fprintln(f.Out, "ranks add in different orders: their sums of floating-point numbers can differ")
	}
	for _, line := range orders {
		fmt.Fprintln(f.Out, line)
	}
	return nil
}

func newScheduleConvert(s cli.Streams) *cobra.Command {
	var out, size string
	f := scheduled{Streams: s}
	cmd := &cobra.Command{
		Use:   "convert (" + ofFileOrName + ") -o FILE",
		Short: "Write a schedule as an execution plan",
		Long: `Write a schedule as an execution plan in the form that the extension of the output
names: .xml for MSCCL, .json for MSCCL++. The schedule is verified first, and so is the
plan, under the rules of its own system.

MSCCL has no groups and buffers 8 messages of a connection. The streams of a schedule become
thread blocks, each with at most one rank that it sends to and one that it receives from.

MSCCL++ has puts, signals and waits. A receive signals that its memory is free, and its send
waits for that, puts the data there and signals.

.et writes Chakra execution traces, NAME.0.et and so on for NAME.et, of a vector of --bytes.`,
		Example: `  cxrun schedule convert all_reduce ring --ranks 8 -o ring.xml
  cxrun schedule convert all_gather direct --ranks 4 -o direct.json`,
		Args: ofSchedule,
		RunE: func(c *cobra.Command, args []string) error { return f.convert(c, args, out, size) },
	}
	f.add(cmd.Flags())
	cmd.Flags().StringVarP(&out, "output", "o", "", "write to `FILE`, whose extension names the form")
	_ = cmd.MarkFlagRequired("output") // fails only for unknown flags
	cmd.Flags().StringVar(&size, "bytes", "1M", "let a trace have a whole vector of `SIZE`, in bytes or with K, M or G (powers of 1024, also as MB or MiB)")
	return cmd
}

// planForms are the formats of plans by the extensions of their files.
var planForms = map[string]string{".json": planfile.MSCCLPP, ".xml": planfile.MSCCL}

// convert verifies the schedule and writes it as a plan, which it verifies too, or as traces.
func (f *scheduled) convert(c *cobra.Command, args []string, out, size string) error {
	format, ok := planForms[filepath.Ext(out)]
	if !ok && filepath.Ext(out) != ".et" {
		return cli.UsageError("-o %q: name a file that ends in .xml, .json or .et", out)
	}
	if ok && c.Flags().Changed("bytes") {
		return cli.UsageError("--bytes is for traces (.et): a plan has no size")
	}
	vector, err := bench.ParseSize(size)
	if err == nil && vector == 0 {
		err = errors.New("0: want a size above 0")
	}
	if err != nil {
		return cli.UsageError("--bytes: %w", err)
	}
	if err := f.read(c, args); err != nil {
		return err
	}
	if _, err := f.verified(c.Context()); err != nil {
		return err
	}
	if !ok {
		return f.writeChakra(out, vector)
	}
	var b bytes.Buffer
	if err := planfile.Write(&b, f.program, format); err != nil {
		return cli.UsageError("%w", err)
	}
	written := scheduled{}
	if written.plan, err = planfile.Read(out, b.Bytes()); err != nil {
		return err
	}
	if _, err := written.verified(c.Context()); err != nil {
		return err
	}
	if err := writeFile(out, b.Bytes()); err != nil {
		return cli.EnvironmentError("-o: %w", err)
	}
	fmt.Fprintf(f.Out, "%s: %s\n", out, f.name())
	return nil
}

// writeChakra writes a trace for each rank: NAME.0.et and so on for NAME.et.
func (f *scheduled) writeChakra(out string, vector int64) error {
	name := strings.TrimSuffix(out, ".et")
	traces, err := planfile.Chakra(f.program, vector)
	if err != nil {
		return cli.UsageError("%w", err)
	}
	for r, trace := range traces {
		if err := writeFile(fmt.Sprintf("%s.%d.et", name, r), trace); err != nil {
			return cli.EnvironmentError("-o: %w", err)
		}
	}
	fmt.Fprintf(f.Out, "%s.*.et: %s\n", name, f.name())
	return nil
}
