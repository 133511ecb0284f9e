package bench

import (
	"fmt"
	"io"
	"strings"

	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sanitize"
)

// Report is copies as JSON: a head and the documents' own rows.
type Report struct {
	bench.Head

	Cases []caseRows `json:"cases"`
	// Violations describes the violated thresholds, one line each.
	Violations []string `json:"violations"`
	Passed     bool     `json:"passed"`

	limits      bench.Limits
	maxSlowdown float64
}

// caseRows is the reported part of a document.
type caseRows struct {
	bench.Case
	Test        string              `json:"test"`
	HostMemory  string              `json:"host_memory,omitempty"`
	Submission  string              `json:"submission"`
	PageBytes   int64               `json:"page_bytes,omitempty"`
	Victim      bool                `json:"victim,omitempty"`
	Layout      string              `json:"layout,omitempty"`
	Each        bool                `json:"each,omitempty"`
	Matrices    []matrix            `json:"matrices,omitempty"` // of a case of each pair, by size and streams
	Measurement *copies.Measurement `json:"measurement"`
	Outcome     result.Outcome      `json:"outcome"`
}

// Report implements bench.Measurement.
func (f *flags) Report(head bench.Head) bench.Reporter {
	head.Op = "copy"
	return &Report{Head: head, Cases: []caseRows{}, Violations: []string{}, limits: f.limits, maxSlowdown: f.maxSlowdown}
}

// Title implements bench.Reporter.
func (p *Report) Title(place string) string { return "copies of memory " + place }

// Broken implements bench.Reporter.
func (p *Report) Broken() []string { return p.Violations }

// Add implements bench.Reporter.
func (p *Report) Add(doc result.Document) {
	d := doc.(*copies.Document)
	p.Take(&d.Envelope)
	b := copies.Of(&d.Identity.Case)
	p.Cases = append(p.Cases, caseRows{bench.CaseOf(&d.Envelope), b.Test, b.HostMemory, b.Submission, b.PageBytes, b.Victim, b.Layout, b.Each, matrices(d), &d.Measurement, d.Outcome})
	var rows []bench.Measured
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		m := bench.Measured{Name: r.Name(), Bytes: r.Bytes}
		switch {
		case r.Latency != nil:
			m.GBps, m.Micros = r.Latency.GBps.P50, r.Latency.Micros.P50
		default:
			m.GBps, m.Micros = r.Clock().GBps, r.Clock().Micros.P50
		}
		rows = append(rows, m)
		if why := p.slowdown(r); why != "" {
			p.Violations = append(p.Violations, fmt.Sprintf("%s, %s: %s", b.Test, r.Name(), why))
		}
	}
	p.Violations = append(p.Violations, p.limits.Broken(b.Test, rows)...)
	p.Missed(len(p.Violations))
	p.Passed = p.Err() == nil
}

// slowdown returns why a row misses --max-slowdown, or "".
func (p *Report) slowdown(r *copies.Row) string {
	switch {
	case p.maxSlowdown == 0:
	case r.Victim == nil || r.Victim.Slowdown == nil:
		return "the slowdown of the victim could not be measured, but --max-slowdown limits it"
	case *r.Victim.Slowdown > p.maxSlowdown:
		return fmt.Sprintf("copies slow the victim down %.4f times, but --max-slowdown is %v", *r.Victim.Slowdown, p.maxSlowdown)
	}
	return ""
}

// Print implements bench.Reporter: one line per row.
func (p *Report) Print(w io.Writer, doc result.Document) {
	d := doc.(*copies.Document)
	c, m := &d.Identity.Case, &d.Measurement
	b := copies.Of(c)
	var shape []string
	if b.HostMemory != "" {
		shape = append(shape, "host memory "+b.HostMemory)
	}
	if b.PageBytes > 0 {
		shape = append(shape, fmt.Sprintf("%s of pages of %d bytes", b.Submission, b.PageBytes))
	}
	if b.Victim {
		shape = append(shape, "in turns with a victim")
	}
	if b.Layout != "" {
		shape = append(shape, b.Submission, b.Layout)
	}
	fmt.Fprintf(w, "#\n# %s on %s\n", b.Test, sanitize.Line(d.Topology.DeviceProduct))
	if len(shape) > 0 {
		fmt.Fprintf(w, "# %s\n", strings.Join(shape, ", "))
	}
	if b.Layout != "" {
		printSwaps(w, d)
		return
	}
	fmt.Fprintf(w, "# sampling %s: %d windows of %d copies by each clock, and their median\n", c.Sampling, b.Timing.Trials, b.Timing.Reps)
	switch pairs := matrices(d); {
	case pairs != nil:
		for i := range pairs {
			pairs[i].Print(w, fmt.Sprintf("%s, %s clock", plural.Count(pairs[i].Streams, "stream", "streams"), pairs[i].Clock))
		}
		printChecks(w, m.Rows)
	case copies.TestOf(b.Test).Chase:
		printReads(w, m.Rows)
	case b.Each || copies.TestOf(b.Test).Ranks == copies.All:
		printDevices(w, m.Rows)
	default:
		printRows(w, m.Rows)
	}
	if b.Victim {
		printVictims(w, m.Rows)
	}
	for i := range m.Rows {
		if r := &m.Rows[i]; r.Both != nil && !b.Each {
			fmt.Fprintf(w, "# %s, both directions:\n#   %s\n", r.Name(), bothWays(r.Both))
		}
	}
	printFailed(w, d)
}

// printRows prints one line per row.
func printRows(w io.Writer, rows []copies.Row) {
	fmt.Fprintf(w, "# by the clocks of device and host; str.: streams; opp.: opposite direction\n")
	fmt.Fprintf(w, "# %10s %4s %6s %8s %7s %7s %8s %7s %7s\n", "", "", "", "device", "device", "device", "host", "host", "host")
	fmt.Fprintf(w, "# %10s %4s %6s %8s %7s %7s %8s %7s %7s %s\n", "bytes", "str.", "pieces", "us", "GB/s", "opp.", "us", "GB/s", "opp.", "check")
	figures := func(c *copies.Clock) string {
		if c == nil {
			return fmt.Sprintf("%8s %7s %7s", "-", "-", "-")
		}
		opposite := "-"
		if c.OppositeGBps > 0 {
			opposite = bench.Rate(c.OppositeGBps)
		}
		return fmt.Sprintf("%8s %7s %7s", bench.Micros(c.Micros.P50), bench.Rate(c.GBps), opposite)
	}
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(w, "  %10d %4d %6d %s %s %s\n", r.Bytes, r.Streams, r.Pieces, figures(r.Device), figures(r.Host), bench.CheckOf(r.Verify.Passed, r.Complete))
	}
}

// printDevices prints one line per row of a case of several devices.
func printDevices(w io.Writer, rows []copies.Row) {
	fmt.Fprintf(w, "# by the clocks of device and host; str.: streams\n")
	if len(rows) > 0 && rows[0].Covered != nil {
		fmt.Fprintf(w, "# cov.: part of the time, by the host's clock, in which all other devices copied\n")
	}
	if len(rows) > 0 && rows[0].Copies > 1 {
		fmt.Fprintf(w, "# GB/s: of all %d copies at the same time, until the last one ended\n", rows[0].Copies)
	}
	fmt.Fprintf(w, "# %10s %4s %4s %6s %8s %8s %8s %8s\n", "", "", "", "", "device", "device", "host", "host")
	fmt.Fprintf(w, "# %10s %4s %4s %6s %8s %8s %8s %8s %5s %s\n", "bytes", "rank", "str.", "pieces", "us", "GB/s", "us", "GB/s", "cov.", "check")
	figures := func(c *copies.Clock) string {
		if c == nil {
			return fmt.Sprintf("%8s %8s", "-", "-")
		}
		return fmt.Sprintf("%8s %8s", bench.Micros(c.Micros.P50), bench.Rate(c.GBps))
	}
	for i := range rows {
		r, covered := &rows[i], "-"
		if r.Covered != nil {
			covered = fmt.Sprintf("%.2f", *r.Covered)
		}
		fmt.Fprintf(w, "  %10d %4s %4d %6d %s %s %5s %s\n", r.Bytes, strings.TrimPrefix(r.Place(), "rank "), r.Streams, r.Pieces, figures(r.Device), figures(r.Host), covered, bench.CheckOf(r.Verify.Passed, r.Complete))
	}
}

// printReads prints one line per row of a latency of reads.
func printReads(w io.Writer, rows []copies.Row) {
	fmt.Fprintf(w, "# ns: from one read of 8 bytes to the next, whose address follows from it\n")
	fmt.Fprintf(w, "# %10s %12s %8s %10s %10s\n", "", "", "", "device", "host")
	fmt.Fprintf(w, "# %10s %12s %8s %10s %10s %s\n", "bytes", "", "reads", "ns", "ns", "check")
	nanos := func(c *copies.Clock) string {
		if c == nil {
			return "-"
		}
		return fmt.Sprintf("%.1f", c.Nanos)
	}
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(w, "  %10d %12s %8d %10s %10s %s\n", r.Bytes, r.Place(), r.Accesses, nanos(r.Device), nanos(r.Host), bench.CheckOf(r.Verify.Passed, r.Complete))
	}
}

// matrix is the rates of the pairs of a case, at one size on a number of streams, by one clock.
type matrix struct {
	Streams int    `json:"streams"`
	Clock   string `json:"clock"`
	bench.Matrix
}

// matrices returns the matrices of a case of each pair, or nil.
func matrices(d *copies.Document) (all []matrix) {
	b := copies.Of(&d.Identity.Case)
	clock := "host"
	for i := range d.Measurement.Rows {
		if d.Measurement.Rows[i].Device != nil {
			clock = "device"
		}
	}
	for _, size := range b.Sizes {
		for _, streams := range b.Streams {
			if s := copies.SquareOf(d, size, streams); s != nil {
				all = append(all, matrix{streams, clock, bench.NewMatrix(*s)})
			}
		}
	}
	return all
}

// printChecks prints the number of rows that passed their checks and are complete, and names the others.
func printChecks(w io.Writer, rows []copies.Row) {
	good := 0
	for i := range rows {
		r := &rows[i]
		if r.Good() {
			good++
			continue
		}
		fmt.Fprintf(w, "# %s: %s\n", r.Name(), bench.CheckOf(r.Verify.Passed, r.Complete))
	}
	fmt.Fprintf(w, "# check: %d of %s OK\n", good, plural.Count(len(rows), "row", "rows"))
}

// printFailed prints why rows failed their checks, and how the case ended.
func printFailed(w io.Writer, d *copies.Document) {
	for i := range d.Measurement.Rows {
		if r := &d.Measurement.Rows[i]; !r.Verify.Passed {
			fmt.Fprintf(w, "# %s: %s\n", r.Name(), sanitize.Line(r.Verify.Detail))
		}
	}
	bench.Ended(w, d.Outcome)
}

// printSwaps prints the points of a swap of blocks, one line each, and those that are excluded.
func printSwaps(w io.Writer, d *copies.Document) {
	c, m := &d.Identity.Case, &d.Measurement
	t := copies.Of(c).Timing
	fmt.Fprintf(w, "# sampling %s: %d swaps after %d, each until it has ended, by the host's clock\n", c.Sampling, t.Reps, t.Warmup)
	fmt.Fprintf(w, "# %10s %5s %10s %7s %7s %7s %7s %7s\n", "block", "", "swap", "p50", "p90", "p95", "p99", "p50")
	fmt.Fprintf(w, "# %10s %5s %10s %7s %7s %7s %7s %7s %s\n", "bytes", "count", "bytes", "us", "us", "us", "us", "GB/s", "check")
	for i := range m.Rows {
		r := &m.Rows[i]
		us := r.Latency.Micros.Of(r.Latency.SampleCount)
		tail := func(us *float64) string {
			if us == nil { // too few samples
				return "-"
			}
			return bench.Micros(*us)
		}
		fmt.Fprintf(w, "  %10d %5d %10d %7s %7s %7s %7s %7s %s\n", r.BlockBytes, r.Pieces, r.Bytes,
			tail(&us.P50), tail(us.P90), tail(us.P95), tail(us.P99), bench.Rate(r.Latency.GBps.P50), bench.CheckOf(r.Verify.Passed, r.Complete))
	}
	for i, e := range m.Excluded {
		if i == 0 {
			fmt.Fprintf(w, "# excluded, since they are more than %d bytes:\n", copies.Of(c).MaxPayload)
		}
		fmt.Fprintf(w, "# %10d %5d %10d\n", e.BlockBytes, e.NumBlocks, e.BlockBytes*int64(e.NumBlocks))
	}
	printFailed(w, d)
}

// bothWays formats the combined rate of two ranks.
func bothWays(b *copies.Both) string {
	if b.GBps == 0 {
		return fmt.Sprintf("no total: both copied for only %.0f %% of the time, and a total needs %.0f %%", 100*b.Overlap, 100*result.MinCoverage)
	}
	return fmt.Sprintf("%s GB/s by the host's clock; both copied for %.0f %% of the time", bench.Rate(b.GBps), 100*b.Overlap)
}

// printVictims prints the mutual slowdown of copies and victim, one line per row.
func printVictims(w io.Writer, rows []copies.Row) {
	fmt.Fprintf(w, "# %10s %4s %8s %9s %7s %8s %9s %7s %8s\n", "", "", "victim", "victim", "victim", "victim", "copy", "copy", "copy")
	fmt.Fprintf(w, "# %10s %4s %8s %9s %7s %8s %9s %7s %8s\n", "bytes", "str.", "alone us", "beside us", "covered", "slowdown", "beside us", "covered", "slowdown")
	slowdown := func(f *float64) string {
		if f == nil {
			return "-"
		}
		return fmt.Sprintf("%.4f", *f)
	}
	for i := range rows {
		r := &rows[i]
		if v := r.Victim; v != nil {
			fmt.Fprintf(w, "  %10d %4d %8s %9s %7.3f %8s %9s %7.3f %8s\n", r.Bytes, r.Streams,
				bench.Micros(v.Alone.P50), bench.Micros(v.Beside.P50), v.Coverage, slowdown(v.Slowdown), bench.Micros(v.CopyBeside.P50), v.CopyCoverage, slowdown(v.CopySlowdown))
		}
	}
}
