package host

import (
	"testing"

	"github.com/collectivex/collectivex/pkg/schedule"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/plantest"
	collective "github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/overlap/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// overlapped runs a case with its ranks in this process.
func overlapped(t *testing.T, faults string, c plan.Case) *overlap.Document {
	t.Helper()
	parsed, err := rank.ParseFaults(faults, runner.FaultKinds()...)
	require.NoError(t, err)
	return eptest.Assembled(t, c, eptest.RunGroup(t, OpenOverlap, parsed, c)[0], runner.Assemble).(*overlap.Document)
}

// Each form computes and brings every element in each window that was timed, with 2 and 4
// ranks, and all collectives of form beside do.
func TestOverlap(t *testing.T) {
	for _, world := range []int{2, 4} {
		for _, form := range overlap.Forms() {
			ops := []string{"all_gather"}
			if form == overlap.Beside {
				ops = []string{"all_gather", "all_reduce", "reduce_scatter", "alltoall"}
			}
			for _, op := range ops {
				t.Run(form+"/"+op, func(t *testing.T) {
					c := plantest.Overlap("host", form, world, func(c *plan.Case) {
						overlap.Of(c).Op, overlap.Of(c).RedOp = op, ""
						if vocab.Op(op).Reduces {
							overlap.Of(c).RedOp = "sum"
						}
					})
					d := overlapped(t, "", c)
					require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
					require.Len(t, d.Measurement.Rows, 2)
					if form == overlap.LinearRotation {
						require.Equal(t, world*(world-1), d.Measurement.Program.Messages)
					} else {
						require.Nil(t, d.Measurement.Program, "the library communicates")
					}
					for _, r := range d.Measurement.Rows {
						t.Logf("%+v", r)
						windows := world * overlap.Of(&c).Timing.Iterations
						computing, communicating := 3, 3
						if form != overlap.Beside {
							computing, communicating = 4, 4
						}
						products := r.ProductM * r.ProductN
						if form == overlap.Beside {
							products *= int64(r.Products)
						}
						require.Equal(t, windows*(computing+communicating), r.Verify.Checks)
						require.Equal(t, int64(windows*computing)*products, r.Verify.Products)
						require.LessOrEqual(t, r.CommunicationCoverage, 1.0)
						require.GreaterOrEqual(t, r.Together.Min, max(r.ComputeInside.Min, r.CommunicationInside.Min), "the longer side")
						require.NotNil(t, d.EntrySkew)
					}
				})
			}
		}
	}
}

// The steps of a schedule communicate beside products, on a host as well.
func TestOverlapOfSchedules(t *testing.T) {
	for _, tt := range []struct{ op, algorithm string }{{"all_gather", "rotation"}, {"all_reduce", "ring"}, {"all_reduce", "torus_2d"}} {
		t.Run(tt.algorithm, func(t *testing.T) {
			c := plantest.Overlap("host", overlap.Beside, 4, func(c *plan.Case) {
				b := overlap.Of(c)
				b.Op, b.Algorithm, b.Width, b.RedOp = tt.op, tt.algorithm, 2, schedule.RedOp(tt.op)
			})
			d := overlapped(t, "", c)
			require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
			require.Len(t, d.Measurement.Rows, 2)
			require.Equal(t, "shared-memory-steps", d.Measurement.CommunicationPath)
			require.Positive(t, d.Measurement.Program.Messages)
			d = overlapped(t, "rank=2,kind="+collective.FaultStale, c)
			require.Equal(t, result.ReasonCheck, d.Outcome.Code())
		})
	}
}

// Each fault is found by the check of the side that it strikes, in the windows that were timed.
// A computation that does not wait for the communication computes with what is not there.
func TestOverlapFaults(t *testing.T) {
	for _, form := range overlap.Forms() {
		for _, tt := range []struct {
			kind                   string
			products, communicated bool
		}{
			{collective.FaultFlip, false, true},
			{collective.FaultStale, false, true},
			{runner.FaultProduct, true, false},
			{runner.FaultEarly, true, false},
		} {
			t.Run(form+"/"+tt.kind, func(t *testing.T) {
				d := overlapped(t, "rank=1,kind="+tt.kind, plantest.Overlap("host", form, 2))
				if form == overlap.Beside && tt.kind == runner.FaultEarly {
					require.Equal(t, result.Failed, d.Outcome.Status)
					require.Equal(t, result.ReasonRefused, d.Outcome.Code())
					return
				}
				require.Equal(t, result.Invalid, d.Outcome.Status)
				require.Equal(t, result.ReasonCheck, d.Outcome.Code())
				for _, r := range d.Measurement.Rows {
					require.False(t, r.Verify.Passed)
					require.Equal(t, tt.products, r.Verify.WrongProducts > 0, r.Verify.Detail)
					require.Equal(t, tt.communicated, r.Verify.WrongCommunicated > 0, r.Verify.Detail)
					require.Contains(t, r.Verify.Detail, "of rank 1")
				}
			})
		}
	}
}
