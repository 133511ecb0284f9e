package drawing

import (
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/collectivex/collectivex/pkg/chart"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
)

// mostRanks bounds a drawing of a topology, which nobody can read beyond it.
const mostRanks = 128

// Radii of nodes, where neighbours in a grid are 1 apart. A switch or network has a word in it.
const (
	nodeRadius = 0.18
	hubRadius  = 0.34
)

var (
	linkColor = color.Gray{0x88}
	nodeColor = color.RGBA{0xdc, 0xe6, 0xf2, 0xff}
	edgeColor = color.RGBA{0x3b, 0x6f, 0xb6, 0xff}
)

// Topology draws the ranks and the links between them as SVG: a torus, a mesh and hosts as rows, any
// other on a circle. The name of the topology follows the title, unless that has it. A line is a link
// each way. In rows, links between ranks that are not neighbours are arcs.
func Topology(t simulate.Topology, title string) ([]byte, error) {
	if t.Ranks > mostRanks {
		return nil, fmt.Errorf("%d ranks, a diagram has at most %d", t.Ranks, mostRanks)
	}
	if !strings.Contains(strings.ToLower(title), t.Name) {
		title += ": " + t.Name
	}
	p := chart.New(title)
	p.HideAxes()
	n := &network{Topology: t, columns: t.Columns()}
	n.place()
	p.Add(n)
	unit := min(2.5*vg.Centimeter, 0.95*chart.Width/vg.Length(n.width))
	return chart.SVG(p, vg.Length(n.height)*unit+1.5*vg.Centimeter)
}

// network is a plot of a topology.
type network struct {
	simulate.Topology
	columns       int // of rows; 0: on a circle
	hub           string
	at            [][2]float64 // by node, x to the right and y downward
	width, height float64
}

// place places the ranks, and what joins them, if there is a node for that.
func (n *network) place() {
	switch {
	case n.columns > 0:
		for r := range n.Ranks {
			n.at = append(n.at, [2]float64{float64(r%n.columns) + 0.5, float64(r/n.columns) + 0.5})
		}
		n.width, n.height = float64(n.columns), float64(n.Ranks/n.columns)
	default:
		radius := max(1, float64(n.Ranks)/(2*math.Pi))
		for r := range n.Ranks {
			sin, cos := math.Sincos(2 * math.Pi * float64(r) / float64(n.Ranks))
			n.at = append(n.at, [2]float64{radius + 0.5 + radius*sin, radius + 0.5 - radius*cos})
		}
		n.width, n.height = 2*radius+1, 2*radius+1
	}
	switch {
	case n.Networked(): // beside the hosts
		n.hub, n.at, n.width = "network", append(n.at, [2]float64{n.width + 0.5, n.height / 2}), n.width+1
	case n.Switched():
		n.hub, n.at = "switch", append(n.at, [2]float64{n.width / 2, n.height / 2})
	}
}

// Plot implements plot.Plotter.
func (n *network) Plot(c draw.Canvas, p *plot.Plot) {
	size := c.Size()
	unit := min(size.X/vg.Length(n.width), size.Y/vg.Length(n.height))
	left := (c.Min.X + c.Max.X - vg.Length(n.width)*unit) / 2
	at := func(x, y float64) vg.Point {
		return vg.Point{X: left + vg.Length(x)*unit, Y: c.Max.Y - vg.Length(y)*unit}
	}
	c.SetLineStyle(draw.LineStyle{Color: linkColor, Width: vg.Points(0.8)})
	for _, l := range n.Lines() {
		a, b := n.at[l[0]], n.at[l[1]]
		bend := 0.0
		if n.columns > 0 && math.Hypot(b[0]-a[0], b[1]-a[1]) > 1 {
			bend = 0.5
		}
		x, y := (a[0]+b[0])/2, (a[1]+b[1])/2
		if a[1] == b[1] {
			y -= bend
		} else {
			x -= bend
		}
		var path vg.Path
		path.Move(at(a[0], a[1]))
		path.QuadTo(at(x, y), at(b[0], b[1]))
		c.Stroke(path)
	}
	words := text.Style{Font: p.Legend.TextStyle.Font, XAlign: draw.XCenter, YAlign: draw.YCenter, Handler: plot.DefaultTextHandler}
	for node, place := range n.at {
		label, radius := fmt.Sprint(node), vg.Length(nodeRadius)*unit
		if node == n.Ranks {
			label, radius = n.hub, vg.Length(hubRadius)*unit
		}
		var circle vg.Path
		middle := at(place[0], place[1])
		circle.Move(vg.Point{X: middle.X + radius, Y: middle.Y})
		circle.Arc(middle, radius, 0, 2*math.Pi)
		c.SetColor(nodeColor)
		c.Fill(circle)
		c.SetLineStyle(draw.LineStyle{Color: edgeColor, Width: vg.Points(0.8)})
		c.Stroke(circle)
		words.Font.Size = min(vg.Points(12), 1.5*radius*words.Font.Size/max(1, words.Width(label)))
		c.FillText(words, middle, label)
	}
}
