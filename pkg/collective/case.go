package collective

import (
	"slices"
	"strconv"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Block is the block of a collective case: one operation, element type
// and reduction over a ladder of sizes.
type Block struct {
	Op string `json:"op"` // nccl-tests' names: all_reduce, all_gather, …
	// RedOp is sum, prod, min, max, avg or mulsum; empty if the op does not reduce.
	RedOp string `json:"redop"`
	// Root is the root rank of a rooted op, else 0.
	Root int `json:"root"`
	// Sizes are bytes as nccl-tests counts them (its size column), ascending. An alltoallv has one:
	// the maximum that a rank of its traffic sends or receives.
	Sizes []int64 `json:"sizes"`
	// Traffic is what an alltoallv moves: bytes from rank (row) to rank (column).
	Traffic [][]int64 `json:"traffic,omitempty"`
	// TrafficName is the name of the traffic in the definitions; may be empty.
	TrafficName string `json:"traffic_name,omitempty"`
	// Groups lists the ranks of each group that runs the operation by itself, all at once, on a communicator of its
	// own (nccl-tests' NCCL_TESTS_SPLIT). Each rank is in one group, and all have as many. Empty: one group of all
	// ranks.
	Groups [][]int `json:"groups,omitempty"`
	// Placements: out_of_place, in_place.
	Placements []string `json:"placements"`
	// Modes are timing modes: pipelined, blocking, per_iteration, graph. Each has its
	// own fields.
	Modes []string `json:"modes"`
	// Buffers is cold (caches emptied, then rotation over more memory than they hold), warm (reuse),
	// shifted (as nccl-tests: each iteration moves one message further through buffers of the
	// largest size, and wraps) or fresh (reuse, of input that its rank rewrites before each
	// operation; blocking mode only).
	Buffers string `json:"buffers" in:"buffers"`
	// Unalign is the offset, in elements, of all buffers from their alignment (nccl-tests' -u).
	Unalign int64 `json:"unalign,omitempty"`
	// Registration is none, local or symmetric.
	Registration string `json:"registration" in:"registration"`
	// NullStream means that operations run on the device's default stream (nccl-tests' -y).
	NullStream bool `json:"null_stream,omitempty"`
	// Algorithm is the only one, with its protocol, that the library may use; empty: the library chooses.
	Algorithm string `json:"algorithm,omitempty" in:"algorithm"`
	// CTAs is the minimum and maximum number of CTAs (NCCL's channels) that the library is told to use for an
	// operation; small operations use fewer. 0: the library chooses.
	CTAs    int    `json:"ctas,omitempty"`
	Measure Counts `json:"measure"`
}

// Counts holds the sample counts of a collective case.
type Counts struct {
	// Warmup is the number of untimed operations of each size before the first window, and of at most
	// 1 MiB before each.
	Warmup     int `json:"warmup"`
	Iterations int `json:"iterations"` // operations in one window (nccl-tests' -n)
	Trials     int `json:"trials"`     // windows per size, placement and mode
	// Aggregate is the number of operations of one iteration, in one group call (nccl-tests' -m).
	// Times are per operation.
	Aggregate int `json:"aggregate"`
	// Launches is how often a graph window launches its graph (nccl-tests' -G).
	Launches int `json:"launches"`
	// Wait is what the host does after each operation of a pipelined window, inside the timed interval
	// (nccl-tests' -z 2 and -z 1); empty: nothing.
	Wait string `json:"wait,omitempty" in:"wait"`
	// Skip is the number of leading iterations of each per_iteration window that do not count
	// (nccl-tests' -K).
	Skip int `json:"skip,omitempty"`
	// Checks is the number of operations, beyond the timed ones, that run and are checked in full for
	// each size, placement and mode; 0 is DefaultChecks, or fewer of large sizes.
	Checks int `json:"checks,omitempty"`
	// Repeatable is how many operations of each size and placement run on one input, after all others,
	// to compare their results with the first one; 0: none.
	Repeatable int `json:"repeatable,omitempty"`
}

// TrialsOf returns how many trials a case with timing modes has. Graphs have trials of their own.
func (t Counts) TrialsOf(modes []string) int {
	if len(modes) > 1 && slices.Contains(modes, vocab.Graph) {
		return 2 * t.Trials
	}
	return t.Trials
}

// Samples returns the number of samples of a row in a timing mode: its windows, or their iterations if each is
// timed.
func (t Counts) Samples(mode string) int {
	return t.Trials * t.SamplesPerTrial(mode)
}

// SamplesPerTrial returns the number of samples that a trial adds to a row in a timing mode.
func (t Counts) SamplesPerTrial(mode string) int {
	switch mode {
	case vocab.Blocking:
		return t.Iterations
	case vocab.PerIteration:
		return t.Iterations - t.Skip
	default:
		return 1
	}
}

// Timed returns the counts that affect the times of a case: all but Checks and Repeatable, whose
// operations follow the last timed window.
func (t Counts) Timed() Counts {
	t.Checks, t.Repeatable = 0, 0
	return t
}

// Numbers of Counts.Checks.
const (
	MinChecks     = 2
	DefaultChecks = 64
)

// Of returns the block of a collective case, or nil for a case of another family.
func Of(c *plan.Case) *Block {
	b, _ := c.Block.(*Block)
	return b
}

// Factors implements plan.Block.
func (b *Block) Factors(c *plan.Case, to []string) []string {
	to = append(to, b.Op, b.TrafficName, c.Precision, b.RedOp)
	if b.Root > 0 {
		to = append(to, "root"+strconv.Itoa(b.Root))
	}
	to = append(to, "w"+strconv.Itoa(c.World), b.Buffers)
	if b.Registration != vocab.Unregistered {
		to = append(to, "reg", b.Registration)
	}
	if b.Algorithm != "" {
		to = append(to, "algo", b.Algorithm)
	}
	if b.CTAs > 0 {
		to = append(to, "ctas"+strconv.Itoa(b.CTAs))
	}
	return append(to, b.How()...)
}

// How returns words for what affects times in the windows of a case beside their mode and is not the default.
func (b *Block) How() (words []string) {
	if b.Measure.Wait != "" {
		words = append(words, "wait "+b.Measure.Wait)
	}
	if b.Measure.Skip > 0 {
		words = append(words, "skip "+strconv.Itoa(b.Measure.Skip))
	}
	if b.NullStream {
		words = append(words, "null stream")
	}
	return words
}

// Width returns the number of ranks, of world, that run an operation together.
func (b *Block) Width(world int) int {
	if len(b.Groups) > 0 {
		return len(b.Groups[0])
	}
	return world
}

// Seat returns the group of a rank, and its place among the ranks of the group.
func (b *Block) Seat(rank int) (group, seat int) {
	for i, ranks := range b.Groups {
		if seat := slices.Index(ranks, rank); seat >= 0 {
			return i, seat
		}
	}
	return 0, rank
}

// Pairs returns the number of pairs of world ranks on which a pairwise operation is measured; 0 for
// other operations.
func (b *Block) Pairs(world int) int { return vocab.Op(b.Op).Pairs.Count(world) }

// TrafficSize returns the size of traffic, in its unit, as nccl-tests counts it: the maximum that
// one rank sends or receives.
func TrafficSize(traffic [][]int64) int64 {
	sent, received := Busiest(traffic)
	return max(sent, received)
}

// Busiest returns the maximum that one rank of square traffic sends, and the maximum that one
// receives.
func Busiest(traffic [][]int64) (sent, received int64) {
	for i, row := range traffic {
		out, in := int64(0), int64(0)
		for j, n := range row {
			out += n
			in += traffic[j][i]
		}
		sent, received = max(sent, out), max(received, in)
	}
	return sent, received
}
