package rank_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// On one node the clock tells how far apart ranks entered. Between nodes the longest time
// since a meeting bounds it, whatever the clocks say. A window without all of that counts
// for nothing.
func TestEntrySkew(t *testing.T) {
	at := func(us int, met float64) rank.Entry {
		return rank.Entry{Began: time.Unix(0, 0).Add(time.Duration(us) * time.Microsecond), Met: met}
	}
	skew := func(nodes, ranks int, windows [][]rank.Entry) *result.EntrySkew {
		return rank.EntrySkew(nodes, ranks, maps.Collect(slices.All(windows)))
	}
	near := [][]rank.Entry{{at(10, 0), at(13, 0), at(11, 0)}, {at(50, 0), at(49, 0), at(50, 0)}, {at(70, 0), at(77, 0), at(70, 0)}}
	require.Equal(t, &result.EntrySkew{Windows: 3, P50: 3, Max: 7}, skew(1, 3, near))
	require.Nil(t, skew(2, 3, near), "the ranks have not met")

	far := [][]rank.Entry{{at(9_000_000, 20), at(0, 25)}, {at(0, 30), at(1, 4)}, {at(0, 30), at(1, 0)}, {at(0, 80)}, {}}
	require.Equal(t, &result.EntrySkew{Windows: 2, P50: 25, Max: 30, Bound: true}, skew(2, 2, far))

	require.Nil(t, skew(1, 2, [][]rank.Entry{{{}, at(5, 0)}}), "a sample of an earlier version")
	require.Nil(t, skew(1, 4, near), "a rank did not measure")
	require.Nil(t, skew(1, 2, nil))
}

// What a rank enters with says how long ago it came to the meeting, by its own clock.
func TestEnter(t *testing.T) {
	before := time.Now()
	e := rank.Enter(before.Add(-time.Second))
	require.GreaterOrEqual(t, e.Met, 1e6)
	require.LessOrEqual(t, e.Met, 1e6+float64(time.Since(before).Nanoseconds())/1e3)
	require.Equal(t, time.UTC, e.Began.Location())
	require.False(t, e.Began.Before(before))
	require.Zero(t, rank.Enter(time.Time{}).Met)
}
