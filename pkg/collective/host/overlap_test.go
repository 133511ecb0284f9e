package host

import (
	"context"
	"slices"
	"testing"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/gemm"
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
	return assembled(t, OpenOverlap, parsed, c)
}

func assembled(t *testing.T, open rank.Opener, faults []rank.Fault, c plan.Case) *overlap.Document {
	t.Helper()
	return eptest.Assembled(t, c, eptest.RunGroup(t, open, faults, c)[0], runner.Assemble).(*overlap.Document)
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

// Copies from and to the host run beside a collective in the place of products. Every element that they leave is compared,
// and a flipped bit is found.
func TestCopiesBesideACollective(t *testing.T) {
	for _, compute := range []string{overlap.CopyIn, overlap.CopyOut} {
		t.Run(compute, func(t *testing.T) {
			c := plantest.Overlap("host", overlap.Beside, 2, func(c *plan.Case) { overlap.Of(c).Compute = compute })
			d := overlapped(t, "", c)
			require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
			require.Equal(t, compute, d.Measurement.Compute)
			require.Len(t, d.Measurement.Rows, 2)
			for _, r := range d.Measurement.Rows {
				windows := 2 * overlap.Of(&c).Timing.Iterations
				require.Equal(t, int64(3*windows*r.Products)*r.ProductM*r.ProductN, r.Verify.Products)
				require.Positive(t, r.Verify.Communicated)
			}
			for kind, of := range map[string]string{runner.FaultProduct: "elements of products of rank 1", collective.FaultFlip: "communicated elements of rank 1"} {
				d = overlapped(t, "rank=1,kind="+kind, c)
				require.Equal(t, result.ReasonCheck, d.Outcome.Code())
				require.Contains(t, d.Measurement.Rows[0].Verify.Detail, of)
			}
		})
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

// narrow is an engine that rounds factors to fewer bits of mantissa than a float has, in all products
// of a case but the first ones.
type narrow struct {
	gemm.Loop
	bits, right int
}

func (n narrow) Prepare(p gemm.Product) (gemm.Multiply, error) {
	times := 0
	return func(s accel.Stream) error {
		from := p
		if times++; times > n.right {
			from.A, from.B = n.rounded(p.A, p.M*p.K), n.rounded(p.B, p.N*p.K)
		}
		multiply, err := n.Loop.Prepare(from)
		if err != nil {
			return err
		}
		return multiply(s)
	}, nil
}

// rounded returns a copy of elements whose mantissa is cut.
func (n narrow) rounded(at accel.Ptr, elements int64) accel.Ptr {
	words := slices.Clone(unsafe.Slice((*uint32)(at.Pointer()), elements))
	for i := range words {
		words[i] = words[i] >> (24 - n.bits) << (24 - n.bits)
	}
	return accel.Ptr(uintptr(unsafe.Pointer(&words[0])))
}

// An engine that multiplies in TF32, bfloat16, FP8 or two bits is found for float, in every form, also
// if only its last products are.
func TestProductsInFewerBitsAreFound(t *testing.T) {
	const tf32, bf16, fp8, two = 11, 8, 4, 2
	for _, form := range overlap.Forms() {
		for _, bits := range []int{24, 23, tf32, bf16, fp8, two} {
			for _, right := range []int{0, 10} {
				c := plantest.Overlap("host", form, 2)
				d := assembled(t, func(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
					return openOverlap(ctx, s, c, narrow{bits: bits, right: right})
				}, nil, c)
				if bits == 24 {
					require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
					continue
				}
				require.Equal(t, result.ReasonCheck, d.Outcome.Code(), "%s in %d bits, after %d right ones", form, bits, right)
				for _, r := range d.Measurement.Rows {
					require.Positive(t, r.Verify.WrongProducts)
				}
			}
		}
	}
}
