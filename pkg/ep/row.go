package ep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

// histogramBins is how many bins a published histogram has.
const histogramBins = 40

// rowMaker makes one row and remembers whether anything of it is there, and
// whether all is.
type rowMaker struct {
	c        plan.Case
	ranks    []evidence
	rung     int
	row      result.EPRow
	any      bool
	complete bool
	err      error
}

// makeRow returns the row of a rung; any is false where no rank left anything
// of it. The strangers are the ranks that used another trace, or told none.
func makeRow(c plan.Case, ranks []evidence, declared *planRecord, rung int, trace *workload.Trace, strangers []int) (row result.EPRow, any bool, err error) {
	m := &rowMaker{c: c, ranks: ranks, rung: rung, complete: true}
	r := &m.row
	r.TokensPerRank, r.GlobalTokens = rung, trace.Tokens()
	r.Histograms = map[string]result.Histogram{}

	r.RoutingStats = routingStats(trace, c.GPUsPerNode, c.ScaleUpDomain)
	copies := r.RoutingStats.RoutedCopies
	r.Bytes = byteCounts(copies, c.EP().Hidden, declared.ValueBytes, declared.ScaleBytes)
	r.LogicalCopies = result.EPCopies{Routed: copies, Assignments: int64(len(trace.Expert)), Wire: result.WirePerRank}
	onWire := copies
	if declared.Receive == TokenExpert {
		r.LogicalCopies.Wire = result.WirePerAssignment
		onWire = r.LogicalCopies.Assignments
	}
	wire := byteCounts(onWire, c.EP().Hidden, declared.ValueBytes, declared.ScaleBytes)
	r.WireBytes = &wire

	m.components(declared.StageWorks)
	m.chains()
	m.correctness(declared.Description, strangers)
	m.arithmetic(declared.Description)
	if why := m.instants(declared.Description); len(why) > 0 {
		r.Correctness.Passed = false
		r.Correctness.Reasons = append(r.Correctness.Reasons, why...)
	}
	if q := r.Components.Roundtrip.Percentiles; q != nil && q.P50 > 0 {
		rate := func(us float64) float64 { return float64(r.GlobalTokens) / (us * 1e-6) }
		r.TokenRate = &result.Percentiles{P50: rate(q.P50), P90: rate(q.P90), P95: rate(q.P95), P99: rate(q.P99)}
	}
	r.Complete = m.complete
	return m.row, m.any, m.err
}

// component makes a component of pooled samples, of which want are expected,
// and the histogram under name, if it has one.
func (m *rowMaker) component(us []float64, err error, want int, origin, name string) result.Component {
	if err != nil && m.err == nil {
		m.err = err
	}
	if len(us) < want {
		m.complete = false
	}
	if len(us) == 0 {
		return unavailable()
	}
	m.any = true
	q := measure.Percentiles(us)
	if name != "" {
		m.row.Histograms[name] = measure.Histogram(us, histogramBins)
	}
	return result.Component{Availability: result.Measured, Origin: &origin, Percentiles: &q, SampleCount: len(us)}
}

func unavailable() result.Component { return result.Component{Availability: result.Unavailable} }

func (m *rowMaker) components(stageWorks bool) {
	want := m.c.EP().Timing.ItersPerTrial * m.c.EP().Timing.TrialsPerPoint
	fresh := func(component string, reduce measure.Reduction, name string) result.Component {
		us, err := freshSamples(m.c, m.ranks, m.rung, component, reduce)
		return m.component(us, err, want, result.OriginMeasured, name)
	}
	k := &m.row.Components
	k.Dispatch = fresh(compDispatch, measure.Max, compDispatch)
	k.Combine = fresh(compCombine, measure.Max, compCombine)
	k.Roundtrip = fresh(compRoundtrip, measure.Max, compRoundtrip)
	k.Stage = unavailable()
	if stageWorks {
		k.Stage = fresh(compStage, measure.Max, compStage)
	}
	k.IsolatedSum = isolatedSum(k.Dispatch, k.Stage, k.Combine)
	m.row.RankMin = result.EPFresh{
		Dispatch:  fresh(compDispatch, measure.Min, ""),
		Combine:   fresh(compCombine, measure.Min, ""),
		Roundtrip: fresh(compRoundtrip, measure.Min, ""),
	}
	m.row.RankSpread = fresh(compRoundtrip, measure.Spread, "")
}

// isolatedSum adds dispatch, stage (0 where it is unavailable) and combine
// percentile by percentile.
func isolatedSum(dispatch, stage, combine result.Component) result.Component {
	if dispatch.Percentiles == nil || combine.Percentiles == nil {
		return unavailable()
	}
	sum, origin := result.Percentiles{}, result.OriginPercentileSum
	for _, part := range []result.Component{dispatch, stage, combine} {
		if q := part.Percentiles; q != nil {
			sum.P50 += q.P50
			sum.P90 += q.P90
			sum.P95 += q.P95
			sum.P99 += q.P99
		}
	}
	return result.Component{Availability: result.Derived, Origin: &origin, Percentiles: &sum}
}

func (m *rowMaker) chains() {
	t := m.c.EP().Timing
	want := (t.ChainItersPerTrial - t.ChainDrop) * t.ChainTrialsPerPoint
	chain := func(part func(chainRecord) []float64, reduce measure.Reduction, origin, name string) result.Component {
		us, err := chainSamples(m.c, m.ranks, m.rung, part, reduce)
		return m.component(us, err, want, origin, name)
	}
	pair := func(r chainRecord) []float64 { return r.Pair }
	m.row.Components.PairPeriod = chain(pair, measure.LowerMedian, result.OriginChainedMedian, "pair_period")
	m.row.ChainFloor = result.EPOps{
		Dispatch: chain(func(r chainRecord) []float64 { return r.Dispatch }, measure.Min, result.OriginChainedRankMin, ""),
		Combine:  chain(func(r chainRecord) []float64 { return r.Combine }, measure.Min, result.OriginChainedRankMin, ""),
	}
	perTrial := func(figure func(chainRecord) []float64, reduce measure.Reduction) result.Component {
		us, err := chainSamples(m.c, m.ranks, m.rung, figure, reduce)
		return m.component(us, err, t.ChainTrialsPerPoint, result.OriginMeasured, "")
	}
	m.row.ChainHealth = result.EPHealth{
		PairSpread:   chain(pair, measure.Spread, result.OriginMeasured, ""),
		InterpairGap: perTrial(interpairGap, measure.LowerMedian),
		SettleDrift:  perTrial(settleDrift, measure.LargestMagnitude),
	}
}

// interpairGap is one rank's idle time between pairs in one trial.
func interpairGap(r chainRecord) []float64 {
	if len(r.Pair) == 0 {
		return nil
	}
	return []float64{measure.Percentile(r.StartToStart, 50) - measure.Percentile(r.Pair, 50)}
}

// settleDrift is how much one rank's pairs of the late half of a trial are
// longer than those of the early half.
func settleDrift(r chainRecord) []float64 {
	half := len(r.Pair) / 2
	if half == 0 {
		return nil
	}
	return []float64{measure.Percentile(r.Pair[half:], 50) - measure.Percentile(r.Pair[:half], 50)}
}

// correctness folds the verdicts of all ranks and moments. A rank that told no
// trace has no first verdict either, which makes the row incomplete.
func (m *rowMaker) correctness(d Description, strangers []int) {
	check := result.EPCheck{Passed: true, PostChainPassed: true}
	fail := func(reason result.Reason) {
		check.Passed = false
		check.Reasons = append(check.Reasons, reason)
	}
	worst, finite := 0.0, true
	received := result.EPReceive{Min: math.MaxInt}
	for _, when := range d.moments() {
		failed := map[string][]int{}
		var missing, nonFinite []int
		for r, e := range m.ranks {
			v, ok := e.verdicts[moment{m.rung, when}]
			if !ok {
				missing = append(missing, r)
				continue
			}
			m.any = true
			for _, name := range v.Failed {
				failed[name] = append(failed[name], r)
			}
			switch {
			case v.Error != nil:
				worst = math.Max(worst, *v.Error)
			case slices.Contains(v.Failed, CheckCombine):
				nonFinite = append(nonFinite, r)
			}
			if when == whenBefore {
				received.Total += v.Rows
				received.Min, received.Max = min(received.Min, v.Rows), max(received.Max, v.Rows)
			}
		}
		for _, name := range checkNames {
			if failed[name] != nil {
				fail(result.ReasonCheck.With("%s %s %s", when, name, m.name(failed[name])))
			}
		}
		if nonFinite != nil {
			finite = false
			fail(result.ReasonNonFinite.With("%s %s", when, m.name(nonFinite)))
		}
		if missing != nil {
			m.complete = false
			fail(result.ReasonUnchecked.With("%s %s", when, m.name(missing)))
		}
		if strings.HasPrefix(when, whenPostChain) {
			check.PostChainPassed = check.PostChainPassed && len(failed) == 0 && missing == nil
		}
	}
	if received.Total == 0 {
		received.Min = 0
		fail(result.ReasonCheck.With("nothing was received"))
	}
	received.Mean = float64(received.Total) / float64(len(m.ranks))
	m.row.Receive = received
	if finite {
		check.MaxRelativeError = &worst
	}
	if other := slices.DeleteFunc(strangers, func(r int) bool { return m.ranks[r].digests[m.rung] == "" }); len(other) > 0 {
		fail(result.ReasonCheck.With("routing_trace %s", m.name(other)))
	}
	if !d.Hoisted() {
		m.chainOutputs(&check, fail)
	}
	m.row.Correctness = check
}

// arithmetic folds what combine made of the chosen rows. It stays null where a
// rank is missing.
func (m *rowMaker) arithmetic(d Description) {
	bound, worst, finite := ArithmeticBound, 0.0, true
	a := &result.Arithmetic{Accumulation: d.accumulation()}
	var wrong []int
	for r, e := range m.ranks {
		s, ok := e.sums[m.rung]
		if !ok {
			m.complete = false
			return
		}
		a.Checked += int64(s.Checked)
		a.Wrong += int64(s.Wrong)
		if s.Wrong > 0 {
			wrong = append(wrong, r)
		}
		if s.Error != nil {
			worst = math.Max(worst, *s.Error)
		} else {
			finite = false
		}
	}
	a.Passed, a.Bound = a.Wrong == 0 && a.Checked > 0, &bound
	if finite {
		a.MaxError = &worst
	}
	if wrong != nil {
		a.Reasons = append(a.Reasons, result.ReasonCheck.With("arithmetic %s", m.name(wrong)))
	}
	m.row.Arithmetic = a
}

// chainOutputs folds the checks of the chains' last outputs. The verdict stays
// null where some are missing and none failed.
func (m *rowMaker) chainOutputs(check *result.EPCheck, fail func(result.Reason)) {
	worst := 0.0
	var failed, nonFinite []int
	taken := 0
	for r, e := range m.ranks {
		for trial := range m.c.EP().Timing.ChainTrialsPerPoint {
			record, ok := e.chains[chainKey{m.rung, trial}]
			if !ok || record.OutputPassed == nil {
				continue
			}
			taken++
			if !*record.OutputPassed && !slices.Contains(failed, r) {
				failed = append(failed, r)
			}
			switch {
			case record.OutputError != nil:
				worst = math.Max(worst, *record.OutputError)
			case !slices.Contains(nonFinite, r):
				nonFinite = append(nonFinite, r)
			}
		}
	}
	want := len(m.ranks) * m.c.EP().Timing.ChainTrialsPerPoint
	if failed != nil {
		fail(result.ReasonCheck.With("chain_last_output %s", m.name(failed)))
	}
	if nonFinite != nil {
		fail(result.ReasonNonFinite.With("chain_last_output %s", m.name(nonFinite)))
	}
	if taken < want {
		m.complete = false
		fail(result.ReasonUnchecked.With("chain_last_output %d of %d", taken, want))
		if failed == nil {
			return
		}
	}
	passed := failed == nil
	check.ChainLastOutputPassed = &passed
	if nonFinite == nil {
		check.ChainLastOutputError = &worst
	}
}

// name names ranks as reasons do.
func (m *rowMaker) name(ranks []int) string {
	if len(ranks) == len(m.ranks) {
		return "all ranks"
	}
	names := make([]string, len(ranks))
	for i, r := range ranks {
		names[i] = strconv.Itoa(r)
	}
	if len(ranks) > 8 {
		return fmt.Sprintf("%d ranks from %s", len(ranks), names[0])
	}
	return "rank " + strings.Join(names, ",")
}
