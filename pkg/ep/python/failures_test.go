package python

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/eptest"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// corrupted requires that planted corruptions of device buffers are found in all cases, by the checks
// that should see them.
func corrupted(t *testing.T, cases ...plan.Case) {
	t.Helper()
	for _, f := range []struct {
		kind, at    string
		all         bool // ranks
		when, check string
		tokenExpert string // check of that layout, where it is another
		reusable    bool   // only where a handle is good for more than one combine: else the library refuses
	}{
		{kind: runner.FaultFlipBit, at: "start", when: "before", check: runner.CheckPayload},
		{kind: runner.FaultWrongWeight, at: "dispatch-2", when: "post-dispatch-changed", check: runner.CheckWeights, tokenExpert: runner.CheckCombine},
		{kind: runner.FaultWrongExpert, at: "start", when: "before", check: runner.CheckCounts},
		{kind: runner.FaultStale, at: "combine-2", when: "post-combine-changed", check: runner.CheckCombine},
		{kind: runner.FaultNoDispatch, at: "dispatch-every-3", all: true, when: "alternating-dispatch", check: runner.CheckPayload, reusable: true},
	} {
		t.Run(f.kind+" "+f.at, func(t *testing.T) {
			fault := fmt.Sprintf("rank=1,kind=%s,at=%s", f.kind, f.at)
			if f.all {
				fault += ";" + strings.Replace(fault, "rank=1", "rank=0", 1)
			}
			cases := slices.Clone(cases)
			if f.reusable {
				cases = slices.DeleteFunc(cases, func(c plan.Case) bool { return libraryOf(c.Backend).modes[ep.Of(&c).Mode].freshPair })
			}
			if len(cases) == 0 {
				return
			}
			streams, logs, _ := processes(t, fault, cases...)
			for i, c := range cases {
				d := eptest.Document(t, c, streams[i])
				require.Equal(t, result.Invalid, d.Outcome.Status, "%s: %s", c.CaseID, logs)
				check := f.check
				if libraryOf(c.Backend).modes[ep.Of(&c).Mode].receive == runner.TokenExpert && f.tokenExpert != "" {
					check = f.tokenExpert
				}
				reasons := strings.ReplaceAll(d.Measurement.Rows[0].Correctness.Reasons.String(), "; ", "\n")
				require.Regexp(t, `(?m)^check-failed: `+regexp.QuoteMeta(f.when)+" "+check+` (rank [01]|all ranks)$`, reasons, c.CaseID)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	need.Full(t)
	each(t, func(t *testing.T, s standIn, modes []string) {
		var cases []plan.Case
		for _, mode := range modes {
			cases = append(cases, s.caseOf(mode, "bf16"), s.caseOf(mode, "fp8"))
		}
		corrupted(t, cases...)
	})
}

// mistakeVariable has the mistake of a rank's adapter.
const mistakeVariable = "CX_TEST_MISTAKE"

// mistaken makes the mistake that the environment names, if any.
func mistaken() error {
	text, ok := os.LookupEnv(mistakeVariable)
	if !ok {
		return nil
	}
	right, wrong, _ := strings.Cut(text, mistakeVariable)
	made, all := fstest.MapFS{}, 0
	names, err := fs.Glob(adapters, "adapters/*.py")
	for _, name := range names {
		source, failed := fs.ReadFile(adapters, name)
		err = errors.Join(err, failed)
		all += strings.Count(string(source), right)
		made[name] = &fstest.MapFile{Data: []byte(strings.Replace(string(source), right, wrong, 1))}
	}
	if all != 1 {
		err = errors.Join(err, fmt.Errorf("adapters have %d times %q", all, right))
	}
	adapters = made
	return err
}

// A stand-in finds an adapter that misuses its library, or the oracle does.
func TestMistakes(t *testing.T) {
	need.Full(t)
	each(t, func(t *testing.T, s standIn, _ []string) {
		for _, m := range s.mistakes {
			t.Run(m.found, func(t *testing.T) {
				t.Setenv(mistakeVariable, m.old+mistakeVariable+m.new)
				cases := []plan.Case{s.caseOf(m.mode, "bf16", hidden(2560)), s.caseOf(m.mode, "bf16")}
				streams, logs, _ := processes(t, "", cases...)
				passed := 0
				for i, c := range cases {
					d := eptest.Document(t, c, streams[i])
					if d.Outcome.Status == result.Success {
						passed++
					}
					for _, row := range d.Measurement.Rows {
						logs = append(logs, row.Correctness.Reasons.String())
					}
				}
				require.Less(t, passed, len(cases))
				require.Regexp(t, m.found, strings.Join(logs, "\n"))
			})
		}
	})
}

// What a graph writes at each launch is in memory that no other tensor of torch has meanwhile.
func TestGraphsNeedMemoryOfTheirOwn(t *testing.T) {
	need.Full(t)
	setUp(t, "deep_ep-2")
	t.Setenv(mistakeVariable, "allocates.__enter__()"+mistakeVariable+"pass")
	streams, logs, _ := processes(t, "", caseOf("deepep-v2", ep.ModeNormal, "bf16", graph))
	require.Contains(t, failure(t, streams[0], logs).Text, "memory of a graph is not in a pool, or other memory is")
}

// failure is that of the first rank that has one.
func failure(t *testing.T, streams []rank.Stream, logs []string) rank.Failure {
	t.Helper()
	for _, s := range streams {
		if s.Failure != nil {
			return *s.Failure
		}
	}
	require.Fail(t, "no rank says why it failed", "%s", logs)
	return rank.Failure{}
}

// An exception of the library is the failure of the case: its type is published, its text
// and its traceback stay in the log.
func TestALibraryThatRaises(t *testing.T) {
	setUp(t, "deep_ep-1")
	t.Setenv("CX_STANDIN_FAULT", "1:20:raise")
	streams, logs, errs := processes(t, "", caseOf("deepep-legacy", ep.ModeNormal, "bf16"))
	f := failure(t, streams[0], logs)
	require.Equal(t, "library-error: deepep-legacy RuntimeError", f.Reason.String())
	require.Contains(t, f.Text, "RuntimeError: DeepEP error: CPU recv timeout /private/path (standin.py:")
	require.Contains(t, logs[1], "Traceback (most recent call last):")
	require.Contains(t, logs[1], `File "collectivex_buffer", line `)
	require.Error(t, errs[1])
}

// A native crash ends the process of its rank, which leaves no failure: the shard says that
// the rank died.
func TestALibraryThatDies(t *testing.T) {
	setUp(t, "deep_ep-1")
	t.Setenv("CX_STANDIN_FAULT", "1:20:die")
	streams, logs, errs := processes(t, "", caseOf("deepep-legacy", ep.ModeLowLatency, "bf16"))
	require.Nil(t, streams[0][1].Failure)
	require.False(t, streams[0][1].Done)
	require.NotEmpty(t, streams[0][1].Records, "what was measured stays")
	require.Contains(t, logs[1], "SIGSEGV")
	require.Error(t, errs[1])
}

// What is missing is named, with what to do.
func TestWithoutTheLibrary(t *testing.T) {
	setUp(t)
	streams, logs, _ := processes(t, "", caseOf("deepep-legacy", ep.ModeNormal, "bf16"))
	f := failure(t, streams[0], logs)
	require.Equal(t, "library-missing: ModuleNotFoundError", f.Reason.String())
	require.Contains(t, f.Text, "No module named 'deep_ep': install torch and DeepEP 1.2, before ElasticBuffer in ")

	t.Setenv("PATH", t.TempDir())
	streams, logs, _ = processes(t, "", caseOf("deepep-legacy", ep.ModeNormal, "bf16"))
	f = failure(t, streams[0], logs)
	require.Equal(t, result.ReasonNoLibrary, f.Reason.Code)
	require.Contains(t, f.Text, "python3 on PATH")
}

// What an adapter does not realise is refused with the limit, before Python starts.
func TestRefusals(t *testing.T) {
	for _, s := range standIns {
		for _, r := range s.refusals {
			c := s.caseOf(r.mode, "bf16", func(c *plan.Case) {
				if r.change != nil {
					r.change(c)
				}
			})
			_, _, err := libraryOf(s.backend).describe(c, accel.Info{Arch: r.arch}, versions{})
			require.ErrorContains(t, err, r.text)
			require.ErrorContains(t, err, string(result.ReasonRefused))
		}
	}
}
