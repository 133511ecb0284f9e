package bench

import (
	"fmt"
	"io"
	"strings"

	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/table"
)

// Matrix is the rates of the pairs of a measurement at one size, in JSON and as a table.
type Matrix struct {
	table.Square
	// Median is the median of the pairs; null without any. Slow are the pairs more than a tenth below it, the
	// slowest first.
	Median *float64     `json:"median_gbps"`
	Slow   []table.Slow `json:"slow_pairs"`
}

// NewMatrix returns the matrix of the figures of pairs.
func NewMatrix(s table.Square) Matrix {
	m := Matrix{Square: s, Slow: []table.Slow{}}
	if median := s.Median(); median > 0 {
		m.Median, m.Slow = &median, append(m.Slow, s.Slow(median)...)
	}
	return m
}

// maxSlow is the maximum number of slow pairs that Print names.
const maxSlow = 8

// Print prints a row and a column for each rank, in 80 columns for 8 ranks, and the slow pairs. what names the
// figures; each line begins with #.
func (m *Matrix) Print(w io.Writer, what string) {
	fmt.Fprintf(w, "#\n# GB/s from rank (row) to rank (column), %s, %s\n#     ", Spelled(m.Bytes), what)
	for r := range m.Values {
		fmt.Fprintf(w, " %7d", r)
	}
	fmt.Fprintln(w)
	for r, row := range m.Values {
		var line strings.Builder
		fmt.Fprintf(&line, "# %4d", r)
		for _, v := range row {
			cell := "-"
			if v != nil {
				cell = Rate(*v)
			}
			fmt.Fprintf(&line, " %7s", cell)
		}
		fmt.Fprintln(w, line.String())
	}
	switch n := len(m.Slow); {
	case m.Median == nil:
		fmt.Fprintln(w, "# no pair was measured")
		return
	case n == 0:
		fmt.Fprintf(w, "# median %s GB/s; no pair is more than 10 %% below it\n", Rate(*m.Median))
	default:
		fmt.Fprintf(w, "# median %s GB/s; %s more than 10 %% below it:\n", Rate(*m.Median), plural.Count(n, "pair is", "pairs are"))
	}
	for i := range m.Slow[:min(maxSlow, len(m.Slow))] {
		fmt.Fprintf(w, "#   SLOW %s\n", m.Slow[i].Below(*m.Median))
	}
	if more := len(m.Slow) - maxSlow; more > 0 {
		fmt.Fprintf(w, "#   … and %d more, in the table above\n", more)
	}
}
