package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/foreign"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer/copies"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// CopyFlags are the flags of copies of memory, as they were given.
type CopyFlags struct {
	Output
	first, last, step string
	factor            int64
	memory            []string
	submission, page  string
	streams           []int
	sampling          string
	victim            bool
	minGBps, maxTime  []string
	limits            Limits
	maxSlowdown       float64
	set               func(name string) bool // whether a flag was given
}

// NewCopyFlags adds the flags to fs and returns them, with the groups in which help shows
// them.
func NewCopyFlags(fs *pflag.FlagSet) (*CopyFlags, []Group) {
	f := &CopyFlags{}
	shape := newGroup("What is measured")
	g := shape.Flags
	g.StringVarP(&f.first, "minbytes", "b", "512M", "first `SIZE`, in bytes or with K, M or G (powers of 1024), such as 1.5K")
	g.StringVarP(&f.last, "maxbytes", "e", "512M", "last `SIZE`")
	g.StringVarP(&f.step, "stepbytes", "i", "1M", "add `SIZE` from one size to the next; without -f")
	g.Int64VarP(&f.factor, "stepfactor", "f", 1, "multiply by `FACTOR` from one size to the next; 1 adds -i instead")
	g.StringSliceVar(&f.memory, "host-memory", nil, "copy from or to host memory of `KIND`: pinned, pinned-far (on another NUMA node), pageable or registered; a comma-separated list; pinned on GPUs, pageable on a host")
	g.IntSliceVar(&f.streams, "streams", []int{1}, "share each copy among `N` streams; a comma-separated list, ascending; a host has one")
	g.StringVar(&f.page, "page", "0", "cut each copy into pages of `SIZE`, in random order in the source; 0 copies one piece on each stream")
	g.StringVar(&f.submission, "submit", vocab.Loop, "submit pages in `MODE`: loop makes a call for each, batch one call for all; a host has loop alone")
	g.BoolVar(&f.victim, "victim", false, "also run each copy beside a kernel that computes on all multiprocessors, and report how much they slow each other down; on GPUs, in one direction")
	how := newGroup("How it is measured, and output")
	g = how.Flags
	g.StringVar(&f.Backend, "backend", Auto, "use backend `NAME`: ce, copies by the driver of GPUs, sm, by a kernel, sdma, by copy engines of AMD GPUs that it names, or host; auto uses the GPUs here, otherwise host")
	g.StringVar(&f.sampling, "sampling", "fixed-v1", "take the numbers of samples from `PROFILE`; fixed-v1 has nvbandwidth's")
	g.StringSliceVar(&f.minGBps, "min-gbps", nil, "exit 1 if the median rate of a row is below `GBPS`, or SIZE=GBPS for copies of that size, by the device's clock, or by the host's where it has no other; comma-separated list")
	g.StringSliceVar(&f.maxTime, "max-time", nil, "exit 1 if the median time of a copy, by the same clock, is above `SIZE=US`; comma-separated list")
	g.Float64Var(&f.maxSlowdown, "max-slowdown", 0, "exit 1 if copies slow the victim down by a `FACTOR` above this, such as 1.02, or if that could not be measured; with --victim")
	f.timeLimit(how)
	f.Output.flags(how)
	f.Definitions.AddFlag(g)
	groups := []Group{shape, how}
	for _, group := range groups {
		fs.AddFlagSet(group.Flags)
	}
	f.set = fs.Changed
	return f, groups
}

// CopyRanks is how many ranks the tests have, all of them the same number.
func CopyRanks(tests []string) (int, error) {
	ranks := 1
	for i, name := range tests {
		if err := known("test", name, vocab.CopyTests()); err != nil {
			return 0, err
		}
		if slices.Contains(tests[:i], name) {
			return 0, cli.UsageError("test %s is named twice", name)
		}
		n := vocab.Copy(name).Ranks
		if i > 0 && n != ranks {
			return 0, cli.UsageError("%s runs on %d devices and %s on %d: run them one after the other", tests[0], ranks, name, n)
		}
		ranks = n
	}
	return ranks, nil
}

// Plan is the measurement of tests with a backend: by default all that it has on one device. free is
// the available memory of the host in bytes.
func (f *CopyFlags) Plan(tests []string, free int64) func(*catalog.Catalog, *catalog.Backend, int) (planner.Direct, error) {
	return func(cat *catalog.Catalog, be *catalog.Backend, world int) (planner.Direct, error) {
		d := planner.Direct{Suite: Name, Backend: be.Name, World: world, Repeats: 1, Budget: f.Timeout}
		switch {
		case f.set("max-slowdown") && !f.victim:
			return d, cli.UsageError("--max-slowdown needs --victim")
		case f.set("max-slowdown") && !(f.maxSlowdown >= 1 && f.maxSlowdown <= math.MaxFloat64):
			return d, cli.UsageError("--max-slowdown %v: want a factor of at least 1, such as 1.02", f.maxSlowdown)
		}
		var parsed [4]int64
		for i, s := range []string{f.first, f.last, f.step, f.page} {
			if s == "0" && i == 3 {
				continue
			}
			var err error
			if parsed[i], err = ParseSize(s); err != nil {
				return d, cli.UsageError("%s: %w", []string{"-b", "-e", "-i", "--page"}[i], err)
			}
		}
		sizes, err := ladder(parsed[0], parsed[1], parsed[2], f.factor)
		if err != nil {
			return d, err
		}
		if f.limits, err = parseTwo(minGBps, f.minGBps, f.maxTime, sizes); err != nil {
			return d, err
		}
		if !ascending(f.streams) {
			return d, cli.UsageError("--streams %s: want numbers from 1 on in ascending order", list(f.streams))
		}
		if err := known("submission", f.submission, vocab.Submissions()); err != nil {
			return d, err
		}
		if err := known("sampling profile", f.sampling, cat.Words("sampling")); err != nil {
			return d, err
		}
		profile := cat.SamplingProfile(f.sampling).Copy()
		if profile == nil {
			return d, cli.UsageError("--sampling %s: the profile has no sample counts of copies", f.sampling)
		}
		memory := f.memory
		if len(memory) == 0 {
			memory = be.Copy().HostMemory[:1]
		}
		if f.set("host-memory") && (len(f.memory) == 0 || repeats(memory)) {
			return d, cli.UsageError("--host-memory %s: want kinds of %s, each once", list(f.memory), strings.Join(vocab.HostMemories(), ", "))
		}
		for _, kind := range memory {
			if err := known("kind of host memory", kind, vocab.HostMemories()); err != nil {
				return d, err
			}
		}
		if len(tests) == 0 {
			tests = slices.DeleteFunc(slices.Clone(be.Copy().Tests), func(name string) bool {
				return vocab.Copy(name).Ranks != world || vocab.Copy(name).Both && (f.victim || slices.Contains(memory, vocab.Pageable))
			})
		}
		if f.set("host-memory") && !slices.ContainsFunc(tests, func(name string) bool { return vocab.Copy(name).Memory }) {
			return d, cli.UsageError("--host-memory: %s has no memory of the host; leave it out", strings.Join(tests, ", "))
		}
		for _, name := range tests {
			for _, kind := range planner.CopyMemory(name, memory) {
				b := planner.Copy(name, kind, *profile)
				b.Submission, b.Sizes, b.Streams, b.PageBytes = f.submission, sizes, f.streams, parsed[3]
				b.Victim = f.victim
				// Of pageable memory in both directions the planner says more.
				if both := vocab.Copy(name).Both && kind == vocab.Pageable; !both && !slices.Contains(be.Copy().Tests, name) {
					return d, cli.EnvironmentError("backend %s has no test %s: give --backend %s", be.Name, name, strings.Join(copiers(cat, be, name), " or "))
				}
				if why := f.indivisible(b); why != "" {
					return d, cli.UsageError("%s", why)
				}
				d.Cases = append(d.Cases, plan.Case{Family: plan.FamilyCopy, Sampling: f.sampling, Contract: vocab.ContractCopy, Block: b})
			}
		}
		if why := tooLarge(d.Cases, be.Name == HostBackend, free); why != "" {
			return d, cli.EnvironmentError("-e %s: %s", f.last, why)
		}
		return d, nil
	}
}

// indivisible says which flag keeps a copy from being cut into equal pieces, or is empty.
func (f *CopyFlags) indivisible(b *plan.Copy) string {
	for i, size := range b.Sizes {
		switch {
		case size%8 != 0 && i == 0:
			return fmt.Sprintf("-b %s: want a multiple of 8 bytes", f.first)
		case size%8 != 0:
			return fmt.Sprintf("-i %s: want a multiple of 8 bytes", f.step)
		case b.PageBytes%8 != 0:
			return fmt.Sprintf("--page %s: want a multiple of 8 bytes", f.page)
		case b.PageBytes > 0 && size%b.PageBytes != 0:
			return fmt.Sprintf("--page %s: %d bytes are not whole pages of this size", f.page, size)
		}
		for _, streams := range b.Streams {
			switch {
			case b.Pieces(size, streams) > 0:
			case b.PageBytes > 0:
				return fmt.Sprintf("--streams %d: %d bytes are fewer pages than streams", streams, size)
			default:
				return fmt.Sprintf("--streams %d: %d bytes do not divide into %d equal pieces of a multiple of 8 bytes", streams, size, streams)
			}
		}
	}
	return ""
}

// tooLarge says which cases have a size whose buffers do not fit into the host's memory, and which
// sizes fit, or is empty. Ranks refuse such a size themselves, but only once its turn comes. Where the
// host stands for devices, their buffers are in its memory too.
func tooLarge(cases []plan.Case, host bool, free int64) (why string) {
	least := int64(math.MaxInt64)
	for i := range cases {
		b := cases[i].Copy()
		test := vocab.Copy(b.Test)
		buffers := 0 // of all ranks
		switch {
		case host:
			buffers = 2
		case test.Memory:
			buffers = 1
		default:
			continue
		}
		if test.Both {
			buffers *= 2
		}
		fits := copies.Largest(free, buffers)
		if largest := b.Sizes[len(b.Sizes)-1]; largest > fits && fits < least {
			least = fits
			if fits > 1<<20 {
				fits -= fits % (1 << 20)
			}
			why = fmt.Sprintf("copies of %s by %s do not fit into the host's memory: choose sizes of at most %s", spelled(largest), b.Test, spelled(fits))
		}
	}
	return why
}

// copiers are the other backends that have a test: those on devices that be runs on, too, or all if
// there are none.
func copiers(cat *catalog.Catalog, be *catalog.Backend, test string) []string {
	var near, all []string
	for i := range cat.Backends {
		o := &cat.Backends[i]
		if has := o.Copy(); has == nil || !slices.Contains(has.Tests, test) {
			continue
		}
		all = append(all, o.Name)
		if slices.ContainsFunc(o.Vendors, func(v string) bool { return slices.Contains(be.Vendors, v) }) {
			near = append(near, o.Name)
		}
	}
	if len(near) > 0 {
		return near
	}
	return all
}

// CopyReport is copies as JSON: a head and the documents' own rows.
type CopyReport struct {
	Head

	Cases []CopyCase `json:"cases"`
	// Violations are the thresholds that were broken, one line each.
	Violations []string `json:"violations"`
	Passed     bool     `json:"passed"`

	limits      Limits
	maxSlowdown float64
}

// CopyCase is the part of a document that a report has.
type CopyCase struct {
	CaseID        string                  `json:"case_id"`
	ComparisonKey string                  `json:"comparison_key"`
	Environment   map[string]string       `json:"environment"`
	Test          string                  `json:"test"`
	HostMemory    string                  `json:"host_memory,omitempty"`
	Submission    string                  `json:"submission"`
	PageBytes     int64                   `json:"page_bytes,omitempty"`
	Victim        bool                    `json:"victim,omitempty"`
	Measurement   *result.CopyMeasurement `json:"measurement"`
	Outcome       result.Outcome          `json:"outcome"`
}

// NewCopyReport returns a report without documents.
func NewCopyReport(head Head, f *CopyFlags) *CopyReport {
	head.Op = "copy"
	return &CopyReport{Head: head, Cases: []CopyCase{}, Violations: []string{}, limits: f.limits, maxSlowdown: f.maxSlowdown}
}

// Add takes a document.
func (p *CopyReport) Add(d *result.CopyDocument) {
	p.add(&d.Envelope)
	b := d.Identity.Case.Copy()
	p.Cases = append(p.Cases, CopyCase{
		d.Identity.CaseID, d.ComparisonKey, environment(&d.Envelope), b.Test, b.HostMemory, b.Submission, b.PageBytes, b.Victim, &d.Measurement, d.Outcome,
	})
	var rows []figure
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		clock := r.Device
		if clock == nil {
			clock = r.Host
		}
		rows = append(rows, figure{r.Name(), r.Bytes, clock.GBps, clock.Micros.P50})
		if why := p.slowdown(r); why != "" {
			p.Violations = append(p.Violations, fmt.Sprintf("%s, %s: %s", b.Test, r.Name(), why))
		}
	}
	p.Violations = append(p.Violations, p.limits.broken(b.Test, rows)...)
	p.verdict.broken = len(p.Violations)
	p.Passed = p.Err() == nil
}

// slowdown says why a row misses --max-slowdown, or is empty.
func (p *CopyReport) slowdown(r *result.CopyRow) string {
	switch {
	case p.maxSlowdown == 0:
	case r.Victim == nil || r.Victim.Slowdown == nil:
		return "the slowdown of the victim could not be measured, and --max-slowdown asks for it"
	case *r.Victim.Slowdown > p.maxSlowdown:
		return fmt.Sprintf("the victim is slowed down %.4f times, and --max-slowdown is %v", *r.Victim.Slowdown, p.maxSlowdown)
	}
	return ""
}

// PrintCopy prints a document, one line a row.
func PrintCopy(w io.Writer, d *result.CopyDocument) {
	c, m := &d.Identity.Case, &d.Measurement
	b := c.Copy()
	shape := ""
	if b.HostMemory != "" {
		shape = ", host memory " + b.HostMemory
	}
	if b.PageBytes > 0 {
		shape += fmt.Sprintf(", %s of pages of %d bytes", b.Submission, b.PageBytes)
	}
	if b.Victim {
		shape += ", in turns with a victim"
	}
	fmt.Fprintf(w, "#\n# %s%s on %s\n", b.Test, shape, foreign.Line(d.Topology.DeviceProduct))
	fmt.Fprintf(w, "# sampling %s: %d windows of %d copies by each clock, and their median\n", c.Sampling, b.Timing.Trials, b.Timing.Reps)
	fmt.Fprintf(w, "# %12s %7s %8s  %12s %10s %10s  %12s %10s %10s  %s\n", "", "", "", "device clock", "", "opposite", "host clock", "", "opposite", "")
	fmt.Fprintf(w, "# %12s %7s %8s  %12s %10s %10s  %12s %10s %10s  %s\n", "bytes", "streams", "pieces", "us", "GB/s", "GB/s", "us", "GB/s", "GB/s", "check")
	figures := func(c *result.CopyClock) string {
		if c == nil {
			return fmt.Sprintf("%12s %10s %10s", "-", "-", "-")
		}
		opposite := "-"
		if c.OppositeGBps > 0 {
			opposite = rate(c.OppositeGBps)
		}
		return fmt.Sprintf("%12.2f %10s %10s", c.Micros.P50, rate(c.GBps), opposite)
	}
	for i := range m.Rows {
		r := &m.Rows[i]
		fmt.Fprintf(w, "  %12d %7d %8d  %s  %s  %s\n", r.Bytes, r.Streams, r.Pieces, figures(r.Device), figures(r.Host), checkOf(r.Verify.Passed, r.Complete))
	}
	if b.Victim {
		printVictims(w, m.Rows)
	}
	for i := range m.Rows {
		if r := &m.Rows[i]; r.Both != nil {
			fmt.Fprintf(w, "# %s, both directions: %s\n", r.Name(), bothWays(r.Both))
		}
	}
	for i := range m.Rows {
		if r := &m.Rows[i]; !r.Verify.Passed {
			fmt.Fprintf(w, "# %s: %s\n", r.Name(), foreign.Line(r.Verify.Detail))
		}
	}
	if d.Outcome.Status != result.Success {
		fmt.Fprintf(w, "# %s: %s\n", strings.ToUpper(d.Outcome.Status), foreign.Line(d.Outcome.Reasons.String()))
	}
}

// bothWays says how much two ranks copied at the same time.
func bothWays(b *result.CopyBoth) string {
	if b.GBps == 0 {
		return fmt.Sprintf("no total: both copied for only %.0f %% of the time, and a total needs %.0f %%", 100*b.Overlap, 100*result.MinCoverage)
	}
	return fmt.Sprintf("%s GB/s by the host's clock; both copied for %.0f %% of the time", rate(b.GBps), 100*b.Overlap)
}

// printVictims prints what copies and the victim take from each other, one line a row.
func printVictims(w io.Writer, rows []result.CopyRow) {
	fmt.Fprintf(w, "# %12s %7s  %12s %12s %9s %9s  %12s %9s %9s\n", "", "", "victim alone", "beside", "covered", "slowdown", "copy beside", "covered", "slowdown")
	fmt.Fprintf(w, "# %12s %7s  %12s %12s %9s %9s  %12s\n", "bytes", "streams", "us", "us", "", "", "us")
	slowdown := func(f *float64) string {
		if f == nil {
			return "-"
		}
		return fmt.Sprintf("%.4f", *f)
	}
	for i := range rows {
		r := &rows[i]
		if v := r.Victim; v != nil {
			fmt.Fprintf(w, "  %12d %7d  %12.2f %12.2f %9.3f %9s  %12.2f %9.3f %9s\n", r.Bytes, r.Streams,
				v.Alone.P50, v.Beside.P50, v.Coverage, slowdown(v.Slowdown), v.CopyBeside.P50, v.CopyCoverage, slowdown(v.CopySlowdown))
		}
	}
}
