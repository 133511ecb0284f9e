package shard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
)

// scripted are ranks that do nothing but what kill does when they are killed, and end as exits has them.
type scripted struct {
	kill  func()
	exits chan launch.Exit
}

func (s scripted) Exits() <-chan launch.Exit { return s.exits }
func (s scripted) Dump()                     {}
func (s scripted) Kill() error               { s.kill(); return nil }

// A launcher may report the end of a rank seconds after another rank has failed for want of it, and ended.
func TestADeathThatIsReportedLate(t *testing.T) {
	store, err := rendezvous.OpenFile(t.TempDir())
	require.NoError(t, err)
	defer store.Close()
	g := &group{
		ranks: scripted{kill: func() {}, exits: make(chan launch.Exit, 2)}, store: store, world: 3, deadline: time.Now().Add(time.Hour),
		fits: func(rank.Facts) error { return nil },
	}
	record := `{"kind":"failure","data":{"reason":"rank-died","text":"rank 1 ended"}}`
	require.NoError(t, store.Append(rank.StreamKey("case-0001", 0), []byte(record)))
	exits := g.ranks.(scripted).exits
	exits <- launch.Exit{Rank: 0, Code: 1}
	time.AfterFunc(failureGrace+100*time.Millisecond, func() { exits <- launch.Exit{Rank: 1, Signal: 9} })
	end, err := g.do(t.Context(), fakeCase(0, 3, 1).Case, time.Hour, result.Reason{}, nil)
	require.NoError(t, err)
	require.Equal(t, resulttest.Reasons("rank-died: rank 1 signal 9", "rank-died: rank 0"), end.reasons)
}

// Each rank whose records are malformed is named once, in rank order, whichever was
// read first.
func TestMalformedRecordsAreNamedOnce(t *testing.T) {
	store, err := rendezvous.OpenFile(t.TempDir())
	require.NoError(t, err)
	defer store.Close()
	spoil := func(n int) {
		require.NoError(t, store.Append(rank.StreamKey("case-0001", n), []byte("no record")))
	}
	g := &group{
		ranks: scripted{kill: func() { spoil(0) }}, store: store, world: 2, deadline: time.Now().Add(time.Hour),
		fits: func(rank.Facts) error { return nil },
	}
	spoil(1)
	end, err := g.do(t.Context(), fakeCase(0, 2, 1).Case, time.Hour, result.Reason{}, nil)
	require.NoError(t, err)
	require.Equal(t, resulttest.Reasons("internal-error: records of rank 0", "internal-error: records of rank 1"), end.reasons)
	require.False(t, g.alive())
}
