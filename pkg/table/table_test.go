package table

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// A table that is wider than a terminal has its texts above its figures.
func TestANarrowTable(t *testing.T) {
	tt := Table{
		Columns: append(Text("case", "why"), Figures("rows", "µs")...),
		Rows: [][]string{
			{"all-reduce", "it took longer than it should", "2", "1.5"},
			{"all-reduce", "it took longer than it should", "4", "12.5"},
			{"all-gather", "", "8", "3"},
		},
	}
	require.Equal(t, `  case        why                            rows    µs
  all-reduce  it took longer than it should     2   1.5
  all-reduce  it took longer than it should     4  12.5
  all-gather                                    8     3
`, tt.Text(80))
	require.Equal(t, `  why
    case        rows    µs
  it took longer than it
    should
    all-reduce     2   1.5
    all-reduce     4  12.5
  –
    all-gather     8     3
`, tt.Text(26))
	for line := range strings.Lines(tt.Text(26)) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 26, line)
	}
}

// A table whose figures do not fit has blocks of them, with the columns that identify a row in each.
func TestAWideTable(t *testing.T) {
	s := Section{Keys: 2, Table: &Table{
		Columns: append(Text("SKU", "op"), Figures("lowest µs", "peak GB/s", "at")...),
		Rows:    [][]string{{"h100", "all_reduce", "1.5", "480", "1 GiB"}, {"h100", "p2p", "2.5", "24", "64 MiB"}},
	}}
	s.LiftCommon()
	require.Equal(t, "SKU h100", s.Common)
	require.Equal(t, `  op          lowest µs
  all_reduce        1.5
  p2p               2.5

  op          peak GB/s
  all_reduce        480
  p2p                24

  op              at
  all_reduce   1 GiB
  p2p         64 MiB
`, s.Table.Text(24))
}
