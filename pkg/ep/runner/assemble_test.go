package runner

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/workload"
)

// assembled is a case of four ranks whose samples are chosen: rank r takes
// base + r microseconds more than rank 0.
func assembledCase() plan.Case {
	c := resulttest.EPCase()
	c.World, ep.Of(&c).EPSize, c.RanksPerNode, ep.Of(&c).Ladder = 4, 4, 4, plan.Ladder{1, 2}
	ep.Of(&c).Timing = ep.Timing{
		ItersPerTrial: 2, TrialsPerPoint: 2, WarmupItersPerTrial: 1,
		ChainItersPerTrial: 5, ChainTrialsPerPoint: 2, ChainDrop: 1,
	}
	c.CaseID = c.ID()
	return c
}

// left is what a good run leaves; change may spoil a record, or drop it by
// returning nil.
func left(t *testing.T, c plan.Case, d Description, change func(r int, record any) any) []rank.Stream {
	routing, err := workload.NewRouting(ep.Of(&c).Routing, workload.Shape{Seed: ep.Of(&c).Seed, World: c.World, Experts: ep.Of(&c).Experts, TopK: ep.Of(&c).TopK})
	require.NoError(t, err)
	yes, small := true, 0.001
	streams := make([]rank.Stream, c.World)
	for r := range streams {
		s := &streams[r]
		s.Rank, s.Done = r, true
		emit := func(kind string, record any) {
			if change != nil {
				record = change(r, record)
			}
			if record == nil {
				return
			}
			raw, err := json.Marshal(record)
			require.NoError(t, err)
			s.Records = append(s.Records, rank.Record{Kind: kind, Data: raw})
		}
		emit(kindPlan, planRecord{Description: d, ValueBytes: 2, Measured: []int{1, 2}})
		for _, rung := range []int{1, 2} {
			digest := routing.Trace(rung).Digest()
			emit(kindPoint, pointRecord{rung, hex.EncodeToString(digest[:])})
			for _, when := range d.moments() {
				emit(kindVerdict, verdictRecord{rung, when, time.Time{}, Verdict{Passed: true, Error: &small, Rows: r + 1}})
			}
			half := 0.25 * float64(1+r%2)
			emit(kindArithmetic, arithmeticRecord{rung, &half, 10 * r, 0})
			for trial := range 2 {
				for i, component := range d.components() {
					us := []float64{float64(1 + 100*i + 10*trial + r), float64(1 + 100*i + 10*trial + 2*r)}
					emit(kindFresh, freshRecord{trial, 0, rung, component, rank.Entry{}, us})
				}
				f := float64(10*trial + r)
				record := chainRecord{
					Trial: trial, TokensPerRank: rung,
					Dispatch: []float64{f + 1, f + 2, f + 3, f + 4}, Combine: []float64{f + 5, f + 6, f + 7, f + 8},
					// Late pairs are shorter by 3·(r+1): drift −3·(r+1).
					Pair: []float64{40 + f, 40 + f, 40 + f - 3*float64(r+1), 40 + f - 3*float64(r+1)},
					// The lower median of the pairs is 40 + f − 3·(r+1): gap 5 + r.
					StartToStart: []float64{0, 45 + f + float64(r) - 3*float64(r+1), 99},
				}
				if !d.Hoisted() {
					record.OutputPassed, record.OutputError = &yes, &small
				}
				emit(kindChain, record)
			}
		}
	}
	return streams
}

var plain = Description{
	Mode: ep.ModeNormal, KernelGeneration: "gen", Receive: TokenRank, Combine: UnweightedRankSum,
	Reduction: DomainFP32, DispatchDType: "bf16", FP8Consume: ConsumeNative, LadderCap: 4,
}

func assembleEP(t *testing.T, c plan.Case, streams []rank.Stream) *ep.Document {
	d := resulttest.New(c, result.Attempt{Ordinal: 1, At: time.Unix(0, 0), Vendor: "host", Generator: "test"}).(*ep.Document)
	d.Implementation.Maturity, d.Topology.DeviceProduct = "reference", "Host CPU"
	require.NoError(t, Assemble(d, streams))
	if d.Outcome.Status == result.Failed {
		d.Outcome.Reasons = result.Reasons{{Code: result.ReasonRankDied}}
	}
	require.NoError(t, result.Validate(d))
	return d
}

func component(origin string, count int, p50, p90, p95, p99 float64) ep.Component {
	return ep.Component{
		Availability: ep.Measured, Origin: &origin, SampleCount: count,
		Percentiles: result.PercentilesOf(p50, p90, p95, p99),
	}
}

func TestAssemble(t *testing.T) {
	c := assembledCase()
	d := assembleEP(t, c, left(t, c, plain, nil))
	require.Equal(t, result.Outcome{Status: result.Success, Reasons: result.Reasons{}}, d.Outcome)
	require.Equal(t, []int{1, 2}, d.Workload.LadderMeasured)
	require.Equal(t, 4, *d.Workload.LadderCap)
	require.True(t, d.Workload.CrossRankConsistent)
	require.Equal(t, "gen", d.Implementation.KernelGeneration)
	require.Nil(t, d.Implementation.LibraryVersion)
	require.Equal(t, "domain-fp32", d.Implementation.CombineReduction)
	require.False(t, *d.Implementation.StageExcludedFromRoundtrip)
	require.True(t, *d.Implementation.ChainedPeriod)

	row := d.Measurement.Rows[1]
	require.Equal(t, 8, row.GlobalTokens)
	// Slowest rank: 4 and 7 in the first trial, 14 and 17 in the second.
	require.Equal(t, component("measured", 4, 7, 17, 17, 17), row.Components.Roundtrip)
	require.Equal(t, component("measured", 4, 107, 117, 117, 117), row.Components.Dispatch)
	require.Equal(t, component("measured", 4, 207, 217, 217, 217), row.Components.Combine)
	require.Equal(t, unavailable(), row.Components.Stage)
	require.Equal(t, result.PercentilesOf(314, 334, 334, 334), row.Components.IsolatedSum.Percentiles)
	require.Equal(t, "derived-percentile-sum", *row.Components.IsolatedSum.Origin)
	require.Zero(t, row.Components.IsolatedSum.SampleCount)
	// Fastest rank is 0: 1 and 1, then 11 and 11. Spread is 3 and 6 in both trials.
	require.Equal(t, component("measured", 4, 1, 11, 11, 11), row.RankMin.Roundtrip)
	require.Equal(t, component("measured", 4, 201, 211, 211, 211), row.RankMin.Combine)
	require.Equal(t, component("measured", 4, 3, 6, 6, 6), row.RankSpread)
	// Pairs by rank, first trial: early 40 41 42 43, late 37 35 33 31: lower medians 41 and 33.
	require.Equal(t, component("chained-median", 8, 41, 51, 51, 51), row.Components.PairPeriod)
	middle := component("chained-middle-mean", 8, 41.5, 51.5, 51.5, 51.5)
	require.Equal(t, &middle, row.PairMiddle)
	require.Equal(t, component("chained-cross-rank-min", 8, 4, 14, 14, 14), row.ChainFloor.Dispatch)
	require.Equal(t, component("chained-cross-rank-min", 8, 8, 18, 18, 18), row.ChainFloor.Combine)
	require.Equal(t, component("measured", 8, 3, 6, 6, 6), row.ChainHealth.PairSpread)
	// Gaps 5 6 7 8: nearest-rank p50 is 6. Drifts −3 −6 −9 −12: the largest magnitude is −12.
	require.Equal(t, component("measured", 2, 6, 6, 6, 6), row.ChainHealth.InterpairGap)
	require.Equal(t, component("measured", 2, -12, -12, -12, -12), row.ChainHealth.SettleDrift)

	small, yes := 0.001, true
	require.Equal(t, ep.Check{
		Passed: true, MaxRelativeError: &small, PostChainPassed: true,
		ChainLastOutputPassed: &yes, ChainLastOutputError: &small,
		OraclePassed: &ep.OraclePassed{Pre: true, Chained: true, Post: true},
		OracleFailed: &ep.OracleFailed{Pre: []string{}, Chained: []string{}, Post: []string{}},
	}, row.Correctness)
	half := 0.5
	require.Equal(t, &result.Arithmetic{Passed: true, Accumulation: "domain-fp32", Checked: 60, MaxError: &half, Bound: &half}, row.Arithmetic)
	require.Equal(t, ep.Receive{Min: 1, Mean: 2.5, Max: 4, Total: 10}, row.Receive)
	require.Equal(t, ep.Copies{Routed: row.RoutingStats.RoutedCopies, Assignments: 64, Wire: "rank-deduplicated"}, row.LogicalCopies)
	require.Equal(t, row.Bytes, *row.WireBytes)
	require.InDelta(t, 8/7e-6, row.TokenRate.P50, 1e-6)
	require.InDelta(t, 8/17e-6, *row.TokenRate.P99, 1e-6)
	require.Equal(t, []string{"combine", "dispatch", "pair_period", "roundtrip"}, slices.Sorted(func(yield func(string) bool) {
		for name := range row.Histograms {
			if !yield(name) {
				return
			}
		}
	}))
}

func TestAssembleHoistedTokenExpert(t *testing.T) {
	c := assembledCase()
	d := plain
	d.StageWorks, d.Receive, d.Combine, d.LadderCap, d.LibraryVersion = true, TokenExpert, WeightedKernelSum, 0, "1.2.3"
	doc := assembleEP(t, c, left(t, c, d, nil))
	require.Equal(t, result.Success, doc.Outcome.Status)
	require.True(t, *doc.Implementation.StageExcludedFromRoundtrip)
	require.Equal(t, "1.2.3", *doc.Implementation.LibraryVersion)
	require.Nil(t, doc.Workload.LadderCap)
	row := doc.Measurement.Rows[0]
	require.Equal(t, component("measured", 4, 307, 317, 317, 317), row.Components.Stage)
	require.Equal(t, 107.0+307+207, row.Components.IsolatedSum.Percentiles.P50)
	require.Nil(t, row.Correctness.ChainLastOutputPassed)
	require.Nil(t, row.Correctness.ChainLastOutputError)
	require.Equal(t, "per-assignment", row.LogicalCopies.Wire)
	perCopy := row.Bytes.Dispatch.Total / row.LogicalCopies.Routed
	require.Equal(t, perCopy*row.LogicalCopies.Assignments, row.WireBytes.Dispatch.Total)
	require.Greater(t, row.WireBytes.Dispatch.Total, row.Bytes.Dispatch.Total, "some tokens have two experts on one rank")
}

// Everything that can be wrong with one rung of otherwise good streams, and
// what the row says of it.
func TestWhatMakesACaseInvalid(t *testing.T) {
	no := false
	verdict := func(r, rank int, record any, when string, spoil func(v *Verdict)) any {
		if v, ok := record.(verdictRecord); ok && r == rank && v.TokensPerRank == 2 && v.When == when {
			spoil(&v.Verdict)
			return v
		}
		return record
	}
	for _, c := range []struct {
		name    string
		change  func(r int, record any) any
		reasons []string
		status  string // reason of the case
	}{
		{"one check on one rank", func(r int, record any) any {
			return verdict(r, 1, record, whenBefore, func(v *Verdict) { v.fail(CheckPayload) })
		}, []string{"check-failed: before payload rank 1"}, string(result.ReasonSemantics)},
		{"two checks after timing", func(r int, record any) any {
			return verdict(r, r, record, whenAfter, func(v *Verdict) {
				if r > 0 {
					v.fail(CheckInputs)
					v.fail(CheckWeights)
				}
			})
		}, []string{"check-failed: after weights rank 1,2,3", "check-failed: after inputs_unchanged rank 1,2,3"}, string(result.ReasonSemantics)},
		{"on all ranks", func(r int, record any) any {
			return verdict(r, r, record, whenPostChain, func(v *Verdict) { v.fail(CheckCounts) })
		}, []string{"check-failed: post-chain counts all ranks"}, string(result.ReasonSemantics)},
		{"an error that is no number", func(r int, record any) any {
			return verdict(r, 2, record, whenAfter, func(v *Verdict) { v.fail(CheckCombine); v.Error = nil })
		}, []string{"check-failed: after combine_values rank 2", "non-finite-error: after rank 2"}, string(result.ReasonSemantics)},
		{"another trace", func(r int, record any) any {
			if p, ok := record.(pointRecord); ok && r == 3 && p.TokensPerRank == 2 {
				p.Digest = "00"
				return p
			}
			return record
		}, []string{"check-failed: routing_trace rank 3"}, string(result.ReasonSemantics)},
		{"nothing received", func(r int, record any) any {
			return verdict(r, r, record, whenBefore, func(v *Verdict) { v.Rows = 0 })
		}, []string{"check-failed: nothing was received"}, string(result.ReasonSemantics)},
		{"the chain's last output", func(r int, record any) any {
			if p, ok := record.(chainRecord); ok && r == 2 && p.TokensPerRank == 2 {
				worst := 0.5
				p.OutputPassed, p.OutputError = &no, &worst
				return p
			}
			return record
		}, []string{"check-failed: chain_last_output rank 2"}, string(result.ReasonSemantics)},
		{"the chain's last output is no number", func(r int, record any) any {
			if p, ok := record.(chainRecord); ok && r == 2 && p.TokensPerRank == 2 && p.Trial == 1 {
				p.OutputPassed, p.OutputError = &no, nil
				return p
			}
			return record
		}, []string{"check-failed: chain_last_output rank 2", "non-finite-error: chain_last_output rank 2"}, string(result.ReasonSemantics)},
		{"an oracle that did not run", func(r int, record any) any {
			if v, ok := record.(verdictRecord); ok && r == 1 && v.TokensPerRank == 2 && v.When == whenAfter {
				return nil
			}
			return record
		}, []string{"check-did-not-run: after rank 1"}, string(result.ReasonUnchecked)},
		{"a time of zero", func(r int, record any) any {
			if f, ok := record.(freshRecord); ok && r == 1 && f.TokensPerRank == 2 && f.Trial == 1 && f.Component == compCombine {
				f.Microseconds = []float64{9, 0}
				return f
			}
			return record
		}, []string{"implausible: combine on rank 1 takes 0 us"}, "implausible: combine on rank 1 takes 0 us"},
		{"a chained pair of no time", func(r int, record any) any {
			if p, ok := record.(chainRecord); ok && r == 3 && p.TokensPerRank == 2 && p.Trial == 0 {
				p.Pair = []float64{0, 0, 0, 0}
				return p
			}
			return record
		}, []string{"implausible: pair_period on rank 3 takes 0 us"}, "implausible: pair_period on rank 3 takes 0 us"},
		{"samples that are not there", func(r int, record any) any {
			if f, ok := record.(freshRecord); ok && r == 1 && f.TokensPerRank == 2 && f.Trial == 1 && f.Component == compDispatch {
				return nil
			}
			return record
		}, nil, string(result.ReasonUnchecked)},
	} {
		t.Run(c.name, func(t *testing.T) {
			kase := assembledCase()
			d := assembleEP(t, kase, left(t, kase, plain, c.change))
			require.Equal(t, result.Outcome{Status: result.Invalid, Reasons: resulttest.Reasons(c.status)}, d.Outcome)
			require.Len(t, d.Measurement.Rows, 2, "all rows are written either way")
			good, bad := d.Measurement.Rows[0].Correctness, d.Measurement.Rows[1].Correctness
			require.True(t, good.Passed)
			require.Equal(t, strings.Join(c.reasons, "; "), bad.Reasons.String())
			require.Equal(t, len(c.reasons) == 0, bad.Passed)
		})
	}
}

// TestOracleByMoment: a row says at which of upstream's moments the oracle of any rank
// failed, and in which checks.
func TestOracleByMoment(t *testing.T) {
	none := []string{}
	for _, c := range []struct {
		when   string
		failed []string // of ranks 1 and 2
		gone   bool     // rank 1 has no verdict
		passed ep.OraclePassed
		checks ep.OracleFailed
	}{
		{whenBefore, []string{CheckWeights, CheckPayload}, false, ep.OraclePassed{Chained: true, Post: true}, ep.OracleFailed{Pre: []string{"payload", "weights"}, Chained: none, Post: none}},
		{whenChainOutput, []string{CheckCombine}, false, ep.OraclePassed{Pre: true, Post: true}, ep.OracleFailed{Pre: none, Chained: []string{"combine_values"}, Post: none}},
		{changed(whenPostChain), []string{CheckCounts}, false, ep.OraclePassed{Pre: true, Post: true}, ep.OracleFailed{Pre: none, Chained: []string{"counts"}, Post: none}},
		{afterWindow(compCombine), []string{CheckSourceSet}, false, ep.OraclePassed{Pre: true, Chained: true}, ep.OracleFailed{Pre: none, Chained: none, Post: []string{"source_set"}}},
		{whenAfter, []string{CheckMetadata}, false, ep.OraclePassed{Pre: true, Chained: true}, ep.OracleFailed{Pre: none, Chained: none, Post: []string{"metadata"}}},
		{whenAfter, nil, true, ep.OraclePassed{Pre: true, Chained: true}, ep.OracleFailed{Pre: none, Chained: none, Post: none}},
	} {
		t.Run(c.when, func(t *testing.T) {
			kase := assembledCase()
			d := assembleEP(t, kase, left(t, kase, plain, func(r int, record any) any {
				v, ok := record.(verdictRecord)
				if !ok || v.TokensPerRank != 2 || v.When != c.when || r != 1 && r != 2 {
					return record
				}
				if c.gone {
					return nil
				}
				for _, check := range c.failed {
					v.fail(check)
				}
				return v
			}))
			good, bad := d.Measurement.Rows[0].Correctness, d.Measurement.Rows[1].Correctness
			require.Equal(t, ep.OraclePassed{Pre: true, Chained: true, Post: true}, *good.OraclePassed)
			require.Equal(t, c.passed, *bad.OraclePassed)
			require.Equal(t, c.checks, *bad.OracleFailed)
			require.False(t, bad.Passed)
		})
	}
}

// Sums that are not as declared are published beside the contract's verdict, which
// stays as it is.
func TestArithmeticIsItsOwnVerdict(t *testing.T) {
	c := assembledCase()
	three := 3.0
	spoiled := func(e *float64, wrong int) *ep.Document {
		return assembleEP(t, c, left(t, c, plain, func(r int, record any) any {
			if a, ok := record.(arithmeticRecord); ok && r == 2 && a.TokensPerRank == 2 {
				a.Error, a.Wrong = e, wrong
				return a
			}
			return record
		}))
	}
	d := spoiled(&three, 4)
	require.Equal(t, result.Success, d.Outcome.Status)
	require.True(t, d.Measurement.Rows[0].Arithmetic.Passed)
	row := d.Measurement.Rows[1]
	require.True(t, row.Correctness.Passed)
	require.False(t, row.Arithmetic.Passed)
	require.Equal(t, 3.0, *row.Arithmetic.MaxError)
	require.EqualValues(t, 4, row.Arithmetic.Wrong)
	require.Equal(t, resulttest.Reasons("check-failed: arithmetic rank 2"), row.Arithmetic.Reasons)
	require.Nil(t, spoiled(nil, 1).Measurement.Rows[1].Arithmetic.MaxError)

	d = assembleEP(t, c, left(t, c, plain, func(r int, record any) any {
		if _, ok := record.(arithmeticRecord); ok && r == 2 {
			return nil
		}
		return record
	}))
	require.Equal(t, result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonUnchecked}}}, d.Outcome)
	require.Nil(t, d.Measurement.Rows[1].Arithmetic)
}

// Where every sample is zero there is no rate, which would be infinite.
func TestNoTimeHasNoRate(t *testing.T) {
	c := assembledCase()
	d := assembleEP(t, c, left(t, c, plain, func(_ int, record any) any {
		if f, ok := record.(freshRecord); ok && f.Component == compRoundtrip {
			f.Microseconds = []float64{0, 0}
			return f
		}
		return record
	}))
	require.Equal(t, result.Outcome{Status: result.Invalid, Reasons: resulttest.Reasons("implausible: roundtrip on all ranks takes 0 us")}, d.Outcome)
	require.Nil(t, d.Measurement.Rows[0].TokenRate)
}

// A rank that dies leaves what all ranks had until then, marked, and the
// outcome to the shard.
func TestPartialRows(t *testing.T) {
	c := assembledCase()
	streams := left(t, c, plain, nil)
	cut := slices.IndexFunc(streams[2].Records, func(r rank.Record) bool { return r.Kind == kindChain })
	streams[2].Records, streams[2].Done = streams[2].Records[:cut], false
	d := assembleEP(t, c, streams)
	require.Equal(t, result.Failed, d.Outcome.Status)
	require.Equal(t, []int{1, 2}, d.Workload.LadderMeasured, "rank 2 left nothing of the second rung, but the others did")
	row := d.Measurement.Rows[0]
	require.False(t, row.Complete)
	require.False(t, row.Correctness.Passed)
	require.Equal(t, component("measured", 2, 4, 7, 7, 7), row.Components.Roundtrip, "the first trial is whole")
	require.Equal(t, unavailable(), row.Components.PairPeriod)
	require.Nil(t, row.Correctness.ChainLastOutputPassed)
	require.NotNil(t, row.TokenRate)
	require.False(t, d.Workload.CrossRankConsistent)
	for _, reason := range d.Measurement.Rows[1].Correctness.Reasons {
		require.Equal(t, result.ReasonUnchecked, reason.Code, "a trace that was not told is no wrong one: %s", reason)
	}

	// What the others found wrong outlasts the death. That they received nothing is not wrong: rank 2
	// may have received everything.
	spoiled := func(spoil func(v *Verdict)) result.Outcome {
		streams := left(t, c, plain, func(r int, record any) any {
			if v, ok := record.(verdictRecord); ok && r != 2 && v.When == whenBefore {
				spoil(&v.Verdict)
				return v
			}
			return record
		})
		streams[2].Records, streams[2].Done = streams[2].Records[:cut], false
		return assembleEP(t, c, streams).Outcome
	}
	require.Equal(t, result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonSemantics}}}, spoiled(func(v *Verdict) { v.fail(CheckPayload) }))
	require.Equal(t, result.Failed, spoiled(func(v *Verdict) { v.Rows = 0 }).Status)

	// Nobody left anything, or nothing but a plan.
	for _, keep := range []int{0, 1} {
		streams := left(t, c, plain, nil)
		for r := range streams {
			streams[r].Records, streams[r].Done = streams[r].Records[:keep], false
		}
		d := assembleEP(t, c, streams)
		require.Empty(t, d.Measurement.Rows)
		require.Empty(t, d.Workload.LadderMeasured)
	}
	require.Empty(t, assembleEP(t, c, nil).Measurement.Rows)
}

// Ranks that say that they are done without having worked do not succeed.
func TestLiarsDoNotSucceed(t *testing.T) {
	c := assembledCase()
	for name, streams := range map[string][]rank.Stream{
		"all":         {{Rank: 0, Done: true}, {Rank: 1, Done: true}, {Rank: 2, Done: true}, {Rank: 3, Done: true}},
		"one of them": append(left(t, c, plain, nil)[:3], rank.Stream{Rank: 3, Done: true}),
	} {
		t.Run(name, func(t *testing.T) {
			d := assembleEP(t, c, streams)
			require.Equal(t, result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonUnchecked}}}, d.Outcome)
		})
	}
}

func TestStreamsThatMakeNoSense(t *testing.T) {
	c := assembledCase()
	for _, bad := range []struct {
		name   string
		change func(r int, record any) any
		want   string
	}{
		{"too few samples", func(_ int, record any) any {
			if f, ok := record.(freshRecord); ok {
				f.Microseconds = f.Microseconds[1:]
				return f
			}
			return record
		}, "rank 0: record 22 (ep-fresh): 1 samples, must be 2"},
		{"too few pairs", func(_ int, record any) any {
			if f, ok := record.(chainRecord); ok {
				f.Pair = nil
				return f
			}
			return record
		}, "0 pairs and 3 distances, must be 4 and 3"},
		{"ranks that declare different things", func(r int, record any) any {
			if p, ok := record.(planRecord); ok && r == 2 {
				p.Reduction = TopKSlotTree
				return p
			}
			return record
		}, "the ranks declare different plans: rank 2 "},
		{"no record of this family", func(_ int, record any) any {
			if _, ok := record.(planRecord); ok {
				return []int{1}
			}
			return record
		}, "rank 0: record 1 (ep-plan): json"},
	} {
		t.Run(bad.name, func(t *testing.T) {
			d := resulttest.New(c, resulttest.Attempt())
			require.ErrorContains(t, Assemble(d, left(t, c, plain, bad.change)), bad.want)
		})
	}
	d := resulttest.New(c, resulttest.Attempt())
	require.ErrorContains(t, Assemble(d, []rank.Stream{{Rank: 0, Records: []rank.Record{{Kind: "samples"}}}}), "unknown kind")
	require.ErrorContains(t, Assemble(d, []rank.Stream{{Rank: 4}}), "rank 4 in a world of 4")
	require.Error(t, Assemble(resulttest.New(resulttest.CollectiveCase(), resulttest.Attempt()), nil))
}
