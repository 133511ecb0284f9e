package runner

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

// histogramBins is the number of bins of a published histogram.
const histogramBins = 40

// rowMaker makes the row of one rung.
type rowMaker struct {
	c     plan.Case
	block *ep.Block // of the case
	ranks []evidence
	rung  int
	row   ep.Row
	any   bool
	err   error // first error of a component
	// freshCounts and chainCounts say which repetition of a trial counts; see rank.Counting.
	freshCounts, chainCounts map[int]int
}

// build makes the row of the rung. strangers are the ranks from otherTraces.
func (m *rowMaker) build(declared *planRecord, trace *workload.Trace, strangers []int, limits []result.Limit) error {
	r := &m.row
	r.TokensPerRank, r.GlobalTokens = m.rung, trace.Tokens()
	r.Complete = true
	r.Histograms = map[string]result.Histogram{}

	r.RoutingStats = routingStats(trace, m.c.GPUsPerNode, m.c.ScaleUpDomain)
	copies := r.RoutingStats.RoutedCopies
	r.Bytes = byteCounts(copies, m.block.Hidden, declared.ValueBytes, declared.ScaleBytes)
	r.LogicalCopies = ep.Copies{Routed: copies, Assignments: int64(len(trace.Expert)), Wire: ep.WirePerRank}
	onWire := copies
	if declared.Receive == TokenExpert {
		r.LogicalCopies.Wire = ep.WirePerAssignment
		onWire = r.LogicalCopies.Assignments
	}
	r.WireBytes = new(byteCounts(onWire, m.block.Hidden, declared.ValueBytes, declared.ScaleBytes))

	m.components(declared.Description)
	m.chains()
	m.correctness(declared.Description, strangers)
	m.arithmetic(declared.Description)
	m.repeatable()
	m.instants(declared.Description)
	m.repeated(declared.Description)
	m.gate(declared, trace, limits)
	if q := r.Components.Roundtrip.Percentiles; q != nil && q.P50 > 0 {
		r.TokenRate = new(q.Map(func(us float64) float64 { return float64(r.GlobalTokens) / (us * 1e-6) }))
	}
	return m.err
}

// component returns the component of a series, and adds its histogram under name unless empty.
func (m *rowMaker) component(s series, reduce measure.Reduction, origin, name string) ep.Component {
	us, err := s.pooled(m.ranks, reduce)
	if m.err == nil {
		m.err = err
	}
	if len(us) < s.trials*s.perTrial {
		m.row.Complete = false
	}
	if len(us) == 0 {
		return unavailable()
	}
	m.any = true
	q := measure.Percentiles(us)
	if name != "" {
		m.row.Histograms[name] = measure.Histogram(us, histogramBins)
	}
	return ep.Component{Availability: ep.Measured, Origin: &origin, Percentiles: &q, SampleCount: len(us)}
}

func unavailable() ep.Component { return ep.Component{Availability: ep.Unavailable} }

// components sets the fresh-entry components. For replayed graphs, tails reflect the host and are
// not published.
func (m *rowMaker) components(d Description) {
	fresh := func(component string, reduce measure.Reduction, name string) ep.Component {
		if !d.Replayed {
			return m.component(m.fresh(component), reduce, ep.OriginMeasured, name)
		}
		c := m.component(m.fresh(component), reduce, ep.OriginGraphReplay, "")
		if c.Percentiles != nil {
			c.Percentiles = &result.Percentiles{P50: c.Percentiles.P50}
		}
		return c
	}
	k := &m.row.Components
	k.Dispatch = fresh(compDispatch, measure.Max, compDispatch)
	k.Combine = fresh(compCombine, measure.Max, compCombine)
	k.Roundtrip = fresh(compRoundtrip, measure.Max, compRoundtrip)
	k.Stage = unavailable()
	if slices.Contains(d.components(), compStage) {
		k.Stage = fresh(compStage, measure.Max, compStage)
	}
	k.IsolatedSum = isolatedSum(k)
	m.row.RankMin = ep.Fresh{
		Dispatch:  fresh(compDispatch, measure.Min, ""),
		Combine:   fresh(compCombine, measure.Min, ""),
		Roundtrip: fresh(compRoundtrip, measure.Min, ""),
	}
	m.row.RankSpread = m.component(m.fresh(compRoundtrip), measure.Spread, ep.OriginMeasured, "")
}

// isolatedSum returns the component with the sum of the parts, if there is one.
func isolatedSum(k *ep.Components) ep.Component {
	sum := k.Sum()
	if sum == nil {
		return unavailable()
	}
	return ep.Component{Availability: ep.Derived, Origin: new(ep.OriginPercentileSum), Percentiles: sum}
}

// Quantities of a chain that rows report.
func chainDispatch(r chainRecord) []float64 { return r.Dispatch }
func chainCombine(r chainRecord) []float64  { return r.Combine }
func chainPair(r chainRecord) []float64     { return r.Pair }

// chainParts are these quantities under their names in reasons.
var chainParts = []struct {
	name string
	of   func(chainRecord) []float64
}{{"chain_floor dispatch", chainDispatch}, {"chain_floor combine", chainCombine}, {"pair_period", chainPair}}

func (m *rowMaker) chains() {
	m.row.Components.PairPeriod = m.component(m.chained(chainPair), measure.LowerMedian, ep.OriginChainedMedian, "pair_period")
	m.row.PairMiddle = new(m.component(m.chained(chainPair), measure.MiddleMean, ep.OriginChainedMiddle, ""))
	m.row.ChainFloor = ep.Ops{
		Dispatch: m.component(m.chained(chainDispatch), measure.Min, ep.OriginChainedRankMin, ""),
		Combine:  m.component(m.chained(chainCombine), measure.Min, ep.OriginChainedRankMin, ""),
	}
	m.row.ChainHealth = ep.Health{
		PairSpread:   m.component(m.chained(chainPair), measure.Spread, ep.OriginMeasured, ""),
		InterpairGap: m.component(m.perTrial(interpairGap), measure.LowerMedian, ep.OriginMeasured, ""),
		SettleDrift:  m.component(m.perTrial(settleDrift), measure.LargestMagnitude, ep.OriginMeasured, ""),
	}
}

// interpairGap returns one rank's idle time between pairs in one trial.
func interpairGap(r chainRecord) []float64 {
	if len(r.Pair) == 0 {
		return nil
	}
	return []float64{measure.Percentile(r.StartToStart, 50) - measure.Percentile(r.Pair, 50)}
}

// settleDrift returns by how much one rank's pairs in the late half of a trial are longer than in
// the early half.
func settleDrift(r chainRecord) []float64 {
	half := len(r.Pair) / 2
	if half == 0 {
		return nil
	}
	return []float64{measure.Percentile(r.Pair[half:], 50) - measure.Percentile(r.Pair[:half], 50)}
}

// fail fails the row if there are reasons.
func (m *rowMaker) fail(reasons ...result.Reason) {
	if len(reasons) > 0 {
		check := &m.row.Correctness
		check.Passed, check.Reasons = false, append(check.Reasons, reasons...)
	}
}

// blame fails the row for a problem on the given ranks, if any.
func (m *rowMaker) blame(ranks []int, code result.Code, what string) {
	if len(ranks) > 0 {
		m.fail(code.With("%s %s", what, m.name(ranks)))
	}
}

// correctness merges the verdicts of all ranks and moments. A rank that reported no trace has no
// first verdict either, which makes the row incomplete.
func (m *rowMaker) correctness(d Description, strangers []int) {
	check := &m.row.Correctness
	check.Passed, check.PostChainPassed = true, true
	check.OraclePassed = &ep.OraclePassed{Pre: true, Chained: true, Post: true}
	check.OracleFailed = &ep.OracleFailed{Pre: []string{}, Chained: []string{}, Post: []string{}}
	worst, finite := 0.0, true
	received := &m.row.Receive
	received.Min = math.MaxInt
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
			m.blame(failed[name], result.ReasonCheck, when+" "+name)
		}
		m.blame(nonFinite, result.ReasonNonFinite, when)
		m.blame(missing, result.ReasonUnchecked, when)
		finite = finite && nonFinite == nil
		m.row.Complete = m.row.Complete && missing == nil
		m.oracle(when, slices.Collect(maps.Keys(failed)), missing == nil)
		if when == whenBefore && missing == nil && received.Total == 0 {
			m.fail(result.ReasonCheck.With("nothing was received"))
		}
		if strings.HasPrefix(when, whenPostChain) {
			check.PostChainPassed = check.PostChainPassed && len(failed) == 0 && missing == nil
		}
	}
	if received.Total == 0 {
		received.Min = 0
	}
	received.Mean = float64(received.Total) / float64(len(m.ranks))
	if finite {
		check.MaxRelativeError = &worst
	}
	told := slices.DeleteFunc(strangers, func(r int) bool { return m.ranks[r].digests[m.rung] == "" })
	m.blame(told, result.ReasonCheck, "routing_trace")
	if !d.Hoisted() {
		m.chainOutputs()
	}
	if d.Replayed {
		m.replays()
	}
}

// replays merges the checks of replayed graphs. They stay null if a rank is missing.
func (m *rowMaker) replays() {
	rewritten, passed, worst, finite := true, true, 0.0, true
	var stale, failed, missing []int
	for r, e := range m.ranks {
		record, ok := e.replays[m.rung]
		if !ok {
			missing = append(missing, r)
			continue
		}
		if !record.Rewritten {
			rewritten, stale = false, append(stale, r)
		}
		if !record.OutputPassed {
			passed, failed = false, append(failed, r)
		}
		if record.OutputError == nil {
			finite = false
		} else {
			worst = math.Max(worst, *record.OutputError)
		}
	}
	m.blame(stale, result.ReasonCheck, "cuda_graph_output_rewritten")
	m.blame(failed, result.ReasonCheck, "cuda_graph_last_output")
	m.blame(missing, result.ReasonUnchecked, "cuda_graph_last_output")
	if missing != nil {
		m.row.Complete = false
		return
	}
	check := &m.row.Correctness
	check.GraphRewritten, check.GraphOutputPassed = &rewritten, &passed
	if finite {
		check.GraphOutputError = &worst
	}
}

// oracle adds the failed checks of all ranks at a moment. whole means that every rank has a verdict.
func (m *rowMaker) oracle(when string, failed []string, whole bool) {
	passed, checks := m.row.Correctness.OraclePassed, m.row.Correctness.OracleFailed
	verdict, names := &passed.Post, &checks.Post
	switch when {
	case whenBefore:
		verdict, names = &passed.Pre, &checks.Pre
	case timed(chain), whenChainOutput, whenPostChain, changed(whenPostChain):
		verdict, names = &passed.Chained, &checks.Chained
	}
	*verdict = *verdict && whole && len(failed) == 0
	*names = append(*names, failed...)
	slices.Sort(*names)
	*names = slices.Compact(*names)
}

// arithmetic merges the verdicts on the chosen rows. It stays null if a rank is missing.
func (m *rowMaker) arithmetic(d Description) {
	bound, worst, finite := ep.ArithmeticBound, 0.0, true
	a := &result.Arithmetic{Accumulation: d.accumulation()}
	var wrong []int
	for r, e := range m.ranks {
		s, ok := e.sums[m.rung]
		if !ok {
			m.row.Complete = false
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

// chainOutputs merges the checks of the chains' last outputs. The verdict stays null if some are
// missing and none failed.
func (m *rowMaker) chainOutputs() {
	const what = "chain_last_output"
	worst := 0.0
	var failed, nonFinite []int
	taken, want := 0, len(m.ranks)*m.block.Timing.ChainTrialsPerPoint
	for r, e := range m.ranks {
		for key, record := range e.chains {
			if key.rung != m.rung || record.OutputPassed == nil {
				continue
			}
			if key.Repeat == m.chainCounts[key.Number] {
				taken++
			}
			if !*record.OutputPassed {
				failed = append(failed, r)
			}
			if record.OutputError != nil {
				worst = math.Max(worst, *record.OutputError)
			} else {
				nonFinite = append(nonFinite, r)
			}
		}
	}
	m.blame(slices.Compact(failed), result.ReasonCheck, what)
	m.blame(slices.Compact(nonFinite), result.ReasonNonFinite, what)
	if taken < want {
		m.row.Complete = false
		m.fail(result.ReasonUnchecked.With("%s %d of %d", what, taken, want))
		if failed == nil {
			return
		}
	}
	passed := failed == nil
	check := &m.row.Correctness
	check.ChainLastOutputPassed = &passed
	if nonFinite == nil {
		check.ChainLastOutputError = &worst
	}
}

// name formats ranks for reasons, such as "rank 0,3" or "all ranks".
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
