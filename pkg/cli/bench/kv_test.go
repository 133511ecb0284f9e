package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// kvDocument is a measured transfer with a row of so many bytes and milliseconds.
func kvDocument(workload string, bytes int64, ms float64) *result.TransferDocument {
	d := &result.TransferDocument{}
	page, block := 1, int64(8)
	d.Identity.Case.Block = &plan.Transfer{Workload: workload, Mode: vocab.LaneTCP, Routing: vocab.Paged, Entries: []plan.CacheEntry{{Regions: 1, Tokens: 1, Bytes: block}}}
	d.Measurement.Rows = []result.TransferRow{{
		Op: vocab.Push, Kind: vocab.KindPaged, ISL: int(bytes / block), PageTokens: &page, PageBytes: &block, Descs: int(bytes / block), ReqBytes: bytes, Batch: 1,
		Latency: result.Burst{P50: ms, P95: ms, N: 1}, Complete: true, Verify: result.TransferVerify{Passed: true},
	}}
	return d
}

// A rate below 1 GB/s has three digits, in the column of the others.
func TestRatesOfSlowLanes(t *testing.T) {
	for gbps, want := range map[float64]string{
		0: "0", 412.345: "412.35", 1: "1.00", 0.9996: "1.000", 0.5: "0.500", 0.01234: "0.0123", 0.0000156: "0.0000156", 0.000000156: "1.56e-07",
	} {
		require.Equal(t, want, Rate(gbps))
	}
	d := kvDocument("kv-tiny", 8, 0.512)
	d.Measurement.Rows[0].GBps = 0.00002 // as older documents round it
	d.Measurement.Sustained = []result.TransferSustained{{Op: vocab.Push, Seconds: 1, GBps: 0.0000156, CPU: 0.01234}}
	var out strings.Builder
	PrintKV(&out, d)
	require.Regexp(t, `(?m)^  push  paged .* 0\.0000156  OK$`, out.String())
	require.Contains(t, out.String(), "# push sustained for 1.00 s: 0.0000156 GB/s, 0.0123 processor seconds per GB\n")
	lines := strings.Split(out.String(), "\n")
	var head, row string
	for _, l := range lines {
		if strings.Contains(l, "GB/s  check") {
			head = l
		}
		if strings.HasPrefix(l, "  push") {
			row = l
		}
	}
	require.Equal(t, strings.Index(head, "GB/s")+4, strings.Index(row, "  OK"), "the column is aligned")

	require.Equal(t, []string{"t: 0.000391 GB/s, and --min-gbps is 1"}, Limits{{MinGBps, everySize, 1}}.Broken("", []Measured{{"t", 8, 0.000390625, 1}}))
}

// Rows and points of --block are named by their bytes, as in the table. A dropped point is too.
func TestNamesOfBlocks(t *testing.T) {
	d := kvDocument(blockWorkload, 1<<20, 1)
	require.Equal(t, "push paged 1048576 bytes in blocks of 8, batch 1", rowName(d, &d.Measurement.Rows[0]))
	require.Equal(t, "1048576 bytes in blocks of 64K, batch 4", droppedPoint(d, result.DroppedPoint{ISL: 1 << 17, PageTokens: 1 << 13, Batch: 4}))
	d = kvDocument("kv-tiny", 64, 1)
	require.Equal(t, "push paged 8 tokens, pages of 1, batch 1", rowName(d, &d.Measurement.Rows[0]))

	lacks, code := cli.EnvironmentError("choose fewer tokens or requests"), result.ReasonMemoryForSize
	memory := result.Outcome{Status: result.Failed, Reasons: result.Reasons{{Code: code}}}
	blocks := &KVFlags{set: func(flag string) bool { return flag == "block" }}
	require.EqualError(t, blocks.Explain(lacks, memory), "choose fewer tokens or requests, that is, a smaller --total or --batch")
	require.Equal(t, lacks, (&KVFlags{set: func(string) bool { return false }}).Explain(lacks, memory))
	require.Equal(t, lacks, blocks.Explain(lacks, result.Outcome{Status: result.Failed, Reasons: result.Reasons{{Code: result.ReasonTimeout}}}))
	require.NoError(t, blocks.Explain(nil, memory))
}
