package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// totals are figures over all cases, which the foot of the table has.
type totals struct {
	rows       int
	repeated   int // rows whose results were compared
	differ     int // of them, with results that differ
	named      int // rows whose algorithm the library reported
	symmetric  int // of them, with a kernel for symmetric windows
	algorithms []string
	memory     *collective.Memory // each the maximum over cases
}

// add adds a case.
func (t *totals) add(m *collective.Measurement) {
	for i := range m.Rows {
		row := &m.Rows[i]
		t.rows++
		if v := row.Repeatable; v != nil && v.Compared > 0 {
			t.repeated++
			t.differ += min(1, int(v.Elements))
		}
		if row.Algorithm == "" {
			continue
		}
		if t.named++; strings.HasPrefix(row.Algorithm, "symk_") {
			t.symmetric++
		}
		if !slices.Contains(t.algorithms, row.Algorithm) {
			t.algorithms = append(t.algorithms, row.Algorithm)
		}
	}
	switch a := t.memory; {
	case a == nil:
		t.memory = m.Memory
	case m.Memory != nil:
		t.memory = &collective.Memory{
			Communicators: max(a.Communicators, m.Memory.Communicators), Buffers: max(a.Buffers, m.Memory.Buffers),
			Operations: max(a.Operations, m.Memory.Operations),
		}
	}
}

// print prints what a request asks for: how many results differ between operations on one input, in how many rows the library used
// its kernels for symmetric windows, and the device memory.
func (t *totals) show(w io.Writer, r *Request) {
	line := func(title, format string, args ...any) {
		fmt.Fprintf(w, "# %-20s : %s\n", title, fmt.Sprintf(format, args...))
	}
	switch n := r.Shape.Measure.Repeatable; {
	case n > 0 && t.repeated == 0:
		line("Repeatable", "N/A, no results were compared")
	case n > 0:
		line("Repeatable", "%d operations on one input, results differ in %d of %s", n, t.differ, plural.Count(t.repeated, "row", "rows"))
	}
	switch {
	case r.Shape.Registration != vocab.SymmetricWindow || r.device != "":
	case t.named == 0:
		line("Symmetric kernels", "unknown, since the library reported no algorithm")
	default:
		line("Symmetric kernels", "in %d of %s (used: %s)", t.symmetric, plural.Count(t.rows, "row", "rows"), strings.Join(t.algorithms, ", "))
	}
	switch m := t.memory; {
	case !r.View.Memory:
	case m == nil:
		line("GPU memory usage", "N/A")
	default:
		line("GPU memory usage", "Initialization %s | User-Allocated %s | Collective %s | Total  %s", binary(m.Communicators), binary(m.Buffers),
			binary(m.Operations), binary(m.Communicators+m.Buffers+m.Operations))
	}
}

// binary formats bytes with three digits and nccl-tests' units, which are powers of 1024.
func binary(bytes int64) string {
	v, unit := float64(bytes), 0
	for ; math.Abs(v) >= 1024 && unit < 3; unit++ {
		v /= 1024
	}
	decimals := 0
	switch {
	case math.Abs(v) < 10:
		decimals = 2
	case math.Abs(v) < 100:
		decimals = 1
	}
	return fmt.Sprintf("%.*f %s", decimals, v, []string{"B", "KB", "MB", "GB"}[unit])
}
