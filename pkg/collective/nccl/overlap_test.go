package nccl

import (
	"testing"

	"github.com/collectivex/collectivex/pkg/schedule"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	collective "github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/overlap/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// overlapped runs a case with its ranks in this process.
func overlapped(t *testing.T, kind nccl.Kind, faults string, c plan.Case) *overlap.Document {
	t.Helper()
	parsed, err := rank.ParseFaults(faults, runner.FaultKinds()...)
	require.NoError(t, err)
	return eptest.Assembled(t, c, eptest.RunGroup(t, OpenOverlap(kind), parsed, c)[0], runner.Assemble).(*overlap.Document)
}

// Each form computes by our kernel or the library of the vendor, and communicates over the library on two streams that one
// gate holds, in all element types; kernels compare every element.
func TestOverlap(t *testing.T) {
	need.Full(t)
	setUp(t)
	for _, tt := range []struct {
		kind    nccl.Kind
		world   int
		library string
	}{{nccl.NCCL, 2, overlap.ComputeCUBLASLt}, {nccl.RCCL, 3, overlap.ComputeHIPBLASLt}} {
		for _, form := range overlap.Forms() {
			for dtype, compute := range map[string]string{"bfloat16": overlap.ComputeKernel, "float": tt.library, "half": overlap.ComputeAuto} {
				t.Run(string(tt.kind)+"/"+form+"/"+dtype, func(t *testing.T) {
					c := plantest.Overlap(string(tt.kind), form, tt.world, func(c *plan.Case) {
						c.Precision, overlap.Of(c).Hidden, overlap.Of(c).Compute = dtype, 48, compute
						overlap.Of(c).Sizes = []int64{int64(tt.world) * 48 * 8}
					})
					d := overlapped(t, tt.kind, "", c)
					require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
					require.Equal(t, "device", d.Measurement.CheckedBy)
					if compute == overlap.ComputeAuto {
						compute = tt.library
					}
					require.Equal(t, compute, d.Measurement.Compute)
					require.False(t, d.Measurement.SharedProcessor)
					if form == overlap.LinearRotation {
						require.Equal(t, nccl.GroupedSendRecv, d.Measurement.CommunicationPath)
					}
					for _, r := range d.Measurement.Rows {
						require.True(t, r.Verify.Passed, r.Verify.Detail)
						require.GreaterOrEqual(t, r.Together.Min, max(r.ComputeInside.Min, r.CommunicationInside.Min))
					}
				})
			}
		}
	}
}

// What multiplies is asked for or, with auto, is the library if it is here and else the kernel.
// The comparison key is of what it was: that of a case that asks for it.
func TestWhatMultiplies(t *testing.T) {
	setUp(t)
	run := func(compute string) *overlap.Document {
		return overlapped(t, nccl.NCCL, "", plantest.Overlap("nccl", overlap.Beside, 2, func(c *plan.Case) {
			overlap.Of(c).Hidden, overlap.Of(c).Sizes, overlap.Of(c).Compute = 16, []int64{1024}, compute
		}))
	}
	byKernel, byLibrary, byAuto := run(overlap.ComputeKernel), run(overlap.ComputeCUBLASLt), run(overlap.ComputeAuto)
	require.Equal(t, overlap.ComputeCUBLASLt, byAuto.Measurement.Compute)
	require.Equal(t, byLibrary.ComparisonKey, byAuto.ComparisonKey)
	require.NotEqual(t, byKernel.ComparisonKey, byAuto.ComparisonKey)

	t.Setenv("CX_CUBLASLT_LIB", "/nowhere/libcublasLt.so.13")
	byAuto = run(overlap.ComputeAuto)
	require.Equal(t, result.Success, byAuto.Outcome.Status, "%v", byAuto.Outcome.Reasons)
	require.Equal(t, byKernel.ComparisonKey, byAuto.ComparisonKey)
	byLibrary = run(overlap.ComputeCUBLASLt)
	require.Equal(t, result.Failed, byLibrary.Outcome.Status)
	require.Equal(t, result.ReasonNoLibrary, byLibrary.Outcome.Code())
	require.Empty(t, byLibrary.Measurement.Rows)
}

// libraryLies is a library that computes one element wrongly.
const libraryLies = "library"

// libraryNarrows is a library that rounds factors to half of the bits that their type has.
const libraryNarrows = "bits"

// The steps of a schedule communicate beside products, in the place of the library's collective, and
// what they bring is checked like it.
func TestOverlapOfSchedules(t *testing.T) {
	setUp(t)
	for _, tt := range []struct{ op, algorithm, faults string }{
		{"all_gather", "rotation", ""}, {"all_reduce", "ring", ""}, {"all_gather", "rotation", "rank=1,kind=" + collective.FaultFlip},
	} {
		t.Run(tt.algorithm+tt.faults, func(t *testing.T) {
			c := plantest.Overlap("nccl", overlap.Beside, 2, func(c *plan.Case) {
				b := overlap.Of(c)
				b.Op, b.Algorithm, b.RedOp = tt.op, tt.algorithm, schedule.RedOp(tt.op)
				b.Hidden, b.Sizes = 16, []int64{1024, 4096}
			})
			require.Contains(t, c.CaseID, "-"+tt.algorithm+"-")
			d := overlapped(t, nccl.NCCL, tt.faults, c)
			require.Equal(t, nccl.GroupedSendRecv, d.Measurement.CommunicationPath)
			if tt.faults != "" {
				require.Equal(t, result.ReasonCheck, d.Outcome.Code())
				require.Positive(t, d.Measurement.Rows[0].Verify.WrongCommunicated)
				return
			}
			require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
			require.Len(t, d.Measurement.Rows, 2)
		})
	}
}

// Each fault is found by the check of the side that it strikes; so is a library that damages a
// message.
func TestOverlapFaults(t *testing.T) {
	need.Full(t)
	setUp(t)
	small := func(form string) plan.Case {
		return plantest.Overlap("nccl", form, 2, func(c *plan.Case) { overlap.Of(c).Hidden, overlap.Of(c).Sizes = 32, []int64{2048} })
	}
	for _, tt := range []struct {
		form, kind             string
		products, communicated bool
	}{
		{overlap.Beside, collective.FaultFlip, false, true},
		{overlap.Beside, runner.FaultProduct, true, false},
		{overlap.LinearRotation, collective.FaultFlip, false, true},
		{overlap.LinearRotation, collective.FaultStale, false, true},
		{overlap.LinearRotation, runner.FaultProduct, true, false},
		{overlap.LinearRotation, runner.FaultEarly, true, false},
		{overlap.LinearBroadcast, runner.FaultEarly, true, false},
		{overlap.LinearBroadcast, "", true, true},
		{overlap.Beside, libraryLies, true, false},
		{overlap.LinearRotation, libraryLies, true, false},
		{overlap.Beside, libraryNarrows, true, false},
		{overlap.LinearRotation, libraryNarrows, true, false},
		{overlap.LinearBroadcast, libraryNarrows, true, false},
	} {
		t.Run(tt.form+"/"+tt.kind, func(t *testing.T) {
			faults := "rank=1,kind=" + tt.kind
			switch tt.kind {
			case libraryLies:
				faults = ""
				t.Setenv("CX_FAKE_BLASLT_WRONG", "20") // behind the warm-up
			case libraryNarrows:
				faults = ""
				t.Setenv("CX_FAKE_BLASLT_BITS", "4")
			case "":
				faults = ""
				t.Setenv("CX_FAKE_NCCL_FLIP", "1:17") // the first iteration of together
			}
			d := overlapped(t, nccl.NCCL, faults, small(tt.form))
			require.Equal(t, result.Invalid, d.Outcome.Status)
			require.Equal(t, result.ReasonCheck, d.Outcome.Code())
			for _, r := range d.Measurement.Rows {
				require.Equal(t, tt.products, r.Verify.WrongProducts > 0, r.Verify.Detail)
				require.Equal(t, tt.communicated, r.Verify.WrongCommunicated > 0, r.Verify.Detail)
			}
		})
	}
}

// Copies of the driver from and to the host run beside a collective, and one that the driver leaves out is found.
func TestCopiesBesideACollective(t *testing.T) {
	setUp(t)
	for compute, call := range map[string]string{overlap.CopyIn: "cuMemcpyHtoDAsync_v2", overlap.CopyOut: "cuMemcpyDtoHAsync_v2"} {
		t.Run(compute, func(t *testing.T) {
			c := plantest.Overlap("nccl", overlap.Beside, 2, func(c *plan.Case) {
				overlap.Of(c).Hidden, overlap.Of(c).Sizes, overlap.Of(c).Compute = 32, []int64{2048}, compute
			})
			d := overlapped(t, nccl.NCCL, "", c)
			require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
			require.Equal(t, compute, d.Measurement.Compute)
			require.Positive(t, d.Measurement.Rows[0].Verify.Products)
			d = overlapped(t, nccl.NCCL, "rank=1,kind="+runner.FaultProduct, c)
			require.Equal(t, result.ReasonCheck, d.Outcome.Code())
			t.Setenv("CX_FAKE_FAIL", call+"=719")
			d = overlapped(t, nccl.NCCL, "", c)
			require.Equal(t, result.ReasonDevice, d.Outcome.Code())
		})
	}
}

// On devices whose clocks stay capped, every iteration is repeated in vain, counts and is checked.
func TestCappedIterationsAreRepeated(t *testing.T) {
	setUp(t)
	c := plantest.Overlap("nccl", overlap.Beside, 2, func(c *plan.Case) {
		overlap.Of(c).Hidden, overlap.Of(c).Sizes, overlap.Of(c).Compute = 16, []int64{1024}, overlap.ComputeKernel
	})
	alone := overlapped(t, nccl.NCCL, "", c).Measurement.Rows[0]
	t.Setenv("CX_FAKE_REASONS", "64")
	d := overlapped(t, nccl.NCCL, "", c)
	require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
	row := d.Measurement.Rows[0]
	require.Equal(t, alone.Together.N, row.Together.N)
	require.Equal(t, (1+result.MaxRepeats)*alone.Verify.Checks, row.Verify.Checks)
}
