package rank

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/rendezvous"
)

// All ranks repeat the trials in which the clock of one of them was capped, until it was not, at most three
// times.
func TestCappedTrialsAreRepeated(t *testing.T) {
	const world = 3
	capped := [world]func(Trial) bool{
		func(Trial) bool { return false },
		func(t Trial) bool { return t.Number == 2 && t.Repeat < 2 },
		func(t Trial) bool { return t.Number == 0 || t == Trial{2, 0} },
	}
	dir := t.TempDir()
	ran, sessions, streams := [world][]Trial{}, [world]*Session{}, make([]Stream, world)
	var group sync.WaitGroup
	errs := [world]error{}
	for r := range world {
		store, err := rendezvous.OpenFile(dir)
		require.NoError(t, err)
		defer store.Close()
		s := NewSession(Place{Rank: r, World: world}, store, "case", func(rec Record) error {
			line, err := json.Marshal(rec)
			if err != nil {
				return err
			}
			return streams[r].add(line)
		})
		now := Trial{}
		s.Between = func() bool { return capped[r](now) }
		sessions[r] = s
		group.Go(func() {
			errs[r] = s.Trials(t.Context(), "windows", 4, func(t Trial) error {
				now, ran[r] = t, append(ran[r], t)
				return s.Emit("sample", t)
			})
		})
	}
	group.Wait()
	for r := range world {
		require.NoError(t, errs[r])
		require.Equal(t, []Trial{{0, 0}, {1, 0}, {2, 0}, {3, 0}, {0, 1}, {2, 1}, {0, 2}, {2, 2}, {0, 3}}, ran[r])
		require.Len(t, streams[r].Records, len(ran[r]), "all that was measured stays recorded")
		require.Equal(t, 5, sessions[r].Repeated)
		require.Equal(t, 1, sessions[r].StillCapped)
	}
	require.Equal(t, map[int]int{2: 2}, Counting(streams, "windows"))
	require.Empty(t, Counting(streams, "chains"))
	streams[1].Repeats = nil // as of a rank that died
	require.Empty(t, Counting(streams, "windows"))
}

// Ranks whose clocks nobody reads do not meet.
func TestTrialsWithoutClocks(t *testing.T) {
	var ran []Trial
	s := NewSession(Place{World: 2}, nil, "case", nil)
	require.NoError(t, s.Trials(t.Context(), "windows", 2, func(t Trial) error {
		ran = append(ran, t)
		return nil
	}))
	require.Equal(t, []Trial{{0, 0}, {1, 0}}, ran)
}
