package copies

import (
	"strconv"

	"github.com/collectivex/collectivex/pkg/plan"
)

// Block is the block of a copy case: one test over a ladder of sizes and numbers of streams or, for a swap of blocks,
// over a grid of block sizes and numbers of blocks.
type Block struct {
	Test string `json:"test" in:"copy test"` // nvbandwidth's name
	// HostMemory is the kind of the host memory; empty if both sides are on devices.
	HostMemory string `json:"host_memory,omitempty" in:"host memory"`
	// Submission is a call for each piece of a copy (loop), or one for all pieces (batch).
	Submission string `json:"submission" in:"submission"`
	// Sizes are the bytes of a copy, ascending; empty for a swap of blocks.
	Sizes []int64 `json:"sizes"`
	// Streams are the numbers of streams that share a copy, ascending.
	Streams []int `json:"streams"`
	// PageBytes is the size of the pieces of a copy, which are in random order in the source; missing if each
	// stream copies its share in one piece.
	PageBytes int64 `json:"page_bytes,omitempty"`
	// Victim: each row is also measured next to a kernel that computes on all multiprocessors of the copying
	// device.
	Victim bool `json:"victim,omitempty"`
	// Each: the test runs on each device of the case in turn or, if it has two devices, on each ordered pair.
	Each bool `json:"each,omitempty"`
	// Layout says where block i of a swap's source goes: to place i (contiguous), or to another place (random).
	Layout string `json:"layout,omitempty" in:"block layout"`
	// BlockBytes and NumBlocks are the grid of a swap, both ascending. A point whose payload, their product, exceeds
	// MaxPayload bytes is excluded.
	BlockBytes []int64 `json:"block_bytes,omitempty"`
	NumBlocks  []int   `json:"num_blocks,omitempty"`
	MaxPayload int64   `json:"max_payload_bytes,omitempty"`
	Profile    string  `json:"profile,omitempty" in:"swap profile"` // names the grid of a suite
	Seed       uint64  `json:"seed"`                                // of the order of pages and blocks
	// Timing is untimed copies before the windows of a row, copies of a window, and windows by each clock, such
	// as 4:16:3. Each copy of a swap's window is timed by itself.
	Timing plan.Repetitions `json:"timing"`
}

// CheckedSwaps returns after how many of n timed swaps all blocks are compared: one in ten, and at least four.
func CheckedSwaps(n int) int { return min(n, max(4, n/10)) }

// Of returns the block of a copy case, or nil for a case of another family.
func Of(c *plan.Case) *Block {
	b, _ := c.Block.(*Block)
	return b
}

// Factors implements plan.Block.
func (b *Block) Factors(c *plan.Case, to []string) []string {
	page, victim, each, world := "", "", "", ""
	if b.PageBytes > 0 {
		page = "page" + strconv.FormatInt(b.PageBytes, 10)
	}
	if b.Victim {
		victim = "victim"
	}
	if b.Each {
		each = "each"
	}
	if b.Each || TestOf(b.Test).Ranks == All {
		world = "w" + strconv.Itoa(c.World)
	}
	return append(to, b.Test, b.HostMemory, b.Submission, page, victim, b.Layout, b.Profile, each, world)
}

// Pieces returns the number of pieces of a copy of bytes on streams, or 0 if they do not divide it into whole
// words of 8 bytes.
func (b *Block) Pieces(bytes int64, streams int) int {
	const word = 8
	pieces := int64(streams)
	if b.PageBytes > 0 {
		pieces = bytes / b.PageBytes
	}
	if pieces < int64(streams) || bytes%(pieces*word) != 0 || b.PageBytes > 0 && bytes%b.PageBytes != 0 {
		return 0
	}
	return int(pieces)
}
