package bench

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
)

// maxOperations is the maximum number of operations in a window. The arguments of all of them are in
// memory before the window begins.
const maxOperations = 1_000_000

// maxUnalign is the maximum of -u. Only the offset modulo the alignment matters, so larger values have
// no further effect.
const maxUnalign = 1 << 20

// maxRanks is the maximum of -t and of -g, so that their product cannot overflow.
const maxRanks = 1 << 20

// defaultCTAs is the number of blocks of the kernels of -D, and the default of -V in nccl-tests.
const defaultCTAs = 16

// coarse is the default of -Y, and memoryTypes has why rccl-tests' other values are not supported.
const coarse = "coarse"

var memoryTypes = map[string]string{
	"fine":    "the allocators of libraries and drivers that buffers come from give no fine-grained memory",
	"host":    "an operation on host memory would measure the link to the host; applications have their tensors on the device",
	"managed": "pages of managed memory move between host and device while operations are timed",
}

// otherFlags maps variables of nccl-tests to the flags to use instead: a threshold or a traffic without effect would go
// unnoticed.
var otherFlags = map[string]string{"NCCL_TESTS_MIN_BW": "--min-busbw", "NCCL_TESTS_ALLTOALLV_MATRIX_FILE": "--traffic"}

// refuse returns a usage error for the first unsupported value of a flag, or nil. The error says why the
// value is unsupported and what to use instead.
func (f *Flags) refuse() error {
	if why := cmp.Or(memoryTypes[f.memoryType], "rccl-tests does not have it either"); f.memoryType != coarse {
		return cli.UsageError("-Y %s: not supported: %s; want %s", f.memoryType, why, coarse)
	}
	for name, flag := range otherFlags {
		if os.Getenv(name) != "" {
			return cli.UsageError("%s: not supported: unset it, and use %s", name, flag)
		}
	}
	for _, r := range []struct {
		is  bool
		why string
	}{
		{f.threads < 1 || f.gpus < 1, "-t and -g: want at least 1; their product is the number of ranks"},
		{f.threads > maxRanks || f.gpus > maxRanks, fmt.Sprintf("-t and -g: want at most %d", maxRanks)},
		{f.cycles < 0, "-N: want 1 or more, or 0 to go on until Ctrl-C"},
		{f.cycles == 0 && len(f.algo)+len(f.ctas) > 0, "-N 0 never ends, and --algo and --ctas compare at the end: choose one, or a number of cycles"},
		{f.iterations < 1, "-n: want at least 1"},
		{f.warmup < 0, "-w: want 0 or more"},
		{f.aggregate < 1, "-m: want at least 1"},
		{f.check < 0, "-c: want at least 0"},
		{f.trials < 1, "--trials: want at least 1"},
		{float64(f.iterations)*float64(f.aggregate) > maxOperations, fmt.Sprintf("-n times -m: want at most %d operations in a window; use --trials for more windows", maxOperations)},
		{max(f.warmup, f.launches, f.trials, f.check) > maxOperations, fmt.Sprintf("-w, -G, -c and --trials: want at most %d", maxOperations)},
		{!validCTAs(f.ctas), fmt.Sprintf("--ctas: want different numbers from 1 to %d", collective.MaxCTAs)},
		{f.launches < 0, "-G: want 0 or more"},
		{f.unalign < 0 || f.unalign > maxUnalign, fmt.Sprintf("-u: want 0 to %d elements", maxUnalign)},
		{f.blocking < 0 || f.blocking > 3, "-z: want 0 to 3"},
		{f.blocking > 0 && f.launches > 0, fmt.Sprintf("-z %d waits after each operation and -G launches them at once: choose one", f.blocking)},
		{f.perIter > 0 && f.launches > 0, "-I puts events between operations and -G launches them at once: choose one"},
		{f.perIter < 0 || f.perIter > 1, "-I: want 0 or 1"},
		{f.cpuTime < 0 || f.cpuTime > 1, "-C: want 0 or 1"},
		{f.cpuTime > 0 && f.blocking > 0, fmt.Sprintf("-C is the time to enqueue, and -z %d waits in between: choose one", f.blocking)},
		{f.average < 0 || f.average > 3, "-a: want 0 (rank 0), 1 (mean), 2 (min) or 3 (max)"},
		{f.average != 3 && f.cpuTime > 0, "-C prints the time of the slowest rank to enqueue: leave -a at 3"},
		{f.registration < 0 || f.registration > 2, "-R: want 0 (none), 1 (local) or 2 (symmetric)"},
		{f.policy < 0 || f.policy > 2, "-x: want 0 (default), 1 (efficiency) or 2 (zero)"},
		{f.nullStream < 0 || f.nullStream > 1, "-y: want 0 or 1"},
		{f.nullStream > 0 && f.launches > 0, "-y 1 uses the null stream, which no graph (-G) can capture: choose one"},
		{f.timestamps < 0 || f.timestamps > 1, "-S: want 0 or 1"},
		{f.outOfPlace < 0 || f.outOfPlace > 1, "-O: want 0 or 1"},
		{f.deviceImpl < 0, "-D: want 0 or more"},
		{f.deviceImpl > 0 && f.registration != 2, "-D: kernels load and store in symmetric windows: add -R 2"},
		{f.deviceImpl > 0 && len(f.algo)+len(f.ctas) > 0, "-D measures one kernel: leave --algo and --ctas out, or -D; --algo device has all kernels of -D"},
		{f.deviceCTAs < 1 || f.deviceCTAs > collective.MaxCTAs, fmt.Sprintf("-V: want 1 to %d", collective.MaxCTAs)},
		{f.deviceImpl == 0 && f.deviceCTAs != defaultCTAs, "-V: only for the kernels of -D; --ctas limits those of the library"},
		{f.mem < 0 || f.mem > 1, "-M: want 0 or 1"},
		{f.skip != 0 && f.perIter == 0, "-K leaves iterations out of the columns of -I: add -I 1"},
		{f.skip < 0 || f.skip >= f.iterations, fmt.Sprintf("-K: want 0 or more, and fewer than the %d iterations of -n", f.iterations)},
	} {
		if r.is {
			return cli.UsageError("%s", r.why)
		}
	}
	return bench.CheckRepeats(f.repeatable)
}

// validCTAs reports whether a library can be told to use these numbers of CTAs.
func validCTAs(ctas []int) bool {
	sorted := slices.Sorted(slices.Values(ctas))
	return len(sorted) == 0 || sorted[0] > 0 && sorted[len(sorted)-1] <= collective.MaxCTAs && len(slices.Compact(sorted)) == len(ctas)
}
