package bench

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
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

func timing(p50 float64) *result.Timing {
	return &result.Timing{
		Percentiles: *result.PercentilesOf(p50, p50+1, p50+2, p50+3), Min: p50 - 1, Max: p50 + 4, SampleCount: 5,
		RankMin: p50 / 2, RankMean: p50 * 0.75, RankP50: []float64{p50 * 0.625, p50}, Enqueue: 1.5,
		AlgBW: 1024 / p50 / 1e3, BusBW: 1024 / p50 / 1e3,
	}
}

func rowOf(placement string, p50 float64) result.CollectiveRow {
	return result.CollectiveRow{
		Requested: 1024, Bytes: 1024, Count: 256, Placement: placement, Complete: true, Pipelined: timing(p50),
		Check: result.Check{Passed: true, Checked: 512},
	}
}

func document(rows ...result.CollectiveRow) *result.CollectiveDocument {
	d := &result.CollectiveDocument{}
	d.Outcome.Status = result.Success
	d.Topology.WorldSize, d.Topology.DeviceProduct = 2, "Some GPU"
	d.Measurement.Op, d.Measurement.DType, d.Measurement.RedOp, d.Measurement.Rows = "all_reduce", "float", "sum", rows
	return d
}

// lines are what the table prints of a document without its comments.
func lines(t *testing.T, line string, d *result.CollectiveDocument) []string {
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

func TestWhatIsWrongIsShown(t *testing.T) {
	wrong := rowOf(vocab.OutOfPlace, 8)
	wrong.Check = result.Check{Wrong: 3, Checked: 512}
	unchecked := rowOf(vocab.InPlace, 8)
	unchecked.Check = result.Check{}
	got := lines(t, "all_reduce -b 1K -e 1K", document(wrong, unchecked))
	require.Equal(t, "3", strings.Fields(got[0])[8])
	require.Equal(t, "N/A", strings.Fields(got[0])[12], "a result that nobody looked at is not right")
}

func TestLimits(t *testing.T) {
	rows := []result.CollectiveRow{rowOf(vocab.OutOfPlace, 8), rowOf(vocab.InPlace, 4)}
	src, dst := 2, 0
	pair := rowOf(vocab.OutOfPlace, 8)
	pair.Src, pair.Dst = &src, &dst
	for _, tt := range []struct {
		flags string
		rows  []result.CollectiveRow
		want  []string
	}{
		{"--min-busbw 1K=0.1 --max-time 1K=9", rows, nil},
		{"--min-busbw 1K=0.2", rows, []string{"--min-busbw 1024 bytes all_reduce float sum out_of_place: busbw 0.128 GB/s is below 0.2"}},
		{"--max-time 1K=3", rows, []string{
			"--max-time 1024 bytes all_reduce float sum out_of_place: time 8 us is above 3",
			"--max-time 1024 bytes all_reduce float sum in_place: time 4 us is above 3",
		}},
		{"--max-time 1K=7", []result.CollectiveRow{pair}, []string{"--max-time 1024 bytes all_reduce float sum out_of_place rank 2 to 0: time 8 us is above 7"}},
		{"--max-time 1K=3", nil, []string{"--max-time 1024 bytes all_reduce float sum: was not measured"}},
	} {
		r, err := ask(t, "all_reduce -b 1K -e 1K "+tt.flags)
		require.NoError(t, err)
		require.Equal(t, tt.want, r.Limits.Violations(r.View, document(tt.rows...)))
	}
}

// Thresholds of transfers and copies are for all sizes or for one.
func TestLimitsByRow(t *testing.T) {
	rows := []Measured{{"a", 1 << 20, 3, 350}, {"b", 64 << 20, 5, 13400}}
	for _, tt := range []struct{ rates, times, want []string }{
		{[]string{"2", "64M=4"}, []string{"1M=400", "64M=14000"}, nil},
		{[]string{"4"}, nil, []string{"t, a: 3.00 GB/s, and --min-gbps is 4"}},
		{[]string{"64M=6"}, nil, []string{"t, b: 5.00 GB/s, and --min-gbps is 6"}},
		{[]string{"4", "64M=6"}, nil, []string{"t, a: 3.00 GB/s, and --min-gbps is 4", "t, b: 5.00 GB/s, and --min-gbps is 6"}},
		{[]string{"1=2"}, nil, []string{"t, no row of 1 byte was measured, and --min-gbps is 2"}},
		{nil, []string{"1M=300"}, []string{"t, a: 350 us, and --max-time is 300"}},
		{[]string{"2M=1"}, nil, []string{"t, no row of 2097152 bytes was measured, and --min-gbps is 1"}},
	} {
		limits, err := ParseLimits(MinGBps, tt.rates, tt.times, nil)
		require.NoError(t, err)
		require.Equal(t, tt.want, limits.Broken("t", rows))
	}
	for want, tt := range map[string]struct{ rates, times []string }{
		`--min-gbps "fast": write GBPS or SIZE=GBPS, such as 1M=40`:                                                        {[]string{"fast"}, nil},
		`--min-gbps 1M=0: want a value above 0`:                                                                            {[]string{"1M=0"}, nil},
		`--min-gbps -1: want a value above 0`:                                                                              {[]string{"-1"}, nil},
		`--max-time 1M=-Inf: want a value above 0`:                                                                         {nil, []string{"1M=-Inf"}},
		`--min-gbps "nan": write GBPS or SIZE=GBPS, such as 1M=40`:                                                         {[]string{"nan"}, nil},
		`--min-gbps "inf": write GBPS or SIZE=GBPS, such as 1M=40`:                                                         {[]string{"inf"}, nil},
		`--min-gbps "4": duplicate threshold for all sizes`:                                                                {[]string{"3", "4"}, nil},
		`--max-time "35": write SIZE=US, such as 1M=35.5`:                                                                  {nil, []string{"35"}},
		`--max-time "1024=2": duplicate threshold for 1024 bytes`:                                                          {nil, []string{"1K=1", "1024=2"}},
		`--min-gbps: invalid size "": want bytes, or a number with K, M or G (powers of 1024), such as 8, 1.5K, 32M or 4G`: {[]string{"=3"}, nil},
	} {
		_, err := ParseLimits(MinGBps, tt.rates, tt.times, nil)
		require.EqualError(t, err, want)
	}
}

func TestVerdict(t *testing.T) {
	good := result.Outcome{Status: result.Success}
	lacks := result.Outcome{Status: result.Failed, Reasons: resulttest.Reasons("refused: rank 0", "symbol-missing: rank 1")}
	died := result.Outcome{Status: result.Failed, Reasons: resulttest.Reasons("rank-died: rank 1 signal 9", "refused: rank 0")}
	wrong := result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonSemantics}}}
	for _, tt := range []struct {
		outcomes []result.Outcome
		lenient  bool
		broken   int
		code     int
		text     string
	}{
		{[]result.Outcome{good, good}, false, 0, cli.ExitOK, ""},
		{[]result.Outcome{good, lacks}, false, 0, cli.ExitEnvironment, "1 of 2 cases cannot be measured here"},
		{[]result.Outcome{good, lacks}, true, 0, cli.ExitOK, ""},
		{[]result.Outcome{lacks, lacks}, true, 0, cli.ExitEnvironment, "2 of 2 cases cannot be measured here"},
		{[]result.Outcome{good, lacks, died}, true, 0, cli.ExitFailed, "1 of 3 cases failed"},
		{[]result.Outcome{wrong}, false, 0, cli.ExitFailed, "1 of 1 case failed"},
		{[]result.Outcome{good}, false, 2, cli.ExitFailed, "2 figures missed their threshold"},
	} {
		v := verdict{lenient: tt.lenient, broken: tt.broken}
		for _, o := range tt.outcomes {
			v.add(o)
		}
		err := v.err()
		if tt.code == cli.ExitOK {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, tt.text)
		var exit *cli.ExitError
		require.Equal(t, tt.code == cli.ExitEnvironment, errors.As(err, &exit))
	}
}

// A size of a running case is printed when all of it is there, and once.
func TestATableGrows(t *testing.T) {
	r, err := ask(t, "all_reduce -b 1K -e 3K -i 1K")
	require.NoError(t, err)
	var rows []result.CollectiveRow
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
			grown.Measurement.Rows = append([]result.CollectiveRow{}, rows[:4]...)
			grown.Measurement.Rows[3].Complete = false
		}
		table.Grow(grown)
		require.Equal(t, want, printed(), "%d rows", i)
	}
	table.Document(document(rows...))
	require.Equal(t, 3, printed())
	table.Document(document(rows...))
	require.Equal(t, 6, printed(), "the next case begins anew")
	require.Equal(t, 1, strings.Count(out.String(), "# Using devices"))
}

// Rows of a case that did not end keep their columns, and are not passed off as whole.
func TestWhatIsNotWholeIsSaid(t *testing.T) {
	r, err := ask(t, "all_reduce -b 1K -e 1K --trials 9 -n 4 -I 1")
	require.NoError(t, err)
	rows := []result.CollectiveRow{rowOf(vocab.OutOfPlace, 8), rowOf(vocab.InPlace, 8), rowOf(vocab.OutOfPlace, 8)}
	for i := range rows {
		rows[i].Complete, rows[i].PerIteration = false, timing(16)
		rows[i].PerIteration.SampleCount = 4 * 3
	}
	rows[1].PerIteration = nil
	d := document(rows...)
	d.Outcome = result.Outcome{Status: result.Failed, Reasons: resulttest.Reasons("skipped: cancelled")}
	var out bytes.Buffer
	table := NewTable(&out, &r)
	report := NewReport(&r, NewHead("cxrun", nil, time.Time{}, "host", 2))
	for _, d := range []*result.CollectiveDocument{d, document(rowOf(vocab.OutOfPlace, 8))} {
		report.Add(&r, d)
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
	table.Foot(NewReport(&r, Head{}))
	require.Equal(t, 1, strings.Count(out.String(), "cancelled"))
	require.Contains(t, out.String(), "# 3 of the cases: skipped: cancelled\n")
}

// Nothing looked at is nothing right.
func TestTheFootIsNotGoodWithoutRows(t *testing.T) {
	r, err := ask(t, "all_reduce")
	require.NoError(t, err)
	var out bytes.Buffer
	NewTable(&out, &r).Foot(NewReport(&r, Head{}))
	require.Contains(t, out.String(), "# Out of bounds values : N/A FAILED\n")
}

// The foot of a plan in a file names it, with what identifies it.
func TestTheFootOfAPlan(t *testing.T) {
	r := Request{schedule: &plan.Schedule{PlanFile: "ring.xml"}}
	p := NewReport(&r, Head{})
	p.Results = append(p.Results, CaseRows{PlanSHA256: "0123", Program: &result.Program{Messages: 4}})
	var out bytes.Buffer
	NewTable(&out, &r).Foot(p)
	require.Contains(t, out.String(), "# ring.xml             : SHA-256 0123; every rank ran it, with 4 messages\n")
}

// A rate below 1 GB/s has three digits, in the column of the others.
func TestRatesOfSlowLanes(t *testing.T) {
	for gbps, want := range map[float64]string{
		0: "0", 412.345: "412.35", 1: "1.00", 0.9996: "1.000", 0.5: "0.500", 0.01234: "0.0123", 0.0000156: "0.0000156", 0.000000156: "1.56e-07",
	} {
		require.Equal(t, want, Rate(gbps))
	}
	require.Equal(t, []string{"t: 0.000391 GB/s, and --min-gbps is 1"}, Limits{{MinGBps, everySize, 1}}.Broken("", []Measured{{"t", 8, 0.000390625, 1}}))
}
