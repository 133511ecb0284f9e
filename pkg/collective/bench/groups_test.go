package bench

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// The variables split ranks as nccl-tests does.
func TestGroups(t *testing.T) {
	for _, tt := range []struct {
		mask, split string
		want        [][]int
	}{
		{"", "", nil},
		{"", "MOD2", [][]int{{0, 2}, {1, 3}}},
		{"", "% 0x2", [][]int{{0, 2}, {1, 3}}},
		{"", "DIV 2", [][]int{{0, 1}, {2, 3}}},
		{"", "/0b10", [][]int{{0, 1}, {2, 3}}},
		{"", "and 0x1", [][]int{{0, 2}, {1, 3}}},
		{"", "&2", [][]int{{0, 1}, {2, 3}}},
		{"", "OR1", [][]int{{0, 1}, {2, 3}}},
		{"", "|2", [][]int{{0, 2}, {1, 3}}},
		{"", "DIV8", nil},
		{"", "MOD 4", [][]int{{0}, {1}, {2}, {3}}},
		{"2", "MOD2", [][]int{{0, 1}, {2, 3}}},
		{"0x1", "", [][]int{{0, 2}, {1, 3}}},
	} {
		t.Setenv("NCCL_TESTS_SPLIT_MASK", tt.mask)
		t.Setenv("NCCL_TESTS_SPLIT", tt.split)
		got, err := groupsOf(4)
		require.NoError(t, err)
		require.Equal(t, tt.want, got, "%q %q", tt.mask, tt.split)
	}
}

func TestRefusalsOfGroups(t *testing.T) {
	const form = "want AND, OR, MOD or DIV (or &, |, %, /) and a number, such as MOD2; of NCCL_TESTS_SPLIT_MASK a hexadecimal mask"
	for _, tt := range []struct{ split, line, want string }{
		{"2", "all_reduce", "NCCL_TESTS_SPLIT=2: " + form},
		{"MOD0", "all_reduce", "NCCL_TESTS_SPLIT=MOD0: " + form},
		{"XOR1", "all_reduce", "NCCL_TESTS_SPLIT=XOR1: " + form},
		{"DIV3", "all_reduce", "NCCL_TESTS_SPLIT: groups differ in their number of ranks, and a size has different counts in them: choose another split, or unset it"},
		{"MOD2", "p2p", "NCCL_TESTS_SPLIT: operation p2p is not measured in groups: choose another split, or unset it"},
		{"MOD2", "broadcast -r 2", "-r 2: ranks are 0 to 1, and -1 is all of them"},
	} {
		t.Setenv("NCCL_TESTS_SPLIT", tt.split)
		r, err := ask(t, tt.line)
		require.NoError(t, err)
		_, err = r.Plan(plantest.Shipped().Backend("nccl"), 4)
		require.EqualError(t, err, tt.want)
	}
}

// Each group has a line at each size, with its ranks. One that is slower than the others is marked, also at the end.
func TestRowsOfGroups(t *testing.T) {
	t.Setenv("NCCL_TESTS_SPLIT", "DIV2")
	r, err := ask(t, "all_reduce -b 1K -e 1K")
	require.NoError(t, err)
	_, err = r.Plan(plantest.Shipped().Backend("nccl"), 6)
	require.NoError(t, err)
	var rows []collective.Row
	for i, us := range []float64{8, 10, 8} {
		for _, placement := range []string{vocab.OutOfPlace, vocab.InPlace} {
			row := rowOf(placement, us)
			row.Group = []int{2 * i, 2*i + 1}
			rows = append(rows, row)
		}
	}
	d := document(rows...)
	var out bytes.Buffer
	table := NewTable(&out, &r)
	require.Contains(t, table.head("", 6), "\n# 3 groups of 2 ranks run at once, each with a row (NCCL_TESTS_SPLIT)\n")
	table.Document(d)
	report := NewReport(&r, bench.NewHead("cxrun", nil, time.Time{}, "nccl", 6))
	report.Add(d)
	table.Foot(report)
	var got []string
	for l := range strings.Lines(out.String()) {
		if !strings.HasPrefix(l, "#") {
			got = append(got, strings.Join(strings.Fields(l)[12:], " "))
		}
	}
	require.Equal(t, []string{"0 0,1", "0 2,3 slow: 20 % below the median", "0 4,5"}, got)
	require.Contains(t, out.String(), "#wrong  ranks\n")
	require.Contains(t, out.String(), "# slow: all_reduce float sum: ranks 2,3: 0.102 GB/s with 1024 bytes out_of_place, 20 % below the median\n")
	require.Len(t, report.Slow, 1)

	percent, is := r.View.slow(rows[:4], &rows[2]) // of two groups, too
	require.True(t, is)
	require.InDelta(t, 11.1, percent, 0.1)
}
