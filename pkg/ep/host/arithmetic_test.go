package host_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/host"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// The host backend adds as it declares, to the last bit.
func TestArithmeticAsDeclared(t *testing.T) {
	need.Full(t)
	for _, c := range []struct {
		name    string
		variant host.Variant
		change  []func(*plan.Case)
		sum     string
	}{
		{"domain", host.Variant{}, nil, "domain-fp32"},
		{"two domains", host.Variant{}, []func(*plan.Case){func(c *plan.Case) { c.ScaleUpDomain = 2 }}, "domain-fp32"},
		{"tree", host.Variant{Reduction: runner.TopKSlotTree}, nil, "topk-slot-tree"},
		{"weighted", host.Variant{}, []func(*plan.Case){lowLatency, fp8}, "weighted-kernel-sum"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, row := range run(t, c.variant, eptest.Case(4, append(c.change, ladder("1 8"))...)).Measurement.Rows {
				require.True(t, row.Arithmetic.Passed)
				require.Equal(t, c.sum, row.Arithmetic.Accumulation)
				require.LessOrEqual(t, *row.Arithmetic.MaxError, 0.5)
				require.EqualValues(t, row.GlobalTokens*256, row.Arithmetic.Checked)
			}
		})
	}
}

// A combine in another type or order passes the contract's gate and is reported.
func TestAnotherArithmeticIsReported(t *testing.T) {
	need.Full(t)
	each := [][]func(*plan.Case){nil, {lowLatency}}
	for kind, changes := range map[string][][]func(*plan.Case){
		runner.FaultBF16Sum:      append(each, []func(*plan.Case){cached, fp8}, []func(*plan.Case){lowLatency, cached, fp8}),
		runner.FaultReversedSum:  each,
		runner.FaultTruncatedSum: each,
	} {
		for _, change := range changes {
			c := eptest.Case(4, append(change, ladder("8"))...)
			t.Run(kind+" "+ep.Of(&c).Mode+" "+c.Precision+" "+c.Contract, func(t *testing.T) {
				d := eptest.Document(t, c, eptest.Run(t, host.Open(host.Variant{}), "rank=1,kind="+kind, c)[0])
				row := d.Measurement.Rows[0]
				// The contract's gate does not see it, except with some inputs in fp8.
				if c.Precision != "fp8" || d.Outcome.Status != result.Invalid {
					require.Equal(t, result.Success, d.Outcome.Status, "%v", row.Correctness)
					require.True(t, row.Correctness.Passed)
					require.Less(t, *row.Correctness.MaxRelativeError, 0.03125)
				}
				require.False(t, row.Arithmetic.Passed)
				require.Greater(t, *row.Arithmetic.MaxError, *row.Arithmetic.Bound)
				require.Equal(t, resulttest.Reasons("check-failed: arithmetic rank 1"), row.Arithmetic.Reasons)
			})
		}
	}
}

// A combine of one input that now and then adds otherwise is found, with its rank, token, element and bit. What
// the declared arithmetic allows is told apart, and neither fails the case. A combine that does nothing is found,
// too.
func TestUnrepeatableCombines(t *testing.T) {
	repeat := func(c *plan.Case) { ep.Of(c).Repeatable = 7 }
	yes, no := true, false
	for _, f := range []struct {
		kind     string
		change   func(*plan.Case)
		declared *bool
	}{
		{"", lowLatency, nil},
		{runner.FaultReversedSum, func(*plan.Case) {}, &no},
		{runner.FaultReversedSum, lowLatency, &no},
		{runner.FaultFusedSum, lowLatency, &yes},
		{runner.FaultNoCombine, func(*plan.Case) {}, &no},
	} {
		c := eptest.Case(4, ladder("8"), f.change, repeat)
		t.Run(f.kind+" "+ep.Of(&c).Mode, func(t *testing.T) {
			fault := ""
			switch f.kind {
			case "":
			case runner.FaultNoCombine: // of all ranks, since the others would wait
				for r := range 4 {
					fault += fmt.Sprintf("rank=%d,kind=%s,at=combine-every-3;", r, f.kind)
				}
				fault = strings.TrimSuffix(fault, ";")
			default:
				fault = "rank=1,at=combine-every-3,kind=" + f.kind
			}
			d := eptest.Document(t, c, eptest.Run(t, host.Open(host.Variant{}), fault, c)[0])
			row := d.Measurement.Rows[0]
			v := row.Repeatable
			require.Equal(t, 7, v.Operations)
			require.EqualValues(t, row.GlobalTokens*256, v.Compared)
			require.Equal(t, f.declared, v.AsDeclared)
			if f.kind == runner.FaultNoCombine {
				require.GreaterOrEqual(t, v.Elements, v.Compared*9/10, "all that was not written")
				return
			}
			require.Equal(t, result.Success, d.Outcome.Status, "%v", d.Outcome.Reasons)
			if f.kind == "" {
				require.Nil(t, v.First)
				return
			}
			require.GreaterOrEqual(t, v.Bits, v.Elements)
			require.Equal(t, 1, v.First.Rank)
			require.NotNil(t, v.First.Token)
			require.Less(t, *v.First.Token, int64(8))
			require.Less(t, v.First.Element, int64(256))
		})
	}
}

// Scales of other tokens or blocks that the contract's activations cannot tell
// apart: 257 tokens on they repeat, and most neighbouring blocks have one scale.
// Only the other activations show them.
func TestScalesOfOtherBlocksAreFound(t *testing.T) {
	need.Full(t)
	seed := func(c *plan.Case) { ep.Of(c).Seed = 5 } // of equal scales throughout the first tokens
	for _, c := range []struct {
		kind   string
		change []func(*plan.Case)
	}{
		{runner.FaultPeriodicScale, []func(*plan.Case){ladder("260")}},
		{runner.FaultNeighborScale, []func(*plan.Case){ladder("1"), seed}},
		{runner.FaultNeighborScale, []func(*plan.Case){ladder("1"), seed, lowLatency}},
		{runner.FaultNeighborScale, []func(*plan.Case){ladder("1"), seed, cached}},
	} {
		kase := eptest.Case(2, append(c.change, fp8)...)
		t.Run(c.kind+" "+ep.Of(&kase).Mode+" "+kase.Contract, func(t *testing.T) {
			d := eptest.Document(t, kase, eptest.Run(t, host.Open(host.Variant{}), "rank=1,kind="+c.kind, kase)[0])
			require.Equal(t, result.Invalid, d.Outcome.Status)
			reasons := d.Measurement.Rows[0].Correctness.Reasons
			require.Regexp(t, `(^|; )check-failed: post-dispatch-changed (payload|source_decode) (rank [01]|all ranks)(;|$)`, reasons)
			for _, reason := range reasons {
				require.NotRegexp(t, ": (before|after) ", reason, "the contract's activations show nothing")
			}
		})
	}
}

func TestFaultsThatDoNotApply(t *testing.T) {
	for fault, change := range map[string]func(*plan.Case){
		"kind=neighbor-scale":                func(*plan.Case) {},
		"kind=bf16-sum,at=timed":             func(*plan.Case) {},
		"kind=zero-payload,at=combine-2":     func(*plan.Case) {},
		"kind=ones,at=dispatch-2":            lowLatency,
		"kind=no-send,at=dispatch-0":         fp8,
		"kind=no-send,at=dispatch-every-0":   fp8,
		"kind=no-send,at=combine-every-2":    fp8,
		"kind=no-dispatch,at=dispatch-first": cached,
	} {
		for _, s := range eptest.Run(t, host.Open(host.Variant{}), "rank=0,"+fault+";rank=1,"+fault, eptest.Case(2, change))[0] {
			require.Equal(t, result.ReasonRefused, s.Failure.Reason.Code, fault)
		}
	}
}
