package launch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/dirlock"
	"github.com/collectivex/collectivex/pkg/rendezvous"
)

// abandon makes a scratch directory of a dead shard in base.
func abandon(t *testing.T, base string) string {
	t.Helper()
	dead, err := newScratch(t.Context(), base, nil)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dead.Dir(), "group-001"), 0o700))
	require.NoError(t, dead.Release())
	return dead.Dir()
}

func TestScratchOfTheDeadIsRemovedAndThatOfTheLivingIsNot(t *testing.T) {
	base := t.TempDir()
	dead := abandon(t, base)
	living, err := newScratch(t.Context(), base, nil)
	require.NoError(t, err)
	require.NoDirExists(t, dead)
	next, err := newScratch(t.Context(), base, nil)
	require.NoError(t, err)
	require.DirExists(t, living.Dir())
	require.NoError(t, next.Remove())
	require.NoError(t, living.Remove())
	require.NoDirExists(t, living.Dir())
}

// What cannot be claimed is not left: here the marker's name is too long for the kernel.
func TestScratchWithoutAClaimIsRemoved(t *testing.T) {
	base := t.TempDir()
	for room := unix.PathMax - 1 - len("/"+scratchPrefix+"4294967295"); len(base) < room; {
		base += "/" + strings.Repeat("d", min(200, room-len(base)-1))
	}
	_, err := Slurm{Scratch: base}.Allocate(t.Context())
	require.ErrorIs(t, err, unix.ENAMETOOLONG)
	require.ErrorContains(t, err, "storage.stage")
	require.NotContains(t, err.Error(), base, "its name has the host's")
	left, err := os.ReadDir(base)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A directory with the prefix of scratch directories may be anything.
func TestScratchOfOthersIsLeftAlone(t *testing.T) {
	base := t.TempDir()
	artifact := filepath.Join(base, scratchPrefix+"local-host-bf16-n1-42-1")
	results, err := dirlock.Take(t.Context(), artifact, dirlock.Results)
	require.NoError(t, err)
	require.NoError(t, results.Release())
	plain := filepath.Join(base, scratchPrefix+"plain")
	require.NoError(t, os.MkdirAll(filepath.Join(plain, "thesis"), 0o700))
	dead := abandon(t, t.TempDir()) // elsewhere, with our mark
	link := filepath.Join(base, scratchPrefix+"link")
	require.NoError(t, os.Symlink(dead, link))

	s, err := newScratch(t.Context(), base, nil)
	require.NoError(t, err)
	require.NoError(t, s.Remove())
	require.FileExists(t, filepath.Join(artifact, dirlock.Marker))
	require.DirExists(t, filepath.Join(plain, "thesis"))
	require.DirExists(t, filepath.Join(link, "group-001"))
}

// Shards that start at once sweep while others make their directories.
func TestScratchOfManyAtOnce(t *testing.T) {
	base := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				s, err := newScratch(t.Context(), base, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(filepath.Join(s.Dir(), "mine"), nil, 0o600); err != nil {
					t.Error("a living directory was removed: ", err)
				}
				if err := s.Remove(); err != nil {
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

// Cleanup cancels the jobs of dead shards and removes their directories, and keeps both where
// the job cannot be cancelled.
func TestCleanup(t *testing.T) {
	stage := t.TempDir()
	base, err := stageOf(stage)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(base, 0o700))
	living, err := newScratch(t.Context(), base, nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(living.Dir(), jobFile), []byte("18"), 0o600))
	dead := abandon(t, base)
	require.NoError(t, os.WriteFile(filepath.Join(dead, jobFile), []byte("17"), 0o600))
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	local := []string{abandon(t, rendezvous.Memory()), abandon(t, temporary)}
	defer os.RemoveAll(local[0])

	down := &scheduler{status: 1}
	_, err = Cleanup(t.Context(), down, []string{stage})
	require.ErrorContains(t, err, "cancel job 17: exit status 1; cancel it with scancel 17")
	require.DirExists(t, dead)
	for _, dir := range local { // another process may be removing it
		require.Eventually(t, func() bool { _, err := os.Stat(dir); return errors.Is(err, fs.ErrNotExist) }, time.Minute, time.Millisecond)
	}

	up := &scheduler{}
	removed, err := Cleanup(t.Context(), up, []string{stage, filepath.Join(stage, "unused")})
	require.NoError(t, err)
	require.GreaterOrEqual(t, removed, 1, "other tests leave directories in memory")
	require.Equal(t, [][]string{{"scancel", "17"}}, up.started)
	require.NoDirExists(t, dead)
	require.DirExists(t, living.Dir())
	require.NoError(t, living.Remove())
}

// The values of the operator are not in the log of a job.
func TestErrorsDoNotNameTheStage(t *testing.T) {
	stage := t.TempDir()
	base, err := stageOf(stage)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(base, nil, 0o600))
	s := Slurm{Starter: &scheduler{}, Scratch: base}
	s.Operator.Storage.Stage = stage
	_, err = s.Allocate(t.Context())
	require.ErrorIs(t, err, syscall.ENOTDIR)
	require.NotContains(t, err.Error(), stage)

	_, err = Cleanup(t.Context(), &scheduler{}, []string{stage})
	require.ErrorIs(t, err, syscall.ENOTDIR)
	require.NotContains(t, err.Error(), stage)
}

// scheduler stands in for Slurm's commands, all of which end with a status.
type scheduler struct {
	status  int
	started [][]string
}

func (s *scheduler) Start(c command.Command) (command.Process, error) {
	s.started = append(s.started, c.Args)
	return command.Host{}.Start(command.Command{Args: []string{"sh", "-c", "exit " + strconv.Itoa(s.status)}})
}
