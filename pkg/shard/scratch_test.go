package shard

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScratchOfTheDeadIsRemovedAndThatOfTheLivingIsNot(t *testing.T) {
	base := t.TempDir()
	other := filepath.Join(base, "collectivex-cache")
	dead := filepath.Join(base, scratchPrefix+"dead")
	require.NoError(t, os.Mkdir(other, 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dead, "group-001"), 0o700))

	living, err := newScratch(base)
	require.NoError(t, err)
	require.NoDirExists(t, dead)
	next, err := newScratch(base)
	require.NoError(t, err)
	require.DirExists(t, living.path)
	require.DirExists(t, other, "not ours")
	require.NoError(t, next.remove())
	require.NoError(t, living.remove())
	require.NoDirExists(t, living.path)
}

// Shards that start at once sweep while others make their directories.
func TestScratchOfManyAtOnce(t *testing.T) {
	base := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				s, err := newScratch(base)
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(filepath.Join(s.path, "mine"), nil, 0o600); err != nil {
					t.Error("a living directory was removed: ", err)
				}
				if err := s.remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	left, err := os.ReadDir(base)
	require.NoError(t, err)
	require.Empty(t, left)
}
