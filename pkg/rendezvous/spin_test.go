package rendezvous

import (
	"context"
	"errors"
	"os"
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
	for rank := range world {
		wg.Go(func() {
			b, err := OpenSpin(t.Context(), store, "case/a", rank, world)
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
	left, err := os.ReadDir(store.Dir())
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestSpinAloneEndsWithItsContext(t *testing.T) {
	store, err := OpenFile(t.TempDir())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg, opened sync.WaitGroup
	opened.Add(2)
	for rank := range 2 {
		wg.Go(func() {
			b, err := OpenSpin(ctx, store, "case", rank, 2)
			opened.Done()
			if err != nil {
				t.Error(err)
				return
			}
			if rank == 0 {
				opened.Wait()
				time.AfterFunc(time.Millisecond, cancel)
				if err := b.Wait(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("waited alone: %v", err)
				}
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
