package hostrank

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
)

// Every rank of a group reaches what the others have in their memory.
func TestJoinSharesMemory(t *testing.T) {
	const world = 3
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	dir := t.TempDir()
	var got [world][]byte
	var errs [world]error
	var group sync.WaitGroup
	for r := range world {
		group.Go(func() {
			runtime.LockOSThread() // for good: the rank may have pinned it
			errs[r] = func() error {
				store, err := rendezvous.OpenFile(dir)
				if err != nil {
					return err
				}
				defer store.Close()
				s := rank.NewSession(rank.Place{Rank: r, World: world, LocalRank: r}, store, "test", nil)
				d, err := Open(s, world)
				if err != nil {
					return err
				}
				defer d.Close()
				at, err := d.Alloc(1)
				if err != nil {
					return err
				}
				host.Bytes(at, 1)[0] = byte(10 + r)
				g, err := Join(ctx, s, d)
				if err != nil {
					return err
				}
				for _, p := range g.Peers {
					got[r] = append(got[r], *(*byte)(p.Base()))
				}
				return errors.Join(s.Barrier(ctx, "read"), g.Close(), g.Close())
			}()
		})
	}
	group.Wait()
	for r := range world {
		require.NoError(t, errs[r])
		require.Equal(t, []byte{10, 11, 12}, got[r])
	}
}

func TestRanksOfOneHost(t *testing.T) {
	g := &Group{}
	err := g.attach([]member{{Boot: "this"}, {Boot: "another"}}, nil)
	var coded *rank.Error
	require.ErrorAs(t, err, &coded)
	require.Equal(t, result.ReasonEnvironment, coded.Reason.Code)
	require.ErrorContains(t, err, "rank 1 is on another host")
}

func TestOpenRefuses(t *testing.T) {
	_, err := Open(&rank.Session{Place: rank.Place{LocalRank: 2}}, 2)
	var coded *rank.Error
	require.ErrorAs(t, err, &coded)
	require.Equal(t, result.ReasonDevice, coded.Reason.Code)
}
