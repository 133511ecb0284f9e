package shard

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/dirlock"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/result"
)

// shardCommand is this binary as a shard of its own process.
func shardCommand(results, scratch string, cases int, more ...string) *exec.Cmd {
	args := append([]string{"shard", "-results", results, "-scratch", scratch, "-cases", fmt.Sprint(cases)}, more...)
	return exec.Command(os.Args[0], args...)
}

// Kills a shard at 50 random moments, in between letting it go on where it
// stopped, until it ends: what was finished stays as it is, byte for byte, the
// running case is done again, nothing twice, and nothing is left lying about.
func TestResumeAfterKill(t *testing.T) {
	need.Full(t)
	t.Parallel()
	const cases, kills = 12, 50
	killed := 0
	for killed < kills {
		results, scratch := t.TempDir(), t.TempDir()
		finished := map[string]string{}
		for round := 0; ; round++ {
			cmd := shardCommand(results, scratch, cases)
			require.NoError(t, cmd.Start())
			timer := time.AfterFunc(time.Duration(rand.IntN(400))*time.Millisecond, func() { _ = cmd.Process.Kill() })
			err := cmd.Wait()
			if timer.Stop() || err == nil {
				require.NoError(t, err)
				break
			}
			if killed++; killed >= kills {
				require.NoError(t, shardCommand(results, scratch, cases).Run())
				break
			}
			names, err := filepath.Glob(filepath.Join(results, "*.json"))
			require.NoError(t, err)
			for _, n := range names {
				data, err := os.ReadFile(n)
				require.NoError(t, err)
				if before, ok := finished[n]; ok {
					require.Equal(t, before, string(data), "a finished document changed")
				}
				finished[n] = string(data)
			}
			require.Subset(t, names, keys(finished), "a finished document vanished")
		}
		docs := byCase(t, results) // valid, one each
		require.Len(t, docs, cases)
		for id, d := range docs {
			require.Equal(t, result.Success, d.Outcome.Status)
			require.Len(t, readSamples(t, results, id), len(collective.Of(&d.Identity.Case).Sizes)*2)
		}
		samples, err := os.ReadDir(filepath.Join(results, result.SamplesDir))
		require.NoError(t, err)
		require.Len(t, samples, cases)
		// The last shard may have had no case left to run, and so no need of scratch space.
		require.NoError(t, shardCommand(t.TempDir(), scratch, 1).Run())
		removeUnmarked(t, scratch)
		requireNoLitter(t, &Shard{Results: results, Launcher: launch.Local{Scratch: scratch}})
	}
}

// removeUnmarked removes what a shard leaves that is killed after it made its
// scratch directory and before it marked it: nothing is in there.
func removeUnmarked(t *testing.T, scratch string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(scratch, "*"))
	require.NoError(t, err)
	for _, dir := range left {
		marker := filepath.Join(dir, dirlock.Marker)
		if info, err := os.Stat(marker); err == nil && info.Size() == 0 {
			require.NoError(t, os.Remove(marker))
		}
		require.NoError(t, os.Remove(dir), "only empty directories are left")
	}
}

func keys(m map[string]string) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return out
}

// mountSmall puts a file system of so many bytes over dir, in the mount
// namespace of this process alone.
func mountSmall(dir string, bytes int) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes))
}

// A full disk: what is finished is whole, the running case is named, the exit
// says that the environment is at fault.
func TestFullDisk(t *testing.T) {
	cmd := mounting(t, shardCommand(t.TempDir(), t.TempDir(), 200, "-tmpfs", fmt.Sprint(160<<10)))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 3, exit.ExitCode())
	require.Regexp(t, `environment: case fake-case-\d+-fake-all-reduce-float-sum-w2-warm: cannot write: .*no space left on device`, string(out))
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")[1:]
	require.Greater(t, len(lines), 3, "some documents were finished")
	require.Less(t, len(lines), 200)
	for _, l := range lines {
		require.Regexp(t, `^doc fake-case-\d+-fake-all-reduce-float-sum-w2-warm success$`, l, "each of them whole")
	}
}

// mounting lets a command mount file systems that nobody else sees.
func mounting(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	need.Namespace(t, "mount")
	if os.Getuid() != 0 {
		return exec.Command("sudo", append([]string{"-n", "unshare", "--mount"}, cmd.Args...)...)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	return cmd
}

// Full shared memory is the machine's fault, whichever rank meets it, and no
// internal error of its peers.
func TestFullSharedMemory(t *testing.T) {
	cmd := mounting(t, shardCommand(t.TempDir(), t.TempDir(), 3, "-sizes", "40", "-small-scratch", fmt.Sprint(160<<10)))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 3, exit.ExitCode())
	require.Contains(t, string(out), "environment: case fake-case-00-")
	require.Equal(t, 3, strings.Count(string(out), "\ndoc "), "every case has a document")
	require.Equal(t, 3, strings.Count(string(out), " failed environment"), "for one reason")
	require.NotContains(t, string(out), "internal-error")
}
