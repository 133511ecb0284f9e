package fakes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
)

// Containers is the stand-ins for container tools in testdata/containers, and a registry.
type Containers struct {
	registry, log string
}

// NewContainers puts the stand-ins first on PATH until the test ends.
func NewContainers(t *testing.T) Containers {
	t.Helper()
	c := Containers{registry: t.TempDir(), log: filepath.Join(t.TempDir(), "log")}
	tools := need.Source("testdata/containers")
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	t.Setenv("LC_ALL", "C") // else bash warns of a locale that is not installed
	t.Setenv("FAKE_REGISTRY", c.registry)
	t.Setenv("FAKE_LOG", c.log)
	t.Setenv("FAKE_ENGINE", t.TempDir())
	return c
}

// Digest returns the n-th of the digests that images of tests have.
func Digest(n int) string { return fmt.Sprintf("sha256:%064x", n) }

// Push puts an image with this digest and number of layers into the registry.
func (c Containers) Push(t *testing.T, ref, digest string, layers int) {
	t.Helper()
	path := filepath.Join(c.registry, ref)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "%s\n%d\n", digest, layers), 0o644))
}

// Called returns the commands that began with these words.
func (c Containers) Called(t *testing.T, words string) (lines []string) {
	t.Helper()
	log, err := os.ReadFile(c.log)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.HasPrefix(line, words+" ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
