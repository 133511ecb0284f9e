package rendezvous

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Nobody leaves a round before all have come to it.
func TestSpin(t *testing.T) {
	store, err := OpenFile(t.TempDir())
	require.NoError(t, err)
	defer store.Close()
	const world, rounds = 3, 200
	var arrived [rounds]atomic.Int64
	var wg sync.WaitGroup
	for range world {
		wg.Go(func() {
			b, err := OpenSpin(store, "case/a", world)
			if err != nil {
				t.Error(err)
				return
			}
			for r := range rounds {
				arrived[r].Add(1)
				if err := b.Wait(t.Context()); err != nil {
					t.Error(err)
				}
				if n := arrived[r].Load(); n != world {
					t.Errorf("round %d was left with %d of %d ranks", r, n, world)
				}
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestSpinAloneEndsWithItsContext(t *testing.T) {
	store, err := OpenFile(t.TempDir())
	require.NoError(t, err)
	defer store.Close()
	b, err := OpenSpin(store, "case", 2)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, b.Wait(ctx), context.DeadlineExceeded)
	require.NoError(t, b.Close())
}
