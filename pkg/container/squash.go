package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/operator"
	"github.com/collectivex/collectivex/pkg/safefile"
)

const (
	// lockWait is how long an import waits for another one of the same image.
	lockWait = 30 * time.Minute
	// importLimit is the maximum time of an import. It suffices for a machine without any layer of
	// the image.
	importLimit = time.Hour
)

// Squashes is a directory of images as squash files, which pyxis starts.
type Squashes struct {
	Starter command.Starter
	// Storage has the directories of images, locks and enroot's layers. The images may be
	// read-only if they exist already. By default, locks are in a directory of this account
	// among temporary files, and enroot chooses its own directory.
	operator.Storage
}

// Squash is an image as a file.
type Squash struct {
	File string
	// Digest is the digest of the image in the registry, for this architecture: sha256:…. It
	// is empty if it was not recorded with the file.
	Digest string
}

type record struct {
	Image  string `json:"image"`
	Arch   string `json:"arch"`
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes"` // of the squash file
}

// Name returns the name of the squash file of an image.
func (i Image) Name() string {
	return strings.NewReplacer("/", "+", ":", "+").Replace(i.Ref) + "+" + i.Arch + ".sqsh"
}

// uri returns the name of the image for enroot, which separates the registry by #.
func (i Image) uri() string {
	registry, repository, tag := i.split()
	if registry != "" {
		registry += "#"
	}
	return "docker://" + registry + repository + ":" + tag
}

// Import returns the squash file of an image. If there is none, or if it is corrupted,
// Import makes it.
func (s Squashes) Import(ctx context.Context, i Image) (squash Squash, err error) {
	defer func() { err = s.private(err) }()
	if err := i.Check(); err != nil {
		return Squash{}, err
	}
	if err := installed("unsquashfs", "squashfs-tools"); err != nil {
		return Squash{}, err
	}
	file := filepath.Join(s.Images, i.Name())
	if squash, err = s.verify(ctx, file, file); !importable(err) {
		return squash, err
	}
	if err := errors.Join(installed("enroot", "enroot"), s.writable(i, file)); err != nil {
		return Squash{}, err
	}
	lock, err := i.lock(ctx, s.Locks, i.Name(), lockWait)
	if err != nil {
		return Squash{}, err
	}
	defer lock.Close()
	if squash, err = s.verify(ctx, file, file); !importable(err) {
		return squash, err // another process made it while this one waited
	}
	return s.make(ctx, i, file)
}

func installed(program, pkg string) error {
	if command.Installed(program) {
		return nil
	}
	return because(program+" is not installed", "no %s on the PATH of this node: install %s", program, pkg)
}

// errCorrupted is wrapped by errors for a file that is not a whole squash file.
var errCorrupted = errors.New("corrupted")

// importable reports whether an import fixes an error of verify.
func importable(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errCorrupted)
}

// verify checks the squash file at path, whose record is beside file.
func (s Squashes) verify(ctx context.Context, path, file string) (Squash, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Squash{}, err
	}
	made, err := recorded(file)
	if err != nil {
		return Squash{}, err
	}
	if path == file && made.Bytes != 0 && info.Size() != made.Bytes {
		return Squash{}, fmt.Errorf("%w: %s has %d bytes instead of %d", errCorrupted, filepath.Base(file), info.Size(), made.Bytes)
	}
	_, err = tool(ctx, s.Starter, command.Command{Args: []string{"unsquashfs", "-l", path}})
	switch {
	case ctx.Err() != nil:
		return Squash{}, err
	case err != nil:
		return Squash{}, fmt.Errorf("%w: %w", errCorrupted, err)
	}
	return Squash{file, made.Digest}, nil
}

const recordBytes = 1 << 16

// recorded returns the record of a squash file; the zero record if an administrator made the
// file, without one.
func recorded(file string) (made record, err error) {
	err = safefile.ReadJSON(file+".json", recordBytes, &made)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return made, nil
	case err != nil:
		return made, fmt.Errorf("%w: record: %w", errCorrupted, err)
	case made.Digest != "" && !digestForm.MatchString(made.Digest):
		return made, fmt.Errorf("%w: record of the digest %q", errCorrupted, made.Digest)
	}
	return made, nil
}

// writable returns an error if this account cannot make the file.
func (s Squashes) writable(i Image, file string) error {
	err := os.MkdirAll(s.Images, 0o755)
	if err == nil {
		err = unix.Faccessat(unix.AT_FDCWD, s.Images, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}
	if err != nil {
		return because("image directory is not writable",
			"image %s: no valid file in storage.images, and this account cannot make one (%w): as its owner, run enroot import --output %s %s there, or name another directory",
			i.Ref, safefile.Cause(err), filepath.Base(file), i.uri())
	}
	return nil
}

// make imports an image. The caller has the lock.
func (s Squashes) make(ctx context.Context, i Image, file string) (Squash, error) {
	ctx, stop := context.WithTimeout(ctx, importLimit)
	defer stop()
	host, err := os.Hostname()
	if err != nil {
		return Squash{}, fmt.Errorf("import image %s: %w", i.Ref, err)
	}
	// The name of the file includes the name of this machine: another machine may import at the same
	// time if locks are not shared. A killed import of this machine leaves a file of this name.
	partial := filepath.Join(s.Images, "."+i.Name()+"."+host+".part")
	if err := os.RemoveAll(partial); err != nil {
		return Squash{}, fmt.Errorf("import image %s: %w", i.Ref, err)
	}
	defer os.Remove(partial)
	before := s.digest(ctx, i)
	if _, err := tool(ctx, s.Starter, s.enroot("import", "--output", partial, i.uri())); err != nil {
		return Squash{}, because("image could not be imported", "import image %s: %w: try it on that node: enroot import %s", i.Ref, err, i.uri())
	}
	if after := s.digest(ctx, i); after != before {
		return Squash{}, because("image changed during its import", "import image %s: the tag was %q before and is %q now: run the cell again", i.Ref, before, after)
	}
	if _, err := s.verify(ctx, partial, partial); err != nil {
		return Squash{}, because("imported image is corrupted", "import image %s: %w: is there space left in storage.images?", i.Ref, err)
	}
	if err := s.keep(i, before, partial, file); err != nil {
		return Squash{}, fmt.Errorf("import image %s: %w", i.Ref, err)
	}
	return Squash{file, before}, nil
}

// keep puts a new file and its record in place. The record comes first: until the file
// follows, an older file does not fit it and counts as corrupted.
func (s Squashes) keep(i Image, digest, partial, file string) error {
	info, err := os.Stat(partial)
	if err != nil {
		return err
	}
	if err := safefile.WriteJSON(file+".json", record{i.Ref, i.Arch, digest, info.Size()}); err != nil {
		return err
	}
	return os.Rename(partial, file)
}

// digest asks the registry for the digest of an image. It is empty if enroot is older than
// version 4, which has this command.
func (s Squashes) digest(ctx context.Context, i Image) string {
	out, _ := tool(ctx, s.Starter, s.enroot("digest", i.uri()))
	if digest := string(bytes.TrimSpace(out)); digestForm.MatchString(digest) {
		return digest
	}
	return ""
}

// enroot returns a command of enroot, which imports images for the architecture of this machine.
func (s Squashes) enroot(args ...string) command.Command {
	c := command.Command{Args: append([]string{"enroot"}, args...)}
	if s.EnrootCache != "" {
		c.Env = map[string]string{"ENROOT_CACHE_PATH": s.EnrootCache}
	}
	return c
}

// private replaces the operator's directories in the text of an error by their keys.
func (s Squashes) private(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	hidden := errors.New(s.Hide(err.Error()))
	if failed, ok := errors.AsType[*Error](err); ok {
		return &Error{failed.Reason, hidden}
	}
	return hidden
}
