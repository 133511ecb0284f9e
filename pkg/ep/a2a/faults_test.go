package a2a

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// brief is a case of one small rung with few samples.
func brief(world int, mode, precision string) plan.Case {
	return eptest.Case(world, func(c *plan.Case) {
		c.Backend, c.Precision = "a2a", precision
		b := ep.Of(c)
		b.Mode, b.TopK, b.Experts, b.Ladder = mode, world, 2*world, plan.Ladder{2}
		b.Timing = ep.Timing{
			ItersPerTrial: 1, TrialsPerPoint: 1, WarmupItersPerTrial: 2,
			ChainItersPerTrial: 3, ChainTrialsPerPoint: 1, ChainDrop: 1,
		}
	})
}

// Every fault in what is sent or summed is found on device buffers by its check, in both
// modes and precisions: from the second operation after a bind on, when the buffers still
// hold what the first one left.
func TestFaults(t *testing.T) {
	need.Full(t)
	setUp(t)
	var cases []plan.Case
	for _, mode := range []string{ep.ModeNormal, ep.ModeLowLatency} {
		for _, precision := range []string{"bf16", "fp8"} {
			cases = append(cases, brief(2, mode, precision))
		}
	}
	for _, f := range []struct {
		kind, at   string
		all        bool // ranks
		when       string
		check      string
		lowLatency string // check in low-latency mode, where it is another
	}{
		{kind: runner.FaultFlipBit, at: "start", when: "before", check: runner.CheckPayload},
		{kind: runner.FaultSwapTokens, at: "dispatch-2", when: "post-dispatch-changed", check: runner.CheckMetadata, lowLatency: runner.CheckSourceSet},
		{kind: runner.FaultDropToken, at: "start", when: "before", check: runner.CheckSourceSet},
		{kind: runner.FaultDoubleToken, at: "dispatch-2", when: "post-dispatch-changed", check: runner.CheckSourceSet},
		{kind: runner.FaultWrongWeight, at: "dispatch-2", when: "post-dispatch-changed", check: runner.CheckWeights, lowLatency: runner.CheckCombine},
		{kind: runner.FaultWrongExpert, at: "start", when: "before", check: runner.CheckCounts},
		{kind: runner.FaultZeroPayload, at: "dispatch-2", when: "post-dispatch-changed", check: runner.CheckSource},
		{kind: runner.FaultNoSend, at: "dispatch-2", when: "post-dispatch-changed", check: runner.CheckPayload},
		{kind: runner.FaultNoWeights, at: "dispatch-2", when: "post-dispatch-changed", check: runner.CheckWeights, lowLatency: runner.CheckCombine},
		{kind: runner.FaultWriteInput, at: "dispatch-2", when: "post-dispatch-changed", check: runner.CheckInputs},
		{kind: runner.FaultNoDispatch, at: "dispatch-2", all: true, when: "post-dispatch-changed", check: runner.CheckPayload},
		{kind: runner.FaultOnes, at: "combine-2", when: "post-combine-changed", check: runner.CheckCombine},
		{kind: runner.FaultStale, at: "combine-2", when: "post-combine-changed", check: runner.CheckCombine},
		{kind: runner.FaultNoCombine, at: "combine-2", all: true, when: "post-combine-changed", check: runner.CheckCombine},
		{kind: runner.FaultNoDispatch, at: "dispatch-every-3", all: true, when: "alternating-dispatch", check: runner.CheckPayload},
		{kind: runner.FaultNoCombine, at: "combine-every-3", all: true, when: "alternating-combine", check: runner.CheckCombine},
	} {
		t.Run(f.kind+" "+f.at, func(t *testing.T) {
			fault := fmt.Sprintf("rank=1,kind=%s,at=%s", f.kind, f.at)
			if f.all {
				fault += ";" + strings.Replace(fault, "rank=1", "rank=0", 1)
			}
			for i, streams := range eptest.Run(t, Open, fault, slices.Clone(cases)...) {
				c := cases[i]
				d := eptest.Document(t, c, streams)
				require.Equal(t, result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonSemantics}}}, d.Outcome, c.CaseID)
				check := f.check
				if ep.Of(&c).Mode == ep.ModeLowLatency && f.lowLatency != "" {
					check = f.lowLatency
				}
				reasons := strings.ReplaceAll(d.Measurement.Rows[0].Correctness.Reasons.String(), "; ", "\n")
				require.Regexp(t, `(?m)^check-failed: `+regexp.QuoteMeta(f.when)+" "+check+` (rank [01]|all ranks)$`, reasons, c.CaseID)
			}
		})
	}
}

// spoilt opens the backend with kernels in which a text is replaced.
func spoilt(t *testing.T, from, to string) rank.Opener {
	source := allKernels()
	require.Equal(t, 1, strings.Count(source, from), from)
	return func(ctx context.Context, s *rank.Session, _ plan.Case) (rank.Runner, error) {
		return open(ctx, s, strings.Replace(source, from, to, 1))
	}
}

// A combine whose kernels add in another type or order than declared is reported, and
// changes no outcome.
func TestAnotherArithmeticIsReported(t *testing.T) {
	need.Full(t)
	setUp(t)
	for _, f := range []struct{ name, mode, from, to string }{
		{"bf16 sum", ep.ModeNormal, "inside[j] += cx_lane(v, j)", "inside[j] = cx_from_bf16(cx_to_bf16(inside[j] + cx_lane(v, j)))"},
		{"reversed sum", ep.ModeNormal, "if (from[r]) {\n\t\t\t\t\tcx_vec v = from[r][i];", "if (from[c.world - 1 - r]) {\n\t\t\t\t\tcx_vec v = from[c.world - 1 - r][i];"},
		{"truncated sum", ep.ModeNormal, "cx_from_bf16(cx_to_bf16(inside[j]))", "cx_from_bf16((cx_u16)(cx_bits(inside[j]) >> 16))"},
		{"bf16 sum", ep.ModeLowLatency, "sum[j] += weights[k] * cx_lane(v, j)", "sum[j] = cx_from_bf16(cx_to_bf16(sum[j] + weights[k] * cx_lane(v, j)))"},
		{"bf16 product", ep.ModeLowLatency, "sum[j] += weights[k] * cx_lane(v, j)", "sum[j] += cx_from_bf16(cx_to_bf16(weights[k] * cx_lane(v, j)))"},
		{
			"truncated sum", ep.ModeLowLatency, "\t\t\tout[(cx_i64)t * vectors + i] = cx_round(sum);",
			"\t\t\tfor (int j = 0; j < 8; j++)\n\t\t\t\tsum[j] = cx_float(cx_bits(sum[j]) & 0xffff0000u);\n\t\t\tout[(cx_i64)t * vectors + i] = cx_round(sum);",
		},
	} {
		t.Run(f.name+" "+f.mode, func(t *testing.T) {
			c := brief(3, f.mode, "bf16")
			ep.Of(&c).TopK = 5 // of 6: every token goes to every rank
			c.CaseID = c.ID()
			d := eptest.Document(t, c, eptest.Run(t, spoilt(t, f.from, f.to), "", c)[0])
			require.Equal(t, result.Success, d.Outcome.Status, d.Outcome.Reasons)
			row := d.Measurement.Rows[0]
			require.False(t, row.Arithmetic.Passed)
			require.Greater(t, *row.Arithmetic.MaxError, *row.Arithmetic.Bound)
			require.Equal(t, "check-failed: arithmetic all ranks", row.Arithmetic.Reasons.String())
		})
	}
}

// A combine whose kernel rounds otherwise now and then is found, and fails no case.
func TestUnrepeatable(t *testing.T) {
	setUp(t)
	c := brief(3, ep.ModeLowLatency, "bf16")
	ep.Of(&c).TopK, ep.Of(&c).Repeatable = 5, 4
	c.CaseID = c.ID()
	const product = "weights[k] * cx_lane(v, j)"
	now := spoilt(t, "sum[j] += "+product, "{ static cx_u32 turns; sum[j] += turns++ % 7 ? "+product+" : cx_from_bf16(cx_to_bf16("+product+")); }")
	for _, open := range []rank.Opener{Open, now} {
		d := eptest.Document(t, c, eptest.Run(t, open, "", c)[0])
		require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
		v := d.Measurement.Rows[0].Repeatable
		require.EqualValues(t, d.Measurement.Rows[0].GlobalTokens*ep.Of(&c).Hidden, v.Compared)
		require.Equal(t, d.Measurement.Rows[0].Arithmetic.Passed, v.First == nil)
	}
}

// Scales that arrive at another block than theirs are found, at the latest with the other
// activations: those of the contract have the same scale in many blocks.
func TestScalesOfOtherBlocksAreFound(t *testing.T) {
	need.Full(t)
	setUp(t)
	for mode, at := range map[string]string{
		ep.ModeNormal:     "((float *)beside[k])[i / 16] = scale",
		ep.ModeLowLatency: "((float *)(row + c.value_bytes))[i / 16] = scale",
	} {
		t.Run(mode, func(t *testing.T) {
			c := brief(2, mode, "fp8")
			next := strings.Replace(at, "[i / 16]", "[(i / 16 + 1) % (c.hidden / 128)]", 1)
			d := eptest.Document(t, c, eptest.Run(t, spoilt(t, at, next), "", c)[0])
			require.Equal(t, result.Invalid, d.Outcome.Status)
			require.Regexp(t, `(^|; )check-failed: post-dispatch-changed (payload|source_decode) all ranks(;|$)`, d.Measurement.Rows[0].Correctness.Reasons.String())
		})
	}
}
