package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/golden"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/family"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/report"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
)

// run is a run as a test needs it: its matrix and a directory of documents.
type run struct {
	t      *testing.T
	dir    string
	matrix plan.Matrix
	n      int
}

func newRun(t *testing.T) *run { return &run{t: t, dir: t.TempDir(), matrix: plan.Matrix{Version: 1}} }

func (r *run) ask(c plan.Case, disposition string, reason string) {
	q := plan.Requested{SKU: c.SKU, Disposition: disposition, Case: c}
	if reason != "" {
		q.Reason = &reason
	}
	if ep.Of(&c) != nil {
		r.matrix.RequestedCases = append(r.matrix.RequestedCases, q)
	} else {
		r.matrix.RequestedOther = append(r.matrix.RequestedOther, q)
	}
}

func (r *run) answer(d result.Document) {
	r.n++
	require.NoError(r.t, result.Validate(d))
	_, err := result.Write(r.dir, d, r.n, func([]byte) error { return nil })
	require.NoError(r.t, err)
}

func (r *run) build() *report.Summary {
	s, _, err := report.Build([]string{r.dir}, &r.matrix)
	require.NoError(r.t, err)
	return s
}

func epCase(sku, backend, mode string, ladder plan.Ladder) plan.Case {
	c := resulttest.EPCase()
	c.SKU, c.Backend, ep.Of(&c).Mode, ep.Of(&c).Ladder = sku, backend, mode, ladder
	c.CaseID = c.ID()
	return c
}

func collectiveCase(sku, op string, world int) plan.Case {
	c := resulttest.CollectiveCase()
	c.SKU, collective.Of(&c).Op, c.World, c.RanksPerNode, c.Backend = sku, op, world, world, "nccl"
	collective.Of(&c).Sizes = nil
	for s := int64(8); s <= 1<<30; s *= 4 {
		collective.Of(&c).Sizes = append(collective.Of(&c).Sizes, s)
	}
	c.CaseID = c.ID()
	return c
}

func attempt(ordinal int, vendor string) result.Attempt {
	a := resulttest.Attempt()
	a.Ordinal, a.Vendor = ordinal, vendor
	return a
}

// mixed is a run with one of everything.
func mixed(t *testing.T) *run {
	r := newRun(t)
	ladder := plan.Ladder{1, 2, 4, 8, 16, 32, 64, 128}
	good, low := epCase("h200-dgxc", "deepep-v2", "normal", ladder), epCase("h200-dgxc", "deepep-v2", "low-latency", ladder)
	hung, wrong := epCase("mi355x", "mori", "normal", ladder), epCase("mi355x", "uccl-ep", "normal", ladder)
	never, lost := epCase("mi355x", "mori", "low-latency", ladder), epCase("h200-dgxc", "nccl-ep", "normal", ladder)
	for _, c := range []plan.Case{good, low, hung, wrong, lost} {
		r.ask(c, plan.Runnable, "")
	}
	r.ask(never, plan.Unsupported, "backend-platform-unsupported")
	r.matrix.Include = []plan.Cell{{ID: "mi355x-mori-bf16-n1", CaseIDs: []string{hung.CaseID}}, {ID: "h200-dgxc-nccl-ep-bf16-n1", CaseIDs: []string{lost.CaseID}}}
	declared := resulttest.EP(good, attempt(1, "nvidia")) // it passes the contract's gate, and adds in another order than declared
	sums := declared.Measurement.Rows[3].Arithmetic
	*sums.MaxError, sums.Passed, sums.Wrong = 648, false, 1283
	r.answer(declared)
	r.answer(resulttest.Fail(resulttest.New(low, attempt(1, "nvidia")), "rank-died: rank 1 signal 9"))
	d := resulttest.EP(low, attempt(2, "nvidia")) // the retry succeeded, below a cap and without a chain
	d.Measurement.Rows = d.Measurement.Rows[:5]
	d.SetLadder([]int{1, 2, 4, 8, 16}, []int{32, 64, 128}, nil)
	r.answer(d)
	partial := resulttest.EP(hung, attempt(1, "amd"))
	partial.Measurement.Rows = partial.Measurement.Rows[:3]
	partial.Measurement.Rows[2].Complete = false
	partial.SetLadder([]int{1, 2, 4}, nil, nil)
	r.answer(resulttest.Fail(partial, "timeout: case budget of 60 s"))
	invalid := resulttest.EP(wrong, attempt(1, "amd"))
	invalid.Measurement.Rows[3].Correctness.Passed = false
	invalid.Outcome = result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonSemantics}}}
	r.answer(invalid)
	for _, c := range []plan.Case{
		collectiveCase("h200-dgxc", "all_reduce", 2), collectiveCase("h200-dgxc", "all_gather", 2), collectiveCase("h200-dgxc", "all_reduce", 8),
	} {
		r.ask(c, plan.Runnable, "")
		d := resulttest.Collective(c, attempt(1, "nvidia"))
		if collective.Of(&c).Op == "all_reduce" { // one device is hot, one was not seen
			state := &result.DeviceState{SMMHz: 1980, Throttle: []string{"sw-power-cap"}}
			hot := &result.DeviceState{SMMHz: 1740, Throttle: []string{"hw-thermal-slowdown"}}
			d.Devices = result.NewDevices([]result.RankDevice{{Rank: 0, Before: state, After: hot}, {Rank: 1, Before: state, After: state}})
			if c.World == 8 {
				d.Devices = result.NewDevices(append(d.Devices.Ranks, result.RankDevice{Rank: 2}))
			}
		}
		r.answer(d)
	}
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "torn.json"), []byte(`{"version":1,`), 0o644))
	return r
}

func TestSummaryOfAMixedRun(t *testing.T) {
	s := mixed(t).build()
	var b bytes.Buffer
	require.NoError(t, s.Markdown(&b, report.MaxMarkdown))
	golden.Equal(t, "testdata/mixed.md", b.String())
	b.Reset()
	require.NoError(t, s.Text(&b, 0))
	golden.Equal(t, "testdata/mixed.txt", b.String())
	b.Reset()
	require.NoError(t, s.JSON(&b))
	golden.Equal(t, "testdata/mixed.json", b.String())
}

// The repeats of a case are one row with the spread of its headline. The JSON form has each of them.
func TestRepeatsAreOneRow(t *testing.T) {
	r := newRun(t)
	for i := range 5 {
		c := collectiveCase("h200-dgxc", "all_reduce", 2)
		c.Repeat = i + 1
		c.CaseID = c.ID()
		r.ask(c, plan.Runnable, "")
		d := resulttest.Collective(c, attempt(1, "nvidia"))
		for k := range d.Measurement.Rows {
			row := &d.Measurement.Rows[k]
			for _, mode := range collective.Of(&c).Modes {
				t := *row.Timing(mode)
				*row.Timing(mode) = resulttest.Timing(&c, row.Requested, t.Percentiles.P50*(1+float64(i)/50), t.SampleCount)
			}
		}
		r.answer(d)
	}
	s := r.build()
	require.Len(t, s.Headlines["collectives"], 5)
	var b strings.Builder
	require.NoError(t, s.Text(&b, 0))
	_, table, _ := strings.Cut(b.String(), "Collectives, pipelined, out of place\n")
	table, _, _ = strings.Cut(table, "\n\n")
	require.Len(t, strings.Split(table, "\n"), 3, table)
	require.Regexp(t, `\n +9\.\d+ ± 4\.\d % \(n=5\) +512 MiB +2\.08 +8 B$`, table)
}

// The headline of copies has the largest copy on the streams that are fastest, by each clock;
// a clock that a row does not have is a dash.
func TestCopiesInASummary(t *testing.T) {
	r := newRun(t)
	c := plantest.Copy("ce", "host_to_device_memcpy_ce", func(c *plan.Case) { copies.Of(c).Streams = []int{1, 2} })
	r.ask(c, plan.Runnable, "")
	d := resulttest.Copy(c, attempt(1, "nvidia"))
	rate := func(row *copies.Row, us float64) {
		clock := copies.Clock{Micros: result.Burst{P50: us, P95: us, Min: us, Max: us, N: row.Host.Micros.N}, GBps: float64(row.Bytes) / us / 1e3}
		row.Device, row.Host = &clock, &clock
	}
	rate(&d.Measurement.Rows[2], 20)
	rate(&d.Measurement.Rows[3], 40)
	d.Measurement.Rows[0].Device = nil
	r.answer(d)
	var b strings.Builder
	require.NoError(t, r.build().Text(&b, 0))
	require.Regexp(t, `(?m)^ +1 MiB +52.4 +52.4 +4 KiB +– +1.04$`, b.String())
	b.Reset()
	require.NoError(t, r.build().Text(&b, 60))
	require.Contains(t, b.String(), "\nall rows: ")
	for line := range strings.Lines(b.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 60, line)
	}

	for i := range d.Measurement.Rows {
		d.Measurement.Rows[i].Device = nil
	}
	r = newRun(t)
	r.ask(c, plan.Runnable, "")
	r.answer(d)
	b.Reset()
	require.NoError(t, r.build().Markdown(&b, 1<<20))
	require.Contains(t, b.String(), "| – | 52.4 |", "a dash is not bold")
}

// The headline of a transfer counts the points that were not measured, by why. What a block costs is
// a dash without a fit.
func TestTransfersInASummary(t *testing.T) {
	for cost, fits := range map[string]bool{"3.50": true, "–": false} {
		r := newRun(t)
		c := plantest.Transfer(func(c *plan.Case) {
			t := transfer.Of(c)
			t.Ops, t.ISLLadder, t.PageTokens, t.BatchSizes = transfer.Words{transfer.Pull}, plan.Ladder{64, 128, 192, 256}, plan.Ladder{16}, plan.Ladder{1}
		})
		r.ask(c, plan.Runnable, "")
		d := resulttest.Transfer(c, attempt(1, "host"))
		d.Measurement.Rows = slices.DeleteFunc(d.Measurement.Rows, func(r transfer.Row) bool { return r.ISL > 64 })
		for i, code := range []result.Code{result.ReasonRefused, result.ReasonMemoryForSize, result.ReasonRefused} {
			d.Workload.Dropped = append(d.Workload.Dropped, transfer.DroppedPoint{ISL: 64 * (i + 2), PageTokens: 16, Batch: 1, Reason: result.Reason{Code: code}})
		}
		var err error
		d.ComparisonKey, err = result.ComparisonKey(result.Settled(d), d.Provenance.Environment)
		require.NoError(t, err)
		for i := range d.Measurement.Rows {
			row := &d.Measurement.Rows[i]
			ms := 1 + 3.5e-3*float64(row.Descs) + float64(row.ReqBytes)/1e7
			for _, b := range []*result.Burst{&row.Latency, &row.Request} {
				*b = result.Burst{P50: ms, P95: ms, Min: ms, Max: ms, N: b.N}
			}
			row.GBps = float64(row.ReqBytes) / ms / 1e6
			row.GBpsPrepared = row.GBps
		}
		if fits {
			d.Measurement.Fit = []transfer.Fit{{Op: transfer.Pull, Alpha: 1000, Beta: 3.5, GBps: 10, Points: 1}}
		}
		r.answer(d)
		var b strings.Builder
		require.NoError(t, r.build().Markdown(&b, 1<<20))
		require.Contains(t, b.String(), " | "+cost+" | 1024 | 1.00 | 1 point (memory-for-size), 2 points (refused) |\n")
	}
}

// Swaps of blocks have a table of their own, of which a percentile of too few samples is a dash.
func TestSwapsInASummary(t *testing.T) {
	r := newRun(t)
	c := plantest.Copy("ce", "swap_blocks_h2d")
	r.ask(c, plan.Runnable, "")
	r.answer(resulttest.Copy(c, attempt(1, "nvidia")))
	var b strings.Builder
	require.NoError(t, r.build().Markdown(&b, 1<<20))
	require.Contains(t, b.String(), "pieces loop, random")
	require.Contains(t, b.String(), "| block | blocks | bytes | p50 µs | p99 µs | GB/s |")
	require.Regexp(t, `(?m)^\| 4 KiB \| 5 \| 20 KiB \| 1\.2\d* \| – \| 17\.\d+ \|$`, b.String())
	require.Len(t, regexp.MustCompile(`(?m)^\| (129 B|4 KiB) \|`).FindAllString(b.String(), -1), 5, "no row in the tables of other copies")
	require.NotContains(t, b.String(), "by events of the device behind a gate", "the headline of other copies")
	require.Regexp(t, `(?m)^\| 5 × 4 KiB \| \d+\.\d+ \| \*\*\d+\.\d+\*\* \|$`, b.String())

	// A suite's profiles are told apart, and their rows fit a terminal.
	r = newRun(t)
	for _, profile := range copies.Profiles() {
		c := plantest.Copy("ce", "swap_blocks_h2d", func(c *plan.Case) { copies.Of(c).Profile = profile })
		r.ask(c, plan.Runnable, "")
		d := resulttest.Copy(c, attempt(1, "nvidia"))
		r.answer(d)
	}
	b.Reset()
	require.NoError(t, r.build().Text(&b, 0))
	t.Log(b.String())
	for _, profile := range copies.Profiles() {
		require.Contains(t, b.String(), "random, "+profile)
	}
	for line := range strings.Lines(b.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 111, line)
	}
}

// Copies beside a victim have a table of their own. A slowdown that does not count is a dash.
func TestSlowdownsOfVictims(t *testing.T) {
	r := newRun(t)
	c := plantest.Copy("ce", "device_local_copy", func(c *plan.Case) { copies.Of(c).Victim, copies.Of(c).Sizes = true, []int64{1 << 20} })
	r.ask(c, plan.Runnable, "")
	d := resulttest.Copy(c, attempt(1, "nvidia"))
	v := d.Measurement.Rows[0].Victim
	v.Beside.P50, v.Beside.P95, v.Beside.Max = v.Alone.P50*1.0312, v.Alone.P50*1.0312, v.Alone.P50*1.0312
	v.VictimFigures = v.Figures(d.Measurement.Rows[0].Device)
	r.answer(d)
	var b strings.Builder
	require.NoError(t, r.build().Markdown(&b, 1<<20))
	require.Contains(t, b.String(), "pieces loop, victim\n\n| bytes | streams | victim slowdown | copy slowdown |\n|--:|--:|--:|--:|\n| 1 MiB | 1 | **1.0312** | – |\n")
}

// Simulated and measured cases have no table and no list in common, and nothing simulated is
// said to be measured on a machine.
func TestSimulationsStandAlone(t *testing.T) {
	r := newRun(t)
	measured, simulated := plantest.Twins()
	for c, d := range map[*plan.Case]result.Document{
		&measured:  resulttest.Schedule(measured, attempt(1, "host")),
		&simulated: resulttest.Simulation(simulated, attempt(1, "host")),
	} {
		r.ask(*c, plan.Runnable, "")
		r.answer(d)
	}
	s := r.build()
	require.Len(t, s.Headlines["schedules"], 1)
	require.Len(t, s.Headlines["simulations"], 1)
	for list, headlines := range s.Headlines {
		require.True(t, len(headlines) == 0 || list == "schedules" || list == "simulations", list)
	}
	var b strings.Builder
	require.NoError(t, s.Text(&b, 0))
	var with []string
	for section := range strings.SplitSeq(b.String(), "\n\n") {
		title, _, _ := strings.Cut(section, "\n")
		if strings.Contains(section, "simulator") || strings.Contains(section, "links@") {
			with = append(with, title)
			require.NotContains(t, section, "warm", "buffers of what was measured")
		}
	}
	require.Equal(t, []string{"Simulated schedules", "Critical paths of simulated schedules"}, with)
	require.Contains(t, b.String(), "\nMeasured on\n")
}

// The headline counts each requested case once, whatever other runs and cases the documents are of.
func TestTheHeadlineCountsEachCaseOnce(t *testing.T) {
	r := newRun(t)
	var cases []plan.Case
	for _, op := range []string{"all_reduce", "all_gather", "reduce_scatter", "alltoall"} {
		cases = append(cases, collectiveCase("h200-dgxc", op, 2))
	}
	for _, c := range cases[:3] {
		r.ask(c, plan.Runnable, "")
	}
	later := attempt(1, "nvidia")
	later.RunID = "4712"
	r.answer(resulttest.Collective(cases[0], attempt(1, "nvidia")))
	r.answer(resulttest.Collective(cases[0], later))
	r.answer(resulttest.Fail(resulttest.New(cases[1], attempt(1, "nvidia")), "timeout"))
	r.answer(resulttest.Fail(resulttest.New(cases[1], later), "timeout"))
	r.answer(resulttest.Collective(cases[3], later))
	var b bytes.Buffer
	require.NoError(t, r.build().Text(&b, 0))
	require.Equal(t, "1 of 3 cases passed, 1 failed, 1 without a document, 1 not requested", strings.SplitN(b.String(), "\n", 2)[0])
}

func TestSummaryOfNothing(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, newRun(t).build().Text(&b, 0))
	require.Equal(t, "0 of 0 cases passed\n", b.String())
}

// A reader of the page must see cells as they are, whatever is in them.
func TestMarkdownEscapesCells(t *testing.T) {
	r := newRun(t)
	c := epCase("h200-dgxc", "deepep-v2", "normal", plan.Ladder{1})
	c.CaseID = "a|b`c*d_e<f>&[g](h)@i\nj"
	r.ask(c, plan.Runnable, "")
	var b bytes.Buffer
	require.NoError(t, r.build().Markdown(&b, report.MaxMarkdown))
	require.Contains(t, b.String(), "| a\\|b\\`c\\*d\\_e&lt;f&gt;&amp;\\[g\\](h)&#64;i\\\\nj |\n")
}

func TestMarkdownFitsAndSaysWhatItLeftOut(t *testing.T) {
	r := newRun(t)
	for i := range 60 {
		ok, bad := epCase(fmt.Sprintf("sku%03d", i), "deepep-v2", "normal", plan.Ladder{1, 2, 4}), epCase(fmt.Sprintf("sku%03d", i), "mori", "normal", plan.Ladder{1})
		r.ask(ok, plan.Runnable, "")
		r.ask(bad, plan.Runnable, "")
		r.answer(resulttest.EP(ok, attempt(1, "nvidia")))
		r.answer(resulttest.Fail(resulttest.New(bad, attempt(1, "amd")), "timeout"))
	}
	s := r.build()
	whole := &bytes.Buffer{}
	require.NoError(t, s.Markdown(whole, report.MaxMarkdown))
	require.Contains(t, whole.String(), "Left out of this page: 54 charts.")
	for _, limit := range []int{1000, 4000, 8000, 12000, 20000, whole.Len() + 512} {
		var b bytes.Buffer
		require.NoError(t, s.Markdown(&b, limit))
		require.LessOrEqual(t, b.Len(), limit)
		require.Contains(t, b.String(), "60 of 120 cases passed, 60 failed")
		require.Equal(t, strings.Count(b.String(), "<details>"), strings.Count(b.String(), "</details>"))
		if limit < whole.Len() {
			require.Regexp(t, `Left out of this page: .*(row|section)s?`, b.String())
		} else {
			require.Equal(t, whole.String(), b.String())
		}
	}
	var b bytes.Buffer
	require.NoError(t, s.Markdown(&b, 3000))
	require.Contains(t, b.String(), "sku000-mori", "failed cases come first")
	require.NoError(t, s.Text(io.Discard, 0))
}

// fill puts text into every string of v, and a number into every figure.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), text)
			}
		}
	case reflect.String:
		v.SetString(text)
	case reflect.Int64:
		v.SetInt(1 << 20)
	case reflect.Float64:
		v.SetFloat(1)
	default: // counts and indices stay zero
	}
}

// Whatever text a document has in whatever field, no line of a summary is a
// command, drives a terminal or is formatted.
func TestHostileTextInEveryField(t *testing.T) {
	const hostile = "x\n::error::y ##[add-mask]z\x1b[31m\x00\u202e</summary><img src=x>**b** [l](u) `c` | d"
	var s report.Summary
	fill(reflect.ValueOf(&s).Elem(), hostile)
	expert, headline, pairs := &ep.Headline{}, &collective.Headline{}, &collective.Pairs{}
	fill(reflect.ValueOf(expert).Elem(), hostile)
	fill(reflect.ValueOf(headline).Elem(), hostile)
	fill(reflect.ValueOf(pairs).Elem(), hostile)
	headline.Points = append(headline.Points, headline.Points[0]) // a ladder
	s.Headlines = family.Headlines{"ep": {expert}, "collectives": {headline}, "pairs": {pairs}}

	var text, page bytes.Buffer
	require.NoError(t, s.Text(&text, 0))
	require.NoError(t, s.Markdown(&page, report.MaxMarkdown))
	for _, out := range []string{text.String(), page.String()} {
		require.Greater(t, strings.Count(out, "add-mask"), 10)
		require.NotContains(t, out, "::")
		require.NotContains(t, out, "##[")
		for line := range strings.SplitSeq(out, "\n") {
			require.NotRegexp(t, `[\x00-\x1f\x7f]|\x{202e}`, line)
		}
	}
	inChart := false
	summaries := 0
	for line := range strings.SplitSeq(page.String(), "\n") {
		if strings.HasPrefix(line, "```") {
			inChart = !inChart
		}
		if inChart || strings.HasPrefix(line, "```") {
			require.NotContains(t, strings.TrimPrefix(line, "```"), "`")
			continue
		}
		require.NotContains(t, line, "<img")
		require.NotRegexp(t, `(^|[^\\])\*\*b`, line)
		require.NotRegexp(t, `(^|[^\\])\[l`, line)
		if inside, ok := strings.CutPrefix(line, "<details><summary>"); ok {
			summaries++
			inside = strings.TrimSuffix(inside, "</summary>")
			require.NotRegexp(t, "[<>*`|\\[\\]]", inside)
		}
	}
	require.NotZero(t, summaries)
}

// A summary has no percentile that its samples cannot give.
func TestPercentilesOfFewSamples(t *testing.T) {
	for enough, more := range map[bool]int{false: 0, true: 1} {
		r := newRun(t)
		e, c, kv := epCase("h200-dgxc", "deepep-v2", "normal", plan.Ladder{8}), collectiveCase("h200-dgxc", "all_reduce", 2), resulttest.TransferCase()
		fresh, windows := &ep.Of(&e).Timing, &collective.Of(&c).Measure
		fresh.ItersPerTrial, fresh.TrialsPerPoint, fresh.ChainItersPerTrial, fresh.ChainTrialsPerPoint, fresh.ChainDrop = 99+more, 1, 99+more, 1, 0
		windows.Trials = 99 + more
		bursts := &transfer.Of(&kv).Timing
		bursts.Reps, bursts.Trials = 19+more, 1
		for _, d := range []result.Document{resulttest.EP(e, attempt(1, "nvidia")), resulttest.Collective(c, attempt(1, "nvidia")), resulttest.Transfer(kv, attempt(1, "host"))} {
			r.ask(d.Head().Identity.Case, plan.Runnable, "")
			r.answer(d)
		}
		s := r.build()
		text, err := json.Marshal(s)
		require.NoError(t, err)
		for _, tail := range []string{`"p99":[0-9]`, `"p99_us":`, `"p95_ms":`} {
			require.Equal(t, enough, regexp.MustCompile(tail).Match(text), tail)
		}
	}
}
