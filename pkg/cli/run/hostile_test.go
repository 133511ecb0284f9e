package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// ends runs the program and fails where it waits for what never comes.
func ends(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		code, stdout, stderr = cxrun(t, nil, args...)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Minute):
		t.Fatalf("%v does not end", args)
	}
	return code, stdout, stderr
}

// A FIFO or a device where a file should be is named, wherever a file is read.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir, _ := shards(t)
	fifo := filepath.Join(dir, "ff.json")
	lines := filepath.Join(t.TempDir(), "ff.ndjson")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	require.NoError(t, unix.Mkfifo(lines, 0o600))
	out := filepath.Join(t.TempDir(), "run.ndjson")
	definitions := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(definitions, "suites"), 0o755))
	require.NoError(t, unix.Mkfifo(filepath.Join(definitions, "suites", "ff.yaml"), 0o600))
	for _, tc := range []struct {
		name  string
		code  int
		names string
		args  []string
	}{
		{"a document", cli.ExitUsage, "ff.json: not a regular file", []string{"aggregate", "--in", fifo, "-o", out}},
		{"lines", cli.ExitUsage, "ff.ndjson: not a regular file", []string{"aggregate", "--in", lines, "-o", out}},
		{"lines of summarize", cli.ExitUsage, "ff.ndjson: not a regular file", []string{"summarize", "--in", lines}},
		{"a device", cli.ExitUsage, "/dev/zero: not a regular file", []string{"summarize", "--in", "/dev/zero"}},
		{"a matrix", cli.ExitUsage, "ff.json: not a regular file", []string{"aggregate", "--in", dir, "--matrix", fifo, "-o", out}},
		{"a matrix of a shard", cli.ExitUsage, "not a regular file", []string{"shard", "--matrix", "/dev/zero", "--id", "x", "--results", t.TempDir()}},
		{"definitions", cli.ExitUsage, "suites/ff.yaml:1:1: not a regular file", []string{"sweep", "--definitions", definitions}},
		{"traffic", cli.ExitUsage, "/dev/zero: not a regular file", []string{"bench", "alltoallv", "--backend", "host", "--traffic", "/dev/zero"}},
		{"traffic from a FIFO", cli.ExitUsage, "ff.json: not a regular file", []string{"bench", "alltoallv", "--backend", "host", "--traffic", fifo}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, _, stderr := ends(t, tc.args...)
			require.Equal(t, tc.code, code, stderr)
			require.Contains(t, stderr, tc.names)
		})
	}
}

// What is no regular file among the documents is named, waits for nobody and fails no
// gate. A case that it should have answered does.
func TestWhatIsNoFileFailsNoGate(t *testing.T) {
	dir, c := t.TempDir(), resulttest.CollectiveCase()
	m := plan.Matrix{
		Version:        plan.MatrixVersion,
		Generator:      plan.Generator{Program: "cxgen", Version: cli.Version, Format: plan.Format},
		RequestedOther: []plan.Requested{{SKU: "local", Disposition: plan.Runnable, Case: c}},
		Include:        []plan.Cell{{ID: "a", CaseIDs: []string{c.CaseID}}},
	}
	matrix := filepath.Join(t.TempDir(), "matrix")
	require.NoError(t, m.WriteFile(matrix))
	a := resulttest.Attempt()
	a.MatrixSHA256 = m.SHA256
	document, err := result.Write(dir, resulttest.Collective(c, a), 0, func([]byte) error { return nil })
	require.NoError(t, err)

	elsewhere := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "deeper"), 0o755))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "queue.json"), 0o600))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "deeper", "dangling.json")))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "deeper", "away")))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "away.json")))
	gates := [][]string{
		{"aggregate", "--in", dir, "--matrix", matrix, "-o", filepath.Join(t.TempDir(), "run.ndjson")},
		{"summarize", "--in", dir, "--matrix", matrix, "--gate"},
	}
	for _, gate := range gates {
		code, _, stderr := ends(t, gate...)
		require.Equal(t, cli.ExitOK, code, stderr)
		for _, name := range []string{"queue.json: not a regular file", "dangling.json: no such file", "away: not a regular file", "away.json: not a regular file"} {
			require.Contains(t, stderr, name)
		}
	}
	require.NoError(t, os.Remove(document))
	require.NoError(t, os.Symlink("nowhere", document))
	for _, gate := range gates {
		code, _, stderr := ends(t, gate...)
		require.Equal(t, cli.ExitFailed, code, stderr)
		require.Contains(t, stderr, "cxrun: 1 case without a document\n")
	}
}

// Files that no run left are not read into memory, whatever their name and size.
func TestHugeFilesAreNotRead(t *testing.T) {
	dir, _ := shards(t)
	for _, name := range []string{"huge.json", "core"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
		require.NoError(t, os.Truncate(filepath.Join(dir, name), 1<<40))
	}
	huge, definitions := filepath.Join(dir, "huge.json"), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(definitions, "suites"), 0o755))
	list := filepath.Join(definitions, "suites", "huge.yaml")
	require.NoError(t, os.WriteFile(list, nil, 0o644))
	require.NoError(t, os.Truncate(list, 1<<40))
	for _, args := range [][]string{
		{"aggregate", "--in", dir, "-o", filepath.Join(t.TempDir(), "run.ndjson")},
		{"summarize", "--in", dir},
		{"shard", "--matrix", huge, "--id", "a", "--results", dir},
		{"bench", "alltoallv", "--backend", "host", "--traffic", huge},
		{"sweep", "--definitions", definitions},
	} {
		_, _, stderr := ends(t, args...)
		require.Contains(t, stderr, "1099511627776 bytes", "%v", args)
	}
}

// Figures that cannot be, under a digest that holds, end no summary in a panic and
// take no memory of their own.
func TestSummaryOfHostileDocuments(t *testing.T) {
	pairs := resulttest.CollectiveCase()
	collective.Of(&pairs).Op, collective.Of(&pairs).RedOp = "p2p", ""
	pairs.CaseID = pairs.ID()
	rank := func(n int) *int { return &n }
	p2p := func(change func(*collective.Document)) result.Document {
		d := resulttest.Collective(pairs, resulttest.Attempt())
		for i := range d.Measurement.Rows {
			d.Measurement.Rows[i].Src, d.Measurement.Rows[i].Dst = rank(0), rank(1)
		}
		change(d)
		return d
	}
	rowless := resulttest.EP(resulttest.EPCase(), resulttest.Attempt())
	rowless.Measurement.Rows = nil
	for name, d := range map[string]result.Document{
		"no rows":             rowless,
		"a rank that is none": p2p(func(d *collective.Document) { d.Measurement.Rows[0].Src = rank(99) }),
		"a negative rank":     p2p(func(d *collective.Document) { d.Measurement.Rows[0].Dst = rank(-1) }),
		"no world":            p2p(func(d *collective.Document) { d.Topology.WorldSize = 0 }),
		"a negative world":    p2p(func(d *collective.Document) { d.Topology.WorldSize = -5 }),
		"a huge world":        p2p(func(d *collective.Document) { d.Topology.WorldSize = 1 << 40 }),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			data, err := result.EncodeDocument(d)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "x.json"), data, 0o644))
			for _, format := range []string{"markdown", "text", "json"} {
				stdout, _ := ran(t, cli.ExitOK, nil, "summarize", "--in", dir, "--format", format)
				require.Less(t, len(stdout), 1<<20)
			}
			// Without its digest it is no document at all.
			line := string(data[:strings.LastIndex(string(data), `,"digest"`)]) + "}\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, "x.json"), []byte(line), 0o644))
			_, stderr := ran(t, cli.ExitFailed, nil, "summarize", "--in", dir, "--gate")
			require.Contains(t, stderr, "invalid document")
		})
	}
}
