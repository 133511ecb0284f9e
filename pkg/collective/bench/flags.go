package bench

import (
	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
)

// Flags are the flags of a collective measurement, as they were given.
type Flags struct {
	bench.Output
	bench.Sizes

	threads, gpus               int
	iterations, warmup          int
	aggregate, cycles           int
	redop, dtype                string
	root                        int
	parallelInit, check         int
	blocking, launches          int
	cpuTime, average, perIter   int
	registration, policy        int
	unalign                     int64
	buffers, traffic            string
	trials                      int
	percentiles                 bool
	minBusBW, maxTime           []string
	model                       string
	algo                        []string
	ctas                        []int
	repeatable                  int
	nullStream, timestamps, mem int
	deviceImpl, deviceCTAs      int
	skip, outOfPlace            int
	memoryType                  string
	testsLayout                 bool
	reporter, format            string

	request *Request // nil before Ask
}

// NewFlags adds the flags to fs and returns them, with the groups in which help
// shows them.
func NewFlags(fs *pflag.FlagSet) (*Flags, []bench.Group) {
	f := &Flags{}
	sizes := bench.NewGroup("Sizes (nccl-tests' flags)")
	f.Sizes.AddFlags(sizes, "32M", bench.FirstUsage, bench.LastUsage)

	what := bench.NewGroup("Operation and buffers (nccl-tests' flags)")
	g := what.Flags
	g.StringVarP(&f.redop, "op", "o", "sum", "reduce with `REDOP`: sum, prod, min, max, avg, mulsum or all")
	g.StringVarP(&f.dtype, "datatype", "d", "float", "element `TYPE`: int8, uint8, int32, uint32, int64, uint64, half, float, double,\nbfloat16, f8e4m3, f8e5m2 or all")
	g.IntVarP(&f.root, "root", "r", 0, "use `RANK` as the root; -1 measures each rank as root")
	g.IntVarP(&f.registration, "local_register", "R", 0, "register buffers in `MODE`: 0 none, 1 local, 2 symmetric windows")
	g.IntVarP(&f.deviceImpl, "device_implementation", "D", 0, "use kernel `N` over NCCL's device interface, with -R 2: of all_reduce, all_gather and alltoall 1 by elements, 2 by vectors;\nof p2p 1 put, 2 get, 3 put with a message in flight for each block; of p2p_bidir 3 ping-pong, 4 put like 3;\nwith -b 0 signals alone; 0 is NCCL itself")
	g.IntVarP(&f.deviceCTAs, "device_cta_count", "V", defaultCTAs, "use `N` blocks in these kernels, of which short messages need one")
	g.IntVarP(&f.policy, "cta_policy", "x", 0, "set NCCL's CTA `POLICY`: 0 default, 1 efficiency, 2 zero")
	g.Int64VarP(&f.unalign, "unalign", "u", 0, "shift all buffers by `N` elements, off their alignment")
	g.IntVarP(&f.outOfPlace, "out_of_place", "O", 1, "with `0`, measure in place only (rccl-tests' flag)")
	g.IntVarP(&f.nullStream, "stream_null", "y", 0, "with `1`, use the device's null stream")

	ranks := bench.NewGroup("Ranks (nccl-tests' flags; each rank is a process with a device of its own)")
	g = ranks.Flags
	g.IntVarP(&f.threads, "nthreads", "t", 1, "start `N` × -g ranks")
	g.IntVarP(&f.gpus, "ngpus", "g", 1, "start `N` × -t ranks; without -t and -g: one for each device, two on a host")
	g.IntVarP(&f.parallelInit, "parallel_init", "p", 1, "accepted without effect, whatever `N` is: ranks always start in parallel")

	timing := bench.NewGroup("Timing (nccl-tests' flags)")
	g = timing.Flags
	g.IntVarP(&f.iterations, "iters", "n", 20, "time `N` iterations in a window")
	g.IntVarP(&f.warmup, "warmup_iters", "w", 1, "run `N` untimed operations of each size before its first window, and of sizes up to 1M before every window")
	g.IntVarP(&f.aggregate, "agg_iters", "m", 1, "make each iteration one group call of `N` operations")
	g.IntVarP(&f.cycles, "run_cycles", "N", 1, "run everything `N` times, each time with new ranks; 0: until Ctrl-C")
	g.IntVarP(&f.blocking, "blocking", "z", 0, "timing `MODE`: 0 operations back to back, 1 a wait and a barrier after each, 2 a wait after each,\n3 one by one, with an untimed barrier before each")
	g.IntVarP(&f.launches, "cudagraph", "G", 0, "capture the iterations in a graph and launch it `N` times")
	g.IntVarP(&f.cpuTime, "report_cputime", "C", 0, "with `1`, print the host's time to enqueue an operation")
	g.IntVarP(&f.average, "average", "a", 3, "combine the ranks' times by `MODE`: 0 rank 0, 1 mean, 2 min, 3 max")
	g.IntVarP(&f.perIter, "per_iter_timing", "I", 0, "with `1`, also time each iteration with events, and add columns")
	g.IntVarP(&f.skip, "per_iter_skip", "K", 0, "leave the first `N` iterations of each window out of the columns of -I")
	g.IntVarP(&f.timestamps, "report_timestamps", "S", 0, "with `1`, print when the measurement of each row ended")
	g.IntVarP(&f.mem, "memory", "M", 0, "with `1`, print the device memory that the library and the buffers took")
	g.IntVarP(&f.check, "check", "c", collective.DefaultChecks, "beside what each timed window leaves, check `N` more operations of each size in full, at least 2;\nwithout this flag, fewer of large sizes")
	f.TimeLimit(timing)

	ours := bench.NewGroup("Beyond nccl-tests")
	g = ours.Flags
	g.StringVar(&f.Backend, "backend", bench.Auto, "use backend `NAME`: auto, host, nccl, rccl, mscclpp or, for messages, ipc; auto uses the library of the GPUs, or host on a machine without GPUs")
	g.StringVar(&f.buffers, "buffers", "shifted", "use buffers in `STATE`: shifted (as nccl-tests does), warm (one buffer), cold (caches flushed),\nfresh (input just written; with -z 3) or fresh-cold (both)")
	g.StringVar(&f.traffic, "traffic", "", "read from `FILE` the bytes that an alltoallv sends from each rank (line) to each rank (column)")
	g.StringSliceVar(&f.algo, "algo", nil, "also measure with each of NCCL's algorithms `NAMES`, or their beginnings, such as ring or tree_ll; all: every one,\nand compare them with the library's own choice")
	g.IntSliceVar(&f.ctas, "ctas", nil, "also measure with `N` CTAs (NCCL's channels), each algorithm of --algo, too, and compare; a comma-separated list")
	g.IntVar(&f.trials, "trials", 1, "measure `N` windows per size, and print the median")
	g.IntVar(&f.repeatable, "repeatable", 0, "also run `N` operations of each size on one input, and exit 1 if a result differs from the first in any bit")
	g.BoolVar(&f.percentiles, "percentiles", false, "add columns with percentiles over windows, or over iterations with -z 3")
	g.StringSliceVar(&f.minBusBW, "min-busbw", nil, "exit 1 if busbw is below `SIZE=GBPS`; comma-separated list")
	g.StringSliceVar(&f.maxTime, "max-time", nil, "exit 1 if the time is above `SIZE=US`; comma-separated list")
	g.StringVar(&f.model, "model", "", "also measure p2p alone, both ways and on all ranks at once, sums and copies, and write their times to `FILE`,\nas a model for 'cxrun schedule simulate' and studies")
	g.BoolVar(&f.testsLayout, "nccl-tests-json", false, "write the file of -J in nccl-tests' layout, version 3")
	g.StringVarP(&f.reporter, "report_file", "X", "", "write results to `FILE` as rccl-tests does, instead of -J")
	g.StringVarP(&f.format, "output_format", "Z", rcclJSON, "`FORMAT` of -X: csv or json")
	f.Output.AddFlags(ours)

	none := bench.NewGroup("Flags of nccl-tests and rccl-tests that do not apply here (other values are refused, with the reason)")
	g = none.Flags
	g.StringVarP(&f.memoryType, "memory_type", "Y", coarse, "only `coarse` of rccl-tests' types: device memory from the library's allocator")

	return f, f.AddGroups(fs, sizes, what, ranks, timing, ours, none)
}
