package gpu

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/collectivex/collectivex/pkg/regular"
)

// Cached is Compile with a cache of images in dir (default: collectivex/kernels in the
// user's cache directory). The key of an image is its architecture, source, options and
// compiler version. Concurrent callers may compile twice, but none reads a partial image:
// files appear whole and contain their own hash.
func (c *Compiler) Cached(ctx context.Context, dir, name, source, arch string) ([]byte, error) {
	path := filepath.Join(cacheDir(dir), c.cacheKey(source, arch)+".image")
	if image, ok := readImage(path); ok {
		return image, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	image, err := c.Compile(name, source, arch)
	if err != nil {
		return nil, err
	}
	// Failing to cache an image is not an error.
	_ = writeImage(path, image)
	return image, nil
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
	return regular.WriteAtomic(path, func(w io.Writer) error {
		_, err := w.Write(append(bytes.Clone(image), sum[:]...))
		return err
	})
}
