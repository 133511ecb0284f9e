package transfer

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/plan"
)

// Ranks is the number of ranks of a transfer: rank 0 owns the memory that requests read or write,
// rank 1 posts them.
const Ranks = 2

// Limits of a transfer, as in CollectiveX's own suite.
const (
	MaxBurstTokens = 131072    // context length times requests, for bursts of several requests
	MaxBurstBlocks = 2_250_000 // blocks of a burst
	MaxBulkBytes   = 8 << 30   // bytes of a bulk row
	MaxPoolBytes   = 64 << 30  // bytes of a pool
)

// Block is the block of a transfer case: bursts of requests that move a KV cache
// between two ranks, over a grid of context lengths, page sizes and burst sizes.
type Block struct {
	EP       int    `json:"ep"`       // ranks, 2; existing readers know it by this name
	Workload string `json:"workload"` // the cache's name in the definitions
	// Mode is the lane that the data must use: shm, vm, rdma or mnnvl.
	Mode string `json:"mode" in:"lane"`
	// Handle is the kind of handle by which rank 1 opens the pool of rank 0; missing if the backend has
	// only one, or the case requests its first.
	Handle string `json:"handle,omitempty" in:"handle"`
	Phase  string `json:"phase"` // xfer
	// Routing is the arrangement of a request's blocks in a pool: contiguous, strided or paged
	// (scattered).
	Routing string `json:"routing" in:"arrangement"`
	Seed    uint64 `json:"seed"` // of the block tables
	// ISLLadder lists context lengths in tokens, PageTokens page sizes in tokens, and BatchSizes
	// requests per burst, each ascending and separated by spaces.
	ISLLadder  plan.Ladder `json:"isl_ladder"`
	PageTokens plan.Ladder `json:"page_tokens"`
	BatchSizes plan.Ladder `json:"batch_sizes"`
	Ops        Words       `json:"ops"` // pull and push, separated by spaces
	// Timing is warm-up bursts, timed bursts and trials of each row, such as 2:8:3.
	Timing plan.Repetitions `json:"timing"`
	// SustainMillis is how long back-to-back bursts are posted for the sustained rate, in milliseconds.
	SustainMillis int `json:"sustain_ms"`
	// PoolSlack is the size of a pool as a multiple of the largest burst.
	PoolSlack int `json:"pool_slack"`
	// PoolBudget is the maximum size of a pool in bytes. Points whose burst does not fit are dropped and
	// recorded.
	PoolBudget int64 `json:"pool_budget"`
	// Device is the network device that the library is restricted to, in which {gpu} stands for the number of
	// the rank's GPU on its node; missing if the library chooses.
	Device string `json:"kv_device,omitempty"`
	// Layers is the number of layers of the model.
	Layers int `json:"layers"`
	// Entries are the parts of the cache whose blocks a request moves.
	Entries []CacheEntry `json:"entries"`
}

// CacheEntry is a part of a KV cache: equal regions, each with one entry for a number of tokens.
type CacheEntry struct {
	Regions int   `json:"regions"` // such as layers, or twice as many if K and V are separate
	Tokens  int   `json:"tokens"`  // of one entry
	Bytes   int64 `json:"bytes"`   // of one entry; a block must be a multiple of 8 bytes
	// Window is the number of most recent tokens that the part holds; 0 means all.
	Window int `json:"window,omitempty"`
}

// Blocks returns the number of blocks of a request in each region, for isl tokens of context and pages
// of page tokens, and the bytes of a block.
func (e CacheEntry) Blocks(isl, page int) (blocks int, bytes int64) {
	held := max(page, e.Tokens) // tokens of a block
	if e.Window > 0 {
		isl = e.Window
	}
	return (isl + held - 1) / held, product(held/e.Tokens, e.Bytes)
}

// Request returns the number of blocks of a request, for isl tokens of context and pages of page
// tokens, and its bytes, at most math.MaxInt64.
func (t *Block) Request(isl, page int) (blocks int, bytes int64) {
	for _, e := range t.Entries {
		n, size := e.Blocks(isl, page)
		blocks += e.Regions * n
		bytes += min(product(e.Regions*n, size), math.MaxInt64-bytes)
	}
	return blocks, bytes
}

// product returns the bytes of n equal parts, at most math.MaxInt64, which no pool holds.
func product(n int, bytes int64) int64 {
	if high, low := bits.Mul64(uint64(n), uint64(bytes)); high == 0 && low < math.MaxInt64 {
		return int64(low)
	}
	return math.MaxInt64
}

// Point is one burst of a transfer.
type Point struct {
	ISL, Page, Batch int
	Blocks           int   // of the burst
	Bytes            int64 // of the burst; math.MaxInt64: that or more
}

// Exceeds names the limit of the case that a burst exceeds, or returns "".
func (t *Block) Exceeds(p Point) string {
	switch {
	case p.Batch > 1 && p.ISL*p.Batch > MaxBurstTokens:
		return fmt.Sprintf("%d tokens in %d requests, more than %d", p.ISL*p.Batch, p.Batch, MaxBurstTokens)
	case p.Blocks > MaxBurstBlocks:
		return fmt.Sprintf("%d blocks, more than %d", p.Blocks, MaxBurstBlocks)
	case p.Bytes > t.PoolBudget/int64(t.PoolSlack):
		return fmt.Sprintf("%d bytes, more than %d", p.Bytes, t.PoolBudget/int64(t.PoolSlack))
	default:
		return ""
	}
}

// Points returns the bursts of paged rows, by context length, page and batch, and the bursts that
// exceed a limit of the case.
func (t *Block) Points() (kept, dropped []Point) {
	for _, isl := range t.ISLLadder {
		for _, page := range t.PageTokens {
			for _, batch := range t.BatchSizes {
				blocks, bytes := t.Request(isl, page)
				p := Point{isl, page, batch, blocks * batch, product(batch, bytes)}
				if t.Exceeds(p) != "" {
					dropped = append(dropped, p)
				} else {
					kept = append(kept, p)
				}
			}
		}
	}
	return kept, dropped
}

// Of returns the block of a transfer case, or nil for a case of another family.
func Of(c *plan.Case) *Block {
	b, _ := c.Block.(*Block)
	return b
}

// Factors implements plan.Block.
func (t *Block) Factors(c *plan.Case, to []string) []string {
	return append(to, t.Workload, t.Mode, t.Handle, t.Phase, "ep"+strconv.Itoa(t.EP), t.Routing, c.Precision)
}

// upstreamBackends are the backends of CollectiveX's own KV suite; its workload follows.
var (
	upstreamBackends = []string{"nixl", "mooncake", "mori-io"}
	upstreamCache    = "kv-dsv4"
)

// upstream implements plan.Descriptor.Upstream: upstream moves one cache in scattered pages between two
// nodes, in a suite that the public dashboard recognises by name.
func upstream(c *plan.Case) bool {
	t := Of(c)
	return t != nil && c.Suite == SuiteKV && t.Workload == upstreamCache && t.Routing == Paged &&
		c.Nodes == 2 && c.Repeat == 1 && slices.Contains(upstreamBackends, c.Backend)
}

// Words are words of a closed list, separated by spaces in JSON, as existing readers expect.
type Words []string

// MarshalText writes the words, separated by spaces.
func (w Words) MarshalText() ([]byte, error) { return []byte(strings.Join(w, " ")), nil }

// UnmarshalText is the inverse of MarshalText.
func (w *Words) UnmarshalText(text []byte) error {
	*w = strings.Fields(string(text))
	return nil
}
