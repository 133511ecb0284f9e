package runner

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

// setArithmetic replaces a rank's verdict, or drops it.
func (p *tape) setArithmetic(r int, v *workload.ArithmeticVerdict) {
	s := &p.streams[r]
	s.Records = slices.DeleteFunc(s.Records, func(r rank.Record) bool { return r.Kind == kindArithmetic })
	if v != nil {
		s.Records = append(s.Records, record(p.t, kindArithmetic, *v))
	}
}

func TestArithmeticOfACase(t *testing.T) {
	p := newTape(t, aCase())
	p.setArithmetic(1, &workload.ArithmeticVerdict{Checked: 32, Error: 0.25, Bound: 0.25})
	d := p.mustDocument()
	require.Equal(t, result.Success, d.Outcome.Status)
	worst, bound := 0.25, 0.25
	require.Equal(t, &result.Arithmetic{Passed: true, Accumulation: "float", Checked: 96, MaxError: &worst, Bound: &bound}, d.Measurement.Arithmetic)

	p.setArithmetic(1, &workload.ArithmeticVerdict{Checked: 32, Wrong: 3, Failed: []string{"nan", "rounding"}, Error: 2, Bound: 1, NonFinite: true})
	d = p.mustDocument()
	require.Equal(t, result.Outcome{Status: result.Invalid, Reasons: resulttest.Reasons("check-failed: arithmetic_as_declared nan, rounding, 3 of 96 elements")}, d.Outcome)
	require.Nil(t, d.Measurement.Arithmetic.MaxError, "a result was no number")
	require.True(t, d.Measurement.Rows[0].Check.Passed, "the rows have their own verdict")

	p.setArithmetic(1, nil)
	d = p.mustDocument()
	require.Equal(t, resulttest.Reasons("check-did-not-run"), d.Outcome.Reasons)
	require.Nil(t, d.Measurement.Arithmetic)

	d = newTape(t, aCase(func(c *plan.Case) { c.Precision = "int32" })).mustDocument()
	require.Equal(t, result.Success, d.Outcome.Status)
	require.Nil(t, d.Measurement.Arithmetic, "every sum of integers is exact")
}
