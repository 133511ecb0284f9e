package bench

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

func TestNumbersAreAsWideAsNCCLTests(t *testing.T) {
	for _, tt := range []struct {
		v     float64
		width int
		want  string
	}{
		{0.284, 7, "   0.28"},
		{1234.56, 7, "1234.56"},
		{12345.67, 7, "12345.7"},
		{1234567.8, 7, "1234568"},
		{12345678, 7, "1.2e+07"},
		{460.127, 6, "460.13"},
		{4601.27, 6, "4601.3"},
	} {
		require.Equal(t, tt.want, fixed(tt.v, tt.width))
	}
}

func timing(p50 float64) *collective.Timing {
	return &collective.Timing{
		Percentiles: *result.PercentilesOf(p50, p50+1, p50+2, p50+3), Min: p50 - 1, Max: p50 + 4, SampleCount: 100,
		RankMin: p50 / 2, RankMean: p50 * 0.75, RankP50: []float64{p50 * 0.625, p50}, Enqueue: 1.5,
		AlgBW: 1024 / p50 / 1e3, BusBW: 1024 / p50 / 1e3,
	}
}

func rowOf(placement string, p50 float64) collective.Row {
	return collective.Row{
		Requested: 1024, Bytes: 1024, Count: 256, Placement: placement, Complete: true, Pipelined: timing(p50),
		Check: collective.Check{Passed: true, Checked: 512},
	}
}

func document(rows ...collective.Row) *collective.Document {
	d := &collective.Document{}
	d.Outcome.Status = result.Success
	d.Topology.WorldSize, d.Topology.DeviceProduct = 2, "Some GPU"
	d.Measurement.Op, d.Measurement.DType, d.Measurement.RedOp, d.Measurement.Rows = "all_reduce", "float", "sum", rows
	return d
}

// A check of nothing is no passed check, nor is a comparison of no results.
func TestNothingToCheck(t *testing.T) {
	r, err := ask(t, "all_reduce -b 0 -e 0 -O 0 --repeatable 2")
	require.NoError(t, err)
	p := NewReport(&r, bench.Head{})
	row := rowOf(vocab.InPlace, 10)
	row.Requested, row.Bytes, row.Count, row.Check.Checked, row.Repeatable = 0, 0, 0, 0, &result.Repeatability{Operations: 2}
	p.Add(document(row))
	var out bytes.Buffer
	p.Print(&out, document(row))
	p.Foot(&out)
	require.Regexp(t, `(?m)^ +0 .* N/A$`, out.String())
	require.Contains(t, out.String(), "# Out of bounds values : N/A UNCHECKED\n")
	require.Contains(t, out.String(), "# Repeatable           : N/A, no results were compared\n")
}

// What distinguishes windows is in the id, the labels and the head, but not the defaults.
func TestWindowsHaveLabels(t *testing.T) {
	for flags, want := range map[string][2]string{
		"":                    {"", ""},
		"-z 1":                {"-wait-barrier", "wait barrier"},
		"-z 2":                {"-wait-operation", "wait operation"},
		"-y 1":                {"-null-stream", "null stream"},
		"-I 1 -n 5 -K 3 -y 1": {"-skip-3-null-stream", "skip 3, null stream"},
	} {
		c := planned(t, "nccl", "all_reduce "+flags).Cases[0]
		id := c.ID()
		require.Equal(t, want[0], id[strings.Index(id, "shifted")+len("shifted"):])
		d := document(rowOf(vocab.OutOfPlace, 10))
		d.Identity.Case = c
		facets := collective.Figures(d)[0].Lines[0].Facets
		require.Equal(t, want[1], facets[len(collective.Facets)-1])
		require.Equal(t, strings.TrimSuffix("all_reduce, "+want[1], ", "), collective.HeadlineOf(d).Op)
	}
	r, err := ask(t, "all_reduce -I 1 -n 5 -K 3 -y 1")
	require.NoError(t, err)
	require.Contains(t, NewTable(nil, &r).head("", 2), "# timing: pipelined (-z 0: operations back to back), i_ columns without the first 3 iterations of a window (-K), null stream (-y 1), ")
}

// lines are what the table prints of a document without its comments.
func lines(t *testing.T, line string, d *collective.Document) []string {
	t.Helper()
	r, err := ask(t, line)
	require.NoError(t, err)
	var out bytes.Buffer
	NewTable(&out, &r).Document(d)
	var kept []string
	for l := range strings.Lines(out.String()) {
		if !strings.HasPrefix(l, "#") {
			kept = append(kept, strings.TrimSuffix(l, "\n"))
		}
	}
	return kept
}

func TestViews(t *testing.T) {
	d := document(rowOf(vocab.OutOfPlace, 8), rowOf(vocab.InPlace, 4))
	for i := range d.Measurement.Rows {
		d.Measurement.Rows[i].PerIteration = timing(16)
	}
	const head = "        1024           256     float     sum      -1"
	for _, tt := range []struct{ flags, want string }{
		{"", "     8.00    0.13    0.13       0     4.00    0.26    0.26       0"},
		{"-a 0", "     5.00    0.20    0.20       0     2.50    0.41    0.41       0"},
		{"-a 1", "     6.00    0.17    0.17       0     3.00    0.34    0.34       0"},
		{"-a 2", "     4.00    0.26    0.26       0     2.00    0.51    0.51       0"},
		{"-C 1", "     1.50    0.13    0.13       0     1.50    0.26    0.26       0"},
		{"-I 1", "     8.00    0.13    0.13       0    15.00    16.00    19.00    20.00" +
			"     4.00    0.26    0.26       0    15.00    16.00    19.00    20.00"},
		{"--percentiles", "     8.00    0.13    0.13       0     8.00     9.00    10.00    11.00     7.00    12.00" +
			"     4.00    0.26    0.26       0     4.00     5.00     6.00     7.00     3.00     8.00"},
	} {
		t.Run(tt.flags, func(t *testing.T) {
			require.Equal(t, []string{head + tt.want}, lines(t, "all_reduce -b 1K -e 1K "+tt.flags, d))
		})
	}
}

// On request, each line ends with the time at which its last row had been measured.
func TestTimestamps(t *testing.T) {
	at := time.Date(2026, 11, 26, 20, 0, 0, 0, time.UTC)
	rows := []collective.Row{rowOf(vocab.OutOfPlace, 8), rowOf(vocab.InPlace, 4)}
	require.Regexp(t, ` 0 +N/A$`, lines(t, "all_reduce -b 1K -e 1K -S 1", document(rows...))[0])
	rows[0].EndedAt, rows[1].EndedAt = at.Format(time.RFC3339), at.Add(2*time.Second).Format(time.RFC3339)
	require.Regexp(t, ` 0  `+at.Add(2*time.Second).Local().Format(time.DateTime)+"$", lines(t, "all_reduce -b 1K -e 1K -S 1", document(rows...))[0])
	require.NotContains(t, lines(t, "all_reduce -b 1K -e 1K", document(rows...))[0], ":")
}

// With symmetric windows, the foot says in how many rows the library used the kernels for them.
func TestSymmetricKernels(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{[]string{"", ""}, "unknown, since the library reported no algorithm"},
		{[]string{"symk_agxll_r", "ring_ll"}, "in 1 of 2 rows (used: symk_agxll_r, ring_ll)"},
		{[]string{"ring_ll", "ring_ll"}, "in 0 of 2 rows (used: ring_ll)"},
	} {
		for registration, is := range map[string]bool{"2": true, "1": false, "2 -D 1": false} {
			r, err := ask(t, "all_reduce -b 1K -e 1K -R "+registration)
			require.NoError(t, err)
			rows := []collective.Row{rowOf(vocab.OutOfPlace, 8), rowOf(vocab.InPlace, 8)}
			for i, name := range tt.names {
				rows[i].Algorithm = name
			}
			report := NewReport(&r, bench.NewHead("cxrun", nil, time.Time{}, "nccl", 2))
			report.Add(document(rows...))
			var out bytes.Buffer
			NewTable(&out, &r).Foot(report)
			require.Equal(t, is, strings.Contains(out.String(), "# Symmetric kernels    : "+tt.want+"\n"))
		}
	}
}

// The foot has the device memory of the case that took most.
func TestMemoryReport(t *testing.T) {
	r, err := ask(t, "all_reduce -b 1K -e 1K -M 1")
	require.NoError(t, err)
	report := NewReport(&r, bench.NewHead("cxrun", nil, time.Time{}, "nccl", 2))
	foot := func() string {
		var out bytes.Buffer
		NewTable(&out, &r).Foot(report)
		return out.String()
	}
	require.Contains(t, foot(), "# GPU memory usage     : N/A\n")
	for _, m := range []collective.Memory{{Communicators: 300 << 20, Buffers: 1536, Operations: -5}, {Communicators: 1, Buffers: 3 << 30, Operations: 20 << 20}} {
		d := document(rowOf(vocab.OutOfPlace, 8))
		d.Measurement.Memory = &m
		report.Add(d)
	}
	require.Contains(t, foot(), "# GPU memory usage     : Initialization 300 MB | User-Allocated 3.00 GB | Collective 20.0 MB | Total  3.31 GB\n")
}

// The table has no percentile that its samples cannot give, and says why.
func TestPercentilesOfFewSamples(t *testing.T) {
	for n, want := range map[int][2]string{
		9: {"8.00      N/A      N/A      N/A     7.00", "N/A"}, 10: {"8.00     9.00      N/A      N/A     7.00", "N/A"},
		20: {"8.00     9.00    10.00      N/A     7.00", "N/A"}, 99: {"8.00     9.00    10.00      N/A     7.00", "N/A"},
		100: {"8.00     9.00    10.00    11.00     7.00", "19.00"},
	} {
		d := document(rowOf(vocab.OutOfPlace, 8))
		row := &d.Measurement.Rows[0]
		row.PerIteration = timing(16)
		row.Pipelined.SampleCount, row.PerIteration.SampleCount = n, n
		require.Contains(t, lines(t, "all_reduce -b 1K -e 1K --percentiles", d)[0], want[0])
		require.Regexp(t, "15.00    16.00 +"+want[1]+"    20.00", lines(t, "all_reduce -b 1K -e 1K -I 1", d)[0])
		const note = "# percentiles of too few samples are N/A"
		for line, few := range map[string]bool{"--percentiles --trials": n < 100, "-z 3 --percentiles -n": n < 100, "-I 1 -n": n < 100, "--trials": false} {
			r, err := ask(t, fmt.Sprintf("all_reduce -b 1K -e 1K %s %d", line, n))
			require.NoError(t, err)
			require.Equal(t, few, strings.Contains(NewTable(nil, &r).head("", 2), note), "%s %d", line, n)
		}
	}
}

// A narrow terminal has a table that fits. Without a terminal, the columns are those of nccl-tests.
func TestANarrowTable(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"all_reduce -b 1K -e 1K", "        1024     8.00    0.13    0.13       0     4.00    0.26    0.26       0"},
		{"p2p -b 1K -e 1K", "        1024     8.00    0.13    0.13       0     1     0"},
		{"p2p -b 1K -e 1K -D 3 -R 2", "        1024     8.00    0.13    0.13       0     1     0     0.125"},
		{"p2p_bidir -b 1K -e 1K -D 3 -R 2", "        1024     8.00    0.13    0.13       0     1     0      0.25"},
	} {
		r, err := ask(t, tt.line)
		require.NoError(t, err)
		rows := []collective.Row{rowOf(vocab.OutOfPlace, 8), rowOf(vocab.InPlace, 4)}
		if r.Op.Pairwise() {
			src, dst := 1, 0
			rows = rows[:1]
			rows[0].Src, rows[0].Dst = &src, &dst
		}
		var narrow, wide bytes.Buffer
		for width, out := range map[int]*bytes.Buffer{80: &narrow, 200: &wide} {
			table := NewTable(out, &r)
			table.fit(width)
			table.Document(document(rows...))
		}
		require.Contains(t, narrow.String(), "# all_reduce float sum\n"+tt.want+"\n")
		for l := range strings.Lines(narrow.String()) {
			require.LessOrEqual(t, len(l), 81, l)
		}
		require.NotContains(t, wide.String(), tt.want)
	}
}

func TestWhatIsWrongIsShown(t *testing.T) {
	wrong := rowOf(vocab.OutOfPlace, 8)
	wrong.Check = collective.Check{Wrong: 3, Checked: 512}
	unchecked := rowOf(vocab.InPlace, 8)
	unchecked.Check = collective.Check{}
	got := lines(t, "all_reduce -b 1K -e 1K", document(wrong, unchecked))
	require.Equal(t, "3", strings.Fields(got[0])[8])
	require.Equal(t, "N/A", strings.Fields(got[0])[12], "a result that nobody looked at is not right")
}

func TestLimits(t *testing.T) {
	rows := []collective.Row{rowOf(vocab.OutOfPlace, 8), rowOf(vocab.InPlace, 4)}
	src, dst := 2, 0
	pair := rowOf(vocab.OutOfPlace, 8)
	pair.Src, pair.Dst = &src, &dst
	for _, tt := range []struct {
		flags string
		rows  []collective.Row
		want  []string
	}{
		{"--min-busbw 1K=0.1 --max-time 1K=9", rows, nil},
		{"--min-busbw 1K=0.2", rows, []string{"all_reduce float sum, 1024 bytes out_of_place: 0.128 GB/s, and --min-busbw is 0.2"}},
		{"--max-time 1K=3", rows, []string{
			"all_reduce float sum, 1024 bytes out_of_place: 8 us, and --max-time is 3",
			"all_reduce float sum, 1024 bytes in_place: 4 us, and --max-time is 3",
		}},
		{"--max-time 1K=7", []collective.Row{pair}, []string{"all_reduce float sum, 1024 bytes out_of_place rank 2 to 0: 8 us, and --max-time is 7"}},
		{"--max-time 1K=3", nil, []string{"all_reduce float sum, no row of 1024 bytes was measured, and --max-time is 3"}},
	} {
		r, err := ask(t, "all_reduce -b 1K -e 1K "+tt.flags)
		require.NoError(t, err)
		require.Equal(t, tt.want, violations(r.Limits, r.View, document(tt.rows...)))
	}
}

// A size of a running case is printed when all of it is there, and once.
func TestATableGrows(t *testing.T) {
	r, err := ask(t, "all_reduce -b 1K -e 3K -i 1K")
	require.NoError(t, err)
	var rows []collective.Row
	for size := int64(1); size <= 3; size++ {
		for _, placement := range []string{vocab.OutOfPlace, vocab.InPlace} {
			row := rowOf(placement, 8)
			row.Requested, row.Bytes = size<<10, size<<10
			rows = append(rows, row)
		}
	}
	var out bytes.Buffer
	table := NewTable(&out, &r)
	printed := func() (n int) {
		for l := range strings.Lines(out.String()) {
			if !strings.HasPrefix(l, "#") {
				n++
			}
		}
		return n
	}
	for i, want := range []int{0, 0, 1, 1, 1} {
		grown := document(rows[:i]...)
		if i == 4 {
			grown.Measurement.Rows = append([]collective.Row{}, rows[:4]...)
			grown.Measurement.Rows[3].Complete = false
		}
		table.Grow(grown)
		require.Equal(t, want, printed(), "%d rows", i)
	}
	table.Document(document(rows...))
	require.Equal(t, 3, printed())
	table.Document(document(rows...))
	require.Equal(t, 6, printed(), "the next case begins anew")
	require.Equal(t, 1, strings.Count(out.String(), "# library "))
}

// The case repeats windows of a row whose times are in doubt: the row is printed when the doubt is gone.
func TestARowInDoubtIsPrintedAtTheEnd(t *testing.T) {
	r, err := ask(t, "all_reduce -b 1K -e 1K")
	require.NoError(t, err)
	doubtful := rowOf(vocab.InPlace, 8)
	doubtful.Check = collective.Check{Checked: 512, Reasons: resulttest.Reasons("implausible: too fast")}
	var out bytes.Buffer
	table := NewTable(&out, &r)
	table.Grow(document(rowOf(vocab.OutOfPlace, 8), doubtful))
	require.Empty(t, out.String())
	table.Document(document(rowOf(vocab.OutOfPlace, 8), rowOf(vocab.InPlace, 8)))
	require.NotContains(t, out.String(), "N/A")
}

// Rows of a case that did not end keep their columns, and are not passed off as whole.
func TestWhatIsNotWholeIsSaid(t *testing.T) {
	r, err := ask(t, "all_reduce -b 1K -e 1K --trials 9 -n 4 -I 1")
	require.NoError(t, err)
	rows := []collective.Row{rowOf(vocab.OutOfPlace, 8), rowOf(vocab.InPlace, 8), rowOf(vocab.OutOfPlace, 8)}
	for i := range rows {
		rows[i].Complete, rows[i].PerIteration = false, timing(16)
		rows[i].PerIteration.SampleCount = 4 * 3
	}
	rows[1].PerIteration = nil
	d := document(rows...)
	d.Outcome = result.Outcome{Status: result.Failed, Reasons: resulttest.Reasons("skipped: cancelled")}
	var out bytes.Buffer
	table := NewTable(&out, &r)
	report := NewReport(&r, bench.NewHead("cxrun", nil, time.Time{}, "host", 2))
	for _, d := range []*collective.Document{d, document(rowOf(vocab.OutOfPlace, 8))} {
		report.Add(d)
		table.Document(d)
	}
	table.Foot(report)
	require.Contains(t, out.String(), "# INCOMPLETE all_reduce float sum: 0 of 9 trials in 1 of 3 rows, 3 of 9 trials in 2 of 3 rows\n")
	require.Contains(t, out.String(), "# Out of bounds values : 0 INCOMPLETE\n# Avg bus bandwidth    : N/A \n#\n")
	require.Nil(t, report.AvgBusBW)
}

// Cases that were not begun are told in a line.
func TestSkippedCasesAreCounted(t *testing.T) {
	r, err := ask(t, "all_reduce -N 3")
	require.NoError(t, err)
	d := document()
	d.Outcome = result.Outcome{Status: result.Failed, Reasons: resulttest.Reasons("skipped: cancelled")}
	var out bytes.Buffer
	table := NewTable(&out, &r)
	for range 3 {
		table.Document(d)
	}
	table.Foot(NewReport(&r, bench.Head{}))
	require.Equal(t, 1, strings.Count(out.String(), "cancelled"))
	require.Contains(t, out.String(), "# 3 of the cases: skipped: cancelled\n")
}

// Nothing looked at is nothing right.
func TestTheFootIsNotGoodWithoutRows(t *testing.T) {
	r, err := ask(t, "all_reduce")
	require.NoError(t, err)
	var out bytes.Buffer
	NewTable(&out, &r).Foot(NewReport(&r, bench.Head{}))
	require.Contains(t, out.String(), "# Out of bounds values : N/A FAILED\n")
}
