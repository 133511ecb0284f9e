package bench

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/cli"
)

// Group is flags that help shows together.
type Group struct {
	Title string
	Flags *pflag.FlagSet
}

// Usage prints the groups as help does.
func Usage(groups []Group) string {
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, "\n%s:\n%s", g.Title, g.Flags.FlagUsages())
	}
	return b.String()
}

func newGroup(title string) Group {
	fs := pflag.NewFlagSet(title, pflag.ContinueOnError)
	fs.SortFlags = false
	return Group{title, fs}
}

// Output is where a measurement's results go; the families share it.
type Output struct {
	JSON        bool
	File        string // the JSON goes there too
	Out         string // documents and samples are kept here
	Backend     string
	Definitions cli.Definitions
	set         func(name string) bool // whether a flag was given
}

// Refuse refuses names that are given and empty.
func (o *Output) Refuse() error {
	for flag, name := range map[string]string{"output_file": o.File, "out": o.Out} {
		if name == "" && o.set(flag) {
			return cli.UsageError("--%s is empty: give a name, or leave the flag out", flag)
		}
	}
	return nil
}

func (o *Output) flags(g Group) {
	o.set = g.Flags.Changed
	g.Flags.BoolVar(&o.JSON, "json", false, "write JSON, and nothing else, to standard output")
	g.Flags.StringVarP(&o.File, "output_file", "J", "", "write the JSON to `FILE` as well")
	g.Flags.StringVar(&o.Out, "out", "", "keep plan, documents and samples in `DIR`, which must not hold a run")
}

// Flags are the flags of a collective measurement, as they were given.
type Flags struct {
	Output
	set func(name string) bool // whether a flag was given

	threads, gpus               int
	first, last, step           string
	factor                      int64
	iterations, warmup          int
	aggregate, cycles           int
	redop, dtype                string
	root                        int
	parallelInit, check         int
	blocking, launches          int
	cpuTime, average, perIter   int
	registration, policy        int
	unalign                     int64
	timeout                     int
	buffers, traffic            string
	trials                      int
	percentiles                 bool
	minBusBW, maxTime           []string
	nullStream, timestamps, mem int
	deviceImpl, deviceCTAs      int
	skip                        int
}

// NewFlags adds the flags to fs and returns them, with the groups in which help
// shows them.
func NewFlags(fs *pflag.FlagSet) (*Flags, []Group) {
	f := &Flags{}
	sizes := newGroup("Sizes (nccl-tests' flags)")
	g := sizes.Flags
	g.StringVarP(&f.first, "minbytes", "b", "32M", "first `SIZE`: bytes, or with K, M, G of 1024; fractions are fine")
	g.StringVarP(&f.last, "maxbytes", "e", "32M", "last `SIZE`")
	g.StringVarP(&f.step, "stepbytes", "i", "1M", "`SIZE` from one to the next, without -f")
	g.Int64VarP(&f.factor, "stepfactor", "f", 1, "`FACTOR` from one size to the next; 1 adds -i instead")

	what := newGroup("What is measured (nccl-tests' flags)")
	g = what.Flags
	g.StringVarP(&f.redop, "op", "o", "sum", "reduction `REDOP`: sum, prod, min, max, avg, mulsum or all")
	g.StringVarP(&f.dtype, "datatype", "d", "float", "elements of `TYPE`: int8, uint8, int32, uint32, int64, uint64, half, float, double,\nbfloat16, f8e4m3, f8e5m2 or all")
	g.IntVarP(&f.root, "root", "r", 0, "root `RANK` of a rooted operation; -1 is all of them")
	g.IntVarP(&f.registration, "local_register", "R", 0, "registration `MODE` of the buffers: 0 none, 1 local, 2 symmetric windows")
	g.IntVarP(&f.policy, "cta_policy", "x", -1, "CTA `POLICY` of NCCL: 0 default, 1 efficiency, 2 zero; left alone unless given")
	g.Int64VarP(&f.unalign, "unalign", "u", 0, "move all buffers `N` elements off their alignment")

	ranks := newGroup("Ranks (nccl-tests' flags; each rank is a process with a device of its own)")
	g = ranks.Flags
	g.IntVarP(&f.threads, "nthreads", "t", 1, "ranks are `N` times -g")
	g.IntVarP(&f.gpus, "ngpus", "g", 1, "ranks are `N` times -t; all devices without both, two ranks on a host")
	g.IntVarP(&f.parallelInit, "parallel_init", "p", 1, "`N` is taken and has no effect: ranks always start side by side")

	timing := newGroup("How it is timed (nccl-tests' flags)")
	g = timing.Flags
	g.IntVarP(&f.iterations, "iters", "n", 20, "`N` timed iterations in a window")
	g.IntVarP(&f.warmup, "warmup_iters", "w", 1, "`N` untimed operations of each size before the first window, and of at most 1M before each")
	g.IntVarP(&f.aggregate, "agg_iters", "m", 1, "`N` operations in an iteration, in one group call")
	g.IntVarP(&f.cycles, "run_cycles", "N", 1, "repeat all of it `N` times, each time with new ranks")
	g.IntVarP(&f.blocking, "blocking", "z", 0, "`MODE` 0: operations back to back; 3: one by one, the ranks brought together before each")
	g.IntVarP(&f.launches, "cudagraph", "G", 0, "capture the iterations in a graph and launch it `N` times")
	g.IntVarP(&f.cpuTime, "report_cputime", "C", 0, "`1` prints the host's time to enqueue an operation")
	g.IntVarP(&f.average, "average", "a", 3, "`MODE` of the time across ranks: 0 rank 0, 1 mean, 2 min, 3 max")
	g.IntVarP(&f.perIter, "per_iter_timing", "I", 0, "`1` times each iteration with events as well, and adds columns")
	g.IntVarP(&f.check, "check", "c", 1, "`N` is taken and has no effect: the buffers of every window are checked")
	g.IntVarP(&f.timeout, "timeout", "T", 0, "end a case after so many `SECONDS`; 0 is a limit that fits its sizes")

	ours := newGroup("Beyond nccl-tests")
	g = ours.Flags
	g.StringVar(&f.Backend, "backend", Auto, "backend `NAME`: auto, host, nccl, rccl or mscclpp; auto takes the GPUs' library where both are here")
	g.StringVar(&f.buffers, "buffers", "shifted", "`STATE` of buffers: shifted (nccl-tests' way), warm (one buffer) or cold (caches emptied)")
	g.StringVar(&f.traffic, "traffic", "", "`FILE` with what an alltoallv moves: bytes from rank (line) to rank (column)")
	g.IntVar(&f.trials, "trials", 1, "`N` windows per size; the median is printed")
	g.BoolVar(&f.percentiles, "percentiles", false, "add columns with percentiles over windows, or over iterations with -z 3")
	g.StringSliceVar(&f.minBusBW, "min-busbw", nil, "exit 1 where busbw is below `SIZE=GBPS`; a comma list")
	g.StringSliceVar(&f.maxTime, "max-time", nil, "exit 1 where time is above `SIZE=US`; a comma list")
	f.Output.flags(ours)
	f.Definitions.AddFlag(g)

	none := newGroup("nccl-tests' flags that cannot apply (another value than 0 is refused, with the reason)")
	g = none.Flags
	g.IntVarP(&f.nullStream, "stream_null", "y", 0, "`0` is no null stream")
	g.IntVarP(&f.timestamps, "report_timestamps", "S", 0, "`0` is no timestamps")
	g.IntVarP(&f.deviceImpl, "device_implementation", "D", 0, "`0` is no kernels of nccl-tests' own")
	g.IntVarP(&f.deviceCTAs, "device_cta_count", "V", 0, "`0`, or nccl-tests' default of 16, is none of those kernels' CTAs")
	g.IntVarP(&f.mem, "memory", "M", 0, "`0` is no memory report")
	g.IntVarP(&f.skip, "per_iter_skip", "K", 0, "`0` is no iterations that -I leaves out")

	groups := []Group{sizes, what, ranks, timing, ours, none}
	for _, group := range groups {
		fs.AddFlagSet(group.Flags)
	}
	f.set = fs.Changed
	return f, groups
}
