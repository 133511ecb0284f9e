package runner

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
	"github.com/collectivex/collectivex/pkg/workload"
)

// tape makes the streams that ranks would leave of a case: 100 µs and one more
// per rank, 10 more per trial, 0.5 more per iteration.
type tape struct {
	t       *testing.T
	c       plan.Case
	streams []rank.Stream
}

func record(t *testing.T, kind string, data any) rank.Record {
	raw, err := json.Marshal(data)
	require.NoError(t, err)
	return rank.Record{Kind: kind, Data: raw}
}

func newTape(t *testing.T, c plan.Case) *tape {
	sp, err := parse(c)
	require.NoError(t, err)
	l := sp.layOut(limits{Bytes: 1 << 30, Untimed: untimedOnHost, Cache: 1 << 20, NoGraphs: true})
	p := &tape{t: t, c: c}
	for r := range c.World {
		set := setup{Path: "native", CheckedBy: "host", Modes: l.modes, Dropped: l.dropped, Excluded: l.excluded}
		for _, x := range l.rungs {
			set.Rungs = append(set.Rungs, rungRecord{x.Requested, x.Bytes, x.Count, x.Placement, x.Pair, x.Slots, x.Count, 2 * x.Count, x.truncated})
		}
		s := rank.Stream{Rank: r, Done: true, Facts: &rank.Facts{Library: rank.Library{Kind: "host", Version: "1"}}}
		s.Records = append(s.Records, record(t, kindSetup, set))
		for _, x := range l.rungs {
			for trial := range collective.Of(&c).Measure.Trials {
				for _, mode := range l.modes {
					v := sample{Sample: collective.Sample{Window: window{Requested: x.Requested, Placement: x.Placement, Pair: x.Pair, Mode: mode, Trial: trial}}, Check: &workload.Verdict{Checked: x.Count, First: -1}}
					n := 1
					if mode == vocab.PerIteration {
						n = collective.Of(&c).Measure.Iterations
					}
					for i := range n {
						v.US = append(v.US, 100+float64(r)+10*float64(trial)+0.5*float64(i))
					}
					s.Records = append(s.Records, record(t, collective.KindSample, v))
				}
			}
			for _, mode := range untimedModes(l.modes) {
				w := window{Requested: x.Requested, Placement: x.Placement, Pair: x.Pair, Mode: mode, Trial: collective.Of(&c).Measure.Trials}
				s.Records = append(s.Records, record(t, collective.KindSample, sample{Sample: collective.Sample{Window: w}, Check: &workload.Verdict{Checked: 2 * x.Count, First: -1}}))
				s.Records = append(s.Records, record(t, kindTruncated, truncated{Window: w, Windows: x.truncated, Check: workload.Verdict{Checked: 1, First: -1}, Fresh: 90 + float64(r)}))
			}
		}
		if _, inexact := sp.arithmetic(); inexact {
			s.Records = append(s.Records, record(t, kindArithmetic, workload.ArithmeticVerdict{Checked: 64, Error: 0.25, Bound: 0.5}))
		}
		p.streams = append(p.streams, s)
	}
	return p
}

// edit changes the n-th sample of a rank.
func (p *tape) edit(r, n int, change func(*sample)) {
	var s sample
	require.NoError(p.t, json.Unmarshal(p.streams[r].Records[n+1].Data, &s))
	change(&s)
	p.streams[r].Records[n+1] = record(p.t, collective.KindSample, s)
}

func (p *tape) editSetup(r int, change func(*setup)) {
	var s setup
	require.NoError(p.t, json.Unmarshal(p.streams[r].Records[0].Data, &s))
	change(&s)
	p.streams[r].Records[0] = record(p.t, kindSetup, s)
}

func (p *tape) document() (*collective.Document, error) {
	doc, err := result.New(p.c, result.Attempt{Ordinal: 1, At: time.Now(), Vendor: "host", Generator: "test 0"})
	require.NoError(p.t, err)
	err = Assemble(doc, p.streams)
	return doc.(*collective.Document), err
}

func (p *tape) mustDocument() *collective.Document {
	d, err := p.document()
	require.NoError(p.t, err)
	d.Topology.DeviceProduct = "test"
	if d.Outcome.Status == result.Failed { // the shard knows why
		d.Outcome.Reasons = result.Reasons{{Code: result.ReasonRankDied}}
	}
	require.NoError(p.t, result.Validate(d))
	return d
}

func TestAssemble(t *testing.T) {
	p := newTape(t, aCase(func(c *plan.Case) { collective.Of(c).Modes = append(collective.Of(c).Modes, vocab.Graph) }))
	d := p.mustDocument()
	require.Equal(t, result.Success, d.Outcome.Status)
	require.Equal(t, "1", *d.Implementation.LibraryVersion)
	require.Equal(t, []int64{8, 1 << 20}, d.Workload.SizesMeasured)
	require.Equal(t, []collective.Exclusion{{What: "graph", Reason: result.Reason{Code: "refused", Detail: "the device has no graphs"}}}, d.Workload.Excluded)
	require.Len(t, d.Measurement.Rows, 4)
	row := d.Measurement.Rows[2]
	require.Equal(t, collective.Row{
		Key:       row.Key,
		Requested: 1 << 20, Bytes: 1 << 20, Count: 1 << 18, Placement: vocab.OutOfPlace, Slots: 1, Complete: true,
		Pipelined: row.Pipelined, PerIteration: row.PerIteration,
		Check: collective.Check{Passed: true, Checked: 12<<18 + 2},
	}, row)
	// Slowest rank: 101 and 111; nearest rank p50 of two is the lower.
	require.Equal(t, *result.PercentilesOf(101, 111, 111, 111), row.Pipelined.Percentiles)
	require.Equal(t, []float64{101, 106, 111}, []float64{row.Pipelined.Min, row.Pipelined.Mean, row.Pipelined.Max})
	require.Equal(t, []float64{100, 100.5}, []float64{row.Pipelined.RankMin, row.Pipelined.RankMean})
	require.Equal(t, []float64{100, 101}, row.Pipelined.RankP50)
	require.Equal(t, 8, row.PerIteration.SampleCount)
	require.InDelta(t, 102.5, row.PerIteration.Percentiles.P50, 1e-9)
	require.InDelta(t, float64(1<<20)/101/1e3, row.Pipelined.AlgBW, 1e-9)
	require.InDelta(t, row.Pipelined.AlgBW, row.Pipelined.BusBW, 1e-9) // 2(n−1)/n = 1
	require.Len(t, row.PerIteration.Histogram.Counts, histogramBins)
}

// Shifted buffers of one size are of one key only where as many of them fit into
// the largest size of the case.
func TestShiftedBuffersOfAnotherSpanAreNotCompared(t *testing.T) {
	keys := func(largest int64) (document, row string) {
		d := newTape(t, aCase(func(c *plan.Case) {
			collective.Of(c).Buffers, collective.Of(c).Sizes = vocab.Shifted, []int64{1 << 20, largest}
		})).mustDocument()
		require.NotEmpty(t, d.Measurement.Rows[0].Key)
		require.EqualValues(t, 1<<20, d.Measurement.Rows[0].Requested)
		return d.ComparisonKey, d.Measurement.Rows[0].Key
	}
	document2, row2 := keys(2 << 20)
	document64, row64 := keys(64 << 20)
	document128, row128 := keys(128 << 20)
	require.Equal(t, document2, document64)
	require.Equal(t, document64, document128)
	require.NotEqual(t, row2, row64, "2 slots and 4")
	require.Equal(t, row64, row128, "a slot for each operation in both")
}

func TestAssembleWrongData(t *testing.T) {
	p := newTape(t, aCase())
	p.edit(1, 6, func(s *sample) { s.Check.Wrong, s.Check.First = 1, 7 })
	d := p.mustDocument()
	require.Equal(t, result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonSemantics}}}, d.Outcome)
	require.EqualValues(t, 1, d.Measurement.Rows[1].Check.Wrong)
	require.False(t, d.Measurement.Rows[1].Check.Passed)
	require.True(t, d.Measurement.Rows[0].Check.Passed)
}

func TestAssembleNeverPassesWhatWasNotChecked(t *testing.T) {
	for name, change := range map[string]func(*sample){
		"no check":        func(s *sample) { s.Check = nil },
		"nothing checked": func(s *sample) { s.Check.Checked = 0 },
		"too little":      func(s *sample) { s.Check.Checked-- },
	} {
		t.Run(name, func(t *testing.T) {
			p := newTape(t, aCase())
			p.edit(0, 2, change)
			d := p.mustDocument()
			require.Equal(t, result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonUnchecked}}}, d.Outcome)
			require.False(t, d.Measurement.Rows[0].Check.Passed)
		})
	}
}

// What a group left that died in the third row's second trial.
func TestAssembleKeepsWhatWasMeasured(t *testing.T) {
	p := newTape(t, aCase())
	p.streams[1].Records = p.streams[1].Records[:1+6+6+2]
	p.streams[1].Done = false
	p.streams[0].Records = p.streams[0].Records[:1+6+6+3]
	p.streams[0].Done = false
	d := p.mustDocument()
	require.Equal(t, result.Failed, d.Outcome.Status)
	require.Len(t, d.Measurement.Rows, 3)
	require.True(t, d.Measurement.Rows[1].Complete)
	last := d.Measurement.Rows[2]
	require.False(t, last.Complete)
	require.Equal(t, 1, last.Pipelined.SampleCount)
	require.Equal(t, 4, last.PerIteration.SampleCount)
}

func TestAssembleMissingRanks(t *testing.T) {
	p := newTape(t, aCase())
	p.streams = p.streams[:1]
	d := p.mustDocument()
	require.Equal(t, result.Failed, d.Outcome.Status)
	require.Empty(t, d.Measurement.Rows, "a time of some of the ranks is no time")

	p = newTape(t, aCase())
	p.streams[1] = rank.Stream{Rank: 1}
	require.Empty(t, p.mustDocument().Measurement.Rows)

	p.streams[0] = rank.Stream{Rank: 0}
	require.Equal(t, result.Failed, p.mustDocument().Outcome.Status)
}

// A rank that says done without its windows does not make a success.
func TestAssembleLyingRank(t *testing.T) {
	p := newTape(t, aCase())
	p.streams[1].Records = p.streams[1].Records[:1+4]
	d := p.mustDocument()
	require.Equal(t, result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonUnchecked}}}, d.Outcome)

	p.streams[1].Records = nil
	d = p.mustDocument()
	require.NotEqual(t, result.Success, d.Outcome.Status)
}

func TestAssembleRefusesNonsense(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *tape)
		want   string
	}{
		"ranks disagree":      {func(p *tape) { p.editSetup(1, func(s *setup) { s.Rungs[0].Count++ }) }, "recorded different setups"},
		"unknown kind":        {func(p *tape) { p.streams[0].Records[3].Kind = "ep-sample" }, `record 4: unknown kind "ep-sample"`},
		"window twice":        {func(p *tape) { p.streams[0].Records[4] = p.streams[0].Records[3] }, "is recorded twice"},
		"samples of no setup": {func(p *tape) { p.streams[1].Records = p.streams[1].Records[1:] }, "samples without a setup"},
		"not JSON of ours":    {func(p *tape) { p.streams[1].Records[2].Data = []byte(`{"us": 7}`) }, "rank 1: record 3"},
		"samples differ":      {func(p *tape) { p.edit(0, 1, func(s *sample) { s.US = s.US[:2] }) }, "has"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTape(t, aCase())
			c.change(p)
			_, err := p.document()
			require.ErrorContains(t, err, c.want)
		})
	}
	require.Error(t, Assemble(&ep.Document{}, nil))
}
