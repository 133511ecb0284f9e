package bench

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/benchtest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// with returns a document of a case with an algorithm, with a row for each time.
func with(algorithm string, times ...float64) *collective.Document {
	var rows []collective.Row
	for i, us := range times {
		row := rowOf(vocab.OutOfPlace, us)
		row.Requested <<= i
		rows = append(rows, row)
	}
	d := document(rows...)
	d.Identity.Case.Block = &collective.Block{Op: "all_reduce", Algorithm: algorithm}
	return d
}

// The best algorithm of each size, where it changes, what the automatic choice costs, and what is not offered.
func TestAlgorithmsAreCompared(t *testing.T) {
	r, err := ask(t, "all_reduce -b 1K -e 4K -f 2 --algo all --max-time 4K=45")
	require.NoError(t, err)
	p := NewReport(&r, bench.Head{})
	auto := with("", 10, 12, 40)
	auto.Measurement.Rows[0].Algorithm, auto.Measurement.Rows[0].CTAs = "tree_ll", 4
	wrong := with("ring_ll128", 1, 1, 1)
	for i := range wrong.Measurement.Rows {
		wrong.Measurement.Rows[i].Check = collective.Check{Wrong: 1}
	}
	refused := with("nvls_simple")
	refused.Outcome = result.Outcome{Status: result.Failed, Reasons: result.Reasons{result.ReasonRefused.With("nvls_simple not offered, ncclAllReduce ncclInvalidUsage")}}
	for _, d := range []*collective.Document{auto, with("tree_ll", 10, 15, 80), with("ring_ll", 20, 10, 50), wrong, refused} {
		p.Add(d)
	}
	var out bytes.Buffer
	p.Foot(&out)
	wording.Has(t, out.String(),
		"# algorithms of all_reduce float sum out of place\n"+
			"# time in us, * the shortest; auto is the library's own choice\n"+
			"#  size   auto   auto costs     auto is  tree_ll   ring_ll\n"+
			"#  1024  10.00*      +0.0 %  tree_ll(4)    10.00     20.00\n"+
			"#  2048  12.00      +20.0 %                15.00     10.00*\n"+
			"#  4096  40.00*     -20.0 %                80.00     50.00\n"+
			"# best (by 5 % or more, else auto): auto from 1K, ring_ll from 2K, auto from\n"+
			"#   4K\n"+
			"# not offered: nvls_simple: refused: ncclAllReduce ncclInvalidUsage\n")
	require.Empty(t, p.Broken(), "the threshold is for the library's own choice")
	require.InDelta(t, 20, *p.Algorithms[0].Sizes[1].Cost, 1e-9)
	require.Equal(t, "tree_ll", p.Algorithms[0].Sizes[0].Chosen)
	require.Equal(t, 4, p.Algorithms[0].Sizes[0].ChosenCTAs)
	require.InDelta(t, (timing(10).BusBW+timing(12).BusBW+timing(40).BusBW)/3, *p.AvgBusBW, 1e-9, "of the automatic choice")
}

// limited returns a document of a case with an algorithm and a number of CTAs.
func limited(algorithm string, ctas int, times ...float64) *collective.Document {
	d := with(algorithm, times...)
	collective.Of(&d.Identity.Case).CTAs = ctas
	return d
}

// The shortest time with each number of CTAs, and which variant has it.
func TestCTAsAreCompared(t *testing.T) {
	r, err := ask(t, "all_reduce -b 1K -e 2K -f 2 --algo ring_ll --ctas 8,1")
	require.NoError(t, err)
	p := NewReport(&r, bench.Head{})
	refused := limited("ring_ll", 1)
	refused.Outcome = result.Outcome{Status: result.Failed, Reasons: result.Reasons{result.ReasonRefused.With("ring_ll(1) not offered, the library used ring_ll(2)")}}
	for _, d := range []*collective.Document{with("", 10, 12), limited("", 8, 11, 9), limited("", 1, 9, 30), with("ring_ll", 20, 10), limited("ring_ll", 8, 21, 8), refused} {
		p.Add(d)
	}
	var out bytes.Buffer
	p.Foot(&out)
	wording.Has(t, out.String(),
		"#  size   auto   auto costs  auto is  ring_ll\n"+
			"#  1024  10.00      +11.1 %             20.00\n"+
			"#  2048  12.00      +50.0 %             10.00\n"+
			"# by the number of CTAs, the shortest time of all algorithms; NAME(N) has N CTAs\n"+
			"#  size        best   auto       8       1\n"+
			"#  1024     auto(1)  10.00   11.00    9.00*\n"+
			"#  2048  ring_ll(8)  10.00    8.00*  30.00\n"+
			"# CTAs are not confirmed in 6 of 6 rows: the library did not report them\n"+
			"# best (by 5 % or more, else auto): auto(1) from 1K, ring_ll(8) from 2K\n"+
			"# not offered: ring_ll(1): refused: the library used ring_ll(2)\n")
	require.Equal(t, 8, p.Results[1].CTAs)
	require.InDelta(t, (timing(10).BusBW+timing(12).BusBW)/2, *p.AvgBusBW, 1e-9, "of the library's own choice")
}

// A variant that used what the library chooses itself is not better than that, and differences below 5 % have no name.
func TestNoiseIsNotAGain(t *testing.T) {
	r, err := ask(t, "all_reduce -b 1K -e 4K -f 2 --ctas 2,8")
	require.NoError(t, err)
	p := NewReport(&r, bench.Head{})
	used := func(d *collective.Document, ctas ...int) *collective.Document {
		for i, n := range ctas {
			d.Measurement.Rows[i].Algorithm, d.Measurement.Rows[i].CTAs = "ring_ll", n
		}
		return d
	}
	for _, d := range []*collective.Document{used(with("", 16, 12, 12), 2, 4, 4), used(limited("", 2, 10, 20, 20), 2, 2, 2), used(limited("", 8, 20, 11.9, 6), 2, 8)} {
		p.Add(d)
	}
	var out bytes.Buffer
	p.Foot(&out)
	wording.Has(t, out.String(),
		"#  size   auto   auto costs     auto is\n"+
			"#  1024  16.00*           -  ring_ll(2)\n"+
			"#  2048  12.00       +0.8 %  ring_ll(4)\n"+
			"#  4096  12.00     +100.0 %  ring_ll(4)\n"+
			"# by the number of CTAs, the shortest time of all algorithms; NAME(N) has N CTAs\n"+
			"#  size     best   auto       2       8\n"+
			"#  1024     auto  16.00*  10.00   20.00\n"+
			"#  2048  auto(8)  12.00   20.00   11.90*\n"+
			"#  4096  auto(8)  12.00   20.00    6.00*\n"+
			"# CTAs are not confirmed in 1 of 6 rows: the library did not report them\n"+
			"# best (by 5 % or more, else auto): auto from 1K, auto(8) from 4K\n")
	require.Equal(t, map[string]string{"auto": "ring_ll(2)", "auto(2)": "ring_ll(2)", "auto(8)": "ring_ll(2)"}, p.Algorithms[0].Sizes[0].Used)
}

// The comparison of any operation fits a terminal, however many algorithms and CTAs were measured.
func TestComparisonsFit(t *testing.T) {
	for _, op := range vocab.Ops() {
		for _, registration := range []string{vocab.Unregistered, vocab.SymmetricWindow} {
			names := collective.AlgorithmsOf(op, registration, collective.AlgorithmNames())
			if len(names) == 0 {
				continue
			}
			a := Algorithms{DType: "bfloat16", RedOp: "mulsum", Root: 7, Placement: vocab.OutOfPlace, NotOffered: map[string]string{}, ctas: []int{1, 2, 4, 8, 16, 32, 64}}
			for i := range 31 {
				size := int64(4) << i
				a.add(size, automatic, "", 1234567.8).Chosen = names[0]
				for n, name := range names {
					a.add(size, name, "", 1234000+float64(n))
					a.add(size, collective.Variant(name, 64), "", 1233000+float64((n+i)%7))
					a.NotOffered[collective.Variant(name, 1)] = "refused: " + name + "(1) not offered, ncclReduceScatterConfig ncclInvalidArgument"
				}
			}
			var out strings.Builder
			a.show(&out, op)
			benchtest.Fits(t, out.String())
			require.Regexp(t, names[len(names)-1]+`\s`, out.String())
		}
	}
}

// A result that differs from the first one breaks the measurement, and is described.
func TestUnrepeatableResultsAreViolations(t *testing.T) {
	r, err := ask(t, "all_reduce -b 1K -e 1K --repeatable 10")
	require.NoError(t, err)
	p := NewReport(&r, bench.Head{})
	d := with("ring_ll", 10)
	d.Measurement.Rows[0].Repeatable = &result.Repeatability{
		Operations: 10, Compared: 512, Elements: 3, Bits: 5, First: &result.Difference{Operation: 7, Rank: 1, Element: 17, Bit: 2},
	}
	p.Add(d)
	require.Equal(t, []string{
		"all_reduce float sum ring_ll 1024 bytes out_of_place: 3 elements (5 bits) of 10 operations on one input differ from the first result; " +
			"the first is bit 2 of element 17, on rank 1 in repeat 7",
	}, p.Broken())
	require.EqualError(t, p.Err(), "1 result is not repeatable")
	var out bytes.Buffer
	p.Foot(&out)
	require.Contains(t, out.String(), "# Repeatable           : 10 operations on one input, results differ in 1 of 1 row\n")
}

// The kernel of -D is what thresholds and the mean are for, and its refusal is not one of many.
func TestReportOfADeviceImplementation(t *testing.T) {
	r, err := ask(t, "all_reduce -b 1K -e 2K -f 2 -R 2 -D 1 --max-time 2K=11")
	require.NoError(t, err)
	p := NewReport(&r, bench.Head{})
	p.Add(with("device_lsa", 10, 12))
	require.Len(t, p.Broken(), 1)
	require.NotNil(t, p.AvgBusBW)
	for name, footnote := range map[string]bool{"device_lsa": false, "symk_ll": true} {
		d := with(name)
		d.Outcome = result.Outcome{Status: result.Failed, Reasons: result.Reasons{result.ReasonRefused.With("no")}}
		require.Equal(t, footnote, r.notOffered(d), name)
	}
}
