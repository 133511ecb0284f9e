package overlap_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
)

// Each refusal has its text here. The tests of cxrun bench assert exit codes and names.
func TestRefusals(t *testing.T) {
	cat := plantest.Shipped()
	for _, tt := range []struct {
		op, dtype, compute, want string
		world                    int
	}{
		{"broadcast", "float", overlap.ComputeLoop, "backend host does not support broadcast beside matrix products: want all_reduce, all_gather, reduce_scatter, alltoall", 2},
		{"all_gather", "half", overlap.ComputeLoop, "backend host does not multiply matrices of half: want float", 2},
		{"all_gather", "float", overlap.ComputeKernel, "backend host does not support compute kernel: want loop, host-to-device, device-to-host", 2},
		{"all_gather", "float", overlap.ComputeLoop, "overlap requires at least 2 ranks, not 1", 1},
	} {
		t.Run(tt.want, func(t *testing.T) {
			b := overlap.New(overlap.Beside, tt.op, catalog.SamplingOf[overlap.Sampling](cat.SamplingProfile("smoke")))
			b.Hidden, b.Compute, b.Sizes, b.Products, b.Collectives = 32, tt.compute, []int64{4096}, 1, 1
			d := planner.Direct{Suite: "bench", Backend: "host", World: tt.world, Repeats: 1, Cases: []plan.Case{{Family: overlap.Name, Precision: tt.dtype, Sampling: "smoke", Contract: overlap.Contract, World: tt.world, Block: b}}}
			_, err := d.Resolve(cat, planner.Machine{})
			require.ErrorIs(t, err, planner.ErrCannot)
			require.ErrorContains(t, err, tt.want)
		})
	}
	b := overlap.New(overlap.LinearRotation, "all_gather", catalog.SamplingOf[overlap.Sampling](cat.SamplingProfile("smoke")))
	b.Compute, b.Hidden, b.Sizes = overlap.CopyOut, 32, []int64{4096}
	d := planner.Direct{Suite: "bench", Backend: "host", World: 2, Repeats: 1, Cases: []plan.Case{{Family: overlap.Name, Precision: "float", Sampling: "smoke", Contract: overlap.Contract, World: 2, Block: b}}}
	_, err := d.Resolve(cat, planner.Machine{})
	require.ErrorIs(t, err, planner.ErrCannot)
	require.ErrorContains(t, err, "a linear layer multiplies: device-to-host is for form beside")
	c := plan.Case{Family: overlap.Name, Precision: "float", World: 2, Block: &overlap.Block{Form: overlap.LinearRotation, Hidden: 32, Sizes: []int64{1000}}}
	require.Equal(t, "1000 bytes of float cannot be divided evenly among 2 ranks: the rows of 32 elements and the 4 × 32 columns must both be multiples of the ranks",
		overlap.Remainder(&c))
}
