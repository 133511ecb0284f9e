package fold

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

func write1(t *testing.T, dir string, d result.Document, index int) {
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, result.Validate(d))
	_, err := result.Write(dir, d, index, func([]byte) error { return nil })
	require.NoError(t, err)
}

func attemptOf(runAttempt string, ordinal int, minute int) result.Attempt {
	a := resulttest.Attempt()
	a.RunAttempt, a.Ordinal = runAttempt, ordinal
	a.At = a.At.Add(time.Duration(minute) * time.Minute)
	return a
}

func requested(cases ...plan.Case) *plan.Matrix {
	m := &plan.Matrix{Version: 1}
	for _, c := range cases {
		m.RequestedCases = append(m.RequestedCases, plan.Requested{SKU: c.SKU, Disposition: plan.Runnable, Case: c})
	}
	return m
}

func TestFoldIsOrderedAndIdempotent(t *testing.T) {
	in := t.TempDir()
	c, e := resulttest.CollectiveCase(), resulttest.EPCase()
	write1(t, filepath.Join(in, "b"), resulttest.EP(e, attemptOf("1", 1, 0)), 0)
	write1(t, filepath.Join(in, "a", "deep"), resulttest.Collective(c, attemptOf("1", 1, 0)), 1)
	write1(t, filepath.Join(in, "c"), resulttest.EP(e, attemptOf("1", 1, 0)), 0) // uploaded again by a re-run

	out := filepath.Join(in, "run.ndjson")
	v, err := Fold([]string{in}, requested(c, e), Expected{}, out)
	require.NoError(t, err)
	require.NoError(t, v.Err())
	require.Equal(t, 2, v.Documents)
	require.Equal(t, 1, v.Duplicates)
	first, err := os.ReadFile(out)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(first), "\n")
	require.Len(t, lines, 3)
	require.Contains(t, lines[0], "collective-attempt")
	require.Contains(t, lines[1], "case-attempt")

	for _, again := range [][]string{{in}, {out}, {out, in}} {
		_, err = Fold(again, nil, Expected{}, out)
		require.NoError(t, err)
		second, err := os.ReadFile(out)
		require.NoError(t, err)
		require.Equal(t, string(first), string(second), "%v", again)
	}
}

func TestStandingAttempt(t *testing.T) {
	c := resulttest.CollectiveCase()
	fail := func(a result.Attempt, reason string) result.Document {
		return resulttest.Fail(resulttest.New(c, a), reason)
	}
	ok := func(a result.Attempt) result.Document { return resulttest.Collective(c, a) }
	for _, tc := range []struct {
		name   string
		docs   []result.Document
		status string
		reason string
	}{
		{"newest success", []result.Document{ok(attemptOf("1", 1, 0)), fail(attemptOf("2", 1, 9), "timeout")}, "success", ""},
		{"newest without success", []result.Document{fail(attemptOf("2", 1, 9), "timeout"), fail(attemptOf("1", 2, 3), "skipped")}, "failed", "timeout"},
		{"ordinal within a run attempt", []result.Document{fail(attemptOf("1", 2, 0), "timeout"), fail(attemptOf("1", 1, 9), "skipped")}, "failed", "timeout"},
		{"run attempts are numbers", []result.Document{fail(attemptOf("10", 1, 0), "timeout"), fail(attemptOf("9", 1, 9), "skipped")}, "failed", "timeout"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := t.TempDir()
			for i, d := range tc.docs {
				write1(t, in, d, i)
			}
			v, err := Fold([]string{in}, requested(c), Expected{}, filepath.Join(in, "x.ndjson"))
			require.NoError(t, err)
			require.Len(t, v.Answers, 1)
			require.Equal(t, len(tc.docs), v.Documents)
			require.Equal(t, len(tc.docs), v.Answers[0].Attempts)
			require.Equal(t, tc.status, v.Answers[0].Status)
			require.Equal(t, tc.reason, v.Answers[0].Reasons.String())
		})
	}
}

// A document that the paths reach twice stands once.
func TestStandingOfOnePathTwice(t *testing.T) {
	in := t.TempDir()
	write1(t, filepath.Join(in, "a"), resulttest.Collective(resulttest.CollectiveCase(), attemptOf("1", 1, 0)), 0)
	for _, paths := range [][]string{{in, in}, {in, filepath.Join(in, "a")}, {filepath.Join(in, "a"), in}} {
		_, standing, err := Standing(paths)
		require.NoError(t, err)
		n := 0
		for _, err := range standing {
			require.NoError(t, err)
			n++
		}
		require.Equal(t, 1, n, paths)
	}
}

func TestNothingIsSkippedSilently(t *testing.T) {
	c := resulttest.CollectiveCase()
	good := encoded(t, resulttest.Collective(c, attemptOf("1", 1, 0)))
	private := strings.Replace(string(good), `"framework":"host"`, `"framework":"10.1.2.3"`, 1)
	changed := strings.Replace(string(good), `"p50":`, `"p50":1`, 1)
	late := resulttest.Collective(c, attemptOf("1", 1, 0))
	late.Provenance.Generator = "cxrun other"
	clash := string(encoded(t, late))
	for _, tc := range []struct{ name, content, kind, err string }{
		{"empty", "", "truncated JSON", "1 file"},
		{"truncated", string(good[:len(good)/2]), "truncated JSON", "1 file"},
		{"binary", "\x7fELF", "not JSON", "1 file"},
		{"foreign", `{"version":1,"record_type":"swap"}`, "JSON that is not a document of this program", "1 file"},
		{"matrix", `{"version":1,"include":[],"requested_cases":[]}`, "JSON that is not a document of this program", "1 file"},
		{"other version", strings.Replace(string(good), `"version":1`, `"version":3`, 1), "JSON that is not a document of this program", "1 file"},
		{"no time", strings.Replace(string(good), `"generated_at":"2026`, `"generated_at":"`, 1), "JSON that is not a document of this program", "1 file"},
		{"private", private, "document that holds something private", "1 file"},
		{"changed", changed, "document that was changed after it was written", "1 file"},
		{"clash", clash, "second document for one attempt", "1 file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(in, "a.json"), good, 0o644))
			require.NoError(t, os.WriteFile(filepath.Join(in, "b.json"), []byte(tc.content), 0o644))
			out := filepath.Join(in, "x.ndjson")
			v, err := Fold([]string{in}, requested(c), Expected{}, out)
			require.NoError(t, err)
			require.Len(t, v.Problems, 1)
			require.Equal(t, filepath.Join(in, "b.json"), v.Problems[0].Source)
			require.Equal(t, tc.kind, v.Problems[0].Kind(), "%v", v.Problems[0])
			require.ErrorContains(t, v.Err(), tc.err)
			folded, err := os.ReadFile(out)
			require.NoError(t, err)
			require.Equal(t, string(good), string(folded[:len(good)]))
		})
	}
}

// A document answers the case that the matrix plans under its id, and only if the matrix runs it.
func TestDocumentsAnswerThePlannedCase(t *testing.T) {
	c := resulttest.CollectiveCase()
	in := t.TempDir()
	write1(t, in, resulttest.Collective(c, attemptOf("1", 1, 0)), 0)
	other := c
	block := *collective.Of(&c)
	block.Measure.Warmup++
	other.Block = &block
	excluded := requested(c)
	excluded.RequestedCases[0].Disposition = plan.Unsupported
	for want, m := range map[string]*plan.Matrix{
		"": requested(c), "identity.case has another measure than the matrix": requested(other), "the matrix does not run case " + c.CaseID: excluded,
	} {
		v, err := Fold([]string{in}, m, Expected{}, filepath.Join(t.TempDir(), "x.ndjson"))
		require.NoError(t, err)
		if want == "" {
			require.NoError(t, v.Err())
			continue
		}
		require.ErrorContains(t, v.Err(), "1 file")
		require.Equal(t, "document of another plan", v.Problems[0].Kind())
		require.ErrorContains(t, v.Problems[0], want)
	}
}

func TestGate(t *testing.T) {
	c, e := resulttest.CollectiveCase(), resulttest.EPCase()
	other := c
	other.CaseID = "unsupported-case"
	m := requested(c, e)
	m.RequestedOther = []plan.Requested{{Disposition: plan.Unsupported, Case: other}}
	in := t.TempDir()
	out := filepath.Join(in, "x.ndjson")
	judge := func() *Verdict {
		v, err := Fold([]string{in}, m, Expected{}, out)
		require.NoError(t, err)
		return v
	}
	v := judge()
	require.EqualError(t, v.Err(), "2 cases without a document")
	require.Equal(t, 2, v.Requested)
	require.Equal(t, 1, v.Unsupported)

	write1(t, in, resulttest.Collective(c, attemptOf("1", 1, 0)), 0)
	require.EqualError(t, judge().Err(), "1 case without a document")
	write1(t, in, resulttest.Fail(resulttest.New(e, attemptOf("1", 1, 0)), "rank-died: rank 1 signal 9"), 1)
	v = judge()
	require.EqualError(t, v.Err(), "1 case failed")
	require.Equal(t, resulttest.Reasons("rank-died: rank 1 signal 9"), v.Failed()[0].Reasons)
	write1(t, in, resulttest.EP(e, attemptOf("1", 2, 1)), 1)
	require.NoError(t, judge().Err())

	foreign := resulttest.CollectiveCase()
	foreign.SKU = "not-in-the-matrix"
	foreign.CaseID = foreign.ID()
	write1(t, in, resulttest.Collective(foreign, attemptOf("1", 1, 0)), 2)
	require.EqualError(t, judge().Err(), "1 case that was not requested")
	a := attemptOf("1", 1, 0)
	a.RunID = "4712"
	write1(t, in, resulttest.Collective(c, a), 3)
	require.EqualError(t, judge().Err(), "1 case that was not requested, documents of 2 runs for one matrix")
}

// An empty directory passes only for a matrix that asks for nothing.
func TestGateWithoutDocuments(t *testing.T) {
	for m, want := range map[*plan.Matrix]string{nil: "no document", requested(): "<nil>"} {
		v, err := Fold([]string{t.TempDir()}, m, Expected{}, filepath.Join(t.TempDir(), "x.ndjson"))
		require.NoError(t, err)
		require.Equal(t, want, fmt.Sprint(v.Err()))
	}
}

func TestFoldLeavesTheOldFileWhereItCannotRead(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.ndjson")
	require.NoError(t, os.WriteFile(out, []byte("old\n"), 0o644))
	_, err := Fold([]string{filepath.Join(t.TempDir(), "none")}, nil, Expected{}, out)
	require.ErrorIs(t, err, os.ErrNotExist)
	left, err := os.ReadDir(filepath.Dir(out))
	require.NoError(t, err)
	require.Len(t, left, 1)
	data, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, "old\n", string(data))
}

// A link that is named is followed: results/latest is as good as what it points at. One that is
// found is not.
func TestALinkToADirectoryIsFollowed(t *testing.T) {
	in := t.TempDir()
	write1(t, in, resulttest.Collective(resulttest.CollectiveCase(), attemptOf("1", 1, 0)), 0)
	link := filepath.Join(t.TempDir(), "latest")
	require.NoError(t, os.Symlink(in, link))
	v, err := Fold([]string{link}, nil, Expected{}, filepath.Join(t.TempDir(), "x.ndjson"))
	require.NoError(t, err)
	require.Equal(t, 1, v.Documents)

	found := false
	for _, err := range Read([]string{filepath.Dir(link)}) {
		found = true
		require.EqualError(t, err, link+": not a regular file: links to directories are not followed; name it with --in")
	}
	require.True(t, found)
}

// Documents of another run, commit or matrix are left out and named.
func TestDocumentsOfAnotherRunAreRefused(t *testing.T) {
	c := resulttest.CollectiveCase()
	m := requested(c)
	m.SHA256 = strings.Repeat("0f", 32)
	a := attemptOf("1", 1, 0)
	a.MatrixSHA256 = m.SHA256
	want := Expected{RunID: a.RunID, SourceSHA: a.SourceSHA}
	for _, tc := range []struct {
		name, says string
		change     func(*result.Attempt)
	}{
		{"run", `its run id is "4712", expected "4711"`, func(a *result.Attempt) { a.RunID = "4712" }},
		{"no run", `its run id is "", expected "4711"`, func(a *result.Attempt) { a.RunID = "" }},
		{"commit", `its source SHA is "c0ffee"`, func(a *result.Attempt) { a.SourceSHA = "c0ffee" }},
		{"matrix", `its matrix digest is "f0"`, func(a *result.Attempt) { a.MatrixSHA256 = "f0" }},
		{"no matrix", `its matrix digest is ""`, func(a *result.Attempt) { a.MatrixSHA256 = "" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := t.TempDir()
			write1(t, in, resulttest.Fail(resulttest.New(c, a), "timeout"), 0)
			out := filepath.Join(in, "x.ndjson")
			v, err := Fold([]string{in}, m, want, out)
			require.NoError(t, err)
			require.EqualError(t, v.Err(), "1 case failed")

			other := a
			tc.change(&other)
			write1(t, in, resulttest.Collective(c, other), 1)
			v, err = Fold([]string{in}, m, want, out)
			require.NoError(t, err)
			require.ErrorContains(t, v.Err(), "1 case failed, 1 file", "a success of another run stands for nothing")
			require.ErrorContains(t, v.Problems[0], tc.says)
			require.Equal(t, "document of another run", v.Problems[0].Kind())
			require.Equal(t, 1, v.Documents)
		})
	}
}

func encoded(t testing.TB, d result.Document) []byte {
	data, err := result.EncodeDocument(d)
	require.NoError(t, err)
	return data
}

// A line that is too long is named, and the rest of the file is read.
func TestALongLineIsNamed(t *testing.T) {
	c := resulttest.CollectiveCase()
	file := filepath.Join(t.TempDir(), "run.ndjson")
	long := `{"version":1,"x":"` + strings.Repeat("a", result.MaxDocument) + `"}` + "\n"
	content := string(encoded(t, resulttest.Collective(c, attemptOf("1", 1, 0)))) + long + "\n" + string(encoded(t, resulttest.Collective(c, attemptOf("1", 2, 0))))
	for _, content := range []string{content, strings.TrimSuffix(content, "\n")} {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
		v, err := Fold([]string{file}, nil, Expected{}, filepath.Join(t.TempDir(), "x.ndjson"))
		require.NoError(t, err)
		require.Equal(t, 2, v.Documents)
		require.Len(t, v.Problems, 1)
		require.ErrorContains(t, v.Problems[0], file+":2: 67108885 bytes, more than the limit of 67108864")
	}
}

func TestLeftoversOfKilledFoldsAreRemoved(t *testing.T) {
	in, dir := t.TempDir(), t.TempDir()
	plant := func(name string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
		return path
	}
	left := []string{plant(".run.ndjson-123.cx-partial"), plant(".week.ndjson-4.cx-partial")}
	foreign := plant("thesis.cx-partial")
	_, err := Fold([]string{in}, nil, Expected{}, filepath.Join(dir, "run.ndjson"))
	require.NoError(t, err)
	for _, path := range left {
		require.NoFileExists(t, path)
	}
	require.FileExists(t, foreign)
}

// A Mac that copies documents leaves a file ._NAME.json beside each.
func TestHiddenFilesAreNoDocuments(t *testing.T) {
	c := resulttest.CollectiveCase()
	in := t.TempDir()
	write1(t, in, resulttest.Collective(c, attemptOf("1", 1, 0)), 0)
	require.NoError(t, os.WriteFile(filepath.Join(in, "._case.json"), []byte("Mac OS X"), 0o600))
	v, err := Fold([]string{in}, requested(c), Expected{}, filepath.Join(t.TempDir(), "run.ndjson"))
	require.NoError(t, err)
	require.NoError(t, v.Err())
}

// A torn document does not keep a run red after its case was measured again.
func TestATornDocumentThatWasReplaced(t *testing.T) {
	c := resulttest.CollectiveCase()
	in := t.TempDir()
	write1(t, in, resulttest.Collective(c, attemptOf("1", 1, 0)), 0)
	names, err := filepath.Glob(filepath.Join(in, "*.json"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(names[0], 100))
	judge := func() *Verdict {
		v, err := Fold([]string{in}, requested(c), Expected{}, filepath.Join(t.TempDir(), "run.ndjson"))
		require.NoError(t, err)
		return v
	}
	require.EqualError(t, judge().Err(), "1 case without a document, 1 file that is not a document")

	write1(t, in, resulttest.Collective(c, attemptOf("1", 1, 1)), 0)
	v := judge()
	require.NoError(t, v.Err())
	require.Len(t, v.Replaced, 1)
	require.Equal(t, names[0], v.Replaced[0].Source, "it is named all the same")

	foreign := filepath.Join(in, "foreign.json")
	require.NoError(t, os.WriteFile(foreign, []byte("{"), 0o600))
	require.EqualError(t, judge().Err(), "1 file that is not a document", "nobody knows of which case it was")
	require.NoError(t, os.Remove(foreign))
	write1(t, in, resulttest.Collective(c, attemptOf("1", 2, 2)), 0)
	names, err = filepath.Glob(filepath.Join(in, "*.json"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(names[0], 100))
	require.EqualError(t, judge().Err(), "1 file that is not a document", "the newest attempt is torn")
}
