package drawing

import (
	"fmt"
	"math"
	"strings"

	"github.com/collectivex/collectivex/pkg/chart"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
)

// maxRanks is the maximum number of ranks in a diagram that can still be read.
const maxRanks = 128

// Topology draws the ranks and the links between them as SVG: a torus, a mesh or hosts in rows, any other
// topology on a circle. A line stands for a link in each direction. In rows, links between ranks that are
// not neighbours are arcs. The name of the topology is added to the title unless the title has it. Topology
// fails if there are too many ranks.
func Topology(t simulate.Topology, title string) ([]byte, error) {
	if t.Ranks > maxRanks {
		return nil, fmt.Errorf("%d ranks, a diagram has at most %d", t.Ranks, maxRanks)
	}
	if !strings.Contains(strings.ToLower(title), t.Name) {
		title += ": " + t.Name
	}
	p := chart.New(title)
	at, width, height := places(&t)
	unit := min(95, 0.95*chart.Width/width)
	p.Add(func(c *chart.Canvas) {
		for _, l := range t.Lines() {
			from, to := at[l[0]], at[l[1]]
			via := bend(from, to, t.Columns() > 0)
			c.Curve(c.At(from.X, from.Y), c.At(via.X, via.Y), c.At(to.X, to.Y), chart.Style{Stroke: "#888888"})
		}
		for node, place := range at {
			label, radius, centre := fmt.Sprint(node), min(15, 0.3*unit), c.At(place.X, place.Y)
			if node == t.Ranks { // a switch or network needs room for its name
				label, radius = "switch", 2*radius
				if t.Networked() {
					label = "network"
				}
			}
			c.Circle(centre, radius, chart.Style{Fill: "#dce6f2", Stroke: "#3b6fb6"})
			c.Text(centre, "middle", min(14, 1.4*radius, 1.9*radius/chart.TextWidth(label, 1)), "#000000", label)
		}
	})
	return p.Diagram(width, height, unit), nil
}

// places returns the positions of the nodes and the size of the diagram. Neighbours in a row are 1 apart.
func places(t *simulate.Topology) (at []chart.Point, width, height float64) {
	if columns := t.Columns(); columns > 0 {
		width, height = float64(columns), float64(t.Ranks/columns)
		for r := range t.Ranks {
			at = append(at, chart.Point{X: float64(r%columns) + 0.5, Y: height - float64(r/columns) - 0.5})
		}
	} else {
		radius := max(1, float64(t.Ranks)/(2*math.Pi))
		width, height = 2*radius+1, 2*radius+1
		for r := range t.Ranks {
			sin, cos := math.Sincos(2 * math.Pi * float64(r) / float64(t.Ranks))
			at = append(at, chart.Point{X: width/2 + radius*sin, Y: height/2 + radius*cos})
		}
	}
	switch {
	case t.Networked(): // beside the hosts
		at, width = append(at, chart.Point{X: width + 0.5, Y: height / 2}), width+1
	case t.Switched():
		at = append(at, chart.Point{X: width / 2, Y: height / 2})
	}
	return at, width, height
}

// bend returns the point towards which a line between two nodes starts: between them or, in rows, beside
// the nodes between them.
func bend(a, b chart.Point, rows bool) chart.Point {
	via := chart.Point{X: (a.X + b.X) / 2, Y: (a.Y + b.Y) / 2}
	switch far := math.Hypot(b.X-a.X, b.Y-a.Y) > 1; {
	case !rows || !far:
	case a.Y == b.Y:
		via.Y += 0.5
	default:
		via.X -= 0.5
	}
	return via
}
