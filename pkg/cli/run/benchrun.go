package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/dirlock"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/safefile"
	"github.com/collectivex/collectivex/pkg/sanitize"
	"github.com/collectivex/collectivex/pkg/shard"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// benchRun runs the cases of a bench command as a sweep runs a cell.
type benchRun struct {
	place place
	world int // ranks
	// expected is the estimated time of measuring.
	expected time.Duration
	cell     cellRun
	out      string // plan, documents, samples, logs
	owned    *dirlock.Claim
	// turn is the context that has the turn at the devices, until leave is called.
	turn  context.Context
	leave func()
	keep  bool // out was asked for
	json  *safefile.AtomicFile
	toOut bool // JSON to standard output
	shown *cli.Whole
	ended []shard.End
	// endless means that the cases are measured again and again until ctx ends.
	endless bool
	base    *baseline // nil without one
	// warned lists the warnings that were printed.
	warned []string
}

// measurement returns the cases that the flags request with a backend on a world of ranks.
type measurement func(cat *catalog.Catalog, be *catalog.Backend, world int) (planner.Direct, error)

// benchPlace reads the definitions and chooses where a family is measured.
func benchPlace(ctx context.Context, s cli.Streams, o bench.Output, family plan.Family) (cat *catalog.Catalog, p place, err error) {
	if err := o.Refuse(); err != nil {
		return nil, p, err
	}
	if cat, err = o.Definitions.Load(); err != nil {
		return nil, p, err
	}
	p, err = choosePlace(ctx, s, o, cat, family)
	return cat, p, err
}

// newBenchRun plans a measurement and creates its files. With 0 ranks, it chooses their number for
// this machine. If team is not nil, its processes run the ranks, and each has taken the turn at its
// device already.
func newBenchRun(ctx context.Context, s cli.Streams, o bench.Output, cat *catalog.Catalog, p place, ranks int, team *launch.Team, measurement measurement) (*benchRun, error) {
	world, err := p.world(ranks)
	if err != nil {
		return nil, err
	}
	direct, err := measurement(cat, p.backend, world)
	if err != nil {
		return nil, err
	}
	m, err := direct.Resolve(cat, p.machine)
	switch {
	case errors.Is(err, planner.ErrCannot):
		return nil, cli.EnvironmentError("%w%s", err, hidden())
	case err != nil:
		return nil, cli.UsageError("%w", err)
	}
	m.Generator = plan.Generator{Program: "cxrun", Version: cli.Version, Format: plan.Format}
	run, err := newRun(s, localRunID(time.Now()))
	if err != nil {
		return nil, err
	}
	if err := checkFaults(s, m); err != nil {
		return nil, err
	}
	tellListeners(s, m)
	var devices []string
	if team == nil {
		devices = devicesOf(m, m.Include, p.survey)
	}
	turn, leave, err := takeTurn(ctx, s, devices, o.Wait)
	if err != nil {
		return nil, err
	}
	b := &benchRun{turn: turn, leave: leave, place: p, world: world, out: o.Out, keep: o.Out != "", toOut: o.JSON, shown: &cli.Whole{Out: s.Out}}
	if o.File != "" {
		if b.json, err = safefile.CreateAtomic(o.File); err != nil {
			b.drop()
			return nil, cli.EnvironmentError("-J: %w", err)
		}
	}
	if !b.keep {
		if b.out, err = os.MkdirTemp("", "cxrun-bench-"); err != nil {
			b.drop()
			return nil, cli.EnvironmentError("no directory for temporary files, set TMPDIR: %w", err)
		}
	}
	if b.owned, err = writePlan(ctx, m, b.out); err != nil {
		b.drop()
		if !b.keep {
			err = errors.Join(err, os.RemoveAll(b.out))
		}
		return nil, err
	}
	for q := range m.Requested() {
		b.expected += p.machine.Measuring(cat, &q.Case)
	}
	b.cell = cellRun{matrix: m, run: run, results: filepath.Join(b.out, cellsDir, m.Include[0].ID), team: team}
	return b, nil
}

// begin prints where the ranks run and how long that may take, and warns of ranks that share processors.
func (b *benchRun) begin(s cli.Streams, table bool) {
	vendor, perNode := b.cell.matrix.Include[0].Vendor, b.world
	for q := range b.cell.matrix.Requested() {
		perNode = q.Case.RanksPerNode // the same in all
	}
	if text := takingTurns(perNode); vendor == vocab.Host && text != "" {
		warn(s, text)
	}
	if !table {
		return
	}
	fmt.Fprintf(b.shown, "#\n# Using devices\n")
	for _, line := range b.place.devices(vendor, b.world, perNode) {
		fmt.Fprintf(b.shown, "# %s\n", sanitize.Line(line))
	}
	expected := "less than a second"
	if b.expected >= time.Second {
		expected = "about " + b.expected.Round(time.Second).String()
	}
	fmt.Fprintf(b.shown, "# estimate: %s of measuring, once the ranks have started\n", expected)
}

// drop removes the JSON file unless it is complete, and releases the directory and the devices.
func (b *benchRun) drop() {
	b.leave()
	if b.owned != nil {
		_ = b.owned.Release() // nothing was written through it
	}
	if b.json != nil {
		b.json.Abort()
		b.json = nil
	}
}

// benchObserver calls hand for each attempt that ended, and shows the running case on a terminal
// only.
type benchObserver struct {
	*progress
	hand func(shard.End)
}

func (o benchObserver) Ended(_, _ int, e shard.End) {
	o.line("")
	o.hand(e)
}

// hearer has what benchRun.run calls.
type hearer struct {
	show  func(result.Document) // each case that ended; may be nil
	count func(result.Document) // those that count
	grow  func(result.Document) // the unfinished document of the running case; may be nil
	// cut gets the number of the cycle, of endless ones, in which the user ended the measurement; may be nil.
	cut func(cycle int)
}

// run runs the cases. Of a cycle after the first that the user ends, only failures count.
func (b *benchRun) run(ctx context.Context, s cli.Streams, to hearer) error {
	cell := b.cell.matrix.Include[0]
	cases, err := b.cell.matrix.Cases(cell)
	if err != nil {
		return err
	}
	var held []shard.End // of the running cycle
	counted := func(e shard.End) {
		b.ended = append(b.ended, e)
		to.count(e.Document)
	}
	stopped := func(e shard.End) bool { return ctx.Err() != nil && bench.Skipped(e.Document.Head().Outcome) }
	cycle := 1
	o := benchObserver{startProgress(s), func(e shard.End) {
		b.warn(s, e.Document)
		held = append(held, e)
		if cycle == 1 {
			counted(e)
		}
		if to.show != nil && (cycle == 1 || !stopped(e)) {
			to.show(e.Document)
		}
	}}
	if to.grow != nil {
		b.cell.watch = func(d result.Document) { o.above(func() { to.grow(d) }) }
	}
	_, err = b.cell.observed(ctx, cell, cases, o)
	for err == nil && b.goesOn(ctx) {
		cycle++
		held = nil
		if err = b.again(cell, cases, cycle); err != nil {
			break
		}
		_, err = b.cell.observed(ctx, cell, cases, o)
		whole := !slices.ContainsFunc(held, stopped)
		for _, e := range held {
			if whole || e.Document.Head().Outcome.Status == result.Failed && !stopped(e) {
				counted(e)
			}
		}
	}
	o.end()
	if b.endless && slices.ContainsFunc(held, stopped) {
		to.cut(cycle)
	}
	if err != nil {
		b.tellKept(s)
	}
	return err
}

// goesOn reports whether another cycle follows: ctx has not ended, and no case failed, except for lack of something
// that other cases do not need.
func (b *benchRun) goesOn(ctx context.Context) bool {
	measured := false
	for _, e := range b.ended {
		switch o := e.Document.Head().Outcome; {
		case o.Status != result.Failed:
			measured = true
		case !bench.Lacking(o):
			return false
		}
	}
	return b.endless && measured && ctx.Err() == nil
}

// again makes the cases those of another cycle, with results in a directory of its own. It removes the results of the
// cycle before unless they were asked for, and forgets documents that will not be written: one success stands for all.
func (b *benchRun) again(cell plan.Cell, cases []plan.Requested, cycle int) error {
	before := b.cell.results
	b.cell.results = filepath.Join(b.out, cellsDir, fmt.Sprintf("%s-r%d", cell.ID, cycle))
	for i := range cases {
		cases[i].Case.Repeat = cycle
		cases[i].Case.CaseID = cases[i].Case.ID()
	}
	if !b.toOut && b.json == nil {
		stands := false
		b.ended = slices.DeleteFunc(b.ended, func(e shard.End) bool {
			success := e.Document.Head().Outcome.Status == result.Success
			forget := success && stands
			stands = stands || success
			return forget
		})
	}
	if b.keep {
		return nil
	}
	return os.RemoveAll(before)
}

// warn prints the warnings of a document, each once.
func (b *benchRun) warn(s cli.Streams, d result.Document) {
	var warnings []string
	if devices := d.Head().Devices; devices != nil {
		warnings = slices.Clone(devices.Warnings)
	}
	if d.Head().Outcome.Status == result.Failed { // its ranks may have ended before they read the state
		warnings = slices.DeleteFunc(warnings, func(text string) bool { return strings.HasPrefix(text, result.StateUnread) })
	}
	if f := family.Find(d.Head().Identity.Case.Family); f != nil && f.Warning != nil {
		if text := f.Warning(d); text != "" {
			warnings = append(warnings, text)
		}
	}
	for _, text := range warnings {
		if !slices.Contains(b.warned, text) {
			b.warned = append(b.warned, text)
			warn(s, text)
		}
	}
}

// end writes the JSON, if asked for, prints a line for each case that failed and each threshold
// that was broken, and returns verdict. If nothing can be measured here, it only returns an error
// that says so.
func (b *benchRun) end(s cli.Streams, report any, violations []string, verdict error) error {
	if err := b.write(report); err != nil {
		b.tellKept(s)
		return err
	}
	lacks := b.lacks()
	switch {
	case lacks != "" && b.keep:
		return cli.EnvironmentError("%s", lacks)
	case lacks != "": // there is nothing to keep
		return errors.Join(cli.EnvironmentError("%s", lacks), os.RemoveAll(b.out))
	}
	for _, line := range b.failures() {
		s.Tell("cxrun: %s", line)
	}
	for _, v := range violations {
		s.Tell("cxrun: %s", v)
	}
	if verdict == nil && !b.keep {
		return os.RemoveAll(b.out)
	}
	b.tellKept(s)
	return verdict
}

// lacks returns why no case can be measured here; empty if some can, or if no rank reported
// why.
func (b *benchRun) lacks() string {
	var why []string
	for _, e := range b.ended {
		if !bench.Lacking(e.Document.Head().Outcome) || e.Failure == "" {
			return ""
		}
		if text := endLine(e); !slices.Contains(why, text) {
			why = append(why, text)
		}
	}
	return strings.Join(why, "; ")
}

// failures returns a line for each case that failed, and one for all cases that were not started
// for the same reason.
func (b *benchRun) failures() []string {
	var lines, why []string
	waiting := map[string]int{}
	for _, e := range b.ended {
		head, text := e.Document.Head(), endLine(e)
		switch {
		case head.Outcome.Status == result.Success:
		case e.Logs != "":
			lines = append(lines, head.Identity.CaseID+" "+text)
		default:
			if waiting[text]++; waiting[text] == 1 {
				why = append(why, text)
			}
		}
	}
	for _, text := range why {
		lines = append(lines, fmt.Sprintf("%s not started: %s", plural.Count(waiting[text], "case", "cases"), text))
	}
	return lines
}

// write writes the JSON, if asked for. It also returns the first error of standard output.
func (b *benchRun) write(report any) error {
	var documents []result.Document
	for _, e := range b.ended {
		documents = append(documents, e.Document)
	}
	data, err := result.Enclose(report, documents)
	if err != nil {
		return err
	}
	if b.toOut {
		_, _ = b.shown.Write(data) // shown.Err
	}
	if b.json != nil {
		if of, ok := report.(bench.Translator); ok {
			if text, is, err := of.Translate(); err != nil {
				return err
			} else if is {
				data = text
			}
		}
		if _, err := b.json.Write(data); err != nil {
			return cli.EnvironmentError("-J: %w", err)
		}
		err := b.json.Commit()
		b.json = nil
		if err != nil {
			return cli.EnvironmentError("-J: %w", err)
		}
	}
	return b.shown.Err
}

func (b *benchRun) tellKept(s cli.Streams) {
	s.Tell("cxrun: documents and logs are in %s", b.out)
}

// endLine returns why a case failed: the error text of a rank if the case cannot be measured
// here, else its reasons and then that text.
func endLine(e shard.End) string {
	outcome := e.Document.Head().Outcome
	reasons := outcome.Reasons.String()
	switch {
	case bench.Lacking(outcome):
		return "cannot be measured here: " + cmp.Or(e.Failure, reasons)
	case e.Logs == "":
		return reasons
	case e.Failure == "":
		return outcome.Status + ": " + reasons
	default:
		return fmt.Sprintf("%s: %s (%s)", outcome.Status, reasons, e.Failure)
	}
}
