package gpu

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/safefile"
)

// Cached is Compile with a cache of images in dir (default: collectivex/kernels in the user's cache
// directory). The key of an image is its architecture, source, options and compiler version.
//
// Of concurrent callers, such as the ranks of a host, one compiles and the others wait for its
// image. If its compiler fails or its process is killed, the next caller compiles. No caller reads
// a partial image, because a file is renamed into place and contains its own hash.
func (c *Compiler) Cached(ctx context.Context, dir, name, source, arch string) ([]byte, error) {
	path := filepath.Join(cacheDir(dir), c.cacheKey(source, arch)+".image")
	if image, ok := readImage(path); ok {
		return image, nil
	}
	deadline := time.Now().Add(maxWait)
	for pause := minPoll; ; pause = min(2*pause, maxPoll) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		lock, busy := lockImage(path)
		image, ok := readImage(path)
		var err error
		if !ok && (!busy || time.Now().After(deadline)) {
			image, err = c.compileInto(path, name, source, arch)
			ok = true
		}
		if lock != nil {
			os.Remove(lock.Name()) // before another caller can lock it
			lock.Close()
		}
		if ok {
			return image, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// A caller polls for the image that another one compiles at intervals that grow from minPoll to
// maxPoll. After maxWait it compiles the image itself, because the other process may be suspended
// or its host may have crashed.
const (
	minPoll = 5 * time.Millisecond
	maxPoll = 100 * time.Millisecond
	maxWait = time.Minute
)

// compileInto compiles an image and writes it to path. A failure to write it is ignored.
func (c *Compiler) compileInto(path, name, source, arch string) ([]byte, error) {
	image, err := c.Compile(name, source, arch)
	if err == nil {
		_ = writeImage(path, image)
	}
	return image, err
}

// lockImage locks the file beside path whose owner compiles the image. It returns nil if it cannot
// lock the file; busy reports that another caller owns the lock.
func lockImage(path string) (lock *os.File, busy bool) {
	if os.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return nil, false
	}
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, false
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		if safefile.Linked(f) {
			return f, false
		}
		err = unix.EWOULDBLOCK // its owner has just removed it
	}
	f.Close()
	return nil, errors.Is(err, unix.EWOULDBLOCK)
}

func cacheDir(dir string) string {
	if dir != "" {
		return dir
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir() // a container without a home
	}
	return filepath.Join(base, "collectivex", "kernels")
}

func (c *Compiler) cacheKey(source, arch string) string {
	h := sha256.New()
	// Each part ends in a zero byte, so that different lists have different hashes.
	for _, part := range append([]string{c.Version(), c.lib.BuildID(), arch, source}, c.vendor.Options(arch)...) {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	plain := strings.NewReplacer(":", "-", "/", "-").Replace(arch)
	return plain + "-" + hex.EncodeToString(h.Sum(nil))
}

// readImage returns a cached image. It reports false if the hash at the end of the file
// does not match.
func readImage(path string) ([]byte, bool) {
	raw, err := os.ReadFile(path)
	if err != nil || len(raw) <= sha256.Size {
		return nil, false
	}
	image, sum := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	want := sha256.Sum256(image)
	return image, bytes.Equal(sum, want[:])
}

func writeImage(path string, image []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	sum := sha256.Sum256(image)
	return safefile.WriteAtomic(path, func(w io.Writer) error {
		_, err := w.Write(append(bytes.Clone(image), sum[:]...))
		return err
	})
}
