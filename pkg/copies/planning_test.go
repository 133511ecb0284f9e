package copies_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/copies"
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

// cannot plans a case that a backend does not have.
func cannot(t *testing.T, backend string, world int, c plan.Case, want string) {
	t.Helper()
	machine := planner.Machine{CPU: "amd64", GPUs: &planner.GPUs{Vendor: "nvidia", Product: "h200", Arch: "sm90", Transport: "nvlink", Count: 2, Backends: []string{"ce"}}}
	_, err := planner.Direct{Suite: "bench", Backend: backend, World: world, Repeats: 1, Cases: []plan.Case{c}}.Resolve(plantest.Shipped(), machine)
	require.ErrorIs(t, err, planner.ErrCannot)
	require.ErrorContains(t, err, want)
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
