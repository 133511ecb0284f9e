package bench

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/benchtest"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	tables "github.com/collectivex/collectivex/pkg/table"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// A p2p ends with a table ranks x ranks of the largest size, which names the slow pair. A pair that failed its check, or
// that was not measured, is a dash.
func TestMatrixOfPairs(t *testing.T) {
	const world = 8
	r, err := ask(t, "p2p -b 1K -e 1K")
	require.NoError(t, err)
	var rows []collective.Row
	for src := range world {
		for dst := range world {
			row := rowOf(vocab.OutOfPlace, 8)
			if row.Src, row.Dst = &src, &dst; src == 2 && dst == 5 {
				row = rowOf(vocab.OutOfPlace, 16)
				row.Src, row.Dst = &src, &dst
			}
			if row.Check.Passed = src != 6 || dst != 7; src != dst {
				rows = append(rows, row)
			}
		}
	}
	p := NewReport(&r, bench.Head{World: world})
	d := document(rows...)
	p.Add(d)
	require.Len(t, p.Matrices, 1)
	m := p.Matrices[0]
	require.Equal(t, []tables.Slow{{Src: 2, Dst: 5, GBps: *m.Values[2][5]}}, m.Slow)
	require.Nil(t, m.Values[6][7])
	require.NotNil(t, m.Values[7][6])
	var out bytes.Buffer
	m.Print(&out, m.Case)
	benchtest.Fits(t, out.String())
	out.Reset()
	p.Foot(&out)
	require.Contains(t, out.String(), "# GB/s from rank (row) to rank (column), 1K, all_reduce float sum\n")
	require.Contains(t, out.String(), "#   SLOW rank 2 to 5: ")
	require.Contains(t, out.String(), "50 % below the median\n")
}
