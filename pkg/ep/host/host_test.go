package host_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/eptest"
	"github.com/collectivex/collectivex/pkg/ep/host"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

func lowLatency(c *plan.Case) { c.Mode = ep.ModeLowLatency }
func fp8(c *plan.Case)        { c.Precision = "fp8" }

func routing(name string) func(*plan.Case) {
	return func(c *plan.Case) { c.Routing = name }
}

// run measures a case on real ranks and requires that it passes.
func run(t *testing.T, v host.Variant, c plan.Case) *result.EPDocument {
	t.Helper()
	d := eptest.Document(t, c, eptest.Run(t, host.Open(v), "", c)[0])
	for _, r := range d.Measurement.Rows {
		require.True(t, r.Correctness.Passed, "T=%d: %v", r.TokensPerRank, r.Correctness.Reasons)
	}
	require.Equal(t, result.Outcome{Status: result.Success, Reasons: []string{}}, d.Outcome)
	return d
}

func TestEveryForm(t *testing.T) {
	for _, c := range []struct {
		name    string
		variant host.Variant
		change  []func(*plan.Case)
		dtype   string
	}{
		{"normal bf16", host.Variant{}, nil, "bf16"},
		{"normal bf16 tree", host.Variant{Reduction: ep.TopKSlotTree}, nil, "bf16"},
		{"normal fp8 blocks", host.Variant{}, []func(*plan.Case){fp8}, "fp8-e4m3fn"},
		{"normal fp8 cast", host.Variant{PlainCast: true}, []func(*plan.Case){fp8}, "fp8-e4m3fn"},
		{"normal fp8 tree", host.Variant{Reduction: ep.TopKSlotTree}, []func(*plan.Case){fp8}, "fp8-e4m3fn"},
		{"low latency bf16", host.Variant{}, []func(*plan.Case){lowLatency}, "bf16"},
		{"low latency fp8", host.Variant{}, []func(*plan.Case){lowLatency, fp8}, "fp8-e4m3fn"},
		{"low latency fp8 cast", host.Variant{PlainCast: true}, []func(*plan.Case){lowLatency, fp8}, "fp8-e4m3fn"},
	} {
		for _, world := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%s/%d", c.name, world), func(t *testing.T) {
				d := run(t, c.variant, eptest.Case(world, c.change...))
				require.Equal(t, c.dtype, d.Measurement.DispatchDType)
				require.Len(t, d.Measurement.Rows, 3)
			})
		}
	}
}
