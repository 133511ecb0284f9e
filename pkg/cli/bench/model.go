package bench

import (
	"fmt"
	"math"

	"github.com/collectivex/collectivex/pkg/fit"
	"github.com/collectivex/collectivex/pkg/foreign"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
)

// MachineModel returns the model of the machine that a measurement of p2p gives: the median
// time of a message for each ordered pair of ranks and size. Classes of sizes are the
// segments of package fit; times are whole picoseconds. A rank sends one message at a time.
func MachineModel(backend string, d *result.CollectiveDocument) (*simulate.Model, error) {
	m := &d.Measurement
	out := &simulate.Model{
		Origin: fmt.Sprintf("measured: p2p of %s between single pairs, buffers %s, backend %s, %s",
			m.DType, d.Identity.Case.Collective().Buffers, backend, foreign.Line(d.Topology.DeviceProduct)),
		Sharing: string(simulate.Unloaded), Engines: 1,
	}
	type pair struct{ src, dst int }
	points := map[pair][]fit.Point{}
	var pairs []pair // in the order of the rows
	for i := range m.Rows {
		r := &m.Rows[i]
		if r.Src == nil || r.Dst == nil || r.Pipelined == nil || !r.Check.Passed {
			return nil, fmt.Errorf("row of %d bytes without a pair, a time or a passed check", r.Bytes)
		}
		at := pair{*r.Src, *r.Dst}
		if points[at] == nil {
			pairs = append(pairs, at)
		}
		points[at] = append(points[at], fit.Point{Bytes: float64(r.Bytes), Us: r.Pipelined.Percentiles.P50})
	}
	for _, at := range pairs {
		fitted := fit.Fit(points[at])
		if fitted.Why != "" {
			return nil, fmt.Errorf("rank %d to rank %d: %s", at.src, at.dst, fitted.Why)
		}
		p := simulate.Pair{Src: at.src, Dst: at.dst}
		for _, s := range fitted.Segments {
			var c simulate.Class
			for _, x := range points[at] {
				if x.Bytes >= s.FirstBytes && x.Bytes <= s.LastBytes {
					c.Points = append(c.Points, simulate.Point{Bytes: int64(x.Bytes), Nanoseconds: math.Round(1e6*x.Us) / 1e3})
				}
			}
			p.Classes = append(p.Classes, c)
		}
		out.Pairs = append(out.Pairs, p)
	}
	return out, nil
}
