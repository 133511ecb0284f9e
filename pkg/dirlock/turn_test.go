package dirlock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var errRefused = errors.New("refused")

func refuse(pid int) error { return fmt.Errorf("%w: %d", errRefused, pid) }

// The owner of a turn is named. Once it is killed, its turn is free, and whoever waited has it.
func TestTurnOfAKilledOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner := startOwner(t, dir, nil, turnVariable+"=gpu")
	pid := owner.Process.Pid
	_, err := TakeTurn(t.Context(), dir, "gpu", refuse)
	require.EqualError(t, err, fmt.Sprintf("refused: %d", pid))
	other, err := TakeTurn(t.Context(), dir, "gpu-2", refuse)
	require.NoError(t, err, "another device")
	require.NoError(t, other.Release())
	var told []int
	turn, err := TakeTurn(t.Context(), dir, "gpu", func(pid int) error {
		told = append(told, pid)
		return owner.Process.Kill()
	})
	require.NoError(t, err)
	require.Equal(t, []int{pid}, told)
	_ = owner.Wait()
	raw, err := os.ReadFile(filepath.Join(dir, "gpu"))
	require.NoError(t, err)
	require.Equal(t, self(), parseOwner(string(raw)))
	require.NoError(t, turn.Release())
	info, err := os.Stat(filepath.Join(dir, "gpu"))
	require.NoError(t, err, "the file stays, or two processes would lock two files")
	require.EqualValues(t, 0o666, info.Mode(), "for all users")
}

func TestWaitForATurnEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := TakeTurn(t.Context(), dir, "gpu", refuse)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = TakeTurn(ctx, dir, "gpu", func(int) error { cancel(); return nil })
	require.ErrorIs(t, err, context.Canceled)
}

// TakeTurn neither follows links nor writes to files that another user planted.
func TestPlantedTurns(t *testing.T) {
	const thesis = "thesis"
	for name, plant := range map[string]func(victim, path string) error{
		"symbolic link": os.Symlink,
		"hard link":     os.Link,
		"own file":      os.Rename,
		"dangling link": func(_, path string) error { return os.Symlink("nothing", path) },
		"FIFO":          func(_, path string) error { return unix.Mkfifo(path, 0o666) },
		"directory":     func(_, path string) error { return os.Mkdir(path, 0o777) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			victim, path := filepath.Join(t.TempDir(), "victim"), filepath.Join(dir, "gpu")
			for _, text := range []string{thesis, ""} {
				require.NoError(t, os.RemoveAll(path))
				require.NoError(t, os.WriteFile(victim, []byte(text), 0o600))
				require.NoError(t, plant(victim, path))
				turn, err := TakeTurn(t.Context(), dir, "gpu", refuse)
				if name == "own file" && text == "" {
					require.NoError(t, err)
					require.NoError(t, turn.Release())
					continue
				}
				require.Error(t, err)
				require.NotErrorIs(t, err, errRefused)
				if raw, err := os.ReadFile(victim); err == nil { // it is at path otherwise
					require.Equal(t, text, string(raw))
				}
			}
		})
	}
}
