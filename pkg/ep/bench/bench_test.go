package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/benchtest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

func TestRefusals(t *testing.T) {
	benchtest.Refuses(t, Command, []benchtest.Refusal{
		benchtest.Usage("--tokens 8,4", "--tokens [8 4]: want positive numbers in ascending order"),
		benchtest.Usage("--tokens 1000000000", "--tokens 1000000000: want at most 4194304 with --topk 8 on 2 ranks, since every rank holds the routing of all tokens"),
		benchtest.Usage("--ranks 3", "--experts 256: want a multiple of the number of ranks, 3"),
		benchtest.Usage("--ranks -1", "--ranks -1: want at least 1"),
		benchtest.Usage("--topk 300", "--topk 300: want at most the number of experts, 256"),
		benchtest.Usage("--hidden 0", "--hidden, --topk and --experts: want at least 1"),
		benchtest.Usage("--experts 4294967296", "--hidden and --experts: want at most 1048576"),
		benchtest.Usage("--routing unifrom", `unknown routing "unifrom"; did you mean "uniform"?`),
		benchtest.Usage("--routing lognormal-vio31", `--routing: routing "lognormal-vio31": the wanted MaxVio must be a number above 0 and below 31, which is (experts - top-k) / top-k`),
		benchtest.Usage("--sms -1", "--sms -1: want at least 1"),
		benchtest.Usage("--repeatable 1", "--repeatable: want 2 to 1000000 operations, or 0"),
	})
}

// The table of long operations fits a terminal.
func TestTableFits(t *testing.T) {
	c := resulttest.EPCase()
	ep.Of(&c).Mode, c.Contract = ep.ModeLowLatency, ep.ContractCachedLayout
	ep.Of(&c).Ladder = plan.Ladder{128, 131072}
	d := resulttest.EP(c, resulttest.Attempt())
	d.Topology.DeviceProduct = "AMD Instinct MI300X OAM"
	var out strings.Builder
	(*Report)(nil).Print(&out, d)
	benchtest.Fits(t, out.String())
}

func TestCheckOfARowInAWord(t *testing.T) {
	for _, tt := range []struct {
		complete bool
		reasons  []string
		want     string
	}{
		{true, nil, "OK"},
		{false, nil, "INCOMPLETE"},
		{false, []string{"check-did-not-run: post-chain all ranks", "check-did-not-run: after all ranks"}, "NOT-RUN"},
		{false, []string{"check-failed: before payload rank 1", "check-did-not-run: after all ranks"}, "FAILED"},
	} {
		r := ep.Row{Complete: tt.complete}
		r.Correctness.Passed, r.Correctness.Reasons = tt.reasons == nil, resulttest.Reasons(tt.reasons...)
		require.Equal(t, tt.want, check(&r))
	}
}

// The table has no 99th percentile of fewer than 100 samples.
func TestPercentilesOfFewSamples(t *testing.T) {
	for n, want := range map[int]string{99: `^ +1( +[0-9.]+ +N/A){3} +[0-9.]+ +[0-9.]+ +OK$`, 100: `^ +1( +[0-9.]+){8} +OK$`} {
		c := resulttest.EPCase()
		ep.Of(&c).Ladder, ep.Of(&c).Timing.ItersPerTrial, ep.Of(&c).Timing.TrialsPerPoint = plan.Ladder{1}, n, 1
		var out strings.Builder
		(*Report)(nil).Print(&out, resulttest.EP(c, resulttest.Attempt()))
		require.Regexp(t, "(?m)"+want, out.String())
	}
}

// Rows whose combines were not compared do not count.
func TestUncomparedCombines(t *testing.T) {
	c := resulttest.EPCase()
	ep.Of(&c).Ladder, ep.Of(&c).Repeatable = plan.Ladder{1, 8}, 10
	d := resulttest.EP(c, resulttest.Attempt())
	for i, text := range []string{"N/A, no results were compared", "10 combines on one input, results differ in 0 of 1 row"} {
		var out strings.Builder
		(*Report)(nil).Print(&out, d)
		require.Contains(t, out.String(), "# repeatable: "+text+"\n")
		d.Measurement.Rows[i].Repeatable = &result.Repeatability{Operations: 10, Compared: 64}
	}
}

// Results that the declared arithmetic determines break the measurement if they vary; what it allows is printed.
func TestUnrepeatableCombines(t *testing.T) {
	for _, declared := range []bool{true, false} {
		c := resulttest.EPCase()
		ep.Of(&c).Ladder, ep.Of(&c).Repeatable = plan.Ladder{1, 8}, 10
		d := resulttest.EP(c, resulttest.Attempt())
		token := int64(3)
		for i := range d.Measurement.Rows {
			d.Measurement.Rows[i].Repeatable = &result.Repeatability{Operations: 10, Compared: 64}
		}
		*d.Measurement.Rows[1].Repeatable = result.Repeatability{
			Operations: 10, Compared: 64, Elements: 3, Bits: 5, First: &result.Difference{Operation: 7, Rank: 1, Token: &token, Element: 17, Bit: 2}, AsDeclared: &declared,
		}
		p := &Report{}
		p.Add(d)
		var out strings.Builder
		p.Print(&out, d)
		require.Contains(t, out.String(), "# repeatable: 10 combines on one input, results differ in 1 of 2 rows\n")
		const text = "8 tokens: 3 elements (5 bits) of 10 combines on one input differ from the first result; " +
			"the first is bit 2 of element 17 of token 3, on rank 1 in repeat 7"
		require.Equal(t, declared, strings.Contains(out.String(), "# as the declared arithmetic allows: "+text+"\n"))
		if declared {
			require.NoError(t, p.Err())
			require.Empty(t, p.Broken())
		} else {
			require.EqualError(t, p.Err(), "1 result is not repeatable")
			require.Equal(t, []string{text}, p.Broken())
		}
	}
}
