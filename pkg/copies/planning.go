package copies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/plural"
)

// filterProfile is the name of the filter on profiles.
const filterProfile = "swap-profile"

var filters = []planner.Filter{
	{Name: filterProfile, Kind: "swap profile", Asked: true, Usage: "only these profiles of swaps of blocks, and no other copies: smoke (CollectiveX's default), standard, large-blocks; all copies if not given", Input: "Copies: profile of swaps of blocks"},
}

// cases requests the cases of a block: by test, backend, kind of host memory, submission and layout.
func cases(r *planner.Resolver, block catalog.SuiteBlock) {
	b := block.(*SuiteBlock)
	grid := cmp.Or(b.Swap, &Grid{Layouts: []string{""}})
	if !r.Keeps(filterProfile, grid.Profile) {
		return
	}
	for _, name := range planner.Ordered(Tests(), b.Tests) {
		for world, be := range r.Each(Name, b.Backends) {
			t := TestOf(name)
			several := t.Ranks == All || b.Each // on as many devices as there are
			if !t.Runs(world, b.Each) || several && world < slices.Max(r.Worlds(r.Platform.Worlds(string(Name), be.Name))) {
				continue
			}
			c := r.NewCase(Name, ContractOf(name), b.Sampling, be, world)
			for _, memory := range MemoriesOf(name, b.HostMemory) {
				for _, submission := range b.Submissions {
					for _, layout := range grid.Layouts {
						block := New(name, memory, catalog.SamplingOf[Sampling](r.SamplingProfile(c.Sampling)))
						block.Submission, block.Streams, block.PageBytes = submission, b.Streams, int64(b.PageBytes)
						block.Victim, block.Each = b.Victim, b.Each
						if b.Swap == nil {
							block.Sizes = b.Sizes.List()
						} else {
							block.SetGrid(b.Swap, layout)
						}
						c.Block = block
						r.Request(be, &c)
					}
				}
			}
		}
	}
}

// MemoriesOf returns the requested kinds of host memory for a test: a single empty one if the test uses no host
// memory.
func MemoriesOf(test string, asked []string) []string {
	if !TestOf(test).Memory {
		return []string{""}
	}
	return asked
}

// seed determines the order of pages and blocks.
const seed = 67

// New returns the block of a test, without submission, sizes, streams and pages.
func New(test, memory string, s *Sampling) *Block {
	b := &Block{
		Test: test, HostMemory: memory, Seed: seed,
		Timing: plan.Repetitions{Warmup: s.Warmup, Reps: s.Copies, Trials: s.Windows},
	}
	if TestOf(test).Swap {
		b.Timing = plan.Repetitions{Warmup: s.SwapWarmup, Reps: s.Swaps, Trials: 1}
	}
	return b
}

// SetGrid sets the points of a swap of blocks in one layout.
func (b *Block) SetGrid(g *Grid, layout string) {
	b.Sizes, b.Layout, b.Profile, b.NumBlocks, b.MaxPayload = []int64{}, layout, g.Profile, g.NumBlocks, int64(g.MaxPayload)
	for _, bytes := range g.BlockBytes {
		b.BlockBytes = append(b.BlockBytes, int64(bytes))
	}
}

// lacks names the factor of the case that the backend does not support, or returns "".
func lacks(be *catalog.Backend, c *plan.Case) string {
	has, b := catalog.BackendOf[Backend](be), Of(c)
	if has == nil {
		return fmt.Sprintf("backend %s has no copies", be.Name)
	}
	test := TestOf(b.Test)
	switch {
	case test.Both && b.HostMemory == Pageable:
		return fmt.Sprintf("%s needs page-locked memory: a call may wait for its copy of pageable memory, the only kind of a host, so that two directions would take turns", b.Test)
	case !slices.Contains(has.Tests, b.Test):
		return fmt.Sprintf("backend %s has no test %s", be.Name, b.Test)
	case b.Each && (test.Ranks == All || test.Swap):
		return fmt.Sprintf("%s does not run on each device in turn", b.Test)
	case !test.Runs(c.World, b.Each) && (b.Each || test.Ranks == All):
		return fmt.Sprintf("%s on each device or pair needs 2 to %d ranks, not %d", b.Test, MaxWorld, c.World)
	case !test.Runs(c.World, b.Each):
		return fmt.Sprintf("%s has %d ranks, not %d", b.Test, test.Ranks, c.World)
	case b.Victim && (b.Each || test.Ranks == All):
		return fmt.Sprintf("a victim runs beside the copies of one device, and %s has several here", b.Test)
	case test.Memory && !slices.Contains(has.HostMemory, b.HostMemory):
		return fmt.Sprintf("backend %s has no %s host memory, only %s", be.Name, b.HostMemory, strings.Join(has.HostMemory, ", "))
	case !slices.Contains(has.Submissions, b.Submission):
		return fmt.Sprintf("backend %s has no submission %s, only %s", be.Name, b.Submission, strings.Join(has.Submissions, ", "))
	case test.Chase && (b.Victim || b.PageBytes > 0 || b.Submission != Loop || !slices.Equal(b.Streams, []int{1})):
		return fmt.Sprintf("%s has one stream, no pages and no victim: one thread reads", b.Test)
	case b.Victim && !has.Victim:
		return fmt.Sprintf("backend %s has no victim: no kernel computes beside its copies", be.Name)
	case b.Victim && test.Swap:
		return fmt.Sprintf("%s has no victim: its swaps are timed one by one", b.Test)
	case test.Swap && !slices.Equal(b.Streams, []int{1}):
		return fmt.Sprintf("%s copies on 1 stream", b.Test)
	case test.Swap && len(b.Rows(c.World)) == 0:
		return fmt.Sprintf("each point of %s exceeds the largest payload, %d bytes", b.Test, b.MaxPayload)
	case b.Victim && test.Both:
		return fmt.Sprintf("%s copies in both directions: a victim runs beside copies in one direction", b.Test)
	case b.Victim && b.HostMemory == Pageable:
		return "copies beside a victim need page-locked memory: a call with pageable memory waits for its copy"
	case b.Submission == Batch && b.HostMemory == Pageable:
		return "a batch call needs page-locked host memory, and pageable memory is not"
	case b.Submission == Batch && b.PageBytes == 0 && !test.Swap:
		return "a batch call needs a page size: without pages, each stream copies one piece"
	}
	for _, streams := range b.Streams {
		if streams > has.Streams {
			return fmt.Sprintf("backend %s copies on at most %s", be.Name, plural.Count(has.Streams, "stream", "streams"))
		}
	}
	return Remainder(b)
}

// Remainder names the size that does not divide into equal pieces, or returns "".
func Remainder(b *Block) string {
	pages := ""
	if b.PageBytes > 0 {
		pages = fmt.Sprintf(", with pages of %d bytes", b.PageBytes)
	}
	for _, size := range b.Sizes {
		if TestOf(b.Test).Chase && (size < 2*ChaseBytes || size > ChaseMax || size&(size-1) != 0) {
			return fmt.Sprintf("%s of %d bytes: want a power of two from %d to %d", b.Test, size, 2*ChaseBytes, ChaseMax)
		}
	}
	for _, streams := range b.Streams {
		for _, size := range b.Sizes {
			if b.Pieces(size, streams) == 0 {
				return fmt.Sprintf("%d bytes do not divide into equal pieces of whole 8-byte words on %s%s", size, plural.Count(streams, "stream", "streams"), pages)
			}
		}
	}
	return ""
}

// seconds estimates a case. It assumes the speed of copies of pageable memory, which painting and checking exceed: it
// counts them for two windows, or for one more than the swaps that are compared, and leaves more to the slack of budgets.
// It counts in windows of copies alone. Copies beside a victim must outlast it: their number begins at twice a window's and
// doubles until they do. If they slow the victim down four times, that takes up to eight times a window's copies. Swaps of
// page-locked memory are counted at about half the speed of an H100.
func seconds(c *plan.Case, pace catalog.Pace) float64 {
	const (
		slow    = 4.0       // GB/s
		clocks  = 2         // windows for each
		beside  = 1 + 8 + 2 // windows: a victim alone, beside copies, and for twice as long beside copies
		doubled = 2 + 4 + 8 // windows in which the number of copies doubles, once a row
		call    = 10.0      // microseconds

		swapped   = 20.0 // GB/s
		swapCall  = 6.0  // microseconds
		swapBatch = 2.0  // microseconds a block
	)
	b := Of(c)
	windows, checks := clocks*b.Timing.Trials, 8 // passes over a side
	if b.Victim {
		windows += beside*b.Timing.Trials + doubled
	}
	rate, each := slow, call
	if TestOf(b.Test).Swap {
		windows = b.Timing.Trials // by one clock
		checks = 4 * (1 + CheckedSwaps(b.Timing.Reps))
		if b.HostMemory != Pageable {
			rate, each = swapped, swapCall
		}
		if b.Submission == Batch {
			each = swapBatch
		}
	}
	var micros float64
	for _, r := range Asked(c) {
		us := func(call, rate float64) float64 {
			return float64(r.Pieces)*call + float64(r.Bytes)/(min(rate, pace.GBps)*1e3)
		}
		micros += us(each, rate)*float64(b.Timing.Warmup+windows*b.Timing.Reps) + us(call, slow)*float64(checks)
	}
	if TestOf(b.Test).Chase {
		const read = 2.0 // microseconds
		for _, r := range Asked(c) {
			micros += read * float64(r.Accesses) * float64(b.Timing.Warmup+windows*b.Timing.Reps)
		}
	}
	if TestOf(b.Test).Ranks == All {
		micros *= float64(c.World) // at a time, and as many buffers to paint and check
	}
	return micros / 1e6
}
