package container

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/operator"
)

const ref = "registry.example:5000/vendor/libraries:v1.0"

// squashes is an empty directory of images, and a registry that has one image.
func squashes(t *testing.T) (Squashes, Image, fakes.Containers) {
	t.Helper()
	tools := fakes.NewContainers(t)
	tools.Push(t, ref, fakes.Digest(1), 61)
	return Squashes{Starter: command.Host{}, Storage: operator.Storage{Images: filepath.Join(t.TempDir(), "images"), Locks: t.TempDir(), EnrootCache: t.TempDir()}}, Image{ref, "amd64"}, tools
}

func TestImportMakesAFileOnce(t *testing.T) {
	s, image, tools := squashes(t)
	first, err := s.Import(t.Context(), image)
	require.NoError(t, err)
	require.Equal(t, Squash{filepath.Join(s.Images, "registry.example+5000+vendor+libraries+v1.0+amd64.sqsh"), fakes.Digest(1)}, first)

	tools.Push(t, ref, fakes.Digest(2), 3) // the tag moves: the file is what it was
	again, err := s.Import(t.Context(), image)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Len(t, tools.Called(t, "enroot import"), 1)
	require.FileExists(t, filepath.Join(s.EnrootCache, "layer"), "enroot keeps layers where the operator says")

	other, err := s.Import(t.Context(), Image{ref, "arm64"})
	require.NoError(t, err)
	require.NotEqual(t, first.File, other.File, "architectures have files of their own")
}

// Cells that start at once on nodes that share a directory.
func TestImportsAtOnceMakeOneFile(t *testing.T) {
	s, image, tools := squashes(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := s.Import(t.Context(), image); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Len(t, tools.Called(t, "enroot import"), 1)
}

func TestImportWaitsForAnother(t *testing.T) {
	_, image, _ := squashes(t)
	dir := t.TempDir()
	held, err := image.lock(t.Context(), dir, "x", 0)
	require.NoError(t, err)
	_, err = image.lock(t.Context(), dir, "x", time.Nanosecond)
	reason(t, err, "image is being imported by another cell")
	require.NoError(t, held.Close())
	held, err = image.lock(t.Context(), dir, "x", 0)
	require.NoError(t, err)
	require.NoError(t, held.Close())
}

// Accounts that share storage.locks lock one file.
func TestEveryAccountCanLock(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	_, image, _ := squashes(t)
	dir := filepath.Join(t.TempDir(), "locks")
	held, err := image.lock(t.Context(), dir, "x", 0)
	require.NoError(t, err)
	defer held.Close()
	for file, mode := range map[string]os.FileMode{dir: os.ModeDir | os.ModeSticky | 0o777, filepath.Join(dir, "x.lock"): 0o666} {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode(), file)
	}
}

// A file that is corrupted, or that its writer had not finished, is made again.
func TestACorruptedFileIsImportedAgain(t *testing.T) {
	for name, damage := range map[string]func(file string) error{
		"truncated":       func(f string) error { return os.Truncate(f, 5) },
		"empty":           func(f string) error { return os.Truncate(f, 0) },
		"damaged record":  func(f string) error { return os.WriteFile(f+".json", []byte("{"), 0o600) },
		"foreign record":  func(f string) error { return os.WriteFile(f+".json", []byte(`{"digest": "latest"}`), 0o600) },
		"record of other": func(f string) error { return os.WriteFile(f+".json", []byte(`{"bytes": 3}`), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			s, image, tools := squashes(t)
			squash, err := s.Import(t.Context(), image)
			require.NoError(t, err)
			require.NoError(t, damage(squash.File))
			again, err := s.Import(t.Context(), image)
			require.NoError(t, err)
			require.Equal(t, squash, again)
			require.Len(t, tools.Called(t, "enroot import"), 2)
		})
	}
}

// What enroot cannot import ends with its last words and without the operator's paths.
func TestImportFails(t *testing.T) {
	for name, c := range map[string]struct {
		prepare      func(t *testing.T, s *Squashes, i *Image, tools fakes.Containers)
		reason, says string
	}{
		"62 layers": {func(t *testing.T, _ *Squashes, _ *Image, tools fakes.Containers) {
			tools.Push(t, ref, fakes.Digest(1), 62)
		}, "image could not be imported", "enroot: exit status 1 ([ERROR] enroot-mksquashovlfs: failed to mount overlay: Invalid argument): try it on that node: enroot import docker://registry.example:5000#vendor/libraries:v1.0"},
		"no such tag": {func(_ *testing.T, _ *Squashes, i *Image, _ fakes.Containers) {
			i.Ref = "vendor/libraries:v2"
		}, "image could not be imported", "manifest unknown"},
		"the file is cut off": {func(t *testing.T, _ *Squashes, _ *Image, _ fakes.Containers) {
			t.Setenv("FAKE_TRUNCATED", "1")
		}, "imported image is corrupted", "is there space left in storage.images?"},
		"the tag moves": {func(t *testing.T, _ *Squashes, _ *Image, _ fakes.Containers) {
			t.Setenv("FAKE_MOVES", fakes.Digest(7))
		}, "image changed during its import", "run the cell again"},
		"no cache": {func(t *testing.T, s *Squashes, _ *Image, _ fakes.Containers) {
			s.EnrootCache = filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(s.EnrootCache, nil, 0o600))
		}, "image could not be imported", "<storage.enroot_cache>"},
		"no enroot": {func(t *testing.T, _ *Squashes, _ *Image, _ fakes.Containers) {
			bin := t.TempDir()
			require.NoError(t, os.Symlink("/bin/true", filepath.Join(bin, "unsquashfs")))
			t.Setenv("PATH", bin)
		}, "enroot is not installed", "install enroot"},
		"no unsquashfs": {func(t *testing.T, _ *Squashes, _ *Image, _ fakes.Containers) {
			t.Setenv("PATH", t.TempDir())
		}, "unsquashfs is not installed", "install squashfs-tools"},
		"a digest in the name": {func(_ *testing.T, _ *Squashes, i *Image, _ fakes.Containers) {
			i.Ref += "@" + fakes.Digest(1)
		}, "image name", "without a digest"},
		"a file as the name": {func(_ *testing.T, _ *Squashes, i *Image, _ fakes.Containers) {
			i.Ref = "/images/libraries.sqsh"
		}, "image name", "want [REGISTRY/]REPOSITORY[:TAG]"},
	} {
		t.Run(name, func(t *testing.T) {
			s, image, tools := squashes(t)
			c.prepare(t, &s, &image, tools)
			_, err := s.Import(t.Context(), image)
			reason(t, err, c.reason)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), s.Images)
			require.NotContains(t, err.Error(), s.EnrootCache)
			left, err := os.ReadDir(s.Images)
			if !os.IsNotExist(err) {
				require.NoError(t, err)
			}
			require.Empty(t, left)
		})
	}
}

// enroot asks for the password of a user on standard input, and would wait for hours.
func TestToolsHaveNoStandardInput(t *testing.T) {
	s, _, _ := squashes(t)
	_, err := tool(t.Context(), s.Starter, s.enroot("import", "docker://user@registry.example#vendor/libraries:v1.0"))
	require.ErrorContains(t, err, "The requested URL returned error: 401")
}

// An enroot that has no digests leaves them open, and so does a file without a record.
func TestAFileWithoutADigest(t *testing.T) {
	s, image, _ := squashes(t)
	t.Setenv("FAKE_NO_DIGEST", "1")
	squash, err := s.Import(t.Context(), image)
	require.NoError(t, err)
	require.Empty(t, squash.Digest)
	require.NoError(t, os.Remove(squash.File+".json"))
	again, err := s.Import(t.Context(), image)
	require.NoError(t, err)
	require.Equal(t, squash, again)
}

// What a killed import left is in the way of none.
func TestImportAfterAKilledOne(t *testing.T) {
	s, image, _ := squashes(t)
	host, err := os.Hostname()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(s.Images, 0o755))
	part := filepath.Join(s.Images, "."+image.Name()+"."+host+".part")
	require.NoError(t, os.WriteFile(part, []byte("hsqs"), 0o600))
	_, err = s.Import(t.Context(), image)
	require.NoError(t, err)
	require.NoFileExists(t, part)
}

// An administrator's directory is used as it is, and an image that it lacks is asked of him.
func TestACacheOfRoot(t *testing.T) {
	s, image, tools := squashes(t)
	squash, err := s.Import(t.Context(), image)
	require.NoError(t, err)
	for dir, up := s.Images, 0; up < 3; dir, up = filepath.Dir(dir), up+1 {
		require.NoError(t, os.Chmod(dir, 0o555)) // that of the test, and what it is in
		defer func() { _ = os.Chmod(dir, 0o755) }()
	}
	require.NoError(t, os.Chmod(squash.File+".json", 0o444))
	if os.Geteuid() == 0 { // modes bind this goroutine as they bind others, and no other has its thread
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		header, all := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
		require.NoError(t, unix.Capget(&header, &all[0]))
		fewer := all
		fewer[0].Effective &^= 1 << unix.CAP_DAC_OVERRIDE
		require.NoError(t, unix.Capset(&header, &fewer[0]))
		defer func() { require.NoError(t, unix.Capset(&header, &all[0])) }()
	}
	again, err := s.Import(t.Context(), image)
	require.NoError(t, err)
	require.Equal(t, squash, again)

	_, err = s.Import(t.Context(), Image{"vendor/other:v1", "amd64"})
	reason(t, err, "image directory is not writable")
	require.ErrorContains(t, err, "as its owner, run enroot import --output vendor+other+v1+amd64.sqsh docker://vendor/other:v1 there, or name another directory")
	require.Len(t, tools.Called(t, "enroot import"), 1)
}

func reason(t *testing.T, err error, want string) {
	t.Helper()
	failed := &Error{}
	require.ErrorAs(t, err, &failed)
	require.Equal(t, want, failed.Reason)
	require.NotContains(t, strings.TrimSpace(err.Error()), "\n")
}
