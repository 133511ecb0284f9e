package drawing

import (
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

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
	p.HideAxes()
	at, width, height := places(&t)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, width, 0, height
	unit := min(2.5*vg.Centimeter, 0.95*chart.Width/vg.Length(width))
	if room := 0.95 * chart.Width / unit; room > vg.Length(width) { // keep both axes to one scale
		p.X.Min, p.X.Max = (width-float64(room))/2, (width+float64(room))/2
	}
	for _, l := range t.Lines() {
		p.Add(&plotter.Line{XYs: link(at[l[0]], at[l[1]], t.Columns() > 0), LineStyle: draw.LineStyle{Color: color.Gray{0x88}, Width: vg.Points(0.8)}})
	}
	for node, place := range at {
		label, radius := fmt.Sprint(node), min(vg.Points(11), 0.3*unit)
		if node == t.Ranks { // a switch or network needs room for its name
			label, radius = "switch", 2*radius
			if t.Networked() {
				label = "network"
			}
		}
		mark := func(shape draw.GlyphDrawer, fill color.Color) {
			p.Add(&plotter.Scatter{XYs: plotter.XYs{place}, GlyphStyle: draw.GlyphStyle{Color: fill, Radius: radius, Shape: shape}})
		}
		mark(draw.CircleGlyph{}, color.RGBA{0xdc, 0xe6, 0xf2, 0xff})
		mark(draw.RingGlyph{}, color.RGBA{0x3b, 0x6f, 0xb6, 0xff})
		words := p.Legend.TextStyle
		words.XAlign, words.YAlign, words.Font.Size = draw.XCenter, draw.YCenter, min(vg.Points(12), 1.4*radius)
		p.Add(&plotter.Labels{XYs: plotter.XYs{place}, Labels: []string{label}, TextStyle: []draw.TextStyle{words}})
	}
	return chart.SVG(p, vg.Length(height)*unit+1.5*vg.Centimeter)
}

// places returns the positions of the nodes and the size of the diagram. Neighbours in a row are 1 apart.
func places(t *simulate.Topology) (at plotter.XYs, width, height float64) {
	if columns := t.Columns(); columns > 0 {
		width, height = float64(columns), float64(t.Ranks/columns)
		for r := range t.Ranks {
			at = append(at, plotter.XY{X: float64(r%columns) + 0.5, Y: height - float64(r/columns) - 0.5})
		}
	} else {
		radius := max(1, float64(t.Ranks)/(2*math.Pi))
		width, height = 2*radius+1, 2*radius+1
		for r := range t.Ranks {
			sin, cos := math.Sincos(2 * math.Pi * float64(r) / float64(t.Ranks))
			at = append(at, plotter.XY{X: width/2 + radius*sin, Y: height/2 + radius*cos})
		}
	}
	switch {
	case t.Networked(): // beside the hosts
		at, width = append(at, plotter.XY{X: width + 0.5, Y: height / 2}), width+1
	case t.Switched():
		at = append(at, plotter.XY{X: width / 2, Y: height / 2})
	}
	return at, width, height
}

// link returns the points of the line between two nodes: straight or, in rows, an arc around the nodes
// between them.
func link(a, b plotter.XY, rows bool) (line plotter.XYs) {
	const points = 16
	bend := plotter.XY{}
	switch far := math.Hypot(b.X-a.X, b.Y-a.Y) > 1; {
	case !rows || !far:
		return plotter.XYs{a, b}
	case a.Y == b.Y:
		bend.Y = 0.25
	default:
		bend.X = -0.25
	}
	for i := range points + 1 {
		part := float64(i) / points
		out := 4 * part * (1 - part)
		line = append(line, plotter.XY{X: a.X + (b.X-a.X)*part + out*bend.X, Y: a.Y + (b.Y-a.Y)*part + out*bend.Y})
	}
	return line
}
