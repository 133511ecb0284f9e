package shard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/result"
)

// A shard shares its results directory with files of other people.
func TestWhatIsNotOursStays(t *testing.T) {
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1))
	outside := t.TempDir()
	kept := []string{
		filepath.Join(s.Results, result.SamplesDir, "thesis.txt"),
		filepath.Join(s.Results, result.SamplesDir, "fake-case-07-w2_20260101T000000.000Z-c007.ndjson.gz"),
		filepath.Join(s.Results, result.SamplesDir, "draft.cx-partial"),
		filepath.Join(s.Results, "draft.cx-partial"),
		filepath.Join(outside, ".draft-1.cx-partial"),
	}
	require.NoError(t, os.Mkdir(filepath.Join(s.Results, result.SamplesDir), 0o755))
	for _, path := range kept {
		require.NoError(t, os.WriteFile(path, nil, 0o644))
	}
	link := filepath.Join(s.Results, result.SamplesDir, ".link-1.cx-partial")
	require.NoError(t, os.Symlink(kept[4], link))
	counts, err := s.Do(t.Context())
	require.NoError(t, err)
	require.Equal(t, Counts{Passed: 1}, counts)
	for _, path := range append(kept, link) {
		require.FileExists(t, path)
	}
}

func TestSamplesThatAreALinkAreRefused(t *testing.T) {
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1))
	outside := t.TempDir()
	thesis := filepath.Join(outside, "thesis.txt")
	require.NoError(t, os.WriteFile(thesis, nil, 0o644))
	require.NoError(t, os.Symlink(outside, filepath.Join(s.Results, result.SamplesDir)))
	_, err := s.Do(t.Context())
	require.ErrorIs(t, err, ErrEnvironment)
	require.ErrorContains(t, err, "samples is not a directory")
	require.FileExists(t, thesis)
}

// A shard killed between a document and its samples has written both.
func TestSamplesOfAFinishedDocumentArePutInPlace(t *testing.T) {
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1), fakeCase(1, 2, 1))
	do(t, s)
	names, err := filepath.Glob(filepath.Join(s.Results, result.SamplesDir, "*"))
	require.NoError(t, err)
	require.Len(t, names, 2)
	partial := func(path string) string {
		p := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"-123.cx-partial")
		require.NoError(t, os.Rename(path, p))
		return p
	}
	finished, unfinished := partial(names[0]), partial(names[1])
	documents, err := filepath.Glob(filepath.Join(s.Results, "fake-case-01-*.json"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(documents[0]))

	require.NoError(t, tidy(s.Results))
	require.FileExists(t, names[0])
	require.NoFileExists(t, names[1])
	require.NoFileExists(t, finished)
	require.NoFileExists(t, unfinished)
}

// What has the name of a document and is none is named, and the shard goes on.
func TestWhatIsNoFileIsNamed(t *testing.T) {
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1))
	require.NoError(t, os.Mkdir(filepath.Join(s.Results, "directory.json"), 0o755))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(s.Results, "link.json")))
	require.NoError(t, unix.Mkfifo(filepath.Join(s.Results, "queue.json"), 0o600))
	counts, err := s.Do(t.Context())
	require.NoError(t, err)
	require.Equal(t, Counts{Passed: 1}, counts)
	seen := strings.Join(s.Observer.(*recorder).lines, "\n")
	for _, name := range []string{"directory.json", "link.json", "queue.json"} {
		require.Contains(t, seen, "warn "+name+" does not count")
	}
}
