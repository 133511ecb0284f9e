package copies_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
)

// Each refusal of a copy has its text here. The tests of cxrun bench
// assert exit codes and names.
func TestDirectRefusesCopies(t *testing.T) {
	cat := plantest.Shipped()
	for _, tt := range []struct {
		backend, test, memory string
		change                func(*copies.Block)
		want                  string
	}{
		{
			"host", "host_to_device_bidirectional_memcpy_ce", copies.Pageable, nil,
			"host_to_device_bidirectional_memcpy_ce needs page-locked memory: a call may wait for its copy of pageable memory, the only kind of a host, so that two directions would take turns",
		},
		{"host", "host_to_device_memcpy_ce", copies.Pinned, nil, "backend host has no pinned host memory, only pageable"},
		{"host", "device_local_copy", "", func(b *copies.Block) { b.Submission = copies.Batch }, "backend host has no submission batch, only loop"},
		{"host", "device_local_copy", "", func(b *copies.Block) { b.Streams = []int{1, 2} }, "backend host copies on at most 1 stream"},
		{"host", "device_local_copy", "", func(b *copies.Block) { b.Victim = true }, "backend host has no victim: no kernel computes beside its copies"},
		{
			"ce", "host_to_device_bidirectional_memcpy_ce", copies.Pinned, func(b *copies.Block) { b.Victim = true },
			"host_to_device_bidirectional_memcpy_ce copies in both directions: a victim runs beside copies in one direction",
		},
		{
			"ce", "device_to_host_memcpy_ce", copies.Pageable, func(b *copies.Block) { b.Victim = true },
			"copies beside a victim need page-locked memory: a call with pageable memory waits for its copy",
		},
		{"ce", "swap_blocks_d2d", "", func(b *copies.Block) { b.Victim = true }, "swap_blocks_d2d has no victim: its swaps are timed one by one"},
		{"ce", "swap_blocks_d2d", "", func(b *copies.Block) { b.Streams = []int{2} }, "swap_blocks_d2d copies on 1 stream"},
		{"ce", "swap_blocks_d2d", "", func(b *copies.Block) { b.Sizes, b.BlockBytes, b.NumBlocks, b.MaxPayload = nil, []int64{8}, []int{2}, 8 }, "each point of swap_blocks_d2d exceeds the largest payload, 8 bytes"},
		{"host", "swap_blocks_h2d", copies.Pinned, nil, "backend host has no pinned host memory, only pageable"},
		{
			"sm", "host_device_latency_sm", copies.Pinned, func(b *copies.Block) { b.Sizes = []int64{4096, 4 << 20} },
			"host_device_latency_sm of 4194304 bytes: want a power of two from 256 to 2097152",
		},
		{
			"sm", "host_device_latency_sm", copies.Pinned, func(b *copies.Block) { b.Streams = []int{2} },
			"host_device_latency_sm has one stream, no pages and no victim: one thread reads",
		},
		{"ce", "all_to_one_write_ce", "", func(b *copies.Block) { b.Each = true }, "all_to_one_write_ce does not run on each device in turn"},
		{"ce", "all_to_one_write_ce", "", nil, "all_to_one_write_ce on each device or pair needs 2 to 128 ranks, not 1"},
		{"ce", "device_to_device_memcpy_read_ce", "", nil, "device_to_device_memcpy_read_ce has 2 ranks, not 1"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			b := copies.New(tt.test, tt.memory, catalog.SamplingOf[copies.Sampling](cat.SamplingProfile("smoke")))
			b.Submission, b.Sizes, b.Streams = copies.Loop, []int64{4096}, []int{1}
			if tt.change != nil {
				tt.change(b)
			}
			cannot(t, tt.backend, 1, plan.Case{Family: copies.Name, Sampling: "smoke", Contract: copies.Contract, Block: b}, tt.want)
		})
	}
}

// The three profiles of suite swap-blocks have the grids of CollectiveX's swap-blocks: directions by layouts, and here by
// submissions, of as many points and samples. Points above the largest payload are excluded.
func TestProfilesOfSwaps(t *testing.T) {
	cat := plantest.Shipped()
	planned := func(only planner.Only) (all []plan.Case) {
		only["suite"] = []string{"swap-blocks"}
		only["sku"] = []string{"h100-dgxc"}
		for q := range plantest.Resolve(cat, planner.Filters{Only: only}).Requested() {
			require.Equal(t, plan.Runnable, q.Disposition)
			all = append(all, q.Case)
		}
		return all
	}
	require.Len(t, planned(planner.Only{}), 3*3*2*2)
	for profile, want := range map[string]struct {
		rows, excluded int
		timing         plan.Repetitions
	}{
		"smoke":        {28, 0, plan.Repetitions{Warmup: 4, Reps: 20, Trials: 1}},
		"standard":     {21, 0, plan.Repetitions{Warmup: 32, Reps: 100, Trials: 1}},
		"large-blocks": {49, 21, plan.Repetitions{Warmup: 4, Reps: 20, Trials: 1}},
	} {
		all := planned(planner.Only{"swap-profile": {profile}})
		require.Len(t, all, 3*2*2)
		for _, c := range all {
			b := copies.Of(&c)
			require.Equal(t, want.timing, b.Timing)
			require.Len(t, b.Rows(1), want.rows)
			require.Len(t, copies.ExcludedOf(b), want.excluded)
			require.Equal(t, copies.SwapContract, c.Contract)
			require.Regexp(t, `^h100-dgxc-ce-swap-blocks-(h2d-pinned|d2h-pinned|d2d)-(loop|batch)-(contiguous|random)-`+profile+`$`, c.CaseID)
		}
	}
	require.Empty(t, copies.ExcludedOf(copies.Of(&planned(planner.Only{"swap-profile": {"smoke"}})[0])))
}

// Swaps of two profiles are on lines of their own.
func TestLinesOfProfiles(t *testing.T) {
	lines := map[string]string{}
	for _, profile := range copies.Profiles() {
		d := resulttest.Copy(plantest.Copy("ce", "swap_blocks_h2d", func(c *plan.Case) { copies.Of(c).Profile = profile }), resulttest.Attempt())
		line := copies.Family.Figures(d)[0].Lines[0]
		view := copies.Family.Views[slices.IndexFunc(copies.Family.Views, func(v figure.View) bool { return v.Name == line.View })]
		require.Len(t, line.Facets, len(view.Facets))
		facets := strings.Join(line.Facets, " ")
		require.NotContains(t, lines, facets)
		lines[facets] = profile
	}
}

// A suite has either sizes or a grid, as its tests need.
func TestSuitesOfSwaps(t *testing.T) {
	for change, want := range map[[2]string]string{
		{"    swap:\n", "    sizes: {from: 8, to: 64, factor: 8}\n    swap:\n"}: `swaps of blocks have "swap" in the place of "sizes" and "page_bytes", and no victim`,
		{"swap_blocks_d2d]", "device_local_copy]"}:                              `a block with "swap" has swaps of blocks alone; move the other tests to another block`,
		{"num_blocks: [1, 4,", "num_blocks: [4, 1,"}:                            "the numbers must ascend",
		{"block_bytes: [257, 4KiB,", "block_bytes: [4KiB, 257,"}:                "the numbers must ascend",
	} {
		require.ErrorContains(t, changed("swap-blocks", change), want)
	}
	require.ErrorContains(t, changed("copy-core", [2]string{"    sizes: {from: 32KiB, to: 512MiB, factor: 4}\n    streams: [1, 2, 4]\n  - backends: [ce]\n    tests: [host", "    streams: [1]\n  - backends: [ce]\n    tests: [host"}), `copies need the key "sizes"`)
	require.ErrorContains(t, changed("copy-core", [2]string{"      - device_local_copy\n", "      - swap_blocks_d2d\n"}), `swaps of blocks need the key "swap"`)
}

// changed returns the error of the shipped definitions with a change of a suite.
func changed(suite string, change [2]string) error {
	files := plantest.Definitions()
	file := files["suites/"+suite+".yaml"]
	text := strings.Replace(string(file.Data), change[0], change[1], 1)
	if text == string(file.Data) {
		return nil
	}
	file.Data = []byte(text)
	_, err := catalog.Load(files)
	return err
}

// cannot plans a case that a backend does not have.
func cannot(t *testing.T, backend string, world int, c plan.Case, want string) {
	t.Helper()
	machine := planner.Machine{CPU: "amd64", GPUs: &planner.GPUs{Vendor: "nvidia", Product: "h200", Arch: "sm90", Transport: "nvlink", Count: 2, Backends: []string{"ce", "sm"}}}
	_, err := planner.Direct{Suite: "bench", Backend: backend, World: world, Repeats: 1, Cases: []plan.Case{c}}.Resolve(plantest.Shipped(), machine)
	require.ErrorIs(t, err, planner.ErrCannot)
	require.ErrorContains(t, err, want)
}

// TestSwapEstimates: the six cases of cxrun bench copy swap_blocks_h2d swap_blocks_d2h swap_blocks_d2d took 55 s on an
// H100, and with --submit batch less, when one swap of a row was compared in full. The nine others that are compared since
// then take about 32 s, for painting and comparing 1.2 GB in each case.
func TestSwapEstimates(t *testing.T) {
	seconds := func(submission string) (sum float64) {
		for _, test := range []string{"swap_blocks_h2d", "swap_blocks_d2h", "swap_blocks_d2d"} {
			c := plantest.Copy("ce", test, func(c *plan.Case) {
				b := copies.Of(c)
				c.SKU, b.Submission, b.Timing = "h100-dgxc", submission, plan.Repetitions{Warmup: 32, Reps: 100, Trials: 1}
				b.BlockBytes, b.NumBlocks, b.MaxPayload = []int64{257, 4 << 10, 64 << 10, 256 << 10}, []int{1, 4, 16, 64, 256, 1024, 2048}, 2<<30
			})
			sum += 2 * planner.Estimate(plantest.Shipped(), &c).Seconds() // layouts
		}
		return sum
	}
	loop, batch := seconds(copies.Loop), seconds(copies.Batch)
	t.Logf("loop %.0f s, batch %.0f s", loop, batch)
	require.InDelta(t, 2.5*(55+32), loop, 0.5*(55+32))
	require.Less(t, batch, 0.9*loop)
}

// TestVictimEstimates: beside a victim that they slow down four times, copies take eight times as long as
// alone to outlast it in each window, after windows in which their number has doubled. Beside twice the
// victim's work they take as long as it.
func TestVictimEstimates(t *testing.T) {
	cat := plantest.Shipped()
	count := func(change func(*copies.Block)) float64 { // as many as the estimate has
		seconds := func(change func(*copies.Block)) float64 {
			c := plantest.Copy("ce", "device_local_copy", func(c *plan.Case) {
				b := copies.Of(c)
				c.SKU, b.Sizes = "h200-dgxc", b.Sizes[1:]
				change(b)
			})
			return planner.Estimate(cat, &c).Seconds()
		}
		none := seconds(func(*copies.Block) {})
		one := seconds(func(b *copies.Block) { b.Timing.Warmup++ }) - none
		return (seconds(change) - none) / one
	}
	n, trials := 0.0, 0.0
	got := count(func(b *copies.Block) {
		b.Victim = true
		n, trials = float64(b.Timing.Reps), float64(b.Timing.Trials)
	})
	require.InDelta(t, n*(trials*(1+8+2)+2+4+8), got, 1e-3*got)
}
