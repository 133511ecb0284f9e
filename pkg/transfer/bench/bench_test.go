package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/benchtest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// kvDocument is a measured transfer with a row of so many bytes and milliseconds.
func kvDocument(workload string, bytes int64, ms float64) *transfer.Document {
	d := &transfer.Document{}
	page, block := 1, int64(8)
	d.Identity.Case.Block = &transfer.Block{Workload: workload, Mode: vocab.LaneTCP, Routing: transfer.Paged, Entries: []transfer.CacheEntry{{Regions: 1, Tokens: 1, Bytes: block}}}
	d.Measurement.Rows = []transfer.Row{{
		Op: transfer.Push, Kind: transfer.KindPaged, ISL: int(bytes / block), PageTokens: &page, PageBytes: &block, Descs: int(bytes / block), ReqBytes: bytes, Batch: 1,
		Latency: result.Burst{P50: ms, P95: ms, N: 1}, Complete: true, Verify: result.Verify{Passed: true},
	}}
	return d
}

// A rate below 1 GB/s has three digits, in the column of the others.
func TestRatesOfSlowLanes(t *testing.T) {
	d := kvDocument("kv-tiny", 8, 0.512)
	d.Measurement.Rows[0].GBps = 0.00002 // as older documents round it
	d.Measurement.Sustained = []transfer.Sustained{{Op: transfer.Push, Seconds: 1, GBps: 0.0000156, CPU: 0.01234}}
	var out strings.Builder
	(*Report)(nil).Print(&out, d)
	require.Regexp(t, `(?m)^  push .* 1\.56e-05 OK$`, out.String())
	require.Contains(t, out.String(), "# push sustained for 1.00 s: 1.56e-05 GB/s, 0.0123 processor seconds per GB\n")
	lines := strings.Split(out.String(), "\n")
	var head, row string
	for _, l := range lines {
		if strings.Contains(l, "GB/s check") {
			head = l
		}
		if strings.HasPrefix(l, "  push") {
			row = l
		}
	}
	require.Equal(t, strings.Index(head, "GB/s")+4, strings.Index(row, " OK"), "the column is aligned")
}

// The table of large and slow bursts fits a terminal.
func TestTableFits(t *testing.T) {
	d := resulttest.Transfer(resulttest.UpstreamTransferCase(), resulttest.Attempt())
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		r.ISL, r.Batch, r.ReqBytes, r.Descs = 524288, 1024, 9<<20, 64
		r.Latency.P50, r.Latency.P95, r.Parts.Post = 1234.56, 9876.54, 45.6
	}
	var out strings.Builder
	(*Report)(nil).Print(&out, d)
	benchtest.Fits(t, out.String())
}

// Rows and points of --block are named by their bytes, as in the table. A dropped point is too.
func TestNamesOfBlocks(t *testing.T) {
	d := kvDocument(blockWorkload, 1<<20, 1)
	require.Equal(t, "push paged 1048576 bytes in blocks of 8, batch 1", rowName(d, &d.Measurement.Rows[0]))
	require.Equal(t, "1048576 bytes in blocks of 64K, batch 4", droppedPoint(d, transfer.DroppedPoint{ISL: 1 << 17, PageTokens: 1 << 13, Batch: 4}))
	d = kvDocument("kv-tiny", 64, 1)
	require.Equal(t, "push paged 8 tokens, pages of 1, batch 1", rowName(d, &d.Measurement.Rows[0]))

	lacks, code := cli.EnvironmentError("choose fewer tokens or requests"), result.ReasonMemoryForSize
	memory := result.Outcome{Status: result.Failed, Reasons: result.Reasons{{Code: code}}}
	explain := func(blocks bool, err error, o result.Outcome) error {
		f := &flags{}
		f.Set = func(flag string) bool { return blocks && flag == "block" }
		return (&Report{Outcome: o, flags: f}).Explain(err)
	}
	require.EqualError(t, explain(true, lacks, memory), "choose fewer tokens or requests, that is, a smaller --total or --batch")
	require.Equal(t, lacks, explain(false, lacks, memory))
	require.Equal(t, lacks, explain(true, lacks, result.Outcome{Status: result.Failed, Reasons: result.Reasons{{Code: result.ReasonTimeout}}}))
	require.NoError(t, explain(true, nil, memory))
}

func TestRefusals(t *testing.T) {
	benchtest.Refuses(t, Command, []benchtest.Refusal{
		benchtest.Usage("--isl 64,64", "--isl 64,64: want numbers from 1 to 1048576 in ascending order"),
		benchtest.Usage("--page 0", "--page 0: want numbers from 1 to 1048576 in ascending order"),
		benchtest.Usage("--ops pull,pull", "--ops pull,pull: want pull, push or both"),
		benchtest.Usage("-g 3", "-g 3: a transfer has 2 ranks"),
		benchtest.Usage("--min-gbps 0", "--min-gbps 0: want a value above 0"),
		benchtest.Usage("--max-time 294912=0", "--max-time 294912=0: want a value above 0"),
		benchtest.Usage("--cache kv-tiny --isl 64 --page 16 --batch 1,2 --min-gbps 294912=1,123=1", "--min-gbps 123=1: no burst has 123 bytes; bursts have 294912 or 589824 bytes"),
		benchtest.Usage("--block 4K --isl 128", "--block cannot be combined with --isl"),
		benchtest.Usage("--total 4K", "--total needs --block"),
		benchtest.Usage("--block 4K,6K", "--block 6K: want a multiple of the first block, 4K"),
		benchtest.Usage("--block 4K,2K", "--block 2K: want ascending sizes, each once"),
		benchtest.Usage("--block 12 --total 24", "--block 12: want a multiple of 8 bytes"),
		benchtest.Usage("--block 64K --total 96K", "--block 64K: does not divide --total 96K"),
		benchtest.Usage("--block 4K --total 0", "--total 0: want at least one block"),
		benchtest.Usage("--block 8,64K --total 64M", "--block 8: --total 64M has more than 1048576 blocks of this size: choose a larger block or a smaller total"),
		benchtest.Environment("--block 1G --total 500G --batch 1", "--total 500G: every burst exceeds a limit, the smallest with 536870912000 bytes, more than 34359738368: choose a smaller --total or --batch"),
		benchtest.Environment("--block 16 --total 16M --batch 4", "--total 16M: every burst exceeds a limit, the smallest with 4194304 blocks in 4 requests, more than 131072: choose a smaller --total or --batch, or larger blocks"),
		benchtest.Usage("--lane rdma", "--lane rdma joins two nodes, and bench kv starts both ranks on this host: measure it by a suite, such as kv-transfer, on a platform of several nodes"),
		benchtest.Environment("--lane tcp", "backend host has no lane tcp, only shm, vm; use --backend nixl or mooncake"),
	})
}

// The table has no 95th percentile of fewer than 20 bursts.
func TestPercentilesOfFewSamples(t *testing.T) {
	for n, want := range map[int]string{19: `512(\.0+)? +N/A `, 20: `512(\.0+)? +600(\.0+)? `} {
		d := kvDocument("kv-tiny", 8, 0.512)
		d.Measurement.Rows[0].Latency.P95, d.Measurement.Rows[0].Latency.N = 0.6, n
		var out strings.Builder
		(*Report)(nil).Print(&out, d)
		require.Regexp(t, want, out.String())
	}
}
