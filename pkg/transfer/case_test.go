package transfer_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/transfer"
)

// The requests of the shipped caches have the blocks and bytes that CollectiveX, and the
// models' own dimensions, make of them.
func TestRequestsOfCaches(t *testing.T) {
	cat := plantest.Shipped()
	for _, tc := range []struct {
		cache             string
		isl, page, blocks int
		bytes             int64
	}{
		{"kv-dsv4", 2048, 256, 34, 34 * 1435968},
		{"kv-dsv4", 131072, 256, 538, 538 * 1435968},
		{"kv-dsv4", 524288, 256, 2074, 2074 * 1435968},
		{"kv-dsv4-layers", 8192, 16, 33192, 49139712},
		{"kv-dsv4-layers", 8192, 64, 9786, 49139712},
		{"kv-dsv4-layers", 131072, 16, 523752, 718774272},
		{"kv-dsv4-layers", 131072, 64, 154746, 718774272},
		{"kv-mla", 8192, 64, 7808, 8192 * 70272},
		{"kv-mla", 8192, 16, 31232, 8192 * 70272},
		{"kv-gqa", 8192, 16, 81920, 8192 * 40960},
	} {
		blocks, bytes := transfer.New(transfer.CacheOf(cat, tc.cache), &transfer.Sampling{}).Request(tc.isl, tc.page)
		require.Equal(t, tc.blocks, blocks, "%s, %d tokens, pages of %d", tc.cache, tc.isl, tc.page)
		require.Equal(t, tc.bytes, bytes, "%s, %d tokens, pages of %d", tc.cache, tc.isl, tc.page)
	}
}

// Bursts of several requests over the limit of tokens are dropped, and those that the pool
// has no room for.
func TestPointsOverALimitAreDropped(t *testing.T) {
	c := resulttest.UpstreamTransferCase()
	block := *transfer.Of(&c)
	block.ISLLadder, block.PageTokens, block.BatchSizes = plan.Ladder{65536, 524288}, plan.Ladder{16}, plan.Ladder{1, 2, 4}
	kept, dropped := block.Points()
	require.Len(t, kept, 3, "two of the shorter context and one of the longer")
	require.Len(t, dropped, 3)
	block.PoolBudget = kept[0].Bytes * int64(block.PoolSlack)
	kept, _ = block.Points()
	require.Len(t, kept, 1)

	block.ISLLadder, block.BatchSizes = plan.Ladder{1}, plan.Ladder{131072}
	for _, tc := range []struct {
		bytes int64 // of a token
		page  int
	}{{1 << 47, 1}, {1<<47 + 128, 1}, {1 << 44, 1 << 20}} { // a burst of 2^64 bytes, or 16 MiB more; a block of 2^64
		block.Entries, block.PageTokens = []transfer.CacheEntry{{Regions: 1, Tokens: 1, Bytes: tc.bytes}}, plan.Ladder{tc.page}
		kept, dropped = block.Points()
		require.Empty(t, kept, "%+v", tc)
		require.Contains(t, block.Exceeds(dropped[0]), "9223372036854775807 bytes, ", "%+v", tc)
	}
}

// The suite of the dashboard has its cases in requested_cases, with a ladder of contexts
// and no other; all that it does not plan itself is elsewhere.
func TestTheSuiteOfTheDashboard(t *testing.T) {
	cat := plantest.Shipped()
	m, err := planner.Resolve(cat, planner.Filters{Only: planner.Only{planner.FilterSuite: {transfer.SuiteKV}}}, planner.Machine{})
	require.NoError(t, err)
	require.NotEmpty(t, m.RequestedCases)
	for _, q := range m.RequestedCases {
		text, err := json.Marshal(q.Case)
		require.NoError(t, err)
		var fields map[string]any
		require.NoError(t, json.Unmarshal(text, &fields))
		require.NotContains(t, fields, "ladder")
		ops := "pull push"
		if q.Case.SKU == "mi355x" && q.Case.Backend == "mooncake" {
			ops = "push"
			require.Equal(t, "rdma{gpu}", fields["kv_device"])
			require.Equal(t, 20.0*(1<<30), fields["pool_budget"])
		} else {
			require.NotContains(t, fields, "kv_device")
		}
		for name, want := range map[string]any{
			"suite": "kv-transfer", "workload": "kv-dsv4", "phase": "xfer", "routing": "paged", "precision": "fp8", "ep": 2.0, "nodes": 2.0,
			"gpus_per_node": 1.0, "scope": "scale-out", "isl_ladder": "2048 8192 32768 65536 131072 524288", "page_tokens": "256",
			"batch_sizes": "1 2 4 8 16 32", "ops": ops, "timing": "2:16:3", "seed": 67.0,
			"transport": transfer.Of(&q.Case).Mode, "scale_out_transport": transfer.Of(&q.Case).Mode,
		} {
			require.Equal(t, want, fields[name], "%s: %s", q.Case.CaseID, name)
		}
	}
	require.NotEmpty(t, m.RequestedOther)
	for _, q := range m.RequestedOther {
		require.Contains(t, []string{"host", "nccl-kv", "rccl-kv", "ipc", "nixl", "mooncake", "mori-io"}, q.Case.Backend)
	}
}
