package prune_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/dirlock"
	"github.com/collectivex/collectivex/pkg/prune"
	"github.com/collectivex/collectivex/pkg/result"
)

// place is a directory of results, and one to move runs into.
func place(t *testing.T) prune.Retention {
	t.Helper()
	dir := t.TempDir()
	r := prune.Retention{Results: filepath.Join(dir, "results"), To: filepath.Join(dir, "old"), Runs: 2, Samples: 1}
	require.NoError(t, os.Mkdir(r.Results, 0o755))
	return r
}

// add writes a run of a given day as cxrun leaves it: documents and samples of a cell, each
// with its marker.
func add(t *testing.T, r prune.Retention, name string, day int, success bool) string {
	t.Helper()
	cell := filepath.Join(r.Results, name, "cells", "a")
	a := resulttest.Attempt()
	a.RunID, a.At = "run-"+name, resulttest.At.AddDate(0, 0, day)
	var d result.Document = resulttest.Collective(resulttest.CollectiveCase(), a)
	if !success {
		d = resulttest.Fail(resulttest.New(resulttest.CollectiveCase(), a), "timeout")
	}
	for _, m := range []struct {
		dir  string
		kind dirlock.Kind
	}{{filepath.Join(r.Results, name), dirlock.Run}, {cell, dirlock.Results}} {
		c, err := dirlock.Take(t.Context(), m.dir, m.kind)
		require.NoError(t, err)
		require.NoError(t, c.Release())
	}
	path, err := result.Write(cell, d, 0, func([]byte) error { return nil })
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(cell, result.SamplesDir), 0o755))
	require.NoError(t, os.WriteFile(result.SamplesFile(path), []byte("samples"), 0o644))
	return path
}

// kept returns why each entry stays, and the samples that go.
func kept(t *testing.T, r prune.Retention) (*prune.Plan, map[string]string) {
	t.Helper()
	before := tree(t, filepath.Dir(r.Results))
	p, err := prune.New(r)
	require.NoError(t, err)
	require.Equal(t, before, tree(t, filepath.Dir(r.Results)), "a plan changes nothing")
	out := map[string]string{}
	for _, e := range p.Entries {
		out[e.Name] = e.Keep
		for _, s := range e.Samples {
			out[e.Name] += "; move " + s
		}
	}
	return p, out
}

// tree lists the files below dir.
func tree(t *testing.T, dir string) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	}))
	return files
}

const (
	success = "newest success of a case"
	noMore  = "; move cells/a/samples"
)

func TestTheNewestSuccessesStay(t *testing.T) {
	r := place(t)
	add(t, r, "1-old", 1, true)
	add(t, r, "2-second", 2, true)
	add(t, r, "3-newest", 3, true)
	add(t, r, "4-failed", 4, false)
	add(t, r, "5-failed", 5, false)
	require.NoError(t, os.WriteFile(filepath.Join(r.Results, "notes.txt"), nil, 0o644))
	require.NoError(t, os.Mkdir(filepath.Join(r.Results, "empty"), 0o755))
	before := tree(t, r.Results)

	p, got := kept(t, r)
	require.Equal(t, map[string]string{
		"1-old": "", "2-second": success + noMore, "3-newest": success, "4-failed": "", "5-failed": "",
		"notes.txt": "not a run", "empty": "not a run",
	}, got)

	require.NoError(t, p.Apply())
	require.FileExists(t, filepath.Join(r.To, "runs", "1-old", "cells", "a", dirlock.Marker))
	require.DirExists(t, filepath.Join(r.To, "samples", "2-second", "cells", "a", "samples"))
	require.Len(t, append(tree(t, r.Results), tree(t, r.To)...), len(before), "nothing is deleted")
	_, got = kept(t, r)
	require.Equal(t, map[string]string{"2-second": success, "3-newest": success, "notes.txt": "not a run", "empty": "not a run"}, got)
}

// A case that never succeeded keeps its newest attempts.
func TestAttemptsStayWithoutASuccess(t *testing.T) {
	r := place(t)
	for day := range 3 {
		add(t, r, fmt.Sprint("run", day), day, false)
	}
	_, got := kept(t, r)
	const attempt = "newest attempt at a case that never succeeded"
	require.Equal(t, map[string]string{"run0": "", "run1": attempt + noMore, "run2": attempt}, got)
}

func TestBaselinesStay(t *testing.T) {
	r := place(t)
	path := add(t, r, "1-release", 1, true)
	add(t, r, "2-old", 2, true)
	add(t, r, "3-second", 3, true)
	add(t, r, "4-newest", 4, true)
	// The baseline is a copy elsewhere: its run stays.
	line, err := os.ReadFile(path)
	require.NoError(t, err)
	baseline := filepath.Join(t.TempDir(), "release.ndjson")
	require.NoError(t, os.WriteFile(baseline, line, 0o644))
	r.Baselines = []string{baseline}
	_, got := kept(t, r)
	require.Equal(t, map[string]string{"1-release": "a baseline needs it", "2-old": "", "3-second": success + noMore, "4-newest": success}, got)

	// Nothing is decided with a baseline that nobody can read.
	for text, says := range map[string]string{"": "has no documents", string(line[:len(line)/2]): "release.ndjson:1: "} {
		require.NoError(t, os.WriteFile(baseline, []byte(text), 0o644))
		_, err := prune.New(r)
		require.ErrorIs(t, err, prune.ErrUsage)
		require.ErrorContains(t, err, says)
	}
}

func TestWhatCannotBeReadOrIsInUseStays(t *testing.T) {
	r := place(t)
	torn := add(t, r, "1-torn", 1, true)
	add(t, r, "2-used", 2, true)
	add(t, r, "3-second", 3, true)
	add(t, r, "4-newest", 4, true)
	require.NoError(t, os.Truncate(torn, 100))
	used, err := dirlock.Take(t.Context(), filepath.Join(r.Results, "2-used", "cells", "a"), dirlock.Results)
	require.NoError(t, err)
	want := map[string]string{
		"1-torn": "has files that cannot be read", "2-used": "in use, or of another user", "3-second": success + noMore, "4-newest": success,
	}
	_, got := kept(t, r)
	require.Equal(t, want, got)
	require.NoError(t, used.Release())
	want["2-used"] = ""
	_, got = kept(t, r)
	require.Equal(t, want, got)
}

// What happens between plan and Apply stops it before the run is touched.
func TestApplyLooksAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(t *testing.T, r prune.Retention)
		says   string
	}{
		"another document": {func(t *testing.T, r prune.Retention) {
			a := resulttest.Attempt()
			a.RunID, a.At = "run-1-old", resulttest.At.Add(time.Hour)
			_, err := result.Write(filepath.Join(r.Results, "1-old", "cells", "a"), resulttest.EP(resulttest.EPCase(), a), 1, func([]byte) error { return nil })
			require.NoError(t, err)
		}, "it has changed since the plan was made; run prune again"},
		"a writer": {func(t *testing.T, r prune.Retention) {
			c, err := dirlock.Take(t.Context(), filepath.Join(r.Results, "1-old"), dirlock.Run)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, c.Release()) })
		}, "in use"},
		"a target that exists": {func(t *testing.T, r prune.Retention) {
			require.NoError(t, os.MkdirAll(filepath.Join(r.To, "runs", "1-old"), 0o755))
		}, "exists; name another directory"},
	} {
		t.Run(name, func(t *testing.T) {
			r := place(t)
			add(t, r, "1-old", 1, true)
			add(t, r, "2-second", 2, true)
			add(t, r, "3-newest", 3, true)
			p, got := kept(t, r)
			require.Empty(t, got["1-old"])
			tc.change(t, r)
			before := tree(t, r.Results)
			require.ErrorContains(t, p.Apply(), tc.says)
			require.Equal(t, before, tree(t, r.Results))
		})
	}
}

// A prune that ends after some of its moves is completed by the next one, whichever they
// were.
func TestAPruneThatEndsEarlyIsCompleted(t *testing.T) {
	r := place(t)
	for i, name := range []string{"1-old", "2-old", "3-second", "4-newest"} {
		add(t, r, name, i, true)
	}
	require.NoError(t, os.MkdirAll(filepath.Join(r.To, "runs"), 0o755))
	require.NoError(t, os.Rename(filepath.Join(r.Results, "1-old"), filepath.Join(r.To, "runs", "1-old")))
	p, _ := kept(t, r)
	require.NoError(t, p.Apply())
	names, err := os.ReadDir(filepath.Join(r.To, "runs"))
	require.NoError(t, err)
	require.Len(t, names, 2)
	require.DirExists(t, filepath.Join(r.To, "samples", "3-second"))
}

func TestPlacesThatAreRefused(t *testing.T) {
	r := place(t)
	add(t, r, "1-old", 1, true)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(r.Results, link))
	for name, tc := range map[string]struct {
		change func(*prune.Retention)
		says   string
	}{
		"a run in place of runs":   {func(r *prune.Retention) { r.Results = filepath.Join(r.Results, "1-old") }, "is itself a run"},
		"inside":                   {func(r *prune.Retention) { r.To = filepath.Join(r.Results, "old") }, "is inside of"},
		"the same":                 {func(r *prune.Retention) { r.To = r.Results }, "is inside of"},
		"inside, by way of a link": {func(r *prune.Retention) { r.To = filepath.Join(link, "x", "old") }, "is inside of"},
		"inside the linked":        {func(r *prune.Retention) { r.To = filepath.Join(r.Results, "old"); r.Results = link }, "is inside of"},
		"another file system":      {func(r *prune.Retention) { r.To = "/proc/old" }, "is on another file system"},
		"nothing stays":            {func(r *prune.Retention) { r.Runs = 0 }, "keep at least 1"},
		"nowhere":                  {func(r *prune.Retention) { r.Results += "-not" }, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := r
			tc.change(&changed)
			_, err := prune.New(changed)
			require.ErrorContains(t, err, tc.says)
			require.ErrorIs(t, err, prune.ErrUsage)
		})
	}
	require.True(t, slices.ContainsFunc(tree(t, r.Results), func(f string) bool { return filepath.Ext(f) == ".json" }))
}
