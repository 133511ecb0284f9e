package runner

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// In every arrangement the tables of a row are disjoint, inside of the pools, and the same
// on both ranks; only scattered ones pair unlike places.
func TestTablesAreDisjoint(t *testing.T) {
	for _, arrangement := range transfer.Arrangements() {
		c := plantest.Transfer(func(c *plan.Case) {
			transfer.Of(c).Routing = arrangement
			transfer.Of(c).Entries = []transfer.CacheEntry{{Regions: 3, Tokens: 1, Bytes: 8}, {Regions: 2, Tokens: 32, Bytes: 24, Window: 64}}
		})
		block := transfer.Of(&c)
		points, _ := block.Points()
		pool := poolBytes(block.PoolSlack, points[len(points)-1].Bytes)
		for _, row := range transfer.AskedRows(block, points) {
			b := newBursts(block, row, pool)
			require.NoError(t, b.check(pool), row.Name())
			require.GreaterOrEqual(t, b.tables, block.PoolSlack)
			taken := map[int64]bool{}
			var bytes int64
			unlike := 0
			for set := range b.tables {
				require.Len(t, b.sets[set], row.Batch)
				for _, x := range b.blocks(set) {
					require.False(t, taken[x.Remote], "%s: two tables have the block at %d", row.Name(), x.Remote)
					taken[x.Remote] = true
					bytes += x.Bytes
					if x.Local != x.Remote {
						unlike++
					}
				}
				require.Len(t, b.sets[set][0], row.Descs)
			}
			require.Equal(t, int64(b.tables*row.Batch)*row.ReqBytes, bytes)
			if row.Kind == transfer.KindPaged {
				require.Equal(t, arrangement == transfer.Paged, unlike > len(taken)/2, row.Name())
			}
		}
	}
}

// Each burst changes all words of its table: none of the bursts before it, up to a whole turn, has left
// them there.
func TestEachBurstChangesItsTable(t *testing.T) {
	for _, op := range transfer.Ops() {
		c := plantest.Transfer(func(c *plan.Case) { transfer.Of(c).Ops = transfer.Words{op} })
		block := transfer.Of(&c)
		points, _ := block.Points()
		all := []bursts{small(op, pool.WordBytes)}
		for _, row := range transfer.AskedRows(block, points) {
			all = append(all, newBursts(block, row, poolBytes(block.PoolSlack, points[len(points)-1].Bytes)))
		}
		for _, b := range all {
			s := b.series()
			before := map[pool.Span]int{} // by words of either side
			for n := range 2 * len(b.sets) {
				requests := s.next()
				moved := spans(slices.Concat(requests...), op == transfer.Pull)
				require.Subset(t, s.arrived(), moved)
				require.Len(t, s.arrived(), len(moved)*min(n+1, b.tables), "the last burst of each table")
				for _, block := range moved {
					if last, ok := before[block]; ok {
						require.Equal(t, len(b.sets), n-last, b.row.Name())
					}
					before[block] = n
				}
			}
			require.Len(t, before, len(b.sets)*len(b.blocks(0)))
			s.fresh = s.made
			require.Empty(t, s.arrived(), "the pools are painted")
		}
	}
}

// A row whose unchecked bursts are faster than the checked ones by more than chance allows is
// implausible, and so are small transfers.
func TestUncheckedBurstsAreNotFaster(t *testing.T) {
	const reps, trials = 8, 3
	c := plantest.Transfer(func(c *plan.Case) {
		transfer.Of(c).Timing = plan.Repetitions{Reps: reps, Trials: trials}
	})
	reason := result.Reasons{{Code: result.ReasonImplausible, Detail: "15 of 15 unchecked bursts faster than all checked ones"}}
	for name, tc := range map[string]struct {
		unchecked func(n int) float64 // time of unchecked burst n
		checked   float64
		checks    int
		want      result.Reasons
	}{
		"alike":                      {func(int) float64 { return 1 }, 1, transfer.CheckedReps, nil},
		"checked ones are faster":    {func(int) float64 { return 2 }, 1, transfer.CheckedReps, nil},
		"a little faster":            {func(int) float64 { return 0.9 }, 1, transfer.CheckedReps, nil},
		"all faster":                 {func(int) float64 { return 0.5 }, 1, transfer.CheckedReps, reason},
		"half of them faster":        {func(n int) float64 { return 0.5 + float64(n%2) }, 1, transfer.CheckedReps, nil},
		"all faster, and not looked": {func(int) float64 { return 0.5 }, 1, 1, nil},
	} {
		a := &assembly{block: transfer.Of(&c), tracks: make([]track, transfer.Ranks)}
		var latency []float64
		for n := range trials {
			for rep := range reps {
				at := (rep + n) % reps
				if at >= transfer.CheckedReps {
					latency = append(latency, tc.unchecked(at))
					continue
				}
				latency = append(latency, tc.checked)
				if at < tc.checks {
					a.tracks[postingRank].checks = append(a.tracks[postingRank].checks, check{Row: 2, Op: transfer.Push, Trial: rank.Trial{Number: n}, Rep: rep})
				}
			}
		}
		require.Equal(t, tc.want, a.hurry(2, transfer.Push, latency, nil), name)
		require.Nil(t, a.hurry(1, transfer.Push, latency, nil), "another row")
	}
}

// Blocks that overlap, or lie on a guard, are refused before anything is posted.
func TestBadBlocksAreRefused(t *testing.T) {
	const pool = 2*guardBytes + slideBytes + 4096
	for name, blocks := range map[string][]Block{
		"overlap":    {{guardBytes, guardBytes, 64}, {guardBytes + 64, guardBytes + 56, 64}},
		"in front":   {{guardBytes - 8, guardBytes, 64}},
		"at the end": {{pool - guardBytes - 56, guardBytes, 64}},
	} {
		b := bursts{tables: 1, sets: [][][]Block{{blocks}}}
		require.Error(t, b.check(pool), name)
	}
}

// Of a two-sided library each burst counts with the slower rank's time, and a trial that one
// rank did not finish does not count.
func TestTheSlowerRankCounts(t *testing.T) {
	of := func(latency ...float64) trial {
		return trial{Row: 1, Latency: latency, Request: latency, Prepare: latency, Post: latency, Release: latency}
	}
	posting := func(twoSided bool, serving ...trial) (bool, []float64) {
		a := assembly{tracks: []track{{trials: serving}, {setup: &setup{TwoSided: twoSided}}}}
		own := trial{Row: 1, Latency: []float64{2, 3}, Request: []float64{2, 3}, Prepare: []float64{2, 3}, Post: []float64{2, 3}, Release: []float64{2, 3}}
		return a.slower(&own), own.Latency
	}
	for name, tc := range map[string]struct {
		twoSided bool
		serving  []trial
		counts   bool
		latency  []float64
	}{
		"one-sided":         {false, nil, true, []float64{2, 3}},
		"each slower once":  {true, []trial{{Row: 0}, of(1, 5)}, true, []float64{2, 5}},
		"missing":           {true, []trial{{Row: 1, Trial: rank.Trial{Number: 1}}}, false, nil},
		"one burst is less": {true, []trial{of(1)}, false, nil},
	} {
		counts, latency := posting(tc.twoSided, tc.serving...)
		require.Equal(t, tc.counts, counts, name)
		if tc.counts {
			require.Equal(t, tc.latency, latency, name)
		}
	}
}

// Ranks of a two-sided library that posted unlike numbers of sustained bursts make no document.
func TestRanksPostEquallyMany(t *testing.T) {
	c := plantest.Transfer(func(c *plan.Case) { transfer.Of(c).Ops = transfer.Words{transfer.Pull} })
	of := func(bursts int, twoSided bool) track {
		return track{
			setup:     &setup{TwoSided: twoSided},
			sustained: []sustained{{Op: transfer.Pull, Bursts: bursts, Bytes: 64, Seconds: 1}},
		}
	}
	for _, twoSided := range []bool{false, true} {
		a := assembly{Document: &transfer.Document{}, block: transfer.Of(&c), tracks: []track{of(3, twoSided), of(4, twoSided)}}
		if err := a.rest(); twoSided {
			require.EqualError(t, err, "pull: rank 0 posted 3 sustained bursts, but rank 1 posted 4")
		} else {
			require.NoError(t, err)
		}
	}
}

// A fit is published only if neither a row nor the link refutes it, and a fresh document with another one is refused.
func TestRefutedFits(t *testing.T) {
	c := plantest.Transfer(func(c *plan.Case) { transfer.Of(c).Ops = transfer.Words{transfer.Pull} })
	const us, perBlock = 5, 0.5
	for name, tc := range map[string]struct {
		gbps, off float64 // rate of the rows, and by how much the last one is off
		peak      float64 // of the link
		fits      bool
	}{
		"a line":               {100, 0, 478, true},
		"no known link":        {742, 0, 0, true},
		"faster than its link": {742, 0, 478, false},
		"no rate":              {math.Inf(1), 0, 478, false},
		"off the line":         {100, 1, 478, false},
	} {
		d := resulttest.Transfer(c, resulttest.Attempt())
		d.Limits = []result.Limit{{Of: result.LimitMemory, GBps: 1}}
		if tc.peak > 0 {
			d.Limits = append(d.Limits, result.Limit{Of: result.LimitLink, GBps: tc.peak})
		}
		d.Measurement.Rows = nil
		for i, blocks := range []int{1, 64, 1, 64, 8, 512} {
			r := transfer.Row{Op: transfer.Pull, Kind: transfer.KindPaged, Batch: 1, Descs: blocks, ReqBytes: 1 << (16 + 2*i), Verify: result.Verify{Passed: true}}
			r.Latency.P50 = (us + perBlock*float64(blocks) + float64(r.ReqBytes)/tc.gbps/1e3) / 1e3
			d.Measurement.Rows = append(d.Measurement.Rows, r)
		}
		d.Measurement.Rows[5].Latency.P50 *= 1 + tc.off
		a := assembly{Document: d, block: transfer.Of(&c), tracks: []track{{setup: &setup{}}, {setup: &setup{}}}}
		require.NoError(t, a.rest())
		require.Equal(t, tc.fits, len(d.Measurement.Fit) == 1, "%s: %+v", name, d.Measurement.Fit)
	}

	d := resulttest.Transfer(c, resulttest.Attempt())
	d.Measurement.Fit = []transfer.Fit{{Op: transfer.Pull, Alpha: 1, GBps: 0, Points: 4}}
	require.ErrorContains(t, result.Validate(d), "measurement.fit[pull]: time does not grow with the bytes")
}

// Nothing is faster than its link: bursts, small transfers and sustained bursts.
func TestNothingIsFasterThanItsLink(t *testing.T) {
	const peak = 450 // GB/s
	c := plantest.Transfer(func(c *plan.Case) { c.Backend, transfer.Of(c).Mode = "ipc", vocab.LanePeer })
	for what, edit := range map[string]func(m *transfer.Measurement, gbps float64){
		"pull paged": func(m *transfer.Measurement, gbps float64) {
			r := &m.Rows[slices.IndexFunc(m.Rows, func(r transfer.Row) bool { return r.Batch > 1 })]
			r.Latency.P50 = float64(r.ReqBytes) * float64(r.Batch) / gbps / 1e6
		},
		"first push": func(m *transfer.Measurement, gbps float64) {
			m.First[1].Millis.P50 = float64(m.First[1].Bytes) / gbps / 1e6
		},
		"push sustained": func(m *transfer.Measurement, gbps float64) {
			m.Sustained[1].Bytes = int64(gbps * 1e9 * m.Sustained[1].Seconds)
		},
	} {
		tooFast := func(of string, gbps float64) string {
			d := resulttest.Transfer(c, resulttest.Attempt())
			d.Limits = []result.Limit{{Of: of, GBps: peak}}
			edit(&d.Measurement, gbps)
			a := &assembly{Document: d}
			a.tooFast()
			wrong := a.implausible.String()
			require.Equal(t, wrong == "", passed(&d.Measurement), "what is too fast has not passed")
			return wrong
		}
		for _, of := range []string{result.LimitLink, result.LimitNetwork} {
			require.Empty(t, tooFast(of, 0.999*peak), what)
			require.Contains(t, tooFast(of, 1.001*peak), "implausible: "+what+" of ", of)
		}
	}
}

// Wrong words count without a time of their burst, such as one during which a rank died.
func TestWrongWordsWithoutATime(t *testing.T) {
	d := resulttest.Transfer(plantest.Transfer(), resulttest.Attempt())
	d.Outcome = result.Outcome{Status: result.Failed, Reasons: resulttest.Reasons("rank-died: rank 1 signal 9")}
	a := &assembly{Document: d, block: transfer.Of(&d.Identity.Case), tracks: []track{{checks: []check{{Row: rowSustained}}}}}
	a.judge(false)
	require.Equal(t, result.Failed, d.Outcome.Status)
	a.tracks[0].checks[0].Finding = pool.Finding{Checked: 8, Wrong: result.Wrong{Torn: 2}}
	a.judge(false)
	require.Equal(t, "check-failed: torn, 2 words", d.Outcome.Reasons.String())
}

// passed reports whether all that was measured passed.
func passed(m *transfer.Measurement) bool {
	return !slices.ContainsFunc(m.Rows, func(r transfer.Row) bool { return !r.Verify.Passed }) &&
		!slices.ContainsFunc(m.First, func(f transfer.First) bool { return !f.Verify.Passed }) &&
		!slices.ContainsFunc(m.Sustained, func(s transfer.Sustained) bool { return !s.Verify.Passed })
}

// Data on lane rdma pass the ports of the nodes, although the nodes may be in one scale-up domain.
func TestLimitsOfLanes(t *testing.T) {
	reported := []result.Limit{{Of: result.LimitLink, GBps: 450}, {Of: result.LimitNetwork, GBps: 50}}
	for lane, want := range map[string][]result.Limit{vocab.LaneRDMA: reported, vocab.LaneMNNVL: reported[:1]} {
		c := resulttest.UpstreamTransferCase()
		c.ScaleUpDomain, transfer.Of(&c).Mode = 72, lane
		d := resulttest.New(c, resulttest.Attempt()).(*transfer.Document)
		var streams []rank.Stream
		for r := range transfer.Ranks {
			streams = append(streams, rank.Stream{
				Rank: r, Records: []rank.Record{{Kind: kindSetup, Data: []byte("{}")}}, Device: &result.RankDevice{Rank: r, Limits: reported},
			})
		}
		require.NoError(t, Assemble(d, streams))
		require.Equal(t, want, d.Limits, lane)
	}
}

// Ranks whose lists or pools differ are refused before they register anything; like ones are not.
func TestUnlikeRanksAreRefused(t *testing.T) {
	lists := func(bytes int64) []bursts { return []bursts{small(transfer.Pull, bytes)} }
	for name, tc := range map[string]struct {
		rows    [2][]bursts
		pools   [2]int64
		refused bool
	}{
		"alike":        {[2][]bursts{lists(64), lists(64)}, [2]int64{4096, 4096}, false},
		"other blocks": {[2][]bursts{lists(64), lists(56)}, [2]int64{4096, 4096}, true},
		"other pools":  {[2][]bursts{lists(64), lists(64)}, [2]int64{4096, 8192}, true},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := rendezvous.OpenFile(t.TempDir())
			require.NoError(t, err)
			defer store.Close()
			ended := make(chan error, transfer.Ranks)
			for r := range transfer.Ranks {
				place := rank.Place{Rank: r, World: transfer.Ranks}
				b := &bench{session: rank.NewSession(place, store, "case", nil), rows: tc.rows[r]}
				go func() { ended <- b.sameLists(t.Context(), tc.pools[r]) }()
			}
			for range transfer.Ranks {
				if err := <-ended; tc.refused {
					require.ErrorContains(t, err, "the lists of blocks of the two ranks differ")
				} else {
					require.NoError(t, err)
				}
			}
		})
	}
}

// A fault that changes nothing is named before anything runs.
func TestIdle(t *testing.T) {
	c := plan.Case{Block: &transfer.Block{Ops: []string{transfer.Pull}}}
	require.Equal(t, "the pool of rank 0 is not the destination of a pull; inject it into rank 1", Measurer.Idle(rank.Fault{Kind: pool.FaultStale, At: rank.FaultAtStart}, &c))
	require.Equal(t, "the pool of rank 1 is not the source of a pull; inject it into rank 0", Measurer.Idle(rank.Fault{Kind: pool.FaultSource, Rank: 1, At: rank.FaultAtStart}, &c))
	require.Empty(t, Measurer.Idle(rank.Fault{Kind: pool.FaultStale, Rank: 1, At: rank.FaultAtStart}, &c))
}

// The bursts of a trial in which a clock was capped give way to those of its repetition. All are checked.
func TestCappedTrialsAreReplaced(t *testing.T) {
	c := plantest.Transfer(func(c *plan.Case) { transfer.Of(c).Timing = plan.Repetitions{Reps: 1, Trials: 3} })
	points, _ := transfer.Of(&c).Points()
	rows := transfer.AskedRows(transfer.Of(&c), points)
	a := assembly{Document: &transfer.Document{}, block: transfer.Of(&c), tracks: make([]track, transfer.Ranks)}
	a.tracks[1].setup = &setup{Points: points, Merged: make([]int, len(rows))}
	a.counts = func(row int) map[int]int { return map[int]map[int]int{0: {1: 2}}[row] }
	for ms, of := range []rank.Trial{{Number: 0}, {Number: 1}, {Number: 2}, {Number: 1, Repeat: 1}, {Number: 1, Repeat: 2}} {
		took := slices.Repeat([]float64{float64(ms + 1)}, rows[0].Batch)
		a.tracks[1].trials = append(a.tracks[1].trials, trial{Trial: of, Latency: took[:1], Request: took, Prepare: []float64{0.1}, Post: []float64{0.1}, Release: []float64{0.1}})
		for r := range a.tracks {
			a.tracks[r].checks = append(a.tracks[r].checks, check{Op: rows[0].Op, Trial: of, Finding: pool.Finding{Checked: 1}})
		}
	}
	require.NoError(t, a.rows())
	row := a.Measurement.Rows[0]
	require.True(t, row.Complete)
	require.Equal(t, result.Burst{P50: 3, P95: 5, Min: 1, Max: 5, N: 3}, row.Latency, "without 2 and 4 ms")
	require.Equal(t, transfer.Ranks*5, row.Verify.Checks)
	require.True(t, row.Verify.Passed, row.Verify.Detail)
	a.Measurement.Rows, a.counts = nil, func(int) map[int]int { return nil }
	require.NoError(t, a.rows())
	require.Equal(t, result.Burst{P50: 2, P95: 3, Min: 1, Max: 3, N: 3}, a.Measurement.Rows[0].Latency)
}
