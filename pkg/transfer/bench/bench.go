// Package bench is `cxrun bench kv`: flags of transfers of KV caches, and their table and JSON.
package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sanitize"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Command is `cxrun bench kv`.
var Command = bench.Command{
	Family: transfer.Name,
	Use:    "kv",
	Short:  "Measure transfers of KV caches between two ranks",
	Long: `Measure transfers of a KV cache between two ranks on this machine: bursts of requests
over a grid of context lengths, page sizes and burst sizes, and the same bytes as one
block. Every word of both pools is compared after some of the timed bursts.

The exit code is 1 if a word is wrong, the case failed or a threshold is missed, and 3 if
this machine cannot run it.`,
	Example: `  cxrun bench kv
  cxrun bench kv --cache kv-gqa --isl 256,1024 --page 16 --batch 1,8 --lane vm
  cxrun bench kv --cache kv-dsv4 --isl 2048 --page 256 --ops push --min-gbps 1 --json
  cxrun bench kv --backend nccl-kv -g 2 --isl 2048,8192 --batch 1,4
  cxrun bench kv --ops push --block 4K,64K,1M --total 64M --batch 1`,
	Values: map[string][]string{
		"lane": append(vocab.Lanes(), bench.Auto), "handle": append(vocab.Handles(), bench.Auto), "ops": transfer.Ops(), "arrangement": transfer.Arrangements(),
	},
	Flags: newFlags,
}

// flags are the flags of a transfer of KV caches, as they were given.
type flags struct {
	bench.Output
	cache, lane, handle, arrangement string
	isl, pages, batches              []int
	ops                              []string
	sampling                         string
	ranks                            int
	blocks                           []string
	total                            string
	minGBps, maxTime                 []string
	limits                           bench.Limits
}

// newFlags adds the flags to fs and returns them, with the groups in which help shows
// them.
func newFlags(fs *pflag.FlagSet) (bench.Measurement, []bench.Group) {
	f := &flags{}
	shape := bench.NewGroup("What is measured")
	g := shape.Flags
	g.StringVar(&f.cache, "cache", "kv-mla", "move the `CACHE` of the definitions: kv-dsv4, kv-dsv4-layers, kv-mla, kv-gqa or kv-tiny")
	g.IntSliceVar(&f.isl, "isl", []int{128, 512}, "context of `N` tokens per request; a comma-separated list, ascending")
	g.IntSliceVar(&f.pages, "page", []int{64}, "pages of `N` tokens; a comma-separated list, ascending")
	g.IntSliceVar(&f.batches, "batch", []int{1, 4}, "bursts of `N` requests; a comma-separated list, ascending")
	g.StringSliceVar(&f.blocks, "block", nil, "instead of a model's cache, move requests of --total bytes in blocks of `SIZE`; a comma-separated list, ascending; excludes --cache, --isl and --page")
	g.StringVar(&f.total, "total", "64M", "with --block, the size of a request: `SIZE`")
	g.StringSliceVar(&f.ops, "ops", transfer.Ops(), "`OPS` of rank 1: pull reads the pool of rank 0, push writes it")
	g.StringVar(&f.arrangement, "arrangement", transfer.Paged, "lay the blocks out in `ORDER`: contiguous, strided (with equal gaps) or paged (permuted)")
	how := bench.NewGroup("How it is measured, and output")
	g = how.Flags
	g.StringVar(&f.Backend, "backend", bench.Auto, "use backend `NAME`; auto uses one that can run on the GPUs here, otherwise host")
	g.StringVar(&f.lane, "lane", bench.Auto, "move the data over `LANE`: on a host shm, memory that both ranks map, vm, process_vm_readv and process_vm_writev, or tcp; between two GPUs peer; auto is the first that the backend has")
	g.StringVar(&f.handle, "handle", bench.Auto, "have rank 1 open the pool of rank 0 by `HANDLE`: ipc, the driver's handle of a plain allocation, or vmm, a descriptor of memory of virtual memory management; auto is the first that the backend has")
	g.IntVarP(&f.ranks, "ngpus", "g", transfer.Ranks, "start `N` ranks: a transfer has two")
	g.StringVar(&f.sampling, "sampling", "quick-v1", "take the numbers of samples from `PROFILE`")
	g.StringSliceVar(&f.minGBps, "min-gbps", nil, "exit 1 if the median rate of a row is below `GBPS`, or SIZE=GBPS for bursts of that size in bytes; comma-separated list")
	g.StringSliceVar(&f.maxTime, "max-time", nil, "exit 1 if the median time of bursts of SIZE bytes is above `SIZE=US`; comma-separated list")
	f.TimeLimit(how)
	f.AddFlags(how)
	return f, f.AddGroups(fs, shape, how)
}

// blockWorkload is the workload name of --block in documents.
const blockWorkload = "blocks"

// ofBytes reports whether --block and --total define the requests, instead of a model's cache.
func (f *flags) ofBytes() bool { return f.Set("block") }

// ofBlocks returns the cache, contexts and pages to measure. With --block, a token is a block of the
// smallest size. Otherwise --cache, --isl and --page decide.
func (f *flags) ofBlocks(cat *catalog.Catalog) (cache *transfer.Cache, isl, pages []int, err error) {
	if !f.ofBytes() {
		if f.Set("total") {
			return nil, nil, nil, cli.UsageError("--total needs --block")
		}
		return transfer.CacheOf(cat, f.cache), f.isl, f.pages, nil
	}
	for _, other := range []string{"cache", "isl", "page"} {
		if f.Set(other) {
			return nil, nil, nil, cli.UsageError("--block cannot be combined with --%s", other)
		}
	}
	total, err := bench.ParseSize(f.total)
	if err != nil {
		return nil, nil, nil, cli.UsageError("--total: %w", err)
	}
	if total == 0 {
		return nil, nil, nil, cli.UsageError("--total %s: want at least one block", f.total)
	}
	var least, last int64
	for i, text := range f.blocks {
		size, err := bench.ParseSize(text)
		if err != nil {
			return nil, nil, nil, cli.UsageError("--block: %w", err)
		}
		if i == 0 {
			least = size
		}
		why := ""
		switch {
		case size == 0 || size%8 != 0:
			why = "want a multiple of 8 bytes"
		case size <= last:
			why = "want ascending sizes, each once"
		case size%least != 0:
			why = "want a multiple of the first block, " + f.blocks[0]
		case total%size != 0:
			why = "does not divide --total " + f.total
		case total/least > maxTokens:
			why = fmt.Sprintf("--total %s has more than %d blocks of this size: choose a larger block or a smaller total", f.total, maxTokens)
		}
		if why != "" {
			return nil, nil, nil, cli.UsageError("--block %s: %s", text, why)
		}
		pages, last = append(pages, int(size/least)), size
	}
	return &transfer.Cache{
		Name: blockWorkload, Precision: "bf16", Layers: 1, Seed: blockSeed, Entries: []transfer.CachePart{{Regions: 1, Tokens: 1, Bytes: catalog.Bytes(least)}},
	}, []int{int(total / least)}, pages, nil
}

// blockSeed is the same seed as in the definitions' caches.
const blockSeed = 67

// Ranks implements bench.Measurement.
func (f *flags) Ranks([]string) (int, error) { return transfer.Ranks, nil }

// Plan implements bench.Measurement.
func (f *flags) Plan(_ []string, cat *catalog.Catalog, be *catalog.Backend, world int) (planner.Direct, error) {
	d, has := f.Direct(be, world), catalog.BackendOf[transfer.Backend](be)
	var err error
	if f.limits, err = bench.ParseLimits(bench.MinGBps, f.minGBps, f.maxTime, nil); err != nil {
		return d, err
	}
	lane := f.lane
	if lane == bench.Auto {
		lane = has.Lanes[0]
	}
	if err := bench.AllKnown(
		bench.Word{What: "cache", Got: f.cache, Names: cat.Words("kv cache")},
		bench.Word{What: "lane", Got: lane, Names: vocab.Lanes()},
		bench.Word{What: "handle", Got: f.handle, Names: append(vocab.Handles(), bench.Auto)},
		bench.Word{What: "arrangement", Got: f.arrangement, Names: transfer.Arrangements()},
	); err != nil {
		return d, err
	}
	profile, err := bench.Profile[transfer.Sampling](cat, f.sampling, "transfers")
	if err != nil {
		return d, err
	}
	for _, op := range f.ops {
		if err := bench.Known("operation", op, transfer.Ops()); err != nil {
			return d, err
		}
	}
	cache, isl, pages, err := f.ofBlocks(cat)
	if err != nil {
		return d, err
	}
	for _, x := range []struct {
		flag string
		of   []int
	}{{"--isl", isl}, {"--page", pages}, {"--batch", f.batches}} {
		if n := x.of; !bench.Ascending(n) || n[len(n)-1] > maxTokens {
			return d, cli.UsageError("%s %s: want numbers from 1 to %d in ascending order", x.flag, bench.List(n), maxTokens)
		}
	}
	handle, err := f.refuseLane(cat, be, lane)
	if err != nil {
		return d, err
	}
	if f.ranks != transfer.Ranks {
		return d, cli.UsageError("-g %d: a transfer has %d ranks", f.ranks, transfer.Ranks)
	}
	if len(f.ops) == 0 || bench.Repeats(f.ops) {
		return d, cli.UsageError("--ops %s: want pull, push or both", bench.List(f.ops))
	}
	for _, page := range pages {
		if why := cache.RefusePage(page); why != "" {
			return d, cli.UsageError("--page %d: cache %s: %s", page, f.cache, why)
		}
	}
	t := transfer.New(cache, profile)
	t.Mode, t.Handle, t.Routing, t.ISLLadder, t.PageTokens, t.BatchSizes, t.Ops = lane, handle, f.arrangement, isl, pages, f.batches, f.ops
	if err := f.refusePoints(t); err != nil {
		return d, err
	}
	d.Cases = []plan.Case{{
		Family: transfer.Name, Precision: cache.Precision, Sampling: f.sampling, Contract: transfer.Contract, Block: t,
	}}
	return d, nil
}

// refuseLane refuses a lane or a handle that the backend lacks. It returns the handle as cases name
// it.
func (f *flags) refuseLane(cat *catalog.Catalog, be *catalog.Backend, lane string) (handle string, err error) {
	has := catalog.BackendOf[transfer.Backend](be)
	others := func(ok func(*transfer.Backend) bool) string {
		return bench.Others(cat, be, func(o *catalog.Backend) bool {
			other := catalog.BackendOf[transfer.Backend](o)
			return other != nil && ok(other)
		})
	}
	switch why := has.Lacks(lane); {
	case vocab.BetweenNodes(lane):
		return "", cli.UsageError("--lane %s joins two nodes, and bench kv starts both ranks on this host: measure it by a suite, such as kv-transfer, on a platform of several nodes", lane)
	case !slices.Contains(has.Lanes, lane):
		return "", cli.EnvironmentError("backend %s has no lane %s, only %s%s", be.Name, lane, strings.Join(has.Lanes, ", "), others(func(o *transfer.Backend) bool {
			return slices.Contains(o.Lanes, lane) && o.Lacks(lane) == ""
		}))
	case why != "":
		return "", cli.EnvironmentError("backend %s does not run on lane %s: %s", be.Name, lane, why)
	}
	if f.handle == bench.Auto {
		return "", nil
	}
	if has.Handle(f.handle) == nil {
		return "", cli.EnvironmentError("backend %s does not support --handle %s%s", be.Name, f.handle, others(func(o *transfer.Backend) bool { return o.Handle(f.handle) != nil }))
	}
	return has.CaseHandle(f.handle), nil
}

// refusePoints refuses thresholds for bursts that are not measured, and a --total whose bursts all
// exceed a limit.
func (f *flags) refusePoints(t *transfer.Block) error {
	kept, dropped := t.Points()
	switch {
	case len(kept) > 0:
		if err := f.limits.Within(burstSizes(t, kept), "burst", "bursts"); err != nil {
			return err
		}
	case f.ofBytes():
		remedy := ""
		if dropped[0].Bytes <= t.PoolBudget/int64(t.PoolSlack) {
			remedy = ", or larger blocks"
		}
		return cli.EnvironmentError("--total %s: every burst exceeds a limit, the smallest with %s: choose a smaller --total or --batch%s",
			f.total, strings.Replace(t.Exceeds(dropped[0]), "tokens", "blocks", 1), remedy)
	}
	return nil
}

// burstSizes returns the sizes of bursts in bytes, ascending. Some may not fit into memory.
func burstSizes(t *transfer.Block, kept []transfer.Point) []int64 {
	var sizes []int64
	for _, row := range transfer.AskedRows(t, kept) {
		sizes = append(sizes, row.ReqBytes*int64(row.Batch))
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// maxTokens is the maximum of contexts, pages and bursts, as in the definitions.
const maxTokens = 1 << 20

// Report is a transfer as JSON: a head and the document's own rows.
type Report struct {
	bench.Head
	bench.Case

	Workload    *transfer.Workload    `json:"workload"`
	Measurement *transfer.Measurement `json:"measurement"`
	Outcome     result.Outcome        `json:"outcome"`
	// Violations describes the violated thresholds, one line each.
	Violations []string `json:"violations"`
	Passed     bool     `json:"passed"`

	flags *flags
}

// Report implements bench.Measurement.
func (f *flags) Report(head bench.Head) bench.Reporter {
	head.Op = "kv"
	return &Report{Head: head, Violations: []string{}, flags: f}
}

// Title implements bench.Reporter.
func (p *Report) Title(place string) string { return "transfers of KV caches " + place }

// Broken implements bench.Reporter.
func (p *Report) Broken() []string { return p.Violations }

// Explain implements bench.Reporter: if requests of --block do not fit into memory, it adds which flags
// would make them fit.
func (p *Report) Explain(err error) error {
	if o := p.Outcome; err == nil || !p.flags.ofBytes() || o.Status != result.Failed || !o.Reasons.Only(result.ReasonMemoryForSize) {
		return err
	}
	return fmt.Errorf("%w, that is, a smaller --total or --batch", err)
}

// Add implements bench.Reporter.
func (p *Report) Add(doc result.Document) {
	d := doc.(*transfer.Document)
	p.Take(&d.Envelope)
	p.Case, p.Workload, p.Measurement, p.Outcome = bench.CaseOf(&d.Envelope), &d.Workload, &d.Measurement, d.Outcome
	var rows []bench.Measured
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		rows = append(rows, bench.Measured{Name: rowName(d, r), Bytes: r.ReqBytes * int64(r.Batch), GBps: r.Rate(), Micros: 1e3 * r.Latency.P50})
	}
	p.Violations = append(p.Violations, p.flags.limits.Broken("", rows)...)
	for _, limit := range p.flags.limits.OfAllSizes() {
		for _, x := range d.Workload.Dropped {
			p.Violations = append(p.Violations, fmt.Sprintf("%s was not measured, and %s", droppedPoint(d, x), limit))
		}
	}
	p.Missed(len(p.Violations))
	p.Passed = p.Err() == nil
}

// rowName identifies a row. Requests of --block have bytes in place of tokens.
func rowName(d *transfer.Document, r *transfer.Row) string {
	t := transfer.Of(&d.Identity.Case)
	if t.Workload != blockWorkload {
		return r.Name()
	}
	blocks := ""
	if r.PageBytes != nil {
		blocks = " in blocks of " + bench.Spelled(*r.PageBytes)
	}
	return fmt.Sprintf("%s %s %d bytes%s, batch %d", r.Op, r.Kind, r.ReqBytes, blocks, r.Batch)
}

// droppedPoint names the bursts of a point that was not measured.
func droppedPoint(d *transfer.Document, x transfer.DroppedPoint) string {
	t := transfer.Of(&d.Identity.Case)
	if t.Workload != blockWorkload {
		return fmt.Sprintf("%d tokens, pages of %d, batch %d", x.ISL, x.PageTokens, x.Batch)
	}
	token := t.Entries[0].Bytes
	return fmt.Sprintf("%d bytes in blocks of %s, batch %d", int64(x.ISL)*token, bench.Spelled(int64(x.PageTokens)*token), x.Batch)
}

// tail formats a 95th percentile in milliseconds, if there are enough samples for one.
func tail(b result.Burst) string {
	if b.Tail() == 0 {
		return "N/A"
	}
	return bench.Micros(1e3 * b.P95)
}

// Print implements bench.Reporter: a line for each row.
func (*Report) Print(w io.Writer, doc result.Document) {
	d := doc.(*transfer.Document)
	c, m := &d.Identity.Case, &d.Measurement
	t := transfer.Of(c)
	shape := t.Workload + " " + c.Precision
	if t.Workload == blockWorkload {
		shape = fmt.Sprintf("no model's cache, a token of which is %d bytes", t.Entries[0].Bytes)
	}
	fmt.Fprintf(w, "# %s, blocks %s, over %s on %s\n", shape, t.Routing, t.Mode, sanitize.Line(d.Topology.DeviceProduct))
	fmt.Fprintf(w, "# sampling %s: %d bursts of each row, %d of them checked\n# a burst is timed from its first handle to its last completion; post is in us\n",
		c.Sampling, t.Timing.Reps*t.Timing.Trials, t.Timing.Trials*min(t.Timing.Reps, 3))
	if s := m.Setup; s != nil {
		fmt.Fprintf(w, "# pool %d bytes, registered in %.3f ms; connected in %.3f ms\n", s.PoolBytes, s.RegisterMillis, s.ConnectMillis)
	}
	if m.Transport != "" {
		fmt.Fprintf(w, "# the data took lane %s: %s\n", sanitize.Line(m.Lane), sanitize.Line(m.Transport))
	}
	fmt.Fprintf(w, "#\n# %-4s %6s %4s %5s %6s %9s %7s %7s %7s %8s %s\n", "op", "isl", "page", "batch", "blocks", "bytes", "p50(us)", "p95(us)", "post", "GB/s", "check")
	for i := range m.Rows {
		r := &m.Rows[i]
		page := r.Kind // bulk
		if r.PageTokens != nil {
			page = fmt.Sprint(*r.PageTokens)
			if t.Workload == blockWorkload {
				page = bench.Spelled(*r.PageBytes)
			}
		}
		fmt.Fprintf(w, "  %-4s %6d %4s %5d %6d %9d %7s %7s %7s %8s %s\n", r.Op, r.ISL, page, r.Batch, r.Descs*r.Batch, r.ReqBytes*int64(r.Batch),
			bench.Micros(1e3*r.Latency.P50), tail(r.Latency), bench.Micros(1e3*r.Parts.Post), bench.Rate(r.Rate()), bench.CheckOf(r.Verify.Passed, r.Complete))
	}
	for i := range m.Rows {
		if r := &m.Rows[i]; !r.Verify.Passed {
			fmt.Fprintf(w, "# %s: %s\n", rowName(d, r), sanitize.Line(r.Verify.Detail))
		}
	}
	for i, f := range m.First {
		same := func(other transfer.First) bool { return other.Op == f.Op && other.Bytes == f.Bytes }
		if slices.ContainsFunc(m.First[:i], same) {
			continue // a block of 8 bytes
		}
		fmt.Fprintf(w, "# %s of %d bytes: %.2f us\n", f.Op, f.Bytes, 1e3*f.Millis.P50)
	}
	for _, s := range m.Sustained {
		fmt.Fprintf(w, "# %s sustained for %.2f s: %s GB/s, %s processor seconds per GB\n", s.Op, s.Seconds, bench.Rate(s.GBps), bench.Rate(s.CPU))
	}
	for _, f := range m.Fit {
		cost := "no time that grows with the number of blocks"
		if f.Beta > 0 {
			cost = fmt.Sprintf("%.3f us per block", f.Beta)
		}
		fmt.Fprintf(w, "# %s: %s (fit of %d rows, largest residual %.0f %%)\n", f.Op, cost, f.Points, f.MaxPercent)
	}
	for _, x := range d.Workload.Dropped {
		fmt.Fprintf(w, "# not measured: %s: %s\n", droppedPoint(d, x), x.Reason)
	}
	bench.Ended(w, d.Outcome)
}
