package transfer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// What can happen to a block has a class each, and the first wrong byte is named.
func TestClassesOfWrongWords(t *testing.T) {
	dst, src := Origin{PoolOf(1), 7}, Origin{PoolOf(0), 7}
	stale := Origin{PoolOf(0), 6}
	blocks := []Span{{Dst: 10, Src: 40, N: 8}, {Dst: 30, Src: 20, N: 8}}
	arrived := func() []uint64 {
		pool := painted(t, dst)
		for _, b := range blocks {
			for i := range b.N {
				pool[b.Dst+i] = src.Word(b.Src + i)
			}
		}
		return pool
	}
	find := func(pool hostMemory) Finding {
		f, err := Destination(dst, src, pool, blocks)
		require.NoError(t, err)
		return f
	}
	require.Equal(t, Finding{Checked: 64}, find(arrived()))
	for name, tc := range map[string]struct {
		change func(hostMemory)
		want   result.TransferWrong
		class  string
		word   int64
	}{
		"nothing came":          {func(p hostMemory) { copyWords(p, dst, 10, 10, 8) }, result.TransferWrong{NotWritten: 8}, "not written", 10},
		"the burst before":      {func(p hostMemory) { copyWords(p, stale, 10, 40, 8) }, result.TransferWrong{Stale: 8}, "stale", 10},
		"another block":         {func(p hostMemory) { copyWords(p, src, 30, 40, 8) }, result.TransferWrong{Misplaced: 8}, "misplaced", 30},
		"half a block":          {func(p hostMemory) { copyWords(p, dst, 14, 14, 4) }, result.TransferWrong{Torn: 4}, "torn", 14},
		"half from before":      {func(p hostMemory) { copyWords(p, stale, 10, 40, 3) }, result.TransferWrong{Torn: 3}, "torn", 10},
		"two that did not come": {func(p hostMemory) { copyWords(p, stale, 10, 40, 4); copyWords(p, dst, 14, 14, 4) }, result.TransferWrong{Torn: 8}, "torn", 10},
		"a flipped bit":         {func(p hostMemory) { p[31] ^= 1 << 60 }, result.TransferWrong{Corrupted: 1}, "corrupted", 31},
		"in front of a block":   {func(p hostMemory) { copyWords(p, src, 9, 39, 1) }, result.TransferWrong{Guard: 1}, "guard", 9},
		"behind the last block": {func(p hostMemory) { p[63] = 0 }, result.TransferWrong{Guard: 1}, "guard", 63},
		"two faults":            {func(p hostMemory) { p[63] = 0; p[12] = 0 }, result.TransferWrong{Guard: 1, Corrupted: 1}, "corrupted", 12},
	} {
		pool := arrived()
		tc.change(pool)
		require.Equal(t, Finding{64, tc.want, tc.class, tc.word * wordBytes}, find(pool), name)
	}

	clean := find(arrived())
	pool := arrived()
	pool[12] = 0
	clean.later(find(pool))
	require.Equal(t, Finding{128, result.TransferWrong{Late: 1}, "late", 12 * wordBytes}, clean)

	own := painted(t, src)
	whole, err := Unchanged(src, own, "source")
	require.NoError(t, err)
	require.Equal(t, Finding{Checked: 64}, whole)
	own[3]++
	changed, err := Unchanged(src, own, "source")
	require.NoError(t, err)
	require.Equal(t, Finding{64, result.TransferWrong{Source: 1}, "source", 24}, changed)
}

func painted(t *testing.T, o Origin) hostMemory {
	pool := make(hostMemory, 64)
	require.NoError(t, pool.Paint(o.Word(0)))
	return pool
}

func copyWords(pool []uint64, from Origin, at, index, n int) {
	for i := range n {
		pool[at+i] = from.Word(index + i)
	}
}

// In every arrangement the tables of a row are disjoint, inside of the pools, and the same
// on both ranks; only scattered ones pair unlike places.
func TestTablesAreDisjoint(t *testing.T) {
	for _, arrangement := range vocab.Arrangements() {
		c := plantest.Transfer(func(c *plan.Case) {
			c.Transfer().Routing = arrangement
			c.Transfer().Entries = []plan.CacheEntry{{Regions: 3, Tokens: 1, Bytes: 8}, {Regions: 2, Tokens: 32, Bytes: 24, Window: 64}}
		})
		block := c.Transfer()
		points, _ := block.Points()
		pool := poolBytes(block.PoolSlack, points[len(points)-1].Bytes)
		for _, row := range result.AskedRows(block, points) {
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
			if row.Kind == vocab.KindPaged {
				require.Equal(t, arrangement == vocab.Paged, unlike > len(taken)/2, row.Name())
			}
		}
	}
}

// Blocks that overlap, or lie on a guard, are refused before anything is posted.
func TestBadBlocksAreRefused(t *testing.T) {
	const pool = 2*guardBytes + 4096
	for name, blocks := range map[string][]Block{
		"overlap":    {{guardBytes, guardBytes, 64}, {guardBytes + 64, guardBytes + 56, 64}},
		"in front":   {{guardBytes - 8, guardBytes, 64}},
		"at the end": {{pool - guardBytes - 56, guardBytes, 64}},
	} {
		b := bursts{sets: [][][]Block{{blocks}}}
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
		"missing":           {true, []trial{{Row: 1, Trial: 1}}, false, nil},
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
	c := plantest.Transfer(func(c *plan.Case) { c.Transfer().Ops = plan.Words{vocab.Pull} })
	of := func(bursts int, twoSided bool) track {
		return track{
			setup:     &setup{TwoSided: twoSided},
			sustained: []sustained{{Op: vocab.Pull, Bursts: bursts, Bytes: 64, Seconds: 1}},
		}
	}
	for _, twoSided := range []bool{false, true} {
		a := assembly{&result.TransferDocument{}, c.Transfer(), []track{of(3, twoSided), of(4, twoSided)}}
		if err := a.rest(); twoSided {
			require.EqualError(t, err, "pull: ranks 0 and 1 posted 3 and 4 sustained bursts")
		} else {
			require.NoError(t, err)
		}
	}
}

// Ranks whose lists or pools differ are refused before they register anything; like ones are not.
func TestUnlikeRanksAreRefused(t *testing.T) {
	lists := func(bytes int64) []bursts { return []bursts{{sets: [][][]Block{{{{0, 0, bytes}}}}}} }
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
			ended := make(chan error, plan.TransferRanks)
			for r := range plan.TransferRanks {
				place := rank.Place{Rank: r, World: plan.TransferRanks}
				b := &bench{session: rank.NewSession(place, store, "case", nil), rows: tc.rows[r]}
				go func() { ended <- b.sameLists(t.Context(), tc.pools[r]) }()
			}
			for range plan.TransferRanks {
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
	c := plan.Case{Block: &plan.Transfer{Ops: []string{vocab.Pull}}}
	require.Equal(t, "the pool of rank 0 is not the destination of a pull; inject it into rank 1", Idle(rank.Fault{Kind: FaultStale, At: rank.FaultAtStart}, &c))
	require.Equal(t, "the pool of rank 1 is not the source of a pull; inject it into rank 0", Idle(rank.Fault{Kind: FaultSource, Rank: 1, At: rank.FaultAtStart}, &c))
	require.Empty(t, Idle(rank.Fault{Kind: FaultStale, Rank: 1, At: rank.FaultAtStart}, &c))
}
