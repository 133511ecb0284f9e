package planner_test

import (
	"testing"

	"github.com/collectivex/collectivex/pkg/copies"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Each refusal of a copy, and of overlap, has its text here. The tests of cxrun bench
// assert exit codes and names.
func TestDirectRefusesCopies(t *testing.T) {
	cat := shipped(t)
	for _, tt := range []struct {
		backend, test, memory string
		change                func(*copies.Block)
		want                  string
	}{
		{
			"host", "host_to_device_bidirectional_memcpy_ce", copies.Pageable, nil,
			"host_to_device_bidirectional_memcpy_ce needs page-locked memory: a copy of pageable memory, the only kind of a host, may return when it is done, and two directions would take turns",
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
			b := copies.New(tt.test, tt.memory, copies.SamplingOf(cat.SamplingProfile("smoke")))
			b.Submission, b.Sizes, b.Streams = copies.Loop, []int64{4096}, []int{1}
			if tt.change != nil {
				tt.change(b)
			}
			cannot(t, tt.backend, 1, plan.Case{Family: copies.Name, Sampling: "smoke", Contract: copies.Contract, Block: b}, tt.want)
		})
	}
}

func TestDirectRefusesOverlap(t *testing.T) {
	cat := shipped(t)
	for _, tt := range []struct {
		op, dtype, compute, want string
		world                    int
	}{
		{"broadcast", "float", vocab.ComputeLoop, "backend host has no broadcast beside matrix products; it has all_reduce, all_gather, reduce_scatter, alltoall", 2},
		{"all_gather", "half", vocab.ComputeLoop, "backend host multiplies no matrices of half; it has float", 2},
		{"all_gather", "float", vocab.ComputeKernel, "backend host has no compute kernel; it has loop", 2},
		{"all_gather", "float", vocab.ComputeLoop, "one rank has nobody to communicate with: overlap needs at least 2", 1},
	} {
		t.Run(tt.want, func(t *testing.T) {
			b := planner.Overlap(vocab.Beside, tt.op, *cat.SamplingProfile("smoke").Overlap())
			b.Hidden, b.Compute, b.Sizes, b.Products, b.Collectives = 32, tt.compute, []int64{4096}, 1, 1
			cannot(t, "host", tt.world, plan.Case{Family: plan.FamilyOverlap, Precision: tt.dtype, Sampling: "smoke", Contract: vocab.ContractOverlap, World: tt.world, Block: b}, tt.want)
		})
	}
	c := plan.Case{Family: plan.FamilyOverlap, Precision: "float", World: 2, Block: &plan.Overlap{Form: vocab.LinearRotation, Hidden: 32, Sizes: []int64{1000}}}
	require.Equal(t, "1000 bytes do not divide into rows of 32 elements of float, as many for each of 2 ranks, and 4 × 32 columns among them",
		planner.OverlapRemainder(&c))
}

// cannot plans a case that a backend does not have.
func cannot(t *testing.T, backend string, world int, c plan.Case, want string) {
	t.Helper()
	machine := twoGPUs
	gpus := *machine.GPUs
	gpus.Backends = append(gpus.Backends, "ce")
	machine.GPUs = &gpus
	_, err := planner.Direct{Suite: "bench", Backend: backend, World: world, Repeats: 1, Cases: []plan.Case{c}}.Resolve(shipped(t), machine)
	require.ErrorIs(t, err, planner.ErrCannot)
	require.ErrorContains(t, err, want)
}
