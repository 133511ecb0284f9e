package shard

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/dirlock"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// do runs the shard and returns its documents and what its observer saw.
func do(t *testing.T, s *Shard) (Counts, map[string]*collective.Document, []string) {
	t.Helper()
	counts, err := s.Do(t.Context())
	require.NoError(t, err)
	requireNoLitter(t, s)
	return counts, byCase(t, s.Results), s.Observer.(*recorder).lines
}

// requireNoLitter proves that a shard leaves documents, samples and logs, and
// no process, no scratch directory and no partial file.
func requireNoLitter(t *testing.T, s *Shard) {
	t.Helper()
	left, err := os.ReadDir(scratchOf(s))
	require.NoError(t, err)
	require.Empty(t, left, "scratch")
	require.NoError(t, filepath.WalkDir(s.Results, func(path string, d fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(s.Results, path); rel == "logs" {
			return fs.SkipDir
		}
		if !d.IsDir() && d.Name() != dirlock.Marker {
			require.True(t, strings.HasSuffix(path, ".json") || strings.HasSuffix(path, result.SamplesSuffix), path)
		}
		return err
	}))
	requireNoRanks(t, scratchOf(s))
}

// requireNoRanks proves that no process has dir on its command line.
func requireNoRanks(t *testing.T, dir string) {
	t.Helper()
	require.Eventually(t, func() bool {
		files, err := filepath.Glob("/proc/[0-9]*/cmdline")
		require.NoError(t, err)
		for _, f := range files {
			if line, err := os.ReadFile(f); err == nil && strings.Contains(string(line), dir) && f != "/proc/self/cmdline" {
				return false
			}
		}
		return true
	}, 10*time.Minute, 10*time.Millisecond, "ranks live")
}

type line struct {
	Rank int        `json:"rank"`
	Kind string     `json:"kind"`
	Data fakeRecord `json:"data"`
}

func readSamples(t *testing.T, results, caseID string) []line {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(results, result.SamplesDir, caseID+"_*"+result.SamplesSuffix))
	require.NoError(t, err)
	require.Len(t, names, 1)
	f, err := os.Open(names[0])
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var out []line
	for sc := bufio.NewScanner(z); sc.Scan(); {
		var l line
		require.NoError(t, json.Unmarshal(sc.Bytes(), &l))
		out = append(out, l)
	}
	return out
}

func TestEveryCaseHasADocument(t *testing.T) {
	need.Full(t)
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 3), fakeCase(1, 2, 3), fakeCase(2, 3, 2))
	counts, docs, seen := do(t, s)
	require.Equal(t, Counts{Passed: 3}, counts)
	require.Len(t, docs, 3)
	for i, q := range s.Cases {
		d := docs[q.Case.CaseID]
		require.Equal(t, result.Success, d.Outcome.Status)
		require.Equal(t, 1, d.Identity.AttemptOrdinal)
		require.Equal(t, "run-1", *d.Identity.AllocationFactors.RunID)
		require.Equal(t, "Fake One", d.Topology.DeviceProduct)
		require.Equal(t, "1.2.3", *d.Implementation.LibraryVersion)
		require.Equal(t, "host", d.Runtime.Vendor)
		require.Len(t, d.Measurement.Rows, len(collective.Of(&q.Case).Sizes))
		names, err := filepath.Glob(filepath.Join(s.Results, q.Case.CaseID+"_*Z-c00"+string(rune('0'+i))+".json"))
		require.NoError(t, err)
		require.Len(t, names, 1)
		require.Len(t, readSamples(t, s.Results, q.Case.CaseID), len(collective.Of(&q.Case).Sizes)*q.Case.World)
	}
	require.Equal(t, []string{
		"1/3 start fake-case-00-fake-all-reduce-float-sum-w2-warm attempt 1", "1/3 success fake-case-00-fake-all-reduce-float-sum-w2-warm ",
		"2/3 start fake-case-01-fake-all-reduce-float-sum-w2-warm attempt 1", "2/3 success fake-case-01-fake-all-reduce-float-sum-w2-warm ",
		"3/3 start fake-case-02-fake-all-reduce-float-sum-w3-warm attempt 1", "3/3 success fake-case-02-fake-all-reduce-float-sum-w3-warm ",
	}, seen)
}

func TestTheCaseOfADocumentIsThePlannedOne(t *testing.T) {
	q := fakeCase(0, 2, 3)
	q.Case.Env = map[string]string{"FAKE_CASE": "<&>"}
	planned, err := json.Marshal(q.Case)
	require.NoError(t, err)
	s := fakeShard(t.TempDir(), t.TempDir(), q)
	do(t, s)
	names, err := filepath.Glob(filepath.Join(s.Results, "*.json"))
	require.NoError(t, err)
	data, err := os.ReadFile(names[0])
	require.NoError(t, err)
	var doc struct {
		Identity struct {
			Case plan.Case `json:"case"`
		} `json:"identity"`
	}
	require.NoError(t, json.Unmarshal(data, &doc))
	got, err := json.Marshal(doc.Identity.Case)
	require.NoError(t, err)
	require.Equal(t, string(planned), string(got))
}

// Faults that cost their case alone, with the reason that names them.
func TestFaultCostsItsCaseOnly(t *testing.T) {
	need.Full(t)
	t.Parallel()
	const hit = "fake-case-01-fake-all-reduce-float-sum-w2-warm"
	tests := []struct {
		name, fault string
		budget      int
		status      string
		reasons     []string
		rows        int // at least; marked where they are not whole
	}{
		{"rank exits", "kind=exit", 0, result.Failed, []string{"rank-died: rank 1 exit 7"}, 0},
		{"rank exits while it opens", "kind=exit,at=open", 0, result.Failed, []string{"rank-died: rank 1 exit 7"}, 0},
		{"rank exits at its end", "kind=exit,at=end", 0, result.Failed, []string{"rank-died: rank 1 exit 7"}, 4},
		{"rank is killed", "kind=kill,at=record-4", 0, result.Failed, []string{"rank-died: rank 1 signal 9"}, 2},
		{"rank meets a segmentation fault", "kind=segv,at=record-4", 0, result.Failed, []string{"rank-died: rank 1 exit 2"}, 2},
		{"rank's disk is full", "kind=full", 0, result.Failed, []string{"environment: store of rank 1"}, 0},
		{"rank hangs", "kind=hang,at=record-4", 10, result.Failed, []string{"timeout: case budget of 10 s"}, 2},
		{"rank panics", "kind=panic", 0, result.Failed, []string{"internal-error: rank 1"}, 0},
		{"rank is slow", "kind=slow", 0, result.Success, []string{}, 4},
		{"rank loses its records", "kind=mute", 0, result.Invalid, []string{string(result.ReasonUnchecked)}, 4},
		{"rank says done without work", "kind=lie", 3, result.Failed, []string{"timeout: case budget of 3 s"}, 0},
		{"library fails", "kind=library", 0, result.Failed, []string{"library-error: rank 1"}, 0},
		{"backend refuses", "kind=refuse", 0, result.Failed, []string{"refused: rank 1"}, 0},
		{"result is wrong", "kind=flip", 0, result.Invalid, []string{string(result.ReasonSemantics)}, 4},
		{"record is private", "kind=secret", 0, result.Failed, []string{"unpublishable: document or samples"}, 0},
		{"records are more than memory", "kind=flood", 0, result.Failed, []string{"internal-error: records of rank 1"}, 0},
		{"rank leaves a child", "kind=leave", 0, result.Success, []string{}, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := withVariable(fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 4), fakeCase(1, 2, 4), fakeCase(2, 2, 4)), rank.FaultVariable, "case="+hit+",rank=1,"+tt.fault)
			if tt.budget > 0 {
				s.Cases[1].BudgetSeconds = tt.budget
			}
			if strings.Contains(tt.fault, "at=open") { // only the first case of a group opens its runner
				s.Cases[1].Case.Env = map[string]string{"FAKE_CASE": "alone"}
			}
			counts, err := s.Do(t.Context())
			if strings.HasPrefix(strings.Join(tt.reasons, ""), "environment") {
				require.ErrorIs(t, err, ErrEnvironment)
			} else {
				require.NoError(t, err)
			}
			requireNoLitter(t, s)
			docs := byCase(t, s.Results)
			require.Equal(t, 3, counts.Passed+counts.Failed)
			require.Len(t, docs, 3)
			require.Equal(t, result.Success, docs["fake-case-00-fake-all-reduce-float-sum-w2-warm"].Outcome.Status, "the case before")
			require.Equal(t, result.Success, docs["fake-case-02-fake-all-reduce-float-sum-w2-warm"].Outcome.Status, "the case after")
			d := docs[hit]
			require.Equal(t, tt.status, d.Outcome.Status)
			require.Subset(t, d.Outcome.Reasons, resulttest.Reasons(tt.reasons...))
			require.Subset(t, resulttest.Reasons(tt.reasons...), d.Outcome.Reasons[:min(1, len(d.Outcome.Reasons))], "the cause comes first")
			require.GreaterOrEqual(t, len(d.Measurement.Rows), tt.rows)
			requireHandedOver(t, s)
			require.Equal(t, "host", d.Runtime.Vendor)
			for _, row := range d.Measurement.Rows {
				require.Equal(t, row.Complete && row.Check.Wrong == 0, row.Check.Passed)
			}
		})
	}
}

// requireHandedOver requires that the observer got the documents of the shard as they
// are on the disk, and what a rank said where one failed.
func requireHandedOver(t *testing.T, s *Shard) {
	t.Helper()
	onDisk := byCase(t, s.Results)
	for _, e := range s.Observer.(*recorder).ends {
		head := e.Document.Head()
		handed, err := result.EncodeDocument(e.Document)
		require.NoError(t, err)
		written, err := result.EncodeDocument(onDisk[head.Identity.CaseID])
		require.NoError(t, err)
		require.JSONEq(t, string(written), string(handed))
		require.NotEmpty(t, e.Logs)
		for code, failure := range map[result.Code]string{
			result.ReasonLibrary: "library-error: secret-host.example.com said /no/such/path",
			result.ReasonRefused: "refused: no such size",
		} {
			require.Equal(t, head.Outcome.Code() == code, e.Failure == failure, e.Failure)
		}
	}
}

func TestAHungRankLeavesItsStacksInItsLog(t *testing.T) {
	need.Full(t)
	t.Parallel()
	s := withVariable(fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 4)), rank.FaultVariable, "rank=0,kind=hang")
	s.Cases[0].BudgetSeconds = 20 // rank 0 hangs long before
	counts, _, _ := do(t, s)
	require.Equal(t, Counts{Failed: 1}, counts)
	logs, err := filepath.Glob(filepath.Join(s.Results, "logs", "*", "group-001", "rank-*.log"))
	require.NoError(t, err)
	require.Len(t, logs, 2)
	hung, err := os.ReadFile(logs[0])
	require.NoError(t, err)
	require.Contains(t, string(hung), "(*Session).strike")
	peer, err := os.ReadFile(logs[1])
	require.NoError(t, err)
	require.Contains(t, string(peer), "fakeRunner).Run", "the peer that waits")
}

func TestWhatALibrarySaysStaysPrivate(t *testing.T) {
	t.Parallel()
	s := withVariable(fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 4)), rank.FaultVariable, "rank=1,kind=library")
	_, _, seen := do(t, s)
	const private = "secret-host"
	require.NotContains(t, strings.Join(seen, "\n"), private)
	inLogs := false
	require.NoError(t, filepath.WalkDir(s.Results, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		if strings.Contains(string(data), private) {
			require.Contains(t, path, "/logs/")
			inLogs = true
		}
		return nil
	}))
	require.True(t, inLogs, "the operator finds it in the log")
}

// Over TCP, ranks get the token of their store in their environment, and it is nowhere else.
func TestAStoreOverTCP(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	t.Parallel()
	s := withVariable(fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 3, 2), fakeCase(1, 3, 1)), tokenVariable, token)
	s.Listen = "127.0.0.1"
	counts, docs, _ := do(t, s)
	require.Equal(t, Counts{Passed: 2}, counts)
	require.Len(t, docs, 2)
	secret, err := os.ReadFile(token)
	require.NoError(t, err)
	require.NotEmpty(t, secret)
	require.NoError(t, filepath.WalkDir(s.Results, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NotContains(t, string(data), string(secret), path)
		return nil
	}))

	s = fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1))
	s.Listen = "192.0.2.17" // of no host
	_, err = s.Do(t.Context())
	require.ErrorContains(t, err, "listen on network.store_address")
	require.NotContains(t, err.Error(), s.Listen)
}

func TestGroupsStayWarmByKey(t *testing.T) {
	env := fakeCase(2, 2, 1)
	env.Case.Env = map[string]string{"FAKE_CASE": "set"}
	// Key order: w2 (cases 0, 3), w3 (1), w2 with environment (2).
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1), fakeCase(1, 3, 1), env, fakeCase(3, 2, 1))
	_, _, seen := do(t, s)
	require.Contains(t, seen[2], "fake-case-03-fake-all-reduce-float-sum-w2-warm", "cases of a group run together")
	first, again := readSamples(t, s.Results, "fake-case-00-fake-all-reduce-float-sum-w2-warm")[0].Data, readSamples(t, s.Results, "fake-case-03-fake-all-reduce-float-sum-w2-warm")[0].Data
	require.Equal(t, first.PID, again.PID, "one process")
	require.Equal(t, 2, again.Cases, "one runner")
	other := readSamples(t, s.Results, "fake-case-02-fake-all-reduce-float-sum-w2-warm")[0].Data
	require.NotEqual(t, first.PID, other.PID)
	require.Equal(t, "set", other.Env)
	require.Empty(t, first.Env+again.Env, "the environment of a case does not leak")
	require.Empty(t, os.Getenv("FAKE_CASE"), "not into the shard either")
}

func TestAFailureEndsItsGroup(t *testing.T) {
	t.Parallel()
	s := withVariable(fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1), fakeCase(1, 2, 1), fakeCase(2, 2, 1)), rank.FaultVariable, "case=fake-case-01-*,rank=0,kind=flip")
	do(t, s)
	require.Equal(t, 2, readSamples(t, s.Results, "fake-case-01-fake-all-reduce-float-sum-w2-warm")[0].Data.Cases, "warm until then")
	require.Equal(t, 1, readSamples(t, s.Results, "fake-case-02-fake-all-reduce-float-sum-w2-warm")[0].Data.Cases, "fresh after it")
}

func TestRetriesKeepEveryAttempt(t *testing.T) {
	t.Parallel()
	s := withVariable(fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1), fakeCase(1, 2, 1), fakeCase(2, 2, 2)), rank.FaultVariable,
		"case=fake-case-00-*,rank=0,kind=exit;case=fake-case-01-*,rank=0,kind=flip;case=fake-case-02-*,rank=0,kind=flip;case=fake-case-02-*,rank=1,kind=kill,at=end")
	s.Cell.Retries = 2
	counts, err := s.Do(t.Context())
	require.NoError(t, err)
	require.Equal(t, Counts{Failed: 3}, counts)
	ordinals := map[string][]int{}
	statuses := map[string]string{}
	for _, d := range readDocs(s.Results) {
		id := d.Head().Identity
		ordinals[id.CaseID] = append(ordinals[id.CaseID], id.AttemptOrdinal)
		statuses[id.CaseID] = d.Head().Outcome.Status
	}
	require.Equal(t, map[string][]int{
		"fake-case-00-fake-all-reduce-float-sum-w2-warm": {3, 2, 1}, // died; the newest comes first
		"fake-case-01-fake-all-reduce-float-sum-w2-warm": {1},       // a wrong result is no accident
		"fake-case-02-fake-all-reduce-float-sum-w2-warm": {1},       // not if a rank dies after it
	}, ordinals)
	require.Equal(t, result.Invalid, statuses["fake-case-02-fake-all-reduce-float-sum-w2-warm"])
}

// A retry does not replace wrong data, whatever accident follows.
func TestWhatOutlastsWhat(t *testing.T) {
	judged := func(status string, reasons ...string) result.Outcome {
		return result.Outcome{Status: status, Reasons: resulttest.Reasons(reasons...)}
	}
	died := result.Reasons{result.ReasonRankDied.With("rank 1 signal 11")}
	wrong := judged(result.Invalid, "check-failed: torn, 3 words")
	for _, c := range []struct {
		name   string
		judged result.Outcome
		end    ended
		want   result.Outcome
	}{
		{"no accident", wrong, ended{}, wrong},
		{"wrong data", wrong, ended{reasons: died}, judged(result.Invalid, "check-failed: torn, 3 words", "rank-died: rank 1 signal 11")},
		{"a check that did not run", judged(result.Invalid, "check-did-not-run"), ended{reasons: died}, judged(result.Failed, "rank-died: rank 1 signal 11")},
		{"an impossible time", judged(result.Invalid, "implausible: 0 us"), ended{reasons: died}, judged(result.Failed, "rank-died: rank 1 signal 11")},
		{"settings that differ", wrong, ended{reasons: resulttest.Reasons("environment: settings of ranks 0 and 1 differ"), other: true}, judged(result.Failed, "environment: settings of ranks 0 and 1 differ")},
		{"another device", wrong, ended{reasons: resulttest.Reasons("environment: device of rank 1"), misfit: errors.New("misfit")}, judged(result.Failed, "environment: device of rank 1")},
		{"cancelled", wrong, ended{reasons: resulttest.Reasons("skipped: cancelled")}, judged(result.Invalid, "check-failed: torn, 3 words", "skipped: cancelled")},
		{"without a store", wrong, ended{reasons: resulttest.Reasons("environment: store of rank 0")}, judged(result.Invalid, "check-failed: torn, 3 words", "environment: store of rank 0")},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, outcome(c.judged, c.end)) })
	}
}

func TestResultsAreNotMixed(t *testing.T) {
	need.Full(t)
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1))
	do(t, s)
	_, err := s.Do(t.Context())
	require.ErrorIs(t, err, ErrExists)
	require.ErrorContains(t, err, "the directory already has documents of this cell; resume, or use another directory")

	other, err := takeResults(t.Context(), s.Results)
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Release()) }()
	s.Resume = true
	_, err = s.Do(t.Context())
	require.ErrorIs(t, err, ErrEnvironment)
	require.ErrorIs(t, err, dirlock.ErrHeld)
}

func TestResumeLeavesFinishedCasesAndNamesStrangers(t *testing.T) {
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1), fakeCase(1, 2, 1))
	first := *s
	first.Cases = s.Cases[:1]
	first.Observer = &recorder{}
	do(t, &first)
	require.NoError(t, os.WriteFile(filepath.Join(s.Results, "torn.json"), []byte(`{"version":1,"rec`), 0o644))
	s.Resume = true
	counts, err := s.Do(t.Context())
	require.NoError(t, err)
	require.Equal(t, Counts{Passed: 1, Kept: 1}, counts)
	seen := s.Observer.(*recorder).lines
	require.Contains(t, seen[0], "warn torn.json does not count")
	require.Equal(t, "1/2 kept fake-case-00-fake-all-reduce-float-sum-w2-warm passed true", seen[1])
}

// A document that was changed, a FIFO and a file too large for memory do not count,
// and the case that the changed one answered is measured again.
func TestResumeMeasuresAgainWhatWasChanged(t *testing.T) {
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1), fakeCase(1, 2, 1))
	do(t, s)
	files, err := filepath.Glob(filepath.Join(s.Results, "fake-case-01-*.json"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	changed := strings.Replace(string(data), `"passed":true`, `"passed":false`, 1)
	require.NotEqual(t, string(data), changed)
	require.NoError(t, os.WriteFile(files[0], []byte(changed), 0o644))
	require.NoError(t, unix.Mkfifo(filepath.Join(s.Results, "ff.json"), 0o600))
	for _, name := range []string{"huge.json", "core"} {
		require.NoError(t, os.WriteFile(filepath.Join(s.Results, name), nil, 0o644))
		require.NoError(t, os.Truncate(filepath.Join(s.Results, name), 1<<40))
	}
	runs, err := RunsIn(s.Results)
	require.NoError(t, err)
	require.Equal(t, map[string]string{s.Run.RunID: s.Run.RunAttempt}, runs)

	again := fakeShard(s.Results, scratchOf(s), s.Cases...)
	again.Resume = true
	counts, err := again.Do(t.Context())
	require.NoError(t, err)
	require.Equal(t, Counts{Passed: 1, Kept: 1}, counts)
	seen := strings.Join(again.Observer.(*recorder).lines, "\n")
	require.Contains(t, seen, "c001.json does not count: digest does not match")
	require.Contains(t, seen, "warn ff.json does not count: read "+filepath.Join(s.Results, "ff.json")+": not a regular file")
	require.Contains(t, seen, " 67108864")
}

func TestResumeRefusesAnotherPlan(t *testing.T) {
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1))
	do(t, s)
	other := fakeShard(s.Results, scratchOf(s), fakeCase(0, 2, 2))
	other.Resume = true
	_, err := other.Do(t.Context())
	require.ErrorIs(t, err, ErrOther)
	require.ErrorContains(t, err, "the directory has results of another plan; use another directory")
	require.ErrorContains(t, err, "fake-case-00-fake-all-reduce-float-sum-w2-warm")
}

func TestARerunGivesFailedCasesAnotherChance(t *testing.T) {
	t.Parallel()
	s := withVariable(fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1), fakeCase(1, 2, 1)), rank.FaultVariable, "case=fake-case-00-*,rank=0,kind=exit")
	do(t, s)

	same := fakeShard(s.Results, scratchOf(s), s.Cases...)
	same.Resume = true
	counts, err := same.Do(t.Context())
	require.NoError(t, err)
	require.Equal(t, Counts{Kept: 2, KeptFailed: 1}, counts, "the same attempt has its answer")
	require.Equal(t, 1, counts.NotPassed())

	rerun := fakeShard(s.Results, scratchOf(s), s.Cases...)
	rerun.Resume, rerun.Run.RunAttempt = true, "2"
	counts, err = rerun.Do(t.Context())
	require.NoError(t, err)
	require.Equal(t, Counts{Passed: 1, Kept: 1}, counts)
	docs := readDocs(s.Results)
	require.Len(t, docs, 3)
	require.Equal(t, 1, docs[0].Head().Identity.AttemptOrdinal, "ordinals count within a run attempt")
	require.Equal(t, "2", *docs[0].Head().Identity.AllocationFactors.RunAttempt)
}

func TestAnotherDeviceIsRefused(t *testing.T) {
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1), fakeCase(1, 2, 1))
	s.Fits = func(f rank.Facts) error { return fmt.Errorf("device is %q", f.DeviceProduct) }
	counts, err := s.Do(t.Context())
	require.ErrorIs(t, err, ErrEnvironment)
	require.ErrorContains(t, err, `device is "Fake One"`)
	require.Equal(t, Counts{Failed: 2}, counts)
	docs := byCase(t, s.Results)
	require.Contains(t, docs["fake-case-00-fake-all-reduce-float-sum-w2-warm"].Outcome.Reasons.String(), "environment: device of rank")
	require.Equal(t, result.ReasonEnvironment, docs["fake-case-01-fake-all-reduce-float-sum-w2-warm"].Outcome.Code())
	requireNoLitter(t, s)
}

func TestABackendThatThisProgramLacks(t *testing.T) {
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1))
	c := &s.Cases[0].Case
	c.Backend = "other"
	c.CaseID = c.ID()
	_, docs, _ := do(t, s)
	require.Equal(t, resulttest.Reasons("library-missing: this program has no backend other"), docs[c.CaseID].Outcome.Reasons)
}

// A document that is refused costs its case alone, whether the ranks' records or
// the case itself are at fault.
func TestARefusedDocumentIsAnInternalError(t *testing.T) {
	need.Full(t)
	row := func(change func(*collective.Row)) func(*Shard) {
		return func(s *Shard) {
			family, id := s.Families[collective.Name], s.Cases[1].Case.CaseID
			family.Assemble = func(d result.Document, streams []rank.Stream) error {
				err := fakeAssemble(d, streams)
				if doc := d.(*collective.Document); doc.Identity.CaseID == id {
					change(&doc.Measurement.Rows[0])
				}
				return err
			}
			s.Families[collective.Name] = family
		}
	}
	for name, spoil := range map[string]func(*Shard){
		"a figure that is no number":         row(func(r *collective.Row) { r.Pipelined.RankMean = math.NaN() }),
		"a row that nobody asked for":        row(func(r *collective.Row) { r.Requested = 7 }),
		"a case that no document can answer": func(s *Shard) { s.Cases[1].Case.Repeat = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1), fakeCase(1, 2, 1), fakeCase(2, 2, 1))
			spoil(s)
			counts, err := s.Do(t.Context())
			require.NoError(t, err)
			require.Equal(t, Counts{Passed: 2, Failed: 1}, counts)
			var ends []string
			for _, d := range readDocs(s.Results) {
				head := d.Head()
				ends = append(ends, strings.TrimSpace(head.Identity.Case.SKU+" "+head.Outcome.Status+" "+head.Outcome.Reasons.String()))
			}
			require.Equal(t, []string{
				"fake-case-00 success", "fake-case-01 failed internal-error: no valid document", "fake-case-02 success",
			}, ends)
			requireNoLitter(t, s)
		})
	}
}

func TestRanksThatDoNotStart(t *testing.T) {
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1), fakeCase(1, 2, 1))
	s.Launcher = launch.Local{Starter: command.Host{}, Program: []string{filepath.Join(t.TempDir(), "missing")}, Scratch: t.TempDir()}
	counts, err := s.Do(t.Context())
	require.ErrorIs(t, err, ErrEnvironment)
	require.Equal(t, Counts{Failed: 2}, counts)
	require.Equal(t, resulttest.Reasons("environment: ranks do not start"), byCase(t, s.Results)["fake-case-00-fake-all-reduce-float-sum-w2-warm"].Outcome.Reasons)
}

// queued is a launcher whose machines were granted after a wait.
type queued struct {
	launch.Launcher
	launch.Allocation
	wait time.Duration
}

func (q queued) Allocate(ctx context.Context) (launch.Allocation, error) {
	var err error
	q.Allocation, err = q.Launcher.Allocate(ctx)
	return q, err
}

func (q queued) Queued() time.Duration { return q.wait }

// The wait for machines is in every document of the cell, apart from the time of the case.
func TestTheWaitForMachinesIsRecorded(t *testing.T) {
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1), fakeCase(1, 2, 1))
	s.Launcher = queued{Launcher: s.Launcher, wait: 1500 * time.Millisecond}
	_, err := s.Do(t.Context())
	require.NoError(t, err)
	for _, doc := range byCase(t, s.Results) {
		require.NotNil(t, doc.Elapsed)
		require.InDelta(t, 1.5, doc.Elapsed.QueueSeconds, 0)
	}
}

// undying is a launcher of ranks that hang and that no signal ends.
type undying struct{ dir string }

func (u undying) Allocate(context.Context) (launch.Allocation, error)      { return u, nil }
func (u undying) Queued() time.Duration                                    { return 0 }
func (u undying) Dir() string                                              { return u.dir }
func (u undying) Image() launch.Image                                      { return launch.Image{} }
func (u undying) Start(context.Context, launch.Spec) (launch.Group, error) { return u, nil }
func (u undying) Release() error                                           { return nil }
func (u undying) Exits() <-chan launch.Exit                                { return nil }
func (u undying) Dump()                                                    {}
func (u undying) Kill() error                                              { return errors.New("ranks [1] do not die") }

func TestRanksThatDoNotDie(t *testing.T) {
	t.Parallel()
	s := fakeShard(t.TempDir(), t.TempDir(), fakeCase(0, 2, 1), fakeCase(1, 2, 1))
	s.Cases[0].BudgetSeconds = 1
	s.Launcher = undying{t.TempDir()}
	counts, err := s.Do(t.Context())
	require.ErrorIs(t, err, ErrEnvironment)
	require.ErrorContains(t, err, "do not die")
	require.Equal(t, Counts{Failed: 2}, counts)
	docs := byCase(t, s.Results)
	require.Equal(t, resulttest.Reasons(result.ReasonTimeout.With("case budget of 1 s").String(), "timeout: rank 0-1 after record 0", "environment: ranks or their store"), docs["fake-case-00-fake-all-reduce-float-sum-w2-warm"].Outcome.Reasons)
	require.Equal(t, resulttest.Reasons("environment: an earlier case ended the cell"), docs["fake-case-01-fake-all-reduce-float-sum-w2-warm"].Outcome.Reasons)
}

// A case that runs is seen as the document it would be, with ever more rows.
func TestWatch(t *testing.T) {
	t.Parallel()
	var seen []int
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// The case stands still until somebody has seen a row of it.
	s := withVariable(fakeShard(t.TempDir(), t.TempDir(), fakeCase(1, 2, 20)), rank.FaultVariable, "rank=1,kind=hang,at=record-12")
	s.Cases[0].BudgetSeconds = 600
	s.Watch = func(d result.Document) {
		require.NoError(t, result.Validate(d))
		require.Equal(t, result.Outcome{Status: result.Failed, Reasons: resulttest.Reasons("skipped: still running")}, d.Head().Outcome)
		if seen = append(seen, len(d.(*collective.Document).Measurement.Rows)); seen[len(seen)-1] > 0 {
			cancel()
		}
	}
	_, err := s.Do(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, seen)
	require.True(t, slices.IsSorted(seen), "%v", seen)
	require.Positive(t, seen[len(seen)-1])
	require.NotEmpty(t, byCase(t, s.Results)["fake-case-01-fake-all-reduce-float-sum-w2-warm"].Measurement.Rows, "nothing measured is lost")
}
