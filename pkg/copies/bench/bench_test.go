package bench

import (
	"strings"
	"testing"

	"github.com/collectivex/collectivex/internal/benchtest"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/copies/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// The reason is that of the case with the most buffers in the host's memory.
func TestCopiesThatDoNotFit(t *testing.T) {
	const gib = 1 << 30
	cases := func(largest int64, tests ...string) (out []plan.Case) {
		for _, name := range tests {
			out = append(out, plan.Case{Family: copies.Name, Block: &copies.Block{Test: name, Sizes: []int64{8, largest}, Streams: []int{1}}})
		}
		return out
	}
	const free = 10 * gib // 8 GiB may be used
	for _, fits := range []string{
		tooLarge(cases(100*gib, "device_local_copy", "device_to_device_memcpy_read_ce"), 2, false, free),
		tooLarge(cases(7*gib, "host_to_device_memcpy_ce"), 2, false, free),
		tooLarge(cases(runner.Largest(free, 2, 0), "device_local_copy"), 2, true, free),
		tooLarge(cases(runner.Largest(free, 4, 0), "device_to_device_bidirectional_memcpy_read_ce"), 2, true, free),
	} {
		require.Empty(t, fits)
	}
	require.Equal(t, "copies of 8G by host_to_device_memcpy_ce do not fit into the host's memory: choose sizes of at most 8188M",
		tooLarge(cases(8*gib, "device_local_copy", "host_to_device_memcpy_ce"), 2, false, free))
	require.Equal(t, "copies of 8G by host_to_device_bidirectional_memcpy_ce do not fit into the host's memory: choose sizes of at most 4092M",
		tooLarge(cases(8*gib, "host_to_device_memcpy_ce", "host_to_device_bidirectional_memcpy_ce", "device_to_host_memcpy_ce"), 2, false, free))
	swap := []plan.Case{{Family: copies.Name, Block: &copies.Block{Test: "swap_blocks_h2d", BlockBytes: []int64{gib}, NumBlocks: []int{1}, MaxPayload: gib}}}
	require.Empty(t, tooLarge(swap, 2, false, 4*gib), "one block, and one before it and after it")
	require.Equal(t, "copies of 1G by swap_blocks_h2d do not fit into the host's memory: choose sizes of at most 818M", tooLarge(swap, 2, false, 3*gib))
	require.Contains(t, tooLarge(cases(8*gib, "device_local_copy"), 2, true, 1<<20), "choose sizes of at most 0")
}

func TestRefusals(t *testing.T) {
	const remedy = ": choose other sizes, pages or streams with -b, -e, -i, --page and --streams"
	benchtest.Refuses(t, Command, []benchtest.Refusal{
		benchtest.Usage("-b 1K -e 2K -i 100", "1124 bytes do not divide into equal pieces of whole 8-byte words on 1 stream"+remedy),
		benchtest.Usage("-b 4K -e 4K --page 1K --streams 8", "4096 bytes do not divide into equal pieces of whole 8-byte words on 8 streams, with pages of 1024 bytes"+remedy),
		benchtest.Usage("--max-slowdown 1.1", "--max-slowdown needs --victim"),
		benchtest.Usage("--victim --max-slowdown 0.9", "--max-slowdown 0.9: want a factor of at least 1, such as 1.02"),
		benchtest.Usage("--streams 2,1", "--streams 2,1: want numbers from 1 on in ascending order"),
		benchtest.Usage("device_local_copy device_local_copy", "test device_local_copy is named twice"),
		benchtest.Usage("device_local_copy device_to_device_memcpy_read_ce", "device_local_copy runs on 1 device and device_to_device_memcpy_read_ce on 2 devices: run the tests in separate commands"),
		benchtest.Usage("device_to_device_memcpy_read_ce all_to_one_read_ce", "device_to_device_memcpy_read_ce runs on 2 devices and all_to_one_read_ce on all devices: run the tests in separate commands"),
		benchtest.Usage("--matrix all_to_one_read_ce", "--matrix: all_to_one_read_ce runs on all devices and measures each of them already: run it without --matrix"),
		benchtest.Usage("-g 4 device_local_copy", "-g: for --matrix and tests of all devices, such as all_to_one_write_ce"),
		benchtest.Usage("-g 1 --matrix", "-g 1: want at least 2"),
		benchtest.Usage("--host-memory pageable device_local_copy", "--host-memory: device_local_copy has no memory of the host; leave it out"),
		benchtest.Usage("--blocks 4 device_local_copy", "--blocks needs a swap of blocks, such as swap_blocks_h2d"),
		benchtest.Usage("swap_blocks_h2d -b 4K", "--minbytes: swaps of blocks have --block-bytes, --blocks, --layout and --max-payload instead"),
		benchtest.Usage("swap_blocks_h2d device_local_copy", "swap_blocks_h2d and device_local_copy have different flags: run the tests in separate commands"),
		benchtest.Usage("--blocks 4,2", "--blocks 4,2: want numbers from 1 on in ascending order"),
		benchtest.Usage("swap_blocks_h2d --blocks 4,65537", "--blocks 65537: a swap has at most 65536 blocks; choose fewer, or larger ones with --block-bytes"),
		benchtest.Usage("--block-bytes 4K,1K", "--block-bytes 4K,1K: want sizes from 1 byte on in ascending order"),
		benchtest.Usage("--layout random,random", "--block-bytes 257,4K,64K,256K --layout random,random: want sizes, and layouts of contiguous, random, each once"),
		benchtest.Usage("--block-bytes 257 --max-payload 100", "--max-payload 100: the smallest swap is 257 bytes"),
		benchtest.Environment("host_to_device_memcpy_sm", "backend host has no test host_to_device_memcpy_sm; use --backend sm"),
	})
}

// The tables of large copies beside a victim fit a terminal.
func TestTablesFit(t *testing.T) {
	d := resulttest.Copy(plantest.Copy("ce", "device_to_device_bidirectional_memcpy_read_ce", func(c *plan.Case) { copies.Of(c).Victim = true }), resulttest.Attempt())
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		r.Bytes, r.Streams, r.Pieces = 4<<30, 32, 65536
		for _, c := range []*copies.Clock{r.Device, r.Host} {
			c.Micros.P50, c.GBps, c.OppositeGBps = 98765.43, 3350.12, 3350.12
		}
	}
	var out strings.Builder
	new(Report).Print(&out, d)
	benchtest.Fits(t, out.String())
}

// So does the table of swaps of blocks, in which a percentile of too few samples is a dash.
func TestTableOfSwaps(t *testing.T) {
	d := resulttest.Copy(plantest.Copy("ce", "swap_blocks_h2d"), resulttest.Attempt())
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		r.BlockBytes, r.Pieces, r.Bytes = 1<<30, 65536, 1<<32
		r.Latency = copies.NewLatency(1, 20, *result.PercentilesOf(98765.43, 98765.43, 98765.43, 98765.43))
		r.Latency.GBps.P50 = 3350.12
		r.Complete = i > 0
	}
	var out strings.Builder
	new(Report).Print(&out, d)
	benchtest.Fits(t, out.String())
	require.Regexp(t, `(?m)^ +1073741824 +65536 +4294967296 +98765\.4 +98765\.4 +98765\.4 +- +3350\.12 OK$`, out.String())
	require.Contains(t, out.String(), "# excluded, since they are more than 65536 bytes:\n#       4096    32     131072\n")
}

// The tables of eight devices fit a terminal, and a slow pair and a wrong row are named.
func TestTablesOfDevicesFit(t *testing.T) {
	d := resulttest.Copy(plantest.CopyOn("ce", "device_to_device_memcpy_read_ce", 8), resulttest.Attempt())
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		device := *r.Device
		if r.Device = &device; *r.Src == 3 && *r.Dst == 6 {
			device.GBps /= 2
		}
	}
	d.Measurement.Rows[7].Verify.Passed, d.Measurement.Rows[7].Verify.Detail = false, "torn: 4 of 512 words wrong"
	var out strings.Builder
	new(Report).Print(&out, d)
	benchtest.Fits(t, out.String())
	require.Contains(t, out.String(), "\n# GB/s from rank (row) to rank (column), 1M, 1 stream, device clock\n")
	require.Contains(t, out.String(), "\n#   SLOW rank 3 to 6: ")
	require.Contains(t, out.String(), "GB/s, 50 % below the median\n")
	require.Contains(t, out.String(), "\n# 4096 bytes on 1 stream, rank 1 to 0: FAILED\n# check: 111 of 112 rows OK\n")
	require.Contains(t, out.String(), "\n# 4096 bytes on 1 stream, rank 1 to 0: torn: 4 of 512 words wrong\n")
	require.Len(t, matrices(d), 2)
	require.Nil(t, matrices(d)[0].Values[1][0])

	for _, test := range []string{"all_to_host_memcpy_ce", "one_to_all_write_ce"} {
		d := resulttest.Copy(plantest.CopyOn("ce", test, 8), resulttest.Attempt())
		for i := range d.Measurement.Rows {
			r := &d.Measurement.Rows[i]
			r.Bytes, r.Streams, r.Pieces = 4<<30, 32, 65536
			r.Host.Micros.P50, r.Host.GBps, r.Device.Micros.P50, r.Device.GBps = 98765.43, 23350.12, 98765.43, 23350.12
		}
		out.Reset()
		new(Report).Print(&out, d)
		benchtest.Fits(t, out.String())
		t.Log(out.String())
	}
}

// A slowdown that was not measured misses its limit, too.
func TestSlowdownLimit(t *testing.T) {
	p := &Report{maxSlowdown: 1.02}
	slow, fine := 1.5, 1.01
	victim := func(slowdown *float64) *copies.Row {
		return &copies.Row{Victim: &copies.Victim{VictimFigures: copies.VictimFigures{Slowdown: slowdown}}}
	}
	require.Equal(t, "the slowdown of the victim could not be measured, but --max-slowdown limits it", p.slowdown(&copies.Row{}))
	require.Equal(t, "copies slow the victim down 1.5000 times, but --max-slowdown is 1.02", p.slowdown(victim(&slow)))
	require.Empty(t, p.slowdown(victim(&fine)))
	require.Empty(t, (&Report{}).slowdown(&copies.Row{}))
}
