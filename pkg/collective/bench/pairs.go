package bench

import (
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	tables "github.com/collectivex/collectivex/pkg/table"
)

// pairs is the matrix of a case of a pairwise operation: the busbw that the columns show.
type pairs struct {
	Case string `json:"case"` // such as p2p float
	bench.Matrix
}

// pair adds the matrix of a case of a pairwise operation.
func (p *Report) pair(d *collective.Document) {
	b := &p.r.Shape
	if !p.r.Op.Pairwise() || len(d.Measurement.Rows) == 0 || b.Sizes[len(b.Sizes)-1] == 0 {
		return
	}
	s := tables.NewSquare(b.Sizes[len(b.Sizes)-1], p.World)
	bothWays := b.Pairs(p.World) < p.World*(p.World-1)
	for i := range d.Measurement.Rows {
		row := &d.Measurement.Rows[i]
		if f, timed := p.r.View.Figures(row); timed && row.Requested == s.Bytes && row.Good() && row.IsOf(p.World) {
			s.Set(*row.Src, *row.Dst, f.BusBW, bothWays)
		}
	}
	p.Matrices = append(p.Matrices, pairs{where(d), bench.NewMatrix(s)})
}
