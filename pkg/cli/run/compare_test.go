package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/compare"
	"github.com/collectivex/collectivex/pkg/result"
)

// history writes n runs of one collective case below dir, whose times are by times those of
// resulttest and vary by 0.2 % a run.
func history(t *testing.T, dir, name string, n int, by float64) {
	t.Helper()
	for i := range n {
		oneRun(t, filepath.Join(dir, name), fmt.Sprintf("%s.%d", name, i), i, by*(1+0.002*float64(i)))
	}
}

// oneRun writes a run of that case into dir, the i-th by time, whose times are by times those
// of resulttest.
func oneRun(t *testing.T, dir, name string, i int, by float64) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	a := resulttest.Attempt()
	a.RunID, a.At = name, a.At.Add(time.Duration(i)*time.Hour)
	d := resulttest.Collective(resulttest.CollectiveCase(), a)
	for k := range d.Measurement.Rows {
		r := &d.Measurement.Rows[k]
		for _, mode := range collective.Of(&d.Identity.Case).Modes {
			timing := *r.Timing(mode)
			*r.Timing(mode) = resulttest.Timing(&d.Identity.Case, r.Requested, timing.Percentiles.P50*by, timing.SampleCount)
		}
	}
	writeDocument(t, dir, d, i)
}

func writeDocument(t *testing.T, dir string, d result.Document, n int) {
	t.Helper()
	_, err := result.Write(dir, d, n, func([]byte) error { return nil })
	require.NoError(t, err)
}

// The examples of the help run as they stand there.
func TestExamplesOfCompare(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"results/monday", "results/tuesday", "history", "results/today"} {
		history(t, name, filepath.Base(name), 5, 1)
	}
	for file, in := range map[string]string{"old.ndjson": "results/monday", "new.ndjson": "results/tuesday"} {
		ran(t, cli.ExitOK, nil, "aggregate", "--in", in, "-o", file)
	}
	_, help, _ := cxrun(t, nil, "compare", "--help")
	_, examples, _ := strings.Cut(help, "Examples:\n")
	examples, _, _ = strings.Cut(examples, "\n\n")
	require.NotEmpty(t, examples)
	for line := range strings.Lines(strings.ReplaceAll(examples, "\\\n", "")) {
		words := wordsOf(line)
		require.Equal(t, "cxrun", words[0])
		stdout, _ := ran(t, cli.ExitOK, nil, words[1:]...)
		require.Regexp(t, `2 same\n$|"same": 2`, stdout, line)
	}
}

// The file that a sweep writes is named by its path in the directory of the sweep, which gives it no other name.
func TestCompareInTheDirectoryOfASweep(t *testing.T) {
	t.Chdir(t.TempDir())
	history(t, ".", "old", 1, 1)
	ran(t, cli.ExitOK, nil, "aggregate", "--in", "old", "-o", "run.ndjson")
	stdout, _ := ran(t, cli.ExitOK, nil, "compare", "old", "run.ndjson")
	require.Contains(t, stdout, "OLD old, NEW run.ndjson\n")
}

func TestCompare(t *testing.T) {
	dir := t.TempDir()
	old, slow, gone := filepath.Join(dir, "old"), filepath.Join(dir, "slow"), filepath.Join(dir, "gone")
	history(t, old, "old", 5, 1)
	history(t, slow, "slow", 5, 1.2)
	code, stdout, stderr := cxrun(t, nil, "compare", old, slow)
	require.Equal(t, cli.ExitOK, code, "it is not confirmed: %s", stderr)
	require.Regexp(t, `(?m)^OLD old, NEW slow$`, stdout)
	require.Regexp(t, `(?m)^case \(time: − is faster\)\n +metric +status +time +noise +runs +old µs +new µs +at\nlocal-host-\S+\n +\S+ p50 +slower\? +\+20\.\d % +±\d\.\d % +5\+5 `, stdout)
	require.Regexp(t, `(?m)^2 slower$`, stdout)

	stdout, _ = ran(t, cli.ExitOK, nil, "compare", old, slow, "--json")
	var c compare.Comparison
	require.NoError(t, json.Unmarshal([]byte(stdout), &c))
	require.Equal(t, map[string]int{compare.Slower: 2}, c.Counts)
	require.InEpsilon(t, 1.2, c.Cases[0].Shift.Ratio, 0.01)
	require.NotEmpty(t, c.Cases[0].Rungs)

	stdout, _ = ran(t, cli.ExitOK, nil, "compare", old, slow, "--min-effect", "40")
	require.Contains(t, stdout, "2 same")

	writeTo := filepath.Join(dir, "failed")
	require.NoError(t, os.Mkdir(writeTo, 0o755))
	writeDocument(t, writeTo, resulttest.Fail(resulttest.New(resulttest.CollectiveCase(), resulttest.Attempt()), string(result.ReasonTimeout)), 0)
	_, stderr = ran(t, cli.ExitFailed, nil, "compare", old, writeTo)
	wording.Has(t, stderr, "cxrun: local-host-all-reduce-float-sum-w2-warm: … NEW: timeout")
	require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)

	// A history that has the new runs too is compared without them.
	history(t, old, "slow", 5, 1.2)
	stdout, _ = ran(t, cli.ExitOK, nil, "compare", "--baseline", old, slow)
	require.Regexp(t, `(?m) slower\? +\+20\.\d % .* 5\+5 `, stdout)

	_, stderr = ran(t, cli.ExitFailed, nil, "compare", "--baseline", slow, slow)
	wording.Has(t, stderr, slow+" has only the runs of NEW")

	require.NoError(t, os.Mkdir(gone, 0o755))
	for _, tc := range []struct{ args, says string }{
		{"compare", "OLD … NEW"},
		{"compare " + old, "OLD … NEW"},
		{"compare " + old + " " + slow + " --baseline " + old, "OLD … NEW"},
		{"compare " + old + " " + dir + "/none", dir + "/none: no such file or directory"},
		{"compare " + old + " " + slow + " --min-effect 0", "--min-effect 0: … 3"},
	} {
		code, _, stderr := cxrun(t, nil, strings.Fields(tc.args)...)
		require.Equal(t, cli.ExitUsage, code, tc.args)
		wording.Has(t, stderr, tc.says)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
}

// The same documents give the same bytes.
func TestCompareIsDeterministic(t *testing.T) {
	dir := t.TempDir()
	history(t, dir+"/a", "a", 5, 1)
	history(t, dir+"/b", "b", 5, 1.04)
	_, first, _ := cxrun(t, nil, "compare", dir+"/a", dir+"/b", "--json")
	for range 3 {
		_, again, _ := cxrun(t, nil, "compare", dir+"/a", dir+"/b", "--json")
		require.True(t, bytes.Equal([]byte(first), []byte(again)))
	}
}

// wordsOf splits a line at blanks outside of single quotes.
func wordsOf(line string) (words []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}

// standIn writes a program that takes the flags of a sweep and, in place of measuring, puts
// prepared runs of a side there, one each time; it notes its side and arguments in a log. The
// times of run i, from 0, are by(i) times those of resulttest.
func standIn(t *testing.T, dir, side string, by func(i int) float64) string {
	t.Helper()
	for i := range compare.Stages * compare.Pairs {
		name := fmt.Sprintf("%s%d", side, i+1)
		oneRun(t, filepath.Join(dir, "prepared", side, name), name, i, by(i)*(1+0.001*float64(i%3)))
	}
	script := filepath.Join(dir, side+".sh")
	text := fmt.Sprintf(`#!/bin/sh
echo %[1]s "$@" >>%[2]s/log
while [ "$1" != --out ]; do shift; done
mkdir -p "$(dirname "$2")"
cp -r %[2]s/prepared/%[1]s/%[1]s$(basename "$2") "$2"
`, side, dir)
	require.NoError(t, os.WriteFile(script, []byte(text), 0o755))
	return script
}

func TestConfirmMeasuresInTurn(t *testing.T) {
	need.Full(t)
	always := func(by float64) func(int) float64 { return func(int) float64 { return by } }
	for _, tc := range []struct {
		name   string
		by     func(i int) float64
		stages int
		code   int
		says   string
		stderr string
	}{
		{"confirmed", always(1.1), 1, cli.ExitFailed, `(?ms) slower \(confirmed\)¹ +\+10\.\d %.*^¹ suspected at \+20\.\d %$`, "% slower, confirmed: 8 of 8 pairs agree; suspected at +20.0 %"},
		{"not confirmed", always(1), 1, cli.ExitOK, `(?ms) unclear( \(\d+\))?¹ +[+-]0\.\d %.*^¹ suspected at \+20\.\d %, and not confirmed: 0 of 8 pairs agree`, ""},
		{"confirmed by more pairs", func(i int) float64 {
			if i == 2 || i == 5 {
				return 1
			}
			return 1.2
		}, 2, cli.ExitFailed, `(?m) slower \(confirmed\)¹ +\+(19\.9|20\.\d) %`, "% slower, confirmed: 14 of 16 pairs agree"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			history(t, dir, "before", 5, 1)
			history(t, dir, "after", 5, 1.2)
			again := filepath.Join(dir, "again")
			args := []string{"compare", dir + "/before", dir + "/after", "--confirm", again}
			measured := append(slices.Clone(args), "--old-run", "sh "+standIn(t, dir, "old", always(1)), "--new-run", "sh "+standIn(t, dir, "new", tc.by))
			code, stdout, stderr := cxrun(t, nil, measured...)
			require.Equal(t, tc.code, code, stderr)
			require.Regexp(t, tc.says, stdout)
			require.Contains(t, stderr, tc.stderr)
			require.Contains(t, stderr, "measuring 1 suspect again, in 8 pairs of runs\n")
			require.Equal(t, tc.stages == 2, strings.Contains(stderr, "measuring 1 suspect that may yet be confirmed, in 8 further pairs of runs\npair 9 of 16: OLD\n"))

			log := readFile(t, filepath.Join(dir, "log"))
			var order []string
			for line := range strings.Lines(string(log)) {
				words := strings.Fields(line)
				order = append(order, words[0])
				require.Contains(t, line, " --case "+resulttest.CollectiveCase().CaseID+" --repeat 1 --out "+again+"/"+words[0]+"/")
			}
			require.Equal(t, strings.Repeat("old new new old ", tc.stages*compare.Pairs/2), strings.Join(order, " ")+" ")

			code, read, _ := cxrun(t, nil, args...)
			require.Equal(t, tc.code, code, "what was measured is read")
			require.Equal(t, stdout, read)
			_, stderr = ran(t, cli.ExitUsage, nil, measured...)
			require.Contains(t, stderr, "already holds runs")

			_, stdout, _ = cxrun(t, nil, append(args, "--json")...)
			var c compare.Comparison
			require.NoError(t, json.Unmarshal([]byte(stdout), &c))
			for _, k := range c.Cases {
				require.Equal(t, tc.stages, k.Decision.Stage)
				require.Equal(t, tc.stages*compare.Pairs, k.Decision.Pairs)
			}

			// What is damaged there is left out as it is anywhere else.
			require.NoError(t, os.WriteFile(filepath.Join(again, "old", "torn.json"), []byte("{"), 0o644))
			read, stderr = ran(t, cli.ExitFailed, nil, args...)
			require.Regexp(t, tc.says, read)
			require.Contains(t, stderr, "left out: "+again+"/old/torn.json")
			wording.Has(t, stderr, "cxrun: … 1 file or line … left out")
		})
	}
}

func TestConfirmRefuses(t *testing.T) {
	dir := t.TempDir()
	history(t, dir, "before", 5, 1)
	history(t, dir, "after", 5, 1.2)
	for args, says := range map[string]string{
		"--old-env A=B":                                          "add --confirm DIR",
		"--confirm " + dir + "/again":                            "nothing distinguishes OLD from NEW",
		"--confirm " + dir + "/again --old-env A":                `--old-env "A": want NAME=VALUE`,
		"--confirm " + dir + "/again --old-run " + dir + "/none": "run OLD: ",
	} {
		code, _, stderr := cxrun(t, nil, append([]string{"compare", dir + "/before", dir + "/after"}, strings.Fields(args)...)...)
		require.Contains(t, stderr, says, args)
		require.Contains(t, []int{cli.ExitUsage, cli.ExitEnvironment}, code)
	}
	// A directory that cannot be read may hold runs.
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for _, args := range [][]string{{dir + "/before", dir + "/after", "--old-env", "A=B"}, {"--baseline", dir + "/before", dir + "/after"}} {
		_, stderr := ran(t, cli.ExitEnvironment, nil, append([]string{"compare", "--confirm", file}, args...)...)
		require.Contains(t, stderr, "--confirm: stat "+file+"/old: not a directory")
	}
	// Where nothing is suspect, nothing is run.
	_, stderr := ran(t, cli.ExitOK, nil, "compare", dir+"/before", dir+"/before", "--confirm", dir+"/again", "--old-run", dir+"/none")
	require.Equal(t, "nothing is suspect, so nothing is measured again\n", stderr)
}

// With a history, NEW alone is measured again, in one go. The comparison is in the job's summary too.
func TestConfirmByAHistory(t *testing.T) {
	dir := t.TempDir()
	history(t, dir, "nights", 7, 1)
	history(t, dir, "tonight", 1, 1.2)
	history(t, filepath.Join(dir, "prepared"), "again", compare.Pairs, 1.2)
	script, again, summary := filepath.Join(dir, "new.sh"), filepath.Join(dir, "again"), filepath.Join(dir, "summary")
	text := fmt.Sprintf("#!/bin/sh\necho \"$@\" >>%[1]s/log\nwhile [ \"$1\" != --out ]; do shift; done\nmkdir -p \"$(dirname \"$2\")\"\ncp -r %[1]s/prepared/again \"$2\"\n", dir)
	require.NoError(t, os.WriteFile(script, []byte(text), 0o755))
	args := []string{"compare", "--baseline", dir + "/nights", dir + "/tonight", "--confirm", again}
	env := map[string]string{"GITHUB_STEP_SUMMARY": summary}
	stdout, stderr := ran(t, cli.ExitFailed, env, append(slices.Clone(args), "--new-run", "sh "+script)...)
	require.Regexp(t, `slower \(confirmed\)¹ .* ▁{7}█`, stdout)
	require.Contains(t, stderr, "measuring 1 suspect again, in 8 runs\n")
	require.Regexp(t, resulttest.CollectiveCase().CaseID+`: \w+ p50 is [\d.]+ % slower, confirmed: 8 of 8 runs agree`, stderr)
	log := readFile(t, filepath.Join(dir, "log"))
	require.Equal(t, "--case "+resulttest.CollectiveCase().CaseID+" --repeat 8 --out "+again+"/new/1\n", string(log))
	added := readFile(t, summary)
	require.Contains(t, string(added), "## Comparison\n\n```\n"+stdout+"```\n")

	read, _ := ran(t, cli.ExitFailed, nil, args...)
	require.Equal(t, stdout, read, "what was measured is read")

	// A confirmation that runs out of time says nothing about a regression.
	history(t, filepath.Join(dir, "late"), "again", compare.Pairs-1, 1.2)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "prepared")))
	require.NoError(t, os.Rename(filepath.Join(dir, "late"), filepath.Join(dir, "prepared")))
	stdout, stderr = ran(t, cli.ExitFailed, nil, "compare", "--baseline", dir+"/nights", dir+"/tonight", "--confirm", again+"2", "--new-run", "sh "+script)
	require.Contains(t, stdout, "7 of 7 runs agree")
	wording.Has(t, stderr, "cxrun: … lacks runs of 1 suspect … "+resulttest.CollectiveCase().CaseID)

	history(t, dir, "short", 4, 1)
	stdout, _ = ran(t, cli.ExitOK, nil, "compare", "--baseline", dir+"/short", dir+"/tonight")
	wording.Has(t, stdout, "the history has 4 runs … before it has 5")
}
