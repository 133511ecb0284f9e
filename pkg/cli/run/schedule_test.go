package run

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
)

func TestSchedule(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("cut.xml", []byte("<algo name=\"ring\""), 0o644))
	require.NoError(t, os.WriteFile("links.yaml", []byte("sharing: fifo\nlatency_ns: 1000\n"), 0o644))
	require.NoError(t, os.WriteFile("both.xml", []byte(`<algo name="copy" proto="LL" nchannels="1" nchunksperloop="1" ngpus="1" coll="allreduce" inplace="1" outofplace="1" minBytes="0" maxBytes="8">
<gpu id="0" i_chunks="1" o_chunks="1" s_chunks="0"><tb id="0" send="-1" recv="-1" chan="0">
<step s="0" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/></tb></gpu></algo>`), 0o644))
	for _, tt := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{
			[]string{"verify", "both.xml"},
			cli.ExitOK,
			"copy all_reduce of 1 rank is correct in place and out of place: 0 messages\nall ranks add in the same order: their sums are equal bit by bit\n", "",
		},
		{
			[]string{"show", "all_gather", "ring", "--ranks", "2"},
			cli.ExitOK,
			"rank 0\n     0  send chunk 0 to rank 1, receive chunk 1 from rank 1\nrank 1\n     0  send chunk 1 to rank 0, receive chunk 0 from rank 0\n", "",
		},
		{
			[]string{"verify", "all_reduce", "ring"},
			cli.ExitOK,
			"ring all_reduce of 8 ranks is correct: 112 messages\nall ranks add in the same order: their sums are equal bit by bit\n", "",
		},
		{
			[]string{"verify", "all_reduce", "ring_full", "--ranks", "3"},
			cli.ExitOK,
			"ring_full all_reduce of 3 ranks is correct: 6 messages\nranks add in different orders: their sums of floating-point numbers can differ\n", "",
		},
		{ // a ring of whole vectors adds what came to what is there
			[]string{"verify", "all_reduce", "ring_full", "--ranks", "3", "--sums"},
			cli.ExitOK,
			"ring_full all_reduce of 3 ranks is correct: 6 messages\nranks add in different orders: their sums of floating-point numbers can differ\n" +
				"chunk 0, rank 0: ((0+2)+1); rank 1: ((1+0)+2); rank 2: ((2+1)+0)\n", "",
		},
		{[]string{"verify", "all_gather", "ring", "--sums"}, cli.ExitUsage, "", "cxrun: --sums: all_gather adds nothing\n"},
		{
			[]string{"simulate", "all_reduce", "ring", "--bytes", "1M", "--reduce-bandwidth", "1000"},
			cli.ExitOK,
			"simulated: ring all_reduce of 1048576 bytes, 8 ranks on a full mesh (unloaded): 51.618 µs, 112 messages\nmodel: sharing unloaded, engines 1, latency_ns 1000, ns_per_byte 0.02, reduce_ns_per_byte 0.001\ncritical path of 14 ops: latency 14.000 µs, bytes 36.700 µs, reduce 0.918 µs\n", "",
		},
		{ // two hops in each of three steps: 3·2·(1000 + 262144·0.02)
			[]string{"simulate", "all_gather", "ring", "--ranks", "4", "--topology", "torus", "--width", "2", "--sharing", "fifo", "--json"},
			cli.ExitOK,
			`{"origin":"simulated","collective":"all_gather","schedule":"ring","ranks":4,"width":2,"topology":"torus 2×2","sharing":"fifo","model":{"sharing":"fifo","engines":1,"latency_ns":1000,"ns_per_byte":0.02},"model_sha256":"96cba8aae2435b49aeaf213ed10ab166a9bd0b1a46d451064e65a6a0b91e506e","bytes":1048576,"messages":12,"makespan_ns":37457.28,"critical_path":{"ops":3,"start_ns":0,"issue_ns":0,"overhead_ns":0,"memory_ns":0,"latency_ns":6000,"bytes_ns":31457.28,"reduce_ns":0,"copy_ns":0,"engine_wait_ns":0,"link_wait_ns":0,"buffer_wait_ns":0}}` + "\n", "",
		},
		{ // a ring of two hosts over the network, 2·2500 + 262144·0.02, and two pushes inside a host, 1000 + 262144·0.0025 each
			[]string{"simulate", "all_gather", "hierarchical_sliced", "--ranks", "4", "--width", "2", "--topology", "hosts", "--bandwidth", "400"},
			cli.ExitOK,
			"simulated: hierarchical_sliced all_gather of 1048576 bytes, 4 ranks (width 2) on a network of 2 hosts with 2 ranks each (unloaded): 13.554 µs, 12 messages\n" +
				"model: sharing unloaded, engines 1, latency_ns 1000, ns_per_byte 0.0025, network_latency_ns 2500, network_ns_per_byte 0.02, network_engines 1\n" +
				"critical path of 3 ops: latency 7.000 µs, bytes 6.554 µs\n", "",
		},
		{[]string{"simulate", "all_gather", "ring", "--network-latency", "5"}, cli.ExitUsage, "", "cxrun: --network-latency is for --topology hosts: no other has a network\n"},
		{[]string{"simulate", "all_gather", "ring", "--topology", "hosts", "--width", "4", "--model", "links.yaml"}, cli.ExitUsage, "", "cxrun: --model links.yaml: … network_latency_ns … network_ns_per_byte"},
		{[]string{"convert", "all_reduce", "ring", "--ranks", "4", "-o", "ring.xml"}, cli.ExitOK, "ring.xml: ring all_reduce of 4 ranks\n", ""},
		{
			[]string{"verify", "ring.xml"},
			cli.ExitOK,
			"ring all_reduce of 4 ranks is correct: 24 messages\nall ranks add in the same order: their sums are equal bit by bit\n", "",
		},
		{ // as the schedule of that name
			[]string{"simulate", "ring.xml", "--bytes", "1M"},
			cli.ExitOK,
			"simulated: ring all_reduce of 1048576 bytes, 4 ranks on a full mesh (unloaded): 37.457 µs, 24 messages\nmodel: sharing unloaded, engines 1, latency_ns 1000, ns_per_byte 0.02\ncritical path of 6 ops: latency 6.000 µs, bytes 31.457 µs\n", "",
		},
		{
			[]string{"show", "all_gather", "ring", "--ranks", "2", "--svg", "show.svg"},
			cli.ExitOK,
			"rank 0\n     0  send chunk 0 to rank 1, receive chunk 1 from rank 1\nrank 1\n     0  send chunk 1 to rank 0, receive chunk 0 from rank 0\n", "",
		},
		{[]string{"show", "all_reduce", "ring", "--ranks", "128", "--svg", "show.svg"}, cli.ExitUsage, "", "cxrun: --svg: 65024 ops … 20000"},
		{[]string{"convert", "all_gather", "ring", "--ranks", "2", "-o", "trace.et"}, cli.ExitOK, "trace.*.et: ring all_gather of 2 ranks\n", ""},
		{[]string{"convert", "all_reduce", "doubling", "--ranks", "4", "-o", "doubling.json"}, cli.ExitOK, "doubling.json: doubling all_reduce of 4 ranks\n", ""},
		{
			[]string{"verify", "doubling.json"},
			cli.ExitOK,
			"doubling all_reduce of 4 ranks is correct: 8 messages\nall ranks add in the same order: their sums are equal bit by bit\n", "",
		},
		{[]string{"verify", "cut.xml"}, cli.ExitUsage, "", "cxrun: cut.xml:1:18: "},
		{[]string{"verify", "ring.xml", "--ranks", "4"}, cli.ExitUsage, "", "cxrun: --ranks is for schedules that are known by name; the plan in ring.xml has its own\n"},
		{[]string{"verify", "ring.xml", "--width", "2"}, cli.ExitUsage, "", "cxrun: --width … ring.xml"},
		{[]string{"convert", "all_reduce", "ring", "-o", "missing/ring.xml"}, cli.ExitEnvironment, "", "cxrun: -o: … missing/ring.xml: … directory missing"},
		{[]string{"convert", "all_reduce", "ring", "-o", "missing/ring.et"}, cli.ExitEnvironment, "", "cxrun: -o: … missing/ring.0.et: … directory missing"},
		{[]string{"convert", "all_reduce", "ring", "-o", "ring.yaml"}, cli.ExitUsage, "", "cxrun: -o \"ring.yaml\": name a file that ends in .xml, .json or .et\n"},
		{[]string{"convert", "all_reduce", "ring"}, cli.ExitUsage, "", "cxrun: … \"output\""},
		{[]string{"convert", "all_reduce", "ring", "-o", "ring.et", "--bytes", "0"}, cli.ExitUsage, "", "cxrun: --bytes: 0: want a size above 0\n"},
		{[]string{"convert", "all_reduce", "ring", "-o", "ring.xml", "--bytes", "1M"}, cli.ExitUsage, "", "cxrun: --bytes is for traces (.et): a plan has no size\n"},
		{[]string{"verify", "ring"}, cli.ExitUsage, "", "cxrun: schedule verify needs a collective before ring, such as all_gather; see 'cxrun schedule list'\n"},
		{[]string{"verify", "all_reduce", "ring", "8"}, cli.ExitUsage, "", "cxrun: unexpected argument \"8\"; see 'cxrun schedule verify --help'\n"},
		{[]string{"verify", "all_reduce"}, cli.ExitUsage, "", "cxrun: schedule verify needs the name of a schedule after all_reduce; see 'cxrun schedule list'\n"},
		{[]string{"verify"}, cli.ExitUsage, "", "cxrun: schedule verify needs the file of a plan, or a collective and the name of a schedule; see 'cxrun schedule list'\n"},
		{[]string{"verify", "alltoall", "ring"}, cli.ExitUsage, "", "cxrun: … \"alltoall\": … all_gather, all_reduce or reduce_scatter"},
		{[]string{"verify", "all_reduce", "swing", "--ranks", "6"}, cli.ExitUsage, "", "cxrun: swing all_reduce: 6 ranks"},
		{[]string{"verify", "all_reduce", "ring", "--segments", "-1"}, cli.ExitUsage, "", "cxrun: ring all_reduce: segments -1"},
		{[]string{"verify", "all_gather", "ring", "--width", "4"}, cli.ExitUsage, "", "cxrun: width 4 … all_gather ring"},
		{[]string{"show", "all_reduce", "torus_2d", "--segments", "4"}, cli.ExitUsage, "", "cxrun: segments 4 … all_reduce torus_2d"},
		{[]string{"simulate", "all_reduce", "ring", "--width", "4"}, cli.ExitUsage, "", "cxrun: width 4 … all_reduce ring"},
		{[]string{"simulate", "ring.xml", "--width", "2"}, cli.ExitUsage, "", "cxrun: --width … ring.xml"},
		{[]string{"simulate", "all_reduce", "ring", "--topology", "torus", "--width", "3"}, cli.ExitUsage, "", "cxrun: --topology torus: 8 ranks … rows of 3"},
		{[]string{"simulate", "all_reduce", "ring", "--sharing", "even"}, cli.ExitUsage, "", "cxrun: sharing \"even\" … unloaded, fifo or fair"},
		{[]string{"simulate", "all_reduce", "ring", "--bandwidth", "1e-6"}, cli.ExitUsage, "", "cxrun: … bandwidth … latency"},
		{[]string{"simulate", "all_reduce", "ring", "--bandwidth", "0"}, cli.ExitUsage, "", "cxrun: --bandwidth 0: want a finite number above 0\n"},
		{[]string{"simulate", "all_reduce", "ring", "--bandwidth", "inf"}, cli.ExitUsage, "", "cxrun: --bandwidth +Inf: want a finite number above 0\n"},
		{[]string{"simulate", "all_reduce", "ring", "--reduce-bandwidth", "inf"}, cli.ExitUsage, "", "cxrun: --reduce-bandwidth +Inf: want a finite number of at least 0\n"},
		{[]string{"simulate", "all_reduce", "ring", "--latency", "1e300"}, cli.ExitUsage, "", "cxrun: --latency 1e+300: want a number from 0 to 1e12\n"},
		{[]string{"simulate", "all_reduce", "ring", "--engines", "-1"}, cli.ExitUsage, "", "cxrun: --engines -1: want a number of at least 0\n"},
		{[]string{"simulate", "all_reduce", "ring", "--bytes", "0"}, cli.ExitUsage, "", "cxrun: --bytes 0: want a size above 0\n"},
		{[]string{"simulate", "all_reduce", "ring", "--svg", "missing/x.svg"}, cli.ExitEnvironment, "", "cxrun: --svg: … missing/x.svg: … directory missing"},
	} {
		code, stdout, stderr := cxrun(t, nil, append([]string{"schedule"}, tt.args...)...)
		require.Equal(t, tt.code, code, "%v: %s", tt.args, stderr)
		require.Equal(t, tt.stdout, stdout, "%v", tt.args)
		wording.Has(t, stderr, tt.stderr)
		require.Equal(t, tt.stderr == "", stderr == "", stderr)
		require.LessOrEqual(t, strings.Count(stderr, "\n"), 1, stderr)
	}
}

// A measured model has no links for which messages could wait.
func TestPathOfMeasuredModel(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("model.yaml", []byte(`sharing: unloaded
pairs:
  - {src: 0, dst: 1, classes: [{points: [{bytes: 1024, ns: 1000}]}]}
  - {src: 1, dst: 0, classes: [{points: [{bytes: 1024, ns: 1000}]}]}
both:
  - {src: 0, dst: 1, classes: [{points: [{bytes: 1024, ns: 1600}]}]}
`), 0o600))
	stdout, _ := ran(t, cli.ExitOK, nil, "schedule", "simulate", "all_gather", "rotation", "--ranks", "2", "--bytes", "2K", "--model", "model.yaml")
	require.Contains(t, stdout, "\ncritical path of 1 op: bytes 1.000 µs, slowed down by other messages 0.600 µs\n")

	stdout, _ = ran(t, cli.ExitOK, nil, "schedule", "simulate", "all_gather", "direct", "--ranks", "4", "--topology", "ring", "--sharing", "fifo", "--engines", "0")
	require.Contains(t, stdout, ", wait for links ")
}

func TestScheduleDraws(t *testing.T) {
	t.Chdir(t.TempDir())
	for command, titles := range map[string][]string{
		"show":     {">ring all_reduce of 3 ranks<", ">each chunk takes one unit of time<"},
		"simulate": {">simulated: ring all_reduce of 1048576 bytes, 3 ranks … 31.962 µs<", ">model: … latency_ns 1000, ns_per_byte 0.02<"},
	} {
		ran(t, cli.ExitOK, nil, "schedule", command, "all_reduce", "ring", "--ranks", "3", "--svg", "ring.svg")
		drawing := readFile(t, "ring.svg")
		require.Equal(t, 24, strings.Count(string(drawing), ">op "), command)
		for _, title := range titles {
			wording.Has(t, string(drawing), title)
		}
	}
}

func TestScheduleInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{
		{"schedule", "verify", "all_reduce", "ring"},
		{"schedule", "simulate", "all_reduce", "ring"},
		{"study", "../../../studies/all-reduce.yaml", "-o", t.TempDir()},
		{"study", "../../../studies/overlap.yaml", "-o", t.TempDir()},
	} {
		var out, errs strings.Builder
		s := cli.Streams{Out: &out, Err: &errs, Getenv: func(string) string { return "" }}
		require.Equal(t, cli.ExitFailed, Main(ctx, s, args))
		require.Equal(t, "cxrun: interrupted\n", errs.String(), "%v", args)
		if args[0] == "schedule" {
			require.Empty(t, out.String())
		}
	}
}
