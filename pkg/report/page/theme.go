package page

import (
	"hash/fnv"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// theme is the colours of the page on a light or a dark background.
type theme struct {
	Name   string   `json:"name"`
	Ground string   `json:"ground"`
	Panel  string   `json:"panel"`
	Ink    string   `json:"ink"`
	Muted  string   `json:"muted"`
	Grid   string   `json:"grid"`
	Warn   string   `json:"warn"`
	Series []string `json:"series"`
	// Heat holds the colours at the ends of the scale of a heat map, low and high.
	Heat [2]string `json:"heat"`
}

// themes are the only place with colours. Series have the colours of Okabe and Ito that have a contrast of
// 3:1 to the background, ordered so that neighbours differ most.
var themes = []theme{
	{
		Name: "light", Ground: "#ffffff", Panel: "#f4f5f7", Ink: "#1b1f24", Muted: "#636c76", Grid: "#d8dee4", Warn: "#fff3cd",
		Series: []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000"}, Heat: [2]string{"#f1f6fb", "#00507d"},
	},
	{
		Name: "dark", Ground: "#121212", Panel: "#1e2126", Ink: "#e6e8eb", Muted: "#9aa4af", Grid: "#343a42", Warn: "#4d3f10",
		Series: []string{"#0f82c4", "#e36a10", "#009e73", "#cc79a7", "#f0f0f0"}, Heat: [2]string{"#17212b", "#6cc5f7"},
	},
}

// marker is a closed shape: an SVG path from a first point, X and Y from its centre.
type marker struct {
	X    float64 `json:"x"`
	Y    float64 `json:"y"`
	Path string  `json:"path"`
}

var markers = []marker{
	{-4, 0, "a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z"},    // circle
	{-3.5, -3.5, "h7v7h-7z"},                     // square
	{0, -4.8, "l4.4 8h-8.8z"},                    // triangle
	{0, -5, "l5 5l-5 5l-5 -5z"},                  // diamond
	{0, 4.8, "l4.4 -8h-8.8z"},                    // triangle, point down
	{-1.5, -4.5, "h3v3h3v3h-3v3h-3v-3h-3v-3h3z"}, // cross
}

// glyphs are the same shapes in figure files.
var glyphs = []draw.GlyphDrawer{
	draw.CircleGlyph{},
	draw.BoxGlyph{},
	draw.PyramidGlyph{},
	polygon{{X: 0, Y: 1.3}, {X: 1.3, Y: 0}, {X: 0, Y: -1.3}, {X: -1.3, Y: 0}},
	polygon{{X: 0, Y: -1.2}, {X: 1.1, Y: 0.8}, {X: -1.1, Y: 0.8}},
	polygon{
		{X: -0.4, Y: 1.2},
		{X: 0.4, Y: 1.2},
		{X: 0.4, Y: 0.4},
		{X: 1.2, Y: 0.4},
		{X: 1.2, Y: -0.4},
		{X: 0.4, Y: -0.4},
		{X: 0.4, Y: -1.2},
		{X: -0.4, Y: -1.2},
		{X: -0.4, Y: -0.4},
		{X: -1.2, Y: -0.4},
		{X: -1.2, Y: 0.4},
		{X: -0.4, Y: 0.4},
	},
}

// polygon is a shape around its centre, in radii.
type polygon []vg.Point

func (p polygon) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	corners := make([]vg.Point, len(p))
	for i := range p {
		corners[i] = at.Add(p[i].Scale(style.Radius))
	}
	c.FillPolygon(style.Color, corners)
}

// dashes distinguish runs: SVG's stroke-dasharray.
var dashes = [][]vg.Length{{}, {7, 3}, {2, 3}, {9, 3, 2, 3}, {4, 2}, {12, 4}}

// assignLooks assigns each identity a colour and a marker: Look is round·colours+colour, and the marker has index
// round+colour, so that different colours have different markers. The colour follows from a digest of the
// identity, so that it is the same on other pages, unless another colour is used less on this one.
func (v *view) assignLooks() {
	names := slices.Clone(v.looks)
	slices.Sort(names)
	names = slices.Compact(names)
	used := make([]int, len(themes[0].Series))
	looks := map[string]int{}
	for _, name := range names {
		h := fnv.New32a()
		h.Write([]byte(name))
		best := int(h.Sum32() % uint32(len(used)))
		for i := range used {
			if k := (best + i) % len(used); used[k] < used[best] {
				best = k
			}
		}
		looks[name] = used[best]*len(used) + best
		used[best]++
	}
	for i := range v.Series {
		v.Series[i].Look = looks[v.looks[i]]
	}
}
