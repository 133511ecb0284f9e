package dirlock

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ownerVariable makes this test binary the owner of its working directory, or of a turn there that turnVariable
// names.
const (
	ownerVariable = "CLAIM_TEST_OWNER"
	turnVariable  = "CLAIM_TEST_TURN"
)

// TestMain lets this test binary be an owner that is killed.
func TestMain(m *testing.M) {
	if os.Getenv(ownerVariable) != "" {
		os.Exit(ownerMain())
	}
	os.Exit(m.Run())
}

// ownerMain claims the working directory, starts a process that inherits the lock, as a forked
// child does until it is another program, and waits to be killed.
func ownerMain() int {
	if name := os.Getenv(turnVariable); name != "" {
		if _, err := TakeTurn(context.Background(), ".", name, refuse); err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("claimed")
		time.Sleep(time.Hour)
	}
	c, err := Take(context.Background(), ".", Results)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	child := exec.Command("/bin/sh", "-c", "read line") // until its standard input closes
	child.ExtraFiles = []*os.File{c.file}
	child.Stdin = os.Stdin
	if err := child.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("claimed")
	time.Sleep(time.Hour)
	return 0
}

// startOwner starts an owner in dir, and returns once it has what it claims.
func startOwner(t *testing.T, dir string, stdin *os.File, variables ...string) *exec.Cmd {
	t.Helper()
	owner := exec.Command(os.Args[0])
	owner.Env = append(append(os.Environ(), ownerVariable+"=1"), variables...)
	owner.Dir, owner.Stdin = dir, stdin
	out, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	line := make([]byte, 8)
	_, err = out.Read(line)
	require.NoError(t, err)
	require.Equal(t, "claimed\n", string(line))
	return owner
}

func TestTakeWaitsForTheForkedChildrenOfADeadOwner(t *testing.T) {
	dir := t.TempDir()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	owner := startOwner(t, dir, read)
	require.NoError(t, owner.Process.Kill())
	_ = owner.Wait()

	_, ok := Abandoned(dir, Results)
	require.False(t, ok, "the child still holds the lock")
	taken := make(chan error)
	go func() {
		c, err := Take(context.Background(), dir, Results)
		if err == nil {
			err = c.Release()
		}
		taken <- err
	}()
	require.NoError(t, write.Close()) // ends the child
	require.NoError(t, <-taken)
}

func TestTheLivingOwnerKeepsItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	c, err := Take(t.Context(), dir, Run)
	require.NoError(t, err)
	_, err = Take(t.Context(), dir, Run)
	require.ErrorIs(t, err, ErrHeld)
	require.ErrorContains(t, err, fmt.Sprintf("process %d writes to %s", os.Getpid(), dir))
	_, ok := Abandoned(dir, Run)
	require.False(t, ok)
	require.NoError(t, c.Release())
	c, err = Take(t.Context(), dir, Run)
	require.NoError(t, err)
	require.NoError(t, c.Remove())
	require.NoDirExists(t, dir)
}

func TestOnlyAMarkerOfTheKindIsAbandoned(t *testing.T) {
	plant := func(name string, make func(path string)) string {
		dir := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.Mkdir(dir, 0o755))
		make(filepath.Join(dir, Marker))
		return dir
	}
	write := func(text string) func(string) {
		return func(path string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	}
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	write(Scratch.format())(elsewhere)
	for _, dir := range []string{
		plant("nothing", func(string) {}),
		plant("empty", write("")),
		plant("text", write("thesis")),
		plant("kind", write(Results.format())),
		plant("link", func(path string) { require.NoError(t, os.Symlink(elsewhere, path)) }),
		plant("fifo", func(path string) { require.NoError(t, unix.Mkfifo(path, 0o600)) }),
		plant("directory", func(path string) { require.NoError(t, os.Mkdir(path, 0o700)) }),
	} {
		_, ok := Abandoned(dir, Scratch)
		require.False(t, ok, dir)
	}
	for _, foreign := range []string{
		plant("text", write("thesis")),
		plant("link", func(path string) { require.NoError(t, os.Symlink(elsewhere, path)) }),
	} {
		_, err := Take(t.Context(), foreign, Scratch)
		require.ErrorIs(t, err, ErrForeign)
	}
	c, ok := Abandoned(plant("ours", write(Scratch.format()+"process 1 2\n")), Scratch)
	require.True(t, ok)
	require.NoError(t, c.Remove())
}

func TestRemoveFollowsNoLink(t *testing.T) {
	outside := t.TempDir()
	thesis := filepath.Join(outside, "thesis.txt")
	require.NoError(t, os.WriteFile(thesis, nil, 0o600))
	c, err := Take(t.Context(), filepath.Join(t.TempDir(), "dir"), Scratch)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(outside, filepath.Join(c.Dir(), "link")))
	require.NoError(t, c.Remove())
	require.FileExists(t, thesis)
	require.NoDirExists(t, c.Dir())
}

// NFS keeps an open file that is removed, under another name in its directory, which is then not empty.
func TestRemoveClosesTheMarkerBeforeItRemovesTheDirectory(t *testing.T) {
	c, err := Take(t.Context(), filepath.Join(t.TempDir(), "dir"), Scratch)
	require.NoError(t, err)
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(watch)
	_, err = unix.InotifyAddWatch(watch, c.Dir(), unix.IN_DELETE|unix.IN_CLOSE_WRITE)
	require.NoError(t, err)
	_, err = unix.InotifyAddWatch(watch, filepath.Dir(c.Dir()), unix.IN_DELETE)
	require.NoError(t, err)
	require.NoError(t, c.Remove())

	const gone = unix.IN_DELETE | unix.IN_ISDIR
	var events []uint32
	for buf := make([]byte, 4096); !slices.Contains(events, gone); {
		n, err := unix.Read(watch, buf)
		require.NoError(t, err)
		for rest := buf[:n]; len(rest) > 0; { // struct inotify_event: wd, mask, cookie, len, name
			events = append(events, binary.NativeEndian.Uint32(rest[4:]))
			rest = rest[unix.SizeofInotifyEvent+binary.NativeEndian.Uint32(rest[12:]):]
		}
	}
	events = slices.DeleteFunc(events, func(mask uint32) bool { return mask&unix.IN_IGNORED != 0 })
	require.Equal(t, []uint32{unix.IN_DELETE, unix.IN_CLOSE_WRITE, gone}, events)
}

func TestOwners(t *testing.T) {
	o := parseOwner(Run.format() + self().String())
	require.Equal(t, self(), o)
	require.True(t, o.lives())
	require.False(t, owner{o.pid, "1"}.lives(), "another process had this id")
	require.False(t, parseOwner("").lives())

	zombie := exec.Command("/bin/true")
	require.NoError(t, zombie.Start())
	require.Eventually(t, func() bool { state, _ := stat(zombie.Process.Pid); return state == "Z" }, 10*time.Minute, time.Millisecond)
	_, started := stat(zombie.Process.Pid)
	require.False(t, owner{zombie.Process.Pid, started}.lives())
	require.NoError(t, zombie.Wait())
	require.True(t, strings.HasSuffix(o.String(), "\n"))
}
