// Package bench is `cxrun bench copy`: flags with nvbandwidth's test names, and the table and JSON of copies.
package bench

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/copies/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/sysfs"
)

// Command is `cxrun bench copy`.
var Command = bench.Command{
	Family: copies.Name,
	Use:    "copy [TEST...]",
	Short:  "Measure copies by the copy engines of a GPU (nvbandwidth)",
	Long: `Measure copies of memory: from the host to a GPU and back, within a GPU, between two GPUs,
and by all GPUs at a time. Tests have nvbandwidth's names; without any, all tests of one
device run, but for swaps of blocks. Those that end with _sm need --backend sm, in which a
kernel copies.

--matrix measures each GPU in turn, or each pair of GPUs from either to the other: a table
GPUs × GPUs, which names the pairs more than 10 % below the median. Without a test these are
the tests of two GPUs.

On a host, memory that ranks map stands for a GPU's. It has no bidirectional tests of host
memory, one stream, --submit loop, and pageable memory: without page-locked memory, two
directions would take turns.

Each row has two clocks, in columns of their own: events of the device around copies that
were all enqueued before the first began, as nvbandwidth times them, and the host's clock
from the first call to the end of the last copy. Before each window both sides are painted
anew, every copy of it changes all of its destination, and after it every word of both sides
is compared.

The swap_blocks tests copy a number of blocks, with a call for each or --submit batch, and
time each swap by itself until it has ended, by the host's clock. They have --block-bytes,
--blocks, --layout and --max-payload in the place of sizes, pages and streams. One swap in
ten, at least four, is drawn at run time: after it every block is compared, and so are the
guards before and after the blocks. Of the other swaps 256 bytes are compared.

Tests: ` + strings.Join(copies.Tests(), ",\n") + `.

The exit code is 1 if a word is wrong, a case failed or a threshold is missed, and 3 if
this machine cannot run it.`,
	Example: `  cxrun bench copy
  cxrun bench copy host_to_device_memcpy_ce -b 4K -e 512M -f 4 --streams 1,2,4
  cxrun bench copy device_to_host_memcpy_ce --host-memory pinned,pageable,registered
  cxrun bench copy host_to_device_memcpy_ce -b 64M -e 64M --page 64K --submit batch
  cxrun bench copy device_to_device_memcpy_read_ce --min-gbps 300
  cxrun bench copy --matrix
  cxrun bench copy all_to_one_write_ce one_to_all_write_ce all_to_host_memcpy_ce
  cxrun bench copy host_to_device_memcpy_sm --backend sm --victim
  cxrun bench copy swap_blocks_h2d --block-bytes 4K,64K --blocks 16,256 --submit batch`,
	Words:  copies.Tests(),
	Values: map[string][]string{"host-memory": copies.HostMemories(), "submit": copies.Submissions(), "layout": copies.Layouts()},
	Flags:  newFlags,
}

// flags are the flags of copies of memory, as they were given.
type flags struct {
	bench.Output
	bench.Sizes
	memory           []string
	submission, page string
	streams          []int
	sampling         string
	victim, matrix   bool
	ranks            int // of tests of all devices, and of a matrix; 0: one for each GPU, or two on a host
	blockBytes       []string
	blocks           []int
	layouts          []string
	maxPayload       string
	minGBps, maxTime []string
	limits           bench.Limits
	maxSlowdown      float64
}

// newFlags adds the flags to fs and returns them, with the groups in which help shows
// them.
func newFlags(fs *pflag.FlagSet) (bench.Measurement, []bench.Group) {
	f := &flags{}
	shape := bench.NewGroup("What is measured")
	g := shape.Flags
	f.Sizes.AddFlags(shape, "512M", bench.FirstUsage, bench.LastUsage)
	g.StringSliceVar(&f.memory, "host-memory", nil, "copy from or to host memory of `KIND`: pinned, pinned-far (on another NUMA node), pageable or registered; a comma-separated list; pinned on GPUs, pageable on a host")
	g.IntSliceVar(&f.streams, "streams", []int{1}, "share each copy among `N` streams; a comma-separated list, ascending; a host has one")
	g.StringVar(&f.page, "page", "0", "cut each copy into pages of `SIZE`, in random order in the source; 0 copies one piece on each stream")
	g.StringVar(&f.submission, "submit", copies.Loop, "submit pages in `MODE`: loop makes a call for each, batch one call for all; a host has loop alone")
	g.BoolVar(&f.victim, "victim", false, "also run each copy beside a kernel that computes on all multiprocessors, and report how much they slow each other down; on GPUs, in one direction")
	g.BoolVar(&f.matrix, "matrix", false, "run each test on each GPU in turn, or on each pair of GPUs, from either to the other")
	g.IntVarP(&f.ranks, "ngpus", "g", 0, "use `N` GPUs, at least 2, for --matrix and tests of all GPUs; without it, all of them, or 2 on a host")
	g.StringSliceVar(&f.blockBytes, "block-bytes", []string{"257", "4K", "64K", "256K"}, "swap blocks of `SIZE`; a comma-separated list, ascending")
	g.IntSliceVar(&f.blocks, "blocks", []int{1, 4, 16, 64, 256, 1024, 2048}, "swap `N` blocks; a comma-separated list, ascending")
	g.StringSliceVar(&f.layouts, "layout", copies.Layouts(), "put the blocks of a swap into `LAYOUT`: contiguous, in the order of the source, or random; a comma-separated list")
	g.StringVar(&f.maxPayload, "max-payload", "2G", "leave out swaps of more than `SIZE`")
	how := bench.NewGroup("How it is measured, and output")
	g = how.Flags
	g.StringVar(&f.Backend, "backend", bench.Auto, "use backend `NAME`: ce, copies by the driver of GPUs, sm, by a kernel, sdma, by named copy engines of AMD GPUs, or host; auto uses the GPUs here, otherwise host")
	g.StringVar(&f.sampling, "sampling", "fixed-v1", "take the numbers of samples from `PROFILE`; fixed-v1 has nvbandwidth's")
	g.StringSliceVar(&f.minGBps, "min-gbps", nil, "exit 1 if the median rate of a row is below `GBPS`, or SIZE=GBPS for copies of that size, by the device's clock, or by the host's where it has no other; comma-separated list")
	g.StringSliceVar(&f.maxTime, "max-time", nil, "exit 1 if the median time of a copy, by the same clock, is above `SIZE=US`; comma-separated list")
	g.Float64Var(&f.maxSlowdown, "max-slowdown", 0, "exit 1 if copies slow the victim down by a `FACTOR` above this, such as 1.02, or if the slowdown could not be measured; needs --victim")
	f.TimeLimit(how)
	f.Output.AddFlags(how)
	return f, f.AddGroups(fs, shape, how)
}

// Ranks implements bench.Measurement. All tests must have the same number of ranks.
func (f *flags) Ranks(tests []string) (int, error) {
	ranks := 1
	for i, name := range tests {
		if err := bench.Known("test", name, copies.Tests()); err != nil {
			return 0, err
		}
		if slices.Contains(tests[:i], name) {
			return 0, cli.UsageError("test %s is named twice", name)
		}
		switch n := copies.TestOf(name).Ranks; {
		case f.matrix && n == copies.All:
			return 0, cli.UsageError("--matrix: %s runs on all devices and measures each of them already: run it without --matrix", name)
		case i > 0 && n != ranks && !f.matrix:
			return 0, cli.UsageError("%s runs on %s and %s on %s: run the tests in separate commands", tests[0], devices(ranks), name, devices(n))
		default:
			ranks = n
		}
	}
	several := f.matrix || ranks == copies.All
	switch {
	case f.Set("ngpus") && !several:
		return 0, cli.UsageError("-g: for --matrix and tests of all devices, such as all_to_one_write_ce")
	case f.Set("ngpus") && f.ranks < 2:
		return 0, cli.UsageError("-g %d: want at least 2", f.ranks)
	case several:
		return f.ranks, nil
	}
	return ranks, nil
}

// devices names the number of devices of a test.
func devices(ranks int) string {
	if ranks == copies.All {
		return "all devices"
	}
	return plural.Count(ranks, "device", "devices")
}

// chaseSize is the default size of latencies, nvbandwidth's only one.
const chaseSize = "2M"

// Plan implements bench.Measurement: the named tests, or all that the backend supports on one device.
func (f *flags) Plan(tests []string, cat *catalog.Catalog, be *catalog.Backend, world int) (planner.Direct, error) {
	d, has := f.Direct(be, world), catalog.BackendOf[copies.Backend](be)
	if err := f.refuse(tests, world); err != nil {
		return d, err
	}
	swap, err := f.swaps(tests)
	if err != nil {
		return d, err
	}
	shape := func() ([]func(*copies.Block), []int64, error) { return f.sizes(tests) }
	if swap {
		shape = f.grid
	}
	shapes, sizes, err := shape()
	if err != nil {
		return d, err
	}
	if f.limits, err = bench.ParseLimits(bench.MinGBps, f.minGBps, f.maxTime, sizes); err != nil {
		return d, err
	}
	memory, err := f.kinds(has)
	if err != nil {
		return d, err
	}
	if len(tests) == 0 {
		tests = f.usual(has, world, memory, swap)
	}
	if f.Set("host-memory") && !slices.ContainsFunc(tests, func(name string) bool { return copies.TestOf(name).Memory }) {
		return d, cli.UsageError("--host-memory: %s has no memory of the host; leave it out", strings.Join(tests, ", "))
	}
	if d.Cases, err = f.cases(cat, be, tests, memory, shapes); err != nil {
		return d, err
	}
	free, _, err := sysfs.Here().AvailableMemory()
	if err != nil {
		return d, cli.EnvironmentError("%w", err)
	}
	if why := tooLarge(d.Cases, world, be.Name == bench.HostBackend, free); why != "" {
		if swap {
			return d, cli.EnvironmentError("--max-payload %s: %s", f.maxPayload, why)
		}
		return d, cli.EnvironmentError("-e %s: %s", f.Last, why)
	}
	return d, nil
}

// cases returns the cases of tests with each kind of host memory, in each shape.
func (f *flags) cases(cat *catalog.Catalog, be *catalog.Backend, tests, memory []string, shapes []func(*copies.Block)) (all []plan.Case, err error) {
	has := catalog.BackendOf[copies.Backend](be)
	profile, err := bench.Profile[copies.Sampling](cat, f.sampling, "copies")
	if err != nil {
		return nil, err
	}
	for _, name := range tests {
		for _, kind := range copies.MemoriesOf(name, memory) {
			// For pageable memory in both directions the planner's message is better.
			if both := copies.TestOf(name).Both && kind == copies.Pageable; !both && !slices.Contains(has.Tests, name) {
				return nil, cli.EnvironmentError("backend %s has no test %s%s", be.Name, name, bench.Others(cat, be, func(o *catalog.Backend) bool {
					other := catalog.BackendOf[copies.Backend](o)
					return other != nil && slices.Contains(other.Tests, name)
				}))
			}
			for _, set := range shapes {
				b := copies.New(name, kind, profile)
				b.Submission, b.Each = f.submission, f.matrix
				set(b)
				if why := copies.Remainder(b); why != "" {
					return nil, cli.UsageError("%s: choose other sizes, pages or streams with -b, -e, -i, --page and --streams", why)
				}
				all = append(all, plan.Case{Family: copies.Name, Sampling: f.sampling, Contract: copies.ContractOf(name), Block: b})
			}
		}
	}
	return all, nil
}

// swaps reports whether the tests are swaps of blocks: those that are named or, if none is, those that have the flags.
func (f *flags) swaps(tests []string) (bool, error) {
	given := func(names ...string) string {
		if i := slices.IndexFunc(names, f.Set); i >= 0 {
			return names[i]
		}
		return ""
	}
	grid := given("block-bytes", "blocks", "layout", "max-payload")
	swap := len(tests) == 0 && grid != ""
	for _, name := range tests {
		swap = copies.TestOf(tests[0]).Swap
		if copies.TestOf(name).Swap != swap {
			return false, cli.UsageError("%s and %s have different flags: run the tests in separate commands", tests[0], name)
		}
	}
	if swap {
		if other := given("minbytes", "maxbytes", "stepbytes", "stepfactor", "page", "streams", "victim"); other != "" {
			return false, cli.UsageError("--%s: swaps of blocks have --block-bytes, --blocks, --layout and --max-payload instead", other)
		}
	} else if grid != "" {
		return false, cli.UsageError("--%s needs a swap of blocks, such as swap_blocks_h2d", grid)
	}
	return swap, nil
}

// refuse refuses flags that contradict each other or the number of ranks.
func (f *flags) refuse(tests []string, world int) error {
	switch {
	case world < 2 && (f.matrix || len(tests) > 0 && copies.TestOf(tests[0]).Ranks == copies.All):
		return cli.EnvironmentError("%s: needs at least 2 devices, and this machine has 1", cmp.Or(strings.Join(tests, ", "), "--matrix"))
	case f.Set("max-slowdown") && !f.victim:
		return cli.UsageError("--max-slowdown needs --victim")
	case f.Set("max-slowdown") && !(f.maxSlowdown >= 1 && f.maxSlowdown <= math.MaxFloat64):
		return cli.UsageError("--max-slowdown %v: want a factor of at least 1, such as 1.02", f.maxSlowdown)
	}
	return bench.Known("submission", f.submission, copies.Submissions())
}

// usual returns the tests that run if none is named: all that the backend supports on one device, or for a matrix those of
// two in one direction.
func (f *flags) usual(has *copies.Backend, world int, memory []string, swap bool) []string {
	tests := has.Tests
	if swap { // a backend without any is refused by name
		tests = copies.Tests()
	}
	return slices.DeleteFunc(slices.Clone(tests), func(name string) bool {
		t := copies.TestOf(name)
		if f.matrix {
			return t.Ranks != 2 || t.Both || t.Chase
		}
		return t.Swap != swap || t.Chase || t.Ranks != world || t.Both && (f.victim || slices.Contains(memory, copies.Pageable))
	})
}

// sizes returns what makes a case copies of each size, and the sizes. Tests that chase words have a default of their own.
func (f *flags) sizes(tests []string) ([]func(*copies.Block), []int64, error) {
	copying := func(name string) bool { return !copies.TestOf(name).Chase }
	if len(tests) > 0 && !slices.ContainsFunc(tests, copying) && !f.Set("minbytes") && !f.Set("maxbytes") {
		f.First, f.Last = chaseSize, chaseSize
	}
	sizes, err := f.List()
	if err != nil {
		return nil, nil, err
	}
	page, err := bench.ParseSize(f.page)
	if err != nil {
		return nil, nil, cli.UsageError("--page: %w", err)
	}
	if !bench.Ascending(f.streams) {
		return nil, nil, cli.UsageError("--streams %s: want numbers from 1 on in ascending order", bench.List(f.streams))
	}
	return []func(*copies.Block){func(b *copies.Block) {
		b.Sizes, b.Streams, b.PageBytes, b.Victim = sizes, f.streams, page, f.victim
	}}, sizes, nil
}

// grid returns, for each layout, what makes a case swaps of each number of blocks of each size, and the sizes of swaps.
func (f *flags) grid() (shapes []func(*copies.Block), sizes []int64, err error) {
	g := &copies.Grid{NumBlocks: f.blocks}
	if !bench.Ascending(f.blocks) {
		return nil, nil, cli.UsageError("--blocks %s: want numbers from 1 on in ascending order", bench.List(f.blocks))
	}
	if n := f.blocks[len(f.blocks)-1]; n > copies.MaxBlocks {
		return nil, nil, cli.UsageError("--blocks %d: a swap has at most %d blocks; choose fewer, or larger ones with --block-bytes", n, copies.MaxBlocks)
	}
	last := int64(0)
	for _, text := range f.blockBytes {
		bytes, err := bench.ParseSize(text)
		if err != nil {
			return nil, nil, cli.UsageError("--block-bytes: %w", err)
		}
		if bytes <= last {
			return nil, nil, cli.UsageError("--block-bytes %s: want sizes from 1 byte on in ascending order", strings.Join(f.blockBytes, ","))
		}
		last, g.BlockBytes = bytes, append(g.BlockBytes, catalog.Bytes(bytes))
	}
	payload, err := bench.ParseSize(f.maxPayload)
	if err != nil {
		return nil, nil, cli.UsageError("--max-payload: %w", err)
	}
	g.MaxPayload = catalog.Bytes(payload)
	if len(f.layouts) == 0 || len(f.blockBytes) == 0 || bench.Repeats(f.layouts) {
		return nil, nil, cli.UsageError("--block-bytes %s --layout %s: want sizes, and layouts of %s, each once", bench.List(f.blockBytes), bench.List(f.layouts), strings.Join(copies.Layouts(), ", "))
	}
	for _, layout := range f.layouts {
		if err := bench.Known("layout", layout, copies.Layouts()); err != nil {
			return nil, nil, err
		}
		shapes = append(shapes, func(b *copies.Block) {
			b.Streams = []int{1}
			b.SetGrid(g, layout)
		})
	}
	var b copies.Block
	shapes[0](&b)
	for _, r := range b.Rows(1) {
		sizes = append(sizes, r.Bytes)
	}
	if len(sizes) == 0 {
		return nil, nil, cli.UsageError("--max-payload %s: the smallest swap is %d bytes", f.maxPayload, int64(g.BlockBytes[0])*int64(g.NumBlocks[0]))
	}
	return shapes, sizes, nil
}

// kinds returns the kinds of host memory, by default the backend's first.
func (f *flags) kinds(has *copies.Backend) ([]string, error) {
	if !f.Set("host-memory") {
		return has.HostMemory[:1], nil
	}
	if len(f.memory) == 0 || bench.Repeats(f.memory) {
		return nil, cli.UsageError("--host-memory %s: want kinds of %s, each once", bench.List(f.memory), strings.Join(copies.HostMemories(), ", "))
	}
	for _, kind := range f.memory {
		if err := bench.Known("kind of host memory", kind, copies.HostMemories()); err != nil {
			return nil, err
		}
	}
	return f.memory, nil
}

// tooLarge reports which cases have a size whose buffers exceed the host's memory, and which sizes fit, or
// returns "". Ranks refuse such a size themselves, but only when they reach it. On a host backend, the buffers of
// devices are in host memory too.
func tooLarge(cases []plan.Case, world int, host bool, free int64) (why string) {
	least := int64(math.MaxInt64)
	for i := range cases {
		b := copies.Of(&cases[i])
		test := copies.TestOf(b.Test)
		buffers := 0 // of all ranks
		for _, flow := range test.Flows(world, b.Turns(world)[0]) {
			for _, side := range []copies.Side{flow.Src, flow.Dst} {
				if host || side.Host {
					buffers++
				}
			}
		}
		if buffers == 0 {
			continue
		}
		for _, r := range b.Rows(world) {
			if r.Bytes <= runner.Largest(free, buffers, r.BlockBytes) {
				continue
			}
			fits := runner.Largest(free, buffers, 0)
			if r.BlockBytes > 0 {
				fits /= 3 // a swap of one block has one before it and one after it
			}
			if fits < least {
				least = fits
				why = fmt.Sprintf("copies of %s by %s do not fit into the host's memory: choose sizes of at most %s", bench.Spelled(largestOf(b, world)), b.Test, rounded(fits))
			}
		}
	}
	return why
}

// largestOf returns the largest size of a case.
func largestOf(b *copies.Block, world int) (bytes int64) {
	for _, r := range b.Rows(world) {
		bytes = max(bytes, r.Bytes)
	}
	return bytes
}

// rounded writes a size, in whole MiB if it has any.
func rounded(bytes int64) string {
	if bytes > 1<<20 {
		bytes -= bytes % (1 << 20)
	}
	return bench.Spelled(bytes)
}
