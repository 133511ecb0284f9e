package simulate

import (
	"bufio"
	"cmp"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// The layout of a diagram, in pixels.
const (
	diagramTop  = 40
	diagramStep = 90 // from a rank to its neighbour in a grid, and on a circle
	diagramNode = 16 // radius
	diagramHub  = 28 // radius of a switch or network, which has a word in it
	diagramChar = 8  // about the width of a letter of the title
)

// diagramRanks bounds a diagram, which nobody can read beyond it.
const diagramRanks = 128

// WriteSVG draws the ranks and the links between them: a torus, a mesh and hosts as rows, any other
// on a circle. The name of the topology follows the title, unless that has it. A line is a link each way. In rows, links between ranks that are not neighbours are arcs.
func (t Topology) WriteSVG(out io.Writer, title string) error {
	if t.Ranks > diagramRanks {
		return fmt.Errorf("%d ranks, a diagram has at most %d", t.Ranks, diagramRanks)
	}
	lines := t.lines()
	at, width, height := t.places()
	hub := "switch"
	switch {
	case t.network > 0: // beside the hosts
		hub = "network"
		at = append(at, [2]float64{width + diagramStep/2, (diagramTop + height) / 2})
		width += diagramStep
	case slices.ContainsFunc(lines, func(l [2]int32) bool { return int(l[1]) == t.Ranks }):
		at = append(at, [2]float64{width / 2, (diagramTop + height) / 2})
	}
	if !strings.Contains(strings.ToLower(title), t.Name) {
		title += ": " + t.Name
	}
	width = max(width, diagramChar*float64(2+utf8.RuneCountInString(title)))
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" font-size=\"12\">\n", width, height)
	fmt.Fprintf(w, "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n<text x=\"8\" y=\"20\" font-size=\"14\">%s</text>\n", html.EscapeString(title))
	for _, l := range lines {
		a, b := at[l[0]], at[l[1]]
		bend := 0.0
		if t.wide > 0 && math.Hypot(b[0]-a[0], b[1]-a[1]) > diagramStep {
			bend = diagramStep / 2
		}
		mx, my := (a[0]+b[0])/2, (a[1]+b[1])/2
		if a[1] == b[1] {
			my -= bend
		} else {
			mx -= bend
		}
		fmt.Fprintf(w, "<path d=\"M%.1f %.1fQ%.1f %.1f %.1f %.1f\" fill=\"none\" stroke=\"#888888\"/>\n", a[0], a[1], mx, my, b[0], b[1])
	}
	for node, p := range at {
		label, radius := fmt.Sprint(node), diagramNode
		if node == t.Ranks {
			label, radius = hub, diagramHub
		}
		fmt.Fprintf(w, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"#dce6f2\" stroke=\"#3b6fb6\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
			p[0], p[1], radius, p[0], p[1]+4, label)
	}
	fmt.Fprintln(w, "</svg>")
	return w.Flush()
}

// places returns where the ranks are, and the size of the diagram.
func (t Topology) places() (at [][2]float64, width, height float64) {
	if t.wide > 0 {
		for r := range t.Ranks {
			at = append(at, [2]float64{float64(r%t.wide+1) * diagramStep, diagramTop + float64(r/t.wide+1)*diagramStep})
		}
		return at, float64(t.wide+1) * diagramStep, diagramTop + float64(t.Ranks/t.wide+1)*diagramStep
	}
	radius := max(diagramStep, diagramStep*float64(t.Ranks)/(2*math.Pi))
	middle := radius + diagramStep/2
	for r := range t.Ranks {
		sin, cos := math.Sincos(2 * math.Pi * float64(r) / float64(t.Ranks))
		at = append(at, [2]float64{middle + radius*sin, diagramTop + middle - radius*cos})
	}
	return at, 2 * middle, diagramTop + 2*middle
}

// lines lists the pairs of nodes that a link connects on the way of any message, each once, in
// ascending order.
func (t Topology) lines() [][2]int32 {
	seen := map[[2]int32]bool{}
	var lines [][2]int32
	for from := range int32(t.Ranks) {
		for to := range int32(t.Ranks) {
			for node := from; node != to; {
				_, next := t.next(node, to)
				if l := [2]int32{min(node, next), max(node, next)}; !seen[l] {
					seen[l] = true
					lines = append(lines, l)
				}
				node = next
			}
		}
	}
	slices.SortFunc(lines, func(a, b [2]int32) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	return lines
}
