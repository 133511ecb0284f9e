package run

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// Each size that takes longer than in the JSON of an earlier measurement has a line, and so has a case that is not in
// it.
func TestBaseline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "before.json")
	older := resulttest.Collective(resulttest.CollectiveCase(), resulttest.Attempt())
	text, err := result.Enclose(bench.NewHead("cxrun", nil, time.Now(), bench.HostBackend, 2), []result.Document{older})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o644))
	var w bytes.Buffer
	o := bench.Output{Baseline: file, MaxRegress: "5%", Set: func(string) bool { return false }}
	b, err := readBaseline(streams(&w, nil), &o)
	require.NoError(t, err)

	attempt := resulttest.Attempt()
	attempt.RunID = "4712"
	newer := resulttest.Collective(resulttest.CollectiveCase(), attempt)
	require.Empty(t, b.slower(newer))
	for i, factor := range []float64{1.04, 1.06, 0.5} {
		p := &newer.Measurement.Rows[i].Pipelined.Percentiles.P50
		*p *= factor
	}
	lines := b.slower(newer)
	require.Len(t, lines, 1)
	wording.Has(t, lines[0], newer.Identity.CaseID+", … 6.0 % slower … "+file+" … --max-regress is 5%")

	wider := resulttest.Collective(resulttest.CollectiveCase(), attempt)
	row := wider.Measurement.Rows[0]
	row.Requested, row.Bytes = 1<<30, 1<<30
	wider.Measurement.Rows = append(wider.Measurement.Rows, row)
	lines = b.slower(wider)
	require.NotEmpty(t, lines)
	for _, line := range lines {
		wording.Has(t, line, wider.Identity.CaseID+", … p50: "+file+" does not have 1073741824 B out_of_place")
	}

	other := resulttest.Collective(plantest.Collective(2, func(c *plan.Case) { c.Precision = "half" }), attempt)
	lines = b.slower(other)
	require.Len(t, lines, 1)
	wording.Has(t, lines[0], other.Identity.CaseID+" cannot be compared with "+file)
	require.Empty(t, (*baseline)(nil).slower(newer))
}

// What -J writes is a baseline, and a side of compare.
func TestWhatBenchWroteIsABaseline(t *testing.T) {
	dir := t.TempDir()
	before, after := filepath.Join(dir, "before.json"), filepath.Join(dir, "after.json")
	const tiny = "all_reduce"
	flags := []string{"-b", "16", "-e", "1K", "-f", "8", "-n", "2", "-w", "1", "--trials", "1"}
	onHost(t, append([]string{tiny, "-J", before}, flags...)...)
	onHost(t, append([]string{tiny, "-J", after, "--baseline", before, "--max-regress", "1e12%"}, flags...)...)
	stdout, _ := ran(t, cli.ExitOK, nil, "compare", before, after)
	require.Contains(t, stdout, "1 unclear")

	t.Setenv("TMPDIR", t.TempDir())
	_, stderr := ran(t, cli.ExitFailed, nil, append([]string{"bench", "all_gather", "--backend", "host", "--baseline", before}, flags...)...)
	wording.Has(t, stderr, "cannot be compared with "+before)
	for args, says := range map[string]string{
		"--baseline " + dir + "/none":                  "none: no such file",
		"--max-regress 5%":                             "--max-regress … --baseline",
		"--baseline " + before + " --max-regress fast": `--max-regress "fast" … 5%`,
		"--baseline " + before + " --max-regress=-1%":  `--max-regress "-1%"`,
	} {
		_, stderr := ran(t, cli.ExitUsage, nil, append([]string{"bench", tiny, "--backend", "host"}, strings.Fields(args)...)...)
		wording.Has(t, stderr, says)
	}
}
