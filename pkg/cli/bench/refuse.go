package bench

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/cli"
)

// mostOperations is what a window enqueues at most: each operation has its
// arguments in memory before the first begins.
const mostOperations = 1_000_000

// mostUnalign is how far off their alignment buffers may be: what counts is the
// remainder, so that more changes nothing.
const mostUnalign = 1 << 20

// mostRanks bounds -t and -g, so that their product is a number.
const mostRanks = 1 << 20

// defaultCTAs is what -V is in nccl-tests unless said, where -D 0 has no use for it.
const defaultCTAs = 16

// refuse says of a flag that cannot be honoured why, and what to do instead.
func (f *Flags) refuse() error {
	for _, r := range []struct {
		is  bool
		why string
	}{
		{f.threads < 1 || f.gpus < 1, "-t and -g count from 1: their product is the number of ranks"},
		{f.threads > mostRanks || f.gpus > mostRanks, fmt.Sprintf("-t and -g go to %d", mostRanks)},
		{f.cycles < 1, "-N has to be at least 1: a sweep without end writes no document; call it again in a loop instead"},
		{f.iterations < 1, "-n has to be at least 1"},
		{f.warmup < 0, "-w cannot be negative"},
		{f.aggregate < 1, "-m has to be at least 1"},
		{f.trials < 1, "--trials has to be at least 1"},
		{float64(f.iterations)*float64(f.aggregate) > mostOperations, fmt.Sprintf("-n times -m is more than %d operations in one window: take more windows with --trials", mostOperations)},
		{f.warmup > mostOperations || f.launches > mostOperations || f.trials > mostOperations, fmt.Sprintf("-w, -G and --trials go to %d", mostOperations)},
		{f.launches < 0, "-G cannot be negative"},
		{f.unalign < 0 || f.unalign > mostUnalign, fmt.Sprintf("-u is 0 to %d elements", mostUnalign)},
		{f.timeout < 0, "-T cannot be negative"},
		{f.blocking == 1 || f.blocking == 2, "-z 1 and -z 2 mix the wait, or the barrier, into the figure: use -z 3, which times each operation from a common start"},
		{f.blocking < 0 || f.blocking > 3, "-z is 0 or 3"},
		{f.blocking > 0 && f.launches > 0, "-z 3 waits after each operation and -G launches them at once: choose one"},
		{f.perIter > 0 && f.launches > 0, "-I puts events between operations and -G launches them at once: choose one"},
		{f.perIter < 0 || f.perIter > 1, "-I is 0 or 1"},
		{f.cpuTime < 0 || f.cpuTime > 1, "-C is 0 or 1"},
		{f.cpuTime > 0 && f.blocking > 0, "-C is the time to enqueue, and -z 3 waits in between: choose one"},
		{f.average < 0 || f.average > 3, "-a is 0 (rank 0), 1 (mean), 2 (min) or 3 (max)"},
		{f.average != 3 && f.cpuTime > 0, "-C prints the slowest rank's time to enqueue: leave -a at 3"},
		{f.registration < 0 || f.registration > 2, "-R is 0 (none), 1 (local) or 2 (symmetric)"},
		{f.set("cta_policy") && (f.policy < 0 || f.policy > 2), "-x is 0 (default), 1 (efficiency) or 2 (zero)"},
		{f.nullStream != 0, "-y: there is no null stream; each rank has a stream of its own, as applications do"},
		{f.timestamps != 0, "-S: a row is shown some time after it was measured; with --out, samples of the document say when each window began"},
		{f.deviceImpl != 0, "-D: kernels of nccl-tests' own are no part of the library that is measured; use nccl-tests for them"},
		{f.deviceCTAs != 0 && f.deviceCTAs != defaultCTAs, "-V belongs to -D, which is not here; NCCL_MAX_CTAS in the environment limits the library's own kernels"},
		{f.mem != 0, "-M: memory is not reported; NCCL_DEBUG=INFO with --out leaves what the library says in the logs"},
		{f.skip != 0, "-K: no iteration is left out of -I's figures; raise -w, so that the first one is warm"},
	} {
		if r.is {
			return cli.UsageError("%s", r.why)
		}
	}
	return nil
}
