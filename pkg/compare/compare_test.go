package compare_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/compare"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// sides are built of runs of one collective case, whose times are those of resulttest.
type sides struct {
	c     plan.Case
	noise float64 // between runs, standard deviation of ln
	seed  uint64
	// attempt, head and rows may change what a run says; may be nil.
	attempt func(*result.Attempt)
	head    func(*result.Envelope)
	row     func(*collective.Row) // slower or faster: see scale
}

func scale(r *collective.Row, by float64) {
	for _, t := range []*collective.Timing{r.Pipelined, r.PerIteration} {
		if t != nil {
			t.Percentiles.P50 *= by
			*t.Percentiles.P99 *= by
		}
	}
}

// side returns n runs.
func (b sides) side(n int) *compare.Side {
	s := &compare.Side{}
	rng := rand.New(rand.NewPCG(b.seed, 1))
	for i := range n {
		a := resulttest.Attempt()
		a.RunID, a.At = fmt.Sprintf("%d.%d", b.seed, i), a.At.Add(time.Duration(i)*time.Minute)
		if b.attempt != nil {
			b.attempt(&a)
		}
		d := resulttest.Collective(b.c, a)
		if b.head != nil {
			b.head(d.Head())
		}
		effect := math.Exp(b.noise * rng.NormFloat64())
		for k := range d.Measurement.Rows {
			scale(&d.Measurement.Rows[k], effect)
			if b.row != nil {
				b.row(&d.Measurement.Rows[k])
			}
		}
		s.Add(d)
	}
	return s
}

func oneCollective() sides {
	return sides{c: resulttest.CollectiveCase(), noise: 0.005, seed: 1}
}

// with returns b with other runs whose rows are changed.
func (b sides) with(seed uint64, row func(*collective.Row)) sides {
	b.seed, b.row = seed, row
	return b
}

func times(by float64) func(*collective.Row) {
	return func(r *collective.Row) { scale(r, by) }
}

func TestTheSameIsTheSame(t *testing.T) {
	b := oneCollective()
	c := compare.Of(b.side(5), b.with(2, nil).side(5), compare.Options{})
	require.NotEmpty(t, c.Cases)
	for _, k := range c.Cases {
		require.Equal(t, compare.Same, k.Status, k)
		require.InEpsilon(t, 1, k.Shift.Ratio, 0.02)
		require.Len(t, k.Rungs, len(collective.Of(&b.c).Sizes)*len(collective.Of(&b.c).Placements))
	}
	require.Empty(t, c.Suspects())
	require.Empty(t, c.Regressions())
	require.Empty(t, c.Beside)
}

// A shift of twice the noise floor, or of 5 %, is found where the noise is small; where it
// is large, 5 % are slower or unclear.
func TestAHandicapIsFound(t *testing.T) {
	b := oneCollective()
	floor := *compare.Of(b.side(5), b.with(2, nil).side(5), compare.Options{}).Cases[0].Shift.Floor
	for _, by := range []float64{1.05, max(math.Exp(compare.DefaultEffect), floor) * floor} {
		c := compare.Of(b.side(5), b.with(2, times(by)).side(5), compare.Options{})
		for _, k := range c.Cases {
			require.Equal(t, compare.Slower, k.Status)
			require.InEpsilon(t, by, k.Shift.Ratio, 0.02)
			require.Less(t, *k.Shift.Low, by)
			require.Greater(t, *k.Shift.High, by)
			require.False(t, k.Confirmed)
		}
		require.Equal(t, []string{b.c.CaseID}, c.Suspects())
		require.Empty(t, c.Regressions(), "it is not confirmed")
		for _, k := range compare.Of(b.with(2, times(by)).side(5), b.side(5), compare.Options{}).Cases {
			require.Equal(t, compare.Faster, k.Status)
		}
	}
	b.noise = 0.05
	for seed := range uint64(20) {
		for _, k := range compare.Of(b.with(100+seed, nil).side(5), b.with(200+seed, times(1.05)).side(5), compare.Options{}).Cases {
			require.NotEqual(t, compare.Same, k.Status)
			enough := regexp.MustCompile(`^unclear \(>?\d+\)$`).MatchString(k.Lines(true)[0].Cells[1])
			require.Equal(t, k.Status == compare.Unclear, enough)
		}
	}
}

// The case is tested first: a rung that goes with its case is no news, and one that does
// not is found although the case is the same.
func TestARungAgainstItsCase(t *testing.T) {
	b := oneCollective()
	one := func(r *collective.Row) {
		if r.Requested == 1<<20 {
			scale(r, 1.3)
		}
	}
	for _, k := range compare.Of(b.side(5), b.with(2, one).side(5), compare.Options{}).Cases {
		require.Equal(t, compare.Same, k.Status)
		for _, r := range k.Rungs {
			if r.Rung[:7] == "1048576" {
				require.Equal(t, compare.Slower, r.Status)
				require.InEpsilon(t, 1.3, r.Ratio, 0.03)
			} else {
				require.Equal(t, compare.Same, r.Status)
			}
		}
	}
	for _, k := range compare.Of(b.side(5), b.with(2, times(1.3)).side(5), compare.Options{}).Cases {
		require.Equal(t, compare.Slower, k.Status)
		for _, r := range k.Rungs {
			require.Equal(t, compare.Same, r.Status, "it went with its case")
			require.InEpsilon(t, 1.3, r.Ratio, 0.03)
		}
	}
}

func TestFewRunsAreUnclear(t *testing.T) {
	b := oneCollective()
	for _, k := range compare.Of(b.side(4), b.with(2, times(2)).side(9), compare.Options{}).Cases {
		require.Equal(t, compare.Unclear, k.Status)
		require.Equal(t, "fewer than 5 runs a side", k.Why)
		require.True(t, k.Shift.Suspect, "it is worth to be measured again")
	}
	for _, k := range compare.Of(b.side(1), b.with(2, nil).side(1), compare.Options{}).Cases {
		require.Equal(t, compare.Unclear, k.Status)
		require.Nil(t, k.Shift.Floor)
		require.Nil(t, k.Shift.Low)
	}
}

// A case that fails before its ranks report their settings has another key than its success.
func TestALostCaseOfAnotherKey(t *testing.T) {
	b := oneCollective()
	a := resulttest.Attempt()
	a.Environment = map[string]string{"NCCL_ALGO": "Tree"}
	failed := &compare.Side{}
	failed.Add(resulttest.Fail(resulttest.New(b.c, a), "timeout"))
	c := compare.Of(b.side(2), failed, compare.Options{})
	require.Len(t, c.Cases, 1)
	require.Len(t, c.Regressions(), 1, "%+v", c.Cases)
	require.Empty(t, compare.Of(failed, b.side(2), compare.Options{}).Regressions())

	// Under whatever keys: OLD failed once under the key of the failure, and NEW may pass under a third key.
	both := b.side(2)
	both.Add(resulttest.Fail(resulttest.New(b.c, a), "timeout"))
	require.Len(t, compare.Of(both, failed, compare.Options{}).Regressions(), 1)
	third := oneCollective()
	third.attempt = func(a *result.Attempt) { a.Environment = map[string]string{"NCCL_ALGO": "PAT"} }
	for _, some := range []*compare.Side{third.side(2), b.side(2)} {
		some.Add(resulttest.Fail(resulttest.New(b.c, a), "timeout"))
		require.Empty(t, compare.Of(b.side(2), some, compare.Options{}).Regressions())
		require.Empty(t, compare.Of(third.side(2), some, compare.Options{}).Regressions())
		require.Empty(t, compare.Of(both, some, compare.Options{}).Regressions())
	}
	some := third.side(2)
	some.Add(resulttest.Fail(resulttest.New(b.c, resulttest.Attempt()), "timeout"))
	require.Empty(t, compare.Of(b.side(2), some, compare.Options{}).Regressions(), "failed under the key of OLD")
	elsewhere := oneCollective()
	elsewhere.c.SKU, elsewhere.c.ScaleUpTransport = "h200", "nvlink"
	elsewhere.c.CaseID = elsewhere.c.ID()
	other := elsewhere.side(2)
	other.Add(resulttest.Fail(resulttest.New(b.c, a), "timeout"))
	require.Len(t, compare.Of(both, other, compare.Options{}).Regressions(), 1, "another platform does not replace it")
}

func TestIncomparableCasesNameTheFactor(t *testing.T) {
	b, other := oneCollective(), oneCollective()
	other.attempt = func(a *result.Attempt) { a.Environment = map[string]string{"NCCL_ALGO": "Tree"} }
	c := compare.Of(b.side(5), other.side(5), compare.Options{})
	require.Len(t, c.Cases, 1)
	require.Equal(t, compare.Incomparable, c.Cases[0].Status)
	require.Equal(t, []compare.Difference{{Factor: "environment.NCCL_ALGO", Old: []string{"Ring"}, New: []string{"Tree"}}}, c.Cases[0].Differs)

	other = oneCollective()
	other.c.SKU, other.c.ScaleUpTransport = "h200", "nvlink"
	other.c.CaseID = other.c.ID()
	c = compare.Of(b.side(5), other.side(5), compare.Options{})
	require.Len(t, c.Cases, 1)
	require.Equal(t, []compare.Difference{{Factor: "scale_up_transport", Old: []string{"shm"}, New: []string{"nvlink"}}}, c.Cases[0].Differs)
}

func TestNewAndGone(t *testing.T) {
	b, other := oneCollective(), oneCollective()
	other.c = resulttest.EPCase()
	another := &compare.Side{}
	another.Add(resulttest.EP(other.c, resulttest.Attempt()))
	c := compare.Of(b.side(2), another, compare.Options{})
	require.Equal(t, map[string]int{compare.New: 1, compare.Gone: 1}, c.Counts)
	require.Empty(t, c.Regressions())
}

func TestALostSuccessIsARegression(t *testing.T) {
	b := oneCollective()
	failed := &compare.Side{}
	failed.Add(resulttest.Fail(resulttest.New(b.c, resulttest.Attempt()), "timeout"))
	c := compare.Of(b.side(2), failed, compare.Options{})
	require.Len(t, c.Cases, 1)
	require.True(t, c.Cases[0].Lost)
	require.Equal(t, compare.NotMeasured, c.Cases[0].Status)
	require.Equal(t, []string{b.c.CaseID + ": OLD passed it; NEW: timeout"}, c.Regressions())
	require.Empty(t, compare.Of(failed, b.side(2), compare.Options{}).Regressions())
	require.Empty(t, compare.Of(failed, failed, compare.Options{}).Regressions())
}

// Some failures among successes are counted beside the shift of the others.
func TestFailedRunsAreCounted(t *testing.T) {
	b := oneCollective()
	flaky := b.with(2, nil).side(5)
	flaky.Add(resulttest.Fail(resulttest.New(b.c, resulttest.Attempt()), "timeout"))
	for _, k := range compare.Of(b.side(5), flaky, compare.Options{}).Cases {
		require.Equal(t, compare.Same, k.Status)
		require.Equal(t, [2]int{0, 1}, [2]int{k.OldFailed, k.NewFailed})
		require.Equal(t, 5, k.Shift.NewRuns)
	}
}

// Nothing that one side measured is left out in silence.
func TestWhatCannotBePairedIsListed(t *testing.T) {
	b := oneCollective()
	without := b.with(2, func(r *collective.Row) { r.Pipelined, r.Slots = nil, 2 })
	c := compare.Of(b.side(5), without.side(5), compare.Options{})
	require.Equal(t, map[string]int{compare.Gone: 1, compare.Incomparable: 1}, c.Counts)
	for _, k := range c.Cases {
		require.NotEmpty(t, k.Why)
		require.Equal(t, k.Status == compare.Gone, k.Metric == "pipelined p50")
	}
	require.Equal(t, map[string]int{compare.New: 1, compare.Incomparable: 1}, compare.Of(without.side(5), b.side(5), compare.Options{}).Counts)
}

// What stands beside the key may differ, and is named.
func TestDifferencesBesideTheKeyAreNamed(t *testing.T) {
	b, other := oneCollective(), oneCollective()
	other.seed = 2
	other.attempt = func(a *result.Attempt) { a.Generator = "cxrun devel (source other)" }
	c := compare.Of(b.side(5), other.side(5), compare.Options{})
	require.Equal(t, []compare.Difference{{Factor: "program", Old: []string{resulttest.Attempt().Generator}, New: []string{"cxrun devel (source other)"}}}, c.Beside)
}

// Other users of the devices are named, also if both sides had them, and capped clocks if one side had them.
func TestDisturbancesAreNamed(t *testing.T) {
	b := oneCollective()
	disturbed := b.side(1)
	d := resulttest.Collective(b.c, resulttest.Attempt())
	d.Devices = result.NewDevices([]result.RankDevice{{After: &result.DeviceState{OtherProcesses: new(1)}}})
	disturbed.Add(d)
	capped := &compare.Side{}
	d = resulttest.Collective(b.c, resulttest.Attempt())
	d.Devices = result.NewDevices([]result.RankDevice{{Clocks: &result.ClockReadings{Readings: 2, Capped: 1}}})
	capped.Add(d)
	require.Equal(t, []compare.Difference{{Factor: "SM clock", Old: []string{}, New: []string{"capped"}}}, compare.Of(b.side(1), capped, compare.Options{}).Beside)
	const factor = "other users of the devices"
	require.Equal(t, []compare.Difference{{Factor: factor, Old: []string{}, New: []string{"seen"}}}, compare.Of(b.side(1), disturbed, compare.Options{}).Beside)
	require.Equal(t, []compare.Difference{{Factor: factor, Old: []string{"seen"}, New: []string{"seen"}}}, compare.Of(disturbed, disturbed, compare.Options{}).Beside)
}

// A library of one version in another build, or another one beside the measured library, is another library.
func TestBuildsOfLibrariesAreNamed(t *testing.T) {
	with := func(build, blas string) sides {
		b := oneCollective()
		b.head = func(e *result.Envelope) {
			e.Provenance.Libraries = []result.Library{{Kind: "nccl", Version: "2.28.9", BuildID: build}, {Kind: "cublaslt", Version: blas}}
		}
		return b
	}
	a, b := with("00112233", "12.9.1"), with("ff112233", "13.0.0")
	c := compare.Of(a.side(5), b.side(5), compare.Options{})
	require.Equal(t, []compare.Difference{
		{Factor: "library cublaslt", Old: []string{"12.9.1"}, New: []string{"13.0.0"}},
		{Factor: "library nccl", Old: []string{"2.28.9, build 00112233"}, New: []string{"2.28.9, build ff112233"}},
	}, c.Beside)
}

// A tail that is 20 % longer leaves the medians the same.
func TestATailOfItsOwn(t *testing.T) {
	b := oneCollective()
	collective.Of(&b.c).Measure.Trials, collective.Of(&b.c).Measure.Iterations = 400, 1
	tail := b.with(2, func(r *collective.Row) {
		for _, t := range []*collective.Timing{r.Pipelined, r.PerIteration} {
			*t.Percentiles.P99 *= 1.2
		}
	})
	c := compare.Of(b.side(5), tail.side(5), compare.Options{})
	require.Equal(t, map[string]int{compare.Same: 2, compare.Slower: 2}, c.Counts)
	for _, k := range c.Cases {
		require.Equal(t, k.Status == compare.Slower, strings.HasSuffix(k.Metric, "p99"), k.Metric)
	}
	collective.Of(&b.c).Measure.Trials = 300
	require.Len(t, compare.Of(b.side(5), b.side(5), compare.Options{}).Cases, 2, "too few samples for a p99")
}

// A curve that is slower by a tenth has a tenth more latency and a tenth less bandwidth.
func TestFitsOfBothSides(t *testing.T) {
	b := oneCollective()
	b.noise = 0
	collective.Of(&b.c).Sizes = nil
	for size := int64(8); size <= 8<<20; size *= 4 {
		collective.Of(&b.c).Sizes = append(collective.Of(&b.c).Sizes, size)
	}
	for _, k := range compare.Of(b.side(1), b.with(2, times(1.1)).side(1), compare.Options{}).Cases {
		require.Len(t, k.Fits, len(collective.Of(&b.c).Placements))
		for _, f := range k.Fits {
			require.Len(t, f.Old.Segments, 1)
			require.InEpsilon(t, 1.1, f.New.Segments[0].Latency.Value/f.Old.Segments[0].Latency.Value, 1e-3)
			require.InEpsilon(t, 1/1.1, f.New.Segments[0].Bandwidth.Value/f.Old.Segments[0].Bandwidth.Value, 1e-3)
		}
	}
	for _, k := range compare.Of(oneCollective().side(1), oneCollective().side(1), compare.Options{}).Cases {
		require.Empty(t, k.Fits, "three sizes are too few")
	}
}

func TestEPComponentsAreCompared(t *testing.T) {
	build := func(by float64, seed int) *compare.Side {
		s := &compare.Side{}
		for i := range 5 {
			a := resulttest.Attempt()
			a.RunID = fmt.Sprintf("%d.%d", seed, i)
			d := resulttest.EP(resulttest.EPCase(), a)
			for k := range d.Measurement.Rows {
				d.Measurement.Rows[k].Components.Combine.Percentiles.P50 *= by * (1 + 0.001*float64(i))
			}
			s.Add(d)
		}
		return s
	}
	for _, k := range compare.Of(build(1, 1), build(1.2, 2), compare.Options{}).Cases {
		want := compare.Same
		if k.Metric == "combine p50" {
			want = compare.Slower
		}
		require.Equal(t, want, k.Status, k.Metric)
	}
}

func TestConfirm(t *testing.T) {
	b := oneCollective()
	suspected := func() *compare.Comparison {
		return compare.Of(b.side(5), b.with(2, times(1.1)).side(5), compare.Options{})
	}
	c := suspected()
	c.Confirm(b.with(3, nil).side(compare.Pairs), b.with(4, times(1.1)).side(compare.Pairs), compare.Options{})
	for _, k := range c.Cases {
		require.Equal(t, compare.Slower, k.Status)
		require.True(t, k.Confirmed)
		require.InEpsilon(t, 1.1, k.Again.Ratio, 0.02)
	}
	require.Len(t, c.Regressions(), len(c.Cases))
	require.Equal(t, map[string]int{compare.Slower: len(c.Cases)}, c.Counts)

	for name, again := range map[string][2]*compare.Side{
		"gone":       {b.with(3, nil).side(compare.Pairs), b.with(4, nil).side(compare.Pairs)},
		"reversed":   {b.with(3, times(1.1)).side(compare.Pairs), b.with(4, nil).side(compare.Pairs)},
		"too few":    {b.with(3, nil).side(compare.Pairs - 1), b.with(4, times(1.1)).side(compare.Pairs - 1)},
		"unmeasured": {new(compare.Side), new(compare.Side)},
	} {
		c := suspected()
		c.Confirm(again[0], again[1], compare.Options{})
		for _, k := range c.Cases {
			require.Equal(t, compare.Unclear, k.Status, name)
			require.Regexp(t, `suspected( at \+\d+\.\d %)?, and not `, k.Why, name)
		}
		require.Empty(t, c.Regressions(), name)
	}
}

// What a confirmation prints is what its runs measured, of the case and of a rung, whether it confirmed the
// suspect or not. The effect that made it suspect is kept where it is labelled.
func TestAConfirmationShowsWhatItMeasured(t *testing.T) {
	b := oneCollective()
	oneRung := func(by float64) func(*collective.Row) {
		return func(r *collective.Row) {
			if r.Requested == 1<<20 {
				scale(r, by)
			}
		}
	}
	for _, tc := range []struct {
		name        string
		first, then func(*collective.Row)
		regression  string
		row         []string // patterns of status, change and case
	}{
		{
			"of a case", times(1.929), times(1.428), "(pipelined|per_iteration) p50 is 4[23]\\.\\d % slower, confirmed: 8 of 8 pairs agree; suspected at \\+9[23]\\.\\d %$",
			[]string{`^slower \(confirmed\)$`, `^\+4[23]\.\d %$`, `: suspected at \+9[23]\.\d %$`},
		}, {
			"of a rung", oneRung(1.929), oneRung(1.428), " at 1048576 .* is 4[23]\\.\\d % slower, confirmed: 8 of 8 pairs agree; suspected at \\+9[23]\\.\\d %$",
			[]string{`^slower \(confirmed\)$`, `^\+4[23]\.\d %$`, `: .* by \+4[23]\.\d % beyond its case; suspected at \+9[23]\.\d %$`},
		}, {
			"not confirmed", times(1.929), nil, "",
			[]string{`^unclear( \(\d+\))?$`, `^[+-]0\.\d %$`, `: suspected at \+9[23]\.\d %, and not confirmed: 0 of 8 pairs agree`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := compare.Of(b.side(5), b.with(2, tc.first).side(5), compare.Options{})
			c.Confirm(b.with(3, nil).side(compare.Pairs), b.with(4, tc.then).side(compare.Pairs), compare.Options{})
			lines := c.Regressions()
			require.Equal(t, tc.regression == "", len(lines) == 0)
			for _, line := range lines {
				require.Regexp(t, tc.regression, line)
			}
			rows := 0
			for i := range c.Cases {
				for _, line := range c.Cases[i].Lines(false) {
					row := line.Cells
					rows++
					for j, text := range []string{row[1], row[2], ": " + strings.Join(line.Notes, "; ")} {
						require.Regexp(t, tc.row[j], text)
					}
					if tc.regression != "" {
						var us [2]float64
						for j, at := range []int{slices.Index(compare.Columns(), "old µs"), slices.Index(compare.Columns(), "new µs")} {
							_, err := fmt.Sscan(row[at], &us[j])
							require.NoError(t, err)
						}
						require.InEpsilon(t, 1.428, us[1]/us[0], 0.02, "the times are those of the same runs")
					}
				}
			}
			require.Positive(t, rows)
		})
	}
}

// The table names a case once and a reason once, with the command that mends it. The change is that of the times
// beside it, and no line has more than 100 columns.
func TestTheTable(t *testing.T) {
	b := oneCollective()
	text := func(c *compare.Comparison) []string {
		var out strings.Builder
		require.NoError(t, c.Text(&out, true))
		return strings.Split(out.String(), "\n")
	}
	n := 0
	uneven := b.with(2, func(r *collective.Row) { n++; scale(r, 1+float64(n%6)/10) })
	few := text(compare.Of(b.side(3), uneven.side(3), compare.Options{}))
	require.Equal(t, 1, strings.Count(strings.Join(few, "\n"), "fewer than 5 runs a side"), few)
	require.Contains(t, strings.Join(few, " "), "'cxrun sweep --suite "+b.c.Suite+" --repeat 5'")
	require.Equal(t, 1, strings.Count(strings.Join(few, "\n"), b.c.CaseID), few)
	row := regexp.MustCompile(`^  \w+ p\d\d +unclear¹ +([+-]\S+) % +\S+ +3\+3 +(\S+) +(\S+)  `)
	rows := 0
	for _, line := range few {
		require.LessOrEqual(t, len([]rune(line)), 100, line)
		if m := row.FindStringSubmatch(line); m != nil {
			var v [3]float64
			for i := range v {
				_, err := fmt.Sscan(m[i+1], &v[i])
				require.NoError(t, err)
			}
			require.InDelta(t, 100*(v[2]/v[1]-1), v[0], 0.2, line)
			rows++
		}
	}
	require.GreaterOrEqual(t, rows, 2, few)
	for _, line := range text(compare.Of(b.side(5), b.with(2, times(1.2)).side(5), compare.Options{})) {
		require.LessOrEqual(t, len([]rune(line)), 100, line)
	}
}

// paired returns n runs whose rows are changed, but those of the runs in without.
func (b sides) paired(n int, row func(*collective.Row), without ...int) *compare.Side {
	seen, rows := 0, len(collective.Of(&b.c).Sizes)*len(collective.Of(&b.c).Placements)
	b.row = func(r *collective.Row) {
		if !slices.Contains(without, seen/rows) {
			row(r)
		}
		seen++
	}
	return b.side(n)
}

// Where the first pairs do not confirm a suspect and most of them agree, as many again decide.
// Runs that come later change nothing about a suspect that the first pairs decided.
func TestStagesOfAConfirmation(t *testing.T) {
	b := oneCollective()
	b.noise = 0.002
	slower := times(1.1)
	oneRung := func(r *collective.Row) {
		if r.Requested == 1<<20 {
			scale(r, 1.3)
		}
	}
	for _, tc := range []struct {
		name      string
		n         int
		without   []int // the pairs that do not agree
		want      compare.Decision
		confirmed bool
		says      string
	}{
		{"all agree", 8, nil, compare.Decision{Stage: 1, Pairs: 8, Agreeing: 8}, true, "8 of 8 pairs agree"},
		{"all but one agree", 8, []int{3}, compare.Decision{Stage: 1, Pairs: 8, Agreeing: 7}, true, "7 of 8 pairs agree"},
		{"too few agree", 8, []int{0, 1, 6, 7}, compare.Decision{Stage: 1, Pairs: 8, Agreeing: 4}, false, "4 of 8 pairs agree"},
		{"open", 8, []int{2, 4, 7}, compare.Decision{Pairs: 8, Agreeing: 5}, false, "5 of 8 pairs agree, 16 pairs would decide"},
		{"a pair is missing", 15, []int{2, 4}, compare.Decision{Pairs: 15, Agreeing: 13}, false, "13 of 15 pairs agree, 16 pairs would decide"},
		{"confirmed by sixteen", 16, []int{2, 4, 7, 12}, compare.Decision{Stage: 2, Pairs: 16, Agreeing: 12}, true, "12 of 16 pairs agree"},
		{"too few of sixteen agree", 16, []int{2, 4, 7, 12, 13}, compare.Decision{Stage: 2, Pairs: 16, Agreeing: 11}, false, "11 of 16 pairs agree"},
		{"too few of the first agree", 16, []int{0, 1, 6, 7}, compare.Decision{Stage: 1, Pairs: 8, Agreeing: 4}, false, "4 of 8 pairs agree"},
		{"confirmed before", 16, []int{8, 9, 10, 11, 12, 13, 14, 15}, compare.Decision{Stage: 1, Pairs: 8, Agreeing: 8}, true, "8 of 8 pairs agree"},
		{"more than sixteen", 20, []int{2, 4, 16, 17, 18, 19}, compare.Decision{Stage: 2, Pairs: 16, Agreeing: 14}, true, "14 of 16 pairs agree"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := compare.Of(b.side(5), b.with(2, slower).side(5), compare.Options{})
			c.Confirm(b.with(3, nil).side(tc.n), b.with(4, nil).paired(tc.n, slower, tc.without...), compare.Options{})
			for _, k := range c.Cases {
				require.Equal(t, tc.want, *k.Decision)
				require.Equal(t, tc.confirmed, k.Confirmed)
				require.Equal(t, tc.want.Pairs, k.Again.NewRuns, "the shift is that of the stage that decided")
				if tc.confirmed {
					require.Equal(t, compare.Slower, k.Status)
				} else {
					require.Equal(t, compare.Unclear, k.Status)
					require.Contains(t, k.Why, " %, and not confirmed: "+tc.says)
				}
			}
			open := tc.want.Stage == 0
			require.Equal(t, open, len(c.Open()) == 1)
			for _, line := range c.Regressions() {
				require.Contains(t, line, "% slower, confirmed: "+tc.says+"; suspected at ")
			}

			c = compare.Of(b.side(5), b.with(2, oneRung).side(5), compare.Options{})
			suspects := c.Suspects()
			c.Confirm(b.with(3, nil).side(8), b.with(4, nil).paired(8, oneRung, tc.without...), compare.Options{})
			c.Confirm(b.with(3, nil).side(tc.n), b.with(4, nil).paired(tc.n, oneRung, tc.without...), compare.Options{})
			require.Equal(t, suspects, c.Suspects(), "what was suspect stays so")
			require.Equal(t, open, len(c.Open()) == 1)
			for _, k := range c.Cases {
				require.Nil(t, k.Decision, "the case is the same")
				for _, r := range k.Rungs {
					if !strings.HasPrefix(r.Rung, "1048576") {
						require.Nil(t, r.Decision, r.Rung)
						continue
					}
					require.Equal(t, tc.want, *r.Decision)
					require.Equal(t, tc.confirmed, r.Confirmed)
				}
			}
		})
	}
}

// A machine that is busy for a while slows some runs of one side: the floor of the second
// measurement has that load in it, and the pairs do not agree.
func TestABusyMachineConfirmsNothing(t *testing.T) {
	b := oneCollective()
	c := compare.Of(b.side(5), b.with(2, times(1.1)).side(5), compare.Options{})
	busy := b.with(4, nil)
	rows, n := len(collective.Of(&b.c).Sizes)*len(collective.Of(&b.c).Placements), 0
	busy.row = func(r *collective.Row) {
		if n/rows < 5 { // five of eight runs
			scale(r, 1.5)
		}
		n++
	}
	c.Confirm(b.with(3, nil).side(compare.Pairs), busy.side(compare.Pairs), compare.Options{})
	for _, k := range c.Cases {
		require.Equal(t, compare.Unclear, k.Status)
	}
	require.Empty(t, c.Regressions())

	// Of a machine that is noisy all the time, the second measurement says how many runs it would take.
	c = compare.Of(b.side(5), b.with(2, times(1.1)).side(5), compare.Options{})
	b.noise = 0.1
	c.Confirm(b.with(3, nil).side(compare.Pairs), b.with(4, nil).side(compare.Pairs), compare.Options{})
	for _, k := range c.Cases {
		require.Equal(t, compare.Unclear, k.Status)
		line := k.Lines(false)[0]
		require.Regexp(t, `, and not confirmed: \d of 8 pairs agree`, line.Notes[0])
		require.Regexp(t, `^unclear \(>?\d+\)$`, line.Cells[1])
	}
}

// A slower schedule is found as a slower collective is.
func TestSchedulesAreCompared(t *testing.T) {
	build := func(by float64, seed int) *compare.Side {
		s := &compare.Side{}
		for i := range 5 {
			a := resulttest.Attempt()
			a.RunID = fmt.Sprintf("%d.%d", seed, i)
			d := resulttest.Schedule(plantest.Schedules(2, 2)[0], a)
			for k := range d.Measurement.Rows {
				d.Measurement.Rows[k].Pipelined.Percentiles.P50 *= by * (1 + 0.001*float64(i))
			}
			s.Add(d)
		}
		return s
	}
	cases := compare.Of(build(1, 1), build(1.2, 2), compare.Options{}).Cases
	require.NotEmpty(t, cases)
	for _, k := range cases {
		want := compare.Same
		if k.Metric == "pipelined p50" {
			want = compare.Slower
		}
		require.Equal(t, want, k.Status, k.Metric)
	}
}

// A simulated case is never compared with a measured one: each is on its side alone.
func TestSimulatedAndMeasuredAreApart(t *testing.T) {
	measured, simulated := plantest.Twins()
	old, new := &compare.Side{}, &compare.Side{}
	for i := range compare.MinRuns {
		a := resulttest.Attempt()
		a.RunID = fmt.Sprint(i)
		old.Add(resulttest.Schedule(measured, a))
		new.Add(resulttest.Simulation(simulated, a))
	}
	statuses := map[string]string{}
	for _, k := range compare.Of(old, new, compare.Options{}).Cases {
		require.Nil(t, k.Shift)
		require.Empty(t, k.Differs)
		statuses[k.CaseID] = k.Status
	}
	require.Equal(t, map[string]string{measured.CaseID: compare.Gone, simulated.CaseID: compare.New}, statuses)
}

// Simulated times have no noise: one run a side tells, and nothing need be confirmed.
func TestSimulatedTimesAreExact(t *testing.T) {
	side := func(runs int, by int64) *compare.Side {
		s := &compare.Side{}
		for i := range runs {
			a := resulttest.Attempt()
			a.RunID = fmt.Sprint(i)
			d := resulttest.Simulation(plantest.Simulation(), a)
			for k := range d.Simulation.Rows {
				r := &d.Simulation.Rows[k]
				r.Makespan, r.Path.Latency = r.Makespan*by/100, r.Makespan*by/100-r.Path.Bytes
			}
			s.Add(d)
		}
		return s
	}
	for _, runs := range []int{1, compare.MinRuns} {
		for by, want := range map[int64]string{100: compare.Same, 101: compare.Same, 110: compare.Slower, 90: compare.Faster} {
			c := compare.Of(side(runs, 100), side(runs, by), compare.Options{})
			require.Len(t, c.Cases, 1)
			k := c.Cases[0]
			require.Equal(t, want, k.Status)
			require.Equal(t, "simulated", k.Metric)
			require.InEpsilon(t, float64(by)/100, k.Shift.Ratio, 1e-6)
			require.Empty(t, c.Suspects())
			require.Empty(t, c.Regressions())
			for _, r := range k.Rungs {
				require.Equal(t, compare.Same, r.Status, "it went with its case")
			}
			_, err := json.Marshal(c)
			require.NoError(t, err)
		}
	}
}

// A single run is compared with a history: what is beyond its noise is suspect, a confirmation compares further runs with
// it, and cases that only the history has are left out.
func TestHistory(t *testing.T) {
	b := oneCollective()
	b.noise = 0.002
	o := compare.Options{History: true}
	text := func(c *compare.Comparison) string {
		var b strings.Builder
		require.NoError(t, c.Text(&b, false))
		return b.String()
	}
	history, other := b.side(7), resulttest.CollectiveCase()
	other.World = 2 * other.World
	other.CaseID = other.ID()
	history.Add(resulttest.Collective(other, resulttest.Attempt()))
	quiet := compare.Of(history, b.with(2, nil).side(1), o)
	require.Equal(t, map[string]int{compare.Unclear: len(quiet.Cases)}, quiet.Counts)
	require.Empty(t, quiet.Suspects())
	require.Empty(t, text(quiet), "what is not suspect is not listed")

	slower := times(1.1)
	for name, tc := range map[string]struct {
		again     func(*collective.Row)
		without   []int
		confirmed bool
		says      string
	}{
		"confirmed":     {slower, nil, true, "8 of 8 runs agree"},
		"not confirmed": {nil, nil, false, "0 of 8 runs agree"},
		"open":          {slower, []int{2, 4, 7}, false, "5 of 8 runs agree, 16 runs would decide"},
	} {
		t.Run(name, func(t *testing.T) {
			c := compare.Of(history, b.with(2, slower).side(1), o)
			require.Equal(t, map[string]int{compare.Slower: len(c.Cases)}, c.Counts)
			require.Equal(t, []string{b.c.CaseID}, c.Suspects())
			require.Empty(t, c.Regressions(), "a suspect is not yet a regression")
			require.Regexp(t, "(?m)slower[?].* [▁▂]{7}█$", text(c))
			again := b.with(3, nil).side(8)
			if tc.again != nil {
				again = b.with(3, nil).paired(8, tc.again, tc.without...)
			}
			c.Confirm(history, again, o)
			for _, k := range c.Cases {
				require.Equal(t, tc.confirmed, k.Confirmed)
				require.Equal(t, tc.says, k.Decision.String())
			}
			require.Equal(t, tc.confirmed, len(c.Regressions()) > 0)
		})
	}

	short := compare.Of(b.side(4), b.with(2, slower).side(1), o)
	require.Empty(t, short.Suspects(), "four runs do not show their noise")

	c := compare.Of(history, b.with(2, func(r *collective.Row) {
		if r.Requested == 1<<20 {
			scale(r, 1.3)
		}
	}).side(1), o)
	require.Equal(t, []string{b.c.CaseID}, c.Suspects(), "a single rung")
}

func TestTrends(t *testing.T) {
	b := oneCollective()
	b.noise = 0
	last := b.with(2, times(2))
	last.attempt = func(a *result.Attempt) { a.At = a.At.Add(24 * time.Hour) }
	trends := compare.Trends(b.side(3), last.side(1))
	require.NotEmpty(t, trends)
	for _, of := range trends {
		require.Len(t, of.Us, 4)
		bars, _, change := of.Columns()
		require.Equal(t, "▁▁▁█", bars)
		require.Equal(t, "+100.0 %", change)
	}
	require.Empty(t, compare.Trends(b.side(1)))
	require.Equal(t, "▁▁▂▂", compare.Bars([]float64{100, 100.4, 101, 102}), "noise looks small")
}
