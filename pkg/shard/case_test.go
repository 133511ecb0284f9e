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

// scripted are ranks that do nothing but what kill does when they are killed.
type scripted struct{ kill func() }

func (s scripted) Exits() <-chan launch.Exit { return nil }
func (s scripted) Dump()                     {}
func (s scripted) Kill() error               { s.kill(); return nil }

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
