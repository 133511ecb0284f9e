package copies

import "github.com/collectivex/collectivex/pkg/vocab"

// All is the number of ranks of a test in which all devices of a case take part, at least two.
const All = -1

// Test describes a test of copies. The zero value is an unknown test.
type Test struct {
	Name   string // nvbandwidth's, if it has the test
	Ranks  int    // 1; 2, of which the second copies; or All
	Memory bool   // one side is host memory
	Out    bool   // data leave the memory of the copying device
	Both   bool   // copies of the opposite direction run at the same time
	Swap   bool   // a copy is a number of blocks, and each copy is timed by itself
	// Single: one device copies from or to all others. Otherwise each device of a test of all devices copies: from or
	// to its host, or the memory of one device.
	Single bool
	// Chase: a thread of a kernel reads one word after another, each where the one before says, for the latency of a read.
	Chase bool
}

var tests = []Test{
	{Name: "host_to_device_memcpy_ce", Ranks: 1, Memory: true},
	{Name: "device_to_host_memcpy_ce", Ranks: 1, Memory: true, Out: true},
	{Name: "host_to_device_bidirectional_memcpy_ce", Ranks: 1, Memory: true, Both: true},
	{Name: "device_to_host_bidirectional_memcpy_ce", Ranks: 1, Memory: true, Out: true, Both: true},
	{Name: "device_local_copy", Ranks: 1},
	{Name: "device_to_device_memcpy_read_ce", Ranks: 2},
	{Name: "device_to_device_memcpy_write_ce", Ranks: 2, Out: true},
	{Name: "device_to_device_bidirectional_memcpy_read_ce", Ranks: 2, Both: true},
	{Name: "device_to_device_bidirectional_memcpy_write_ce", Ranks: 2, Out: true, Both: true},
	{Name: "host_to_device_memcpy_sm", Ranks: 1, Memory: true},
	{Name: "device_to_host_memcpy_sm", Ranks: 1, Memory: true, Out: true},
	{Name: "device_to_device_memcpy_read_sm", Ranks: 2},
	{Name: "device_to_device_memcpy_write_sm", Ranks: 2, Out: true},
	{Name: "swap_blocks_h2d", Ranks: 1, Memory: true, Swap: true},
	{Name: "swap_blocks_d2h", Ranks: 1, Memory: true, Out: true, Swap: true},
	{Name: "swap_blocks_d2d", Ranks: 1, Swap: true},
	{Name: "host_to_device_bidirectional_memcpy_sm", Ranks: 1, Memory: true, Both: true},
	{Name: "device_to_host_bidirectional_memcpy_sm", Ranks: 1, Memory: true, Out: true, Both: true},
	{Name: "device_to_device_bidirectional_memcpy_read_sm", Ranks: 2, Both: true},
	{Name: "device_to_device_bidirectional_memcpy_write_sm", Ranks: 2, Out: true, Both: true},
	{Name: "all_to_host_memcpy_ce", Ranks: All, Memory: true, Out: true},
	{Name: "all_to_host_bidirectional_memcpy_ce", Ranks: All, Memory: true, Out: true, Both: true},
	{Name: "host_to_all_memcpy_ce", Ranks: All, Memory: true},
	{Name: "host_to_all_bidirectional_memcpy_ce", Ranks: All, Memory: true, Both: true},
	{Name: "all_to_one_write_ce", Ranks: All, Out: true},
	{Name: "all_to_one_read_ce", Ranks: All},
	{Name: "one_to_all_write_ce", Ranks: All, Out: true, Single: true},
	{Name: "one_to_all_read_ce", Ranks: All, Single: true},
	{Name: "all_to_host_memcpy_sm", Ranks: All, Memory: true, Out: true},
	{Name: "all_to_host_bidirectional_memcpy_sm", Ranks: All, Memory: true, Out: true, Both: true},
	{Name: "host_to_all_memcpy_sm", Ranks: All, Memory: true},
	{Name: "host_to_all_bidirectional_memcpy_sm", Ranks: All, Memory: true, Both: true},
	{Name: "all_to_one_write_sm", Ranks: All, Out: true},
	{Name: "all_to_one_read_sm", Ranks: All},
	{Name: "one_to_all_write_sm", Ranks: All, Out: true, Single: true},
	{Name: "one_to_all_read_sm", Ranks: All, Single: true},
	{Name: "host_device_latency_sm", Ranks: 1, Memory: true, Chase: true},
	{Name: "device_to_device_latency_sm", Ranks: 2, Chase: true},
}

// TestOf returns the test of that name.
func TestOf(name string) Test {
	for i := range tests {
		if tests[i].Name == name {
			return tests[i]
		}
	}
	return Test{}
}

// Tests lists the names of the tests of copies.
var Tests = vocab.List("copy test", namesOf(tests)...)

func namesOf(all []Test) (names []string) {
	for _, t := range all {
		names = append(names, t.Name)
	}
	return names
}

// Kinds of host memory that a device copies from or to.
const (
	Pinned     = "pinned"     // page-locked by the driver, on the device's NUMA node
	PinnedFar  = "pinned-far" // page-locked, on another NUMA node
	Pageable   = "pageable"   // plain memory of the process
	Registered = "registered" // plain memory that the driver page-locked afterwards
)

// HostMemories lists the kinds of host memory.
var HostMemories = vocab.List("host memory", Pinned, PinnedFar, Pageable, Registered)

// Submissions of the pieces of a copy.
const (
	Loop  = "loop"  // a call for each piece
	Batch = "batch" // one call for all pieces
)

// Submissions lists how the pieces of a copy are submitted.
var Submissions = vocab.List("submission", Loop, Batch)

// Layouts of the blocks of a swap in its destination.
const (
	Contiguous = "contiguous" // in the order of the source
	Random     = "random"     // in a seeded random order
)

// Layouts lists the layouts of the blocks of a swap.
var Layouts = vocab.List("block layout", Contiguous, Random)

// Profiles lists the names of the grids that suites have.
var Profiles = vocab.List("swap profile", "smoke", "standard", "large-blocks")

func init() {
	vocab.Register("payload of copies", payloadUnit)
	vocab.Register("exclusion of a point", exceedsPayload)
}
