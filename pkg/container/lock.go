package container

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/dirlock"
)

const pollLock = 100 * time.Millisecond

// lock locks the file of this name in dir, which serializes imports of an image on one
// machine, and on several if dir is on a shared file system with locks. Closing the file ends
// the lock. The file stays: removing it could let two processes lock two files of one name.
func (i Image) lock(ctx context.Context, dir, name string, wait time.Duration) (*os.File, error) {
	mode := 0o777 | fs.ModeSticky // for all accounts
	if dir == "" {
		dir, mode = filepath.Join(os.TempDir(), "collectivex-locks-"+strconv.Itoa(os.Geteuid())), 0o700
	}
	path := filepath.Join(dir, name+".lock")
	err := makeDirectory(filepath.Clean(dir), mode)
	var file *os.File
	if err == nil {
		file, err = dirlock.OpenShared(path)
	}
	if err != nil {
		return nil, because("no directory for locks", "lock of image %s: %w: name a directory that this account can write to as storage.locks", i.Ref, err)
	}
	if err := i.wait(ctx, file, wait); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// makeDirectory makes a directory with this mode, whatever the umask, unless it exists.
func makeDirectory(dir string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	switch err := os.Mkdir(dir, 0o700); {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return os.Chmod(dir, mode)
}

func (i Image) wait(ctx context.Context, file *os.File, limit time.Duration) error {
	for end := time.Now().Add(limit); ; {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK):
			return because("no directory for locks", "lock of image %s: %w: name a directory on a file system with locks as storage.locks", i.Ref, err)
		case time.Now().After(end):
			return because("image is being imported by another cell", "image %s: another process has imported it for more than %s; run the cell again", i.Ref, limit)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollLock):
		}
	}
}
