package chart

import (
	"encoding/xml"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// texts returns the lines of text of a chart, in their order.
func texts(t *testing.T, svg []byte) (out []string) {
	t.Helper()
	var root struct {
		Texts []string `xml:"text"`
	}
	require.NoError(t, xml.Unmarshal(svg, &root))
	return root.Texts
}

// A long title has several lines.
func TestLongTitle(t *testing.T) {
	require.Equal(t, []string{"a short title"}, texts(t, New("a short title").SVG(Height)))
	title := strings.TrimSpace(strings.Repeat("all_reduce of six ranks ", 9))
	lines := texts(t, New(title).SVG(Height))
	require.Greater(t, len(lines), 1)
	require.Equal(t, title, strings.Join(lines, " "))
	for _, line := range lines {
		require.Less(t, TextWidth(line, large), Width)
	}
}

// A word that is wider than a line has several lines, and no character is lost.
func TestLongWord(t *testing.T) {
	word := strings.Repeat("Wî<", 90)
	lines := texts(t, New("a "+word+" b").SVG(Height))
	require.Equal(t, "a", lines[0])
	require.Equal(t, word+"b", strings.ReplaceAll(strings.Join(lines[1:], ""), " ", ""))
	for _, line := range lines {
		require.LessOrEqual(t, TextWidth(line, large), inner)
	}
}

// A plot can have one point or none, and texts of any kind; equal plots have equal bytes.
func TestSVG(t *testing.T) {
	for _, points := range [][]Point{nil, {{1, 1}}, {{1, 1}, {64, 9}}} {
		draw := func() []byte {
			p := New("a < b & \"c\"\x00")
			p.X.Log, p.X.Ticks, p.X.Label = true, Powers(true), "bytes\na note"
			p.Y.Log, p.Y.Ticks = true, Decades
			p.AddSeries(Series{Points: points, Line: Style{Stroke: Colours[0]}})
			p.Legend = append(p.Legend, Swatch("a legend", Style{Fill: Colours[0]}))
			return p.SVG(Height)
		}
		svg := draw()
		require.Equal(t, svg, draw())
		all := texts(t, svg)
		require.Equal(t, "a < b & \"c\"\uFFFD", all[0])
		require.Equal(t, []string{"bytes", "a note", "a legend"}, all[len(all)-3:])
		require.NotRegexp(t, `NaN|Inf|"-|[ "M]-0[ "L]`, string(svg), "everything has a place on the canvas")
	}
}

// The ends of the data are inside the axes, on a line through them and below each other.
func TestScales(t *testing.T) {
	p := New("")
	p.X.Log, p.X.Ticks, p.Y.Ticks = true, Powers(false), Even
	p.AddSeries(Series{Points: []Point{{1, 0}, {8, 5}, {64, 10}}, Line: Style{Stroke: "#123456"}})
	line := regexp.MustCompile(`<path d="M(.*)L(.*)L(.*)" fill="none" stroke="#123456"`).FindStringSubmatch(string(p.SVG(100)))
	require.NotNil(t, line)
	at := func(i int) (out Point) {
		_, err := fmt.Sscan(line[i], &out.X, &out.Y)
		require.NoError(t, err)
		return out
	}
	first, middle, last := at(1), at(2), at(3)
	require.InDelta(t, 100, first.Y-last.Y, 0.02)
	require.InDelta(t, (first.X+last.X)/2, middle.X, 0.02)
	require.InDelta(t, (first.Y+last.Y)/2, middle.Y, 0.02)
	require.Less(t, last.X, Width)
}

// Every text is on the canvas, and the labels of the vertical axis are beside it.
func TestLabelsHaveRoom(t *testing.T) {
	p := New("title")
	p.X.Log, p.X.Ticks, p.Y.Ticks, p.Y.Label = true, Powers(false), Even, "seconds"
	p.X.Label = strings.Repeat("label ", 25)
	p.AddSeries(Series{Points: []Point{{1, 1e9}, {1 << 27, 2e9}}, Line: Style{Stroke: "#123456"}})
	svg := string(p.SVG(100))
	start := regexp.MustCompile(`<path d="M(.*?) .*" stroke="#123456"`).FindStringSubmatch(svg)
	axis, err := strconv.ParseFloat(start[1], 64)
	require.NoError(t, err)
	right := regexp.MustCompile(`L(\S+) \S+" fill="none" stroke="`+ink).FindAllStringSubmatch(svg, -1)
	end, err := strconv.ParseFloat(right[len(right)-1][1], 64)
	require.NoError(t, err)
	below := regexp.MustCompile(`<text x="(.*?)" .*?>(label .*?)<`).FindAllStringSubmatch(svg, -1)
	require.Greater(t, len(below), 1)
	for _, m := range below {
		x, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		require.LessOrEqual(t, x+TextWidth(m[2], large)/2, end)
	}
	all := regexp.MustCompile(`<text x="(.*?)" y=".*?" text-anchor="(.*?)" font-size="13" .*?>(.*?)<`).FindAllStringSubmatch(svg, -1)
	require.Greater(t, len(all), 8)
	for _, m := range all {
		x, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		width := TextWidth(m[3], Small)
		if m[2] == "end" {
			require.Greater(t, x-width, large+margin, "beside the label of the axis")
			require.Less(t, x, axis)
		} else {
			require.LessOrEqual(t, x+width/2, Width, m[3])
		}
	}
}

// An axis that cannot show a value has a default range.
func TestValuesWithoutPlace(t *testing.T) {
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		drawn := func(points ...Point) string {
			p := New("")
			p.X.Log, p.X.Ticks = true, Decades
			p.AddSeries(Series{Points: points, Line: Style{Stroke: Colours[0]}})
			return string(p.SVG(Height))
		}
		require.Equal(t, []string{"1", "2", "5", "10"}, texts(t, []byte(drawn(Point{v, 1}))))
		require.Equal(t, drawn(Point{20, 1}, Point{50, 3}), drawn(Point{20, 1}, Point{v, 2}, Point{50, 3}))
	}
}

// A diagram has one scale in both directions.
func TestDiagram(t *testing.T) {
	p := New("")
	var got []Point
	p.Add(func(c *Canvas) { got = []Point{c.At(0, 0), c.At(3, 2)} })
	p.Diagram(3, 2, 50)
	require.InDelta(t, 150, got[1].X-got[0].X, 1e-9)
	require.InDelta(t, 100, got[0].Y-got[1].Y, 1e-9)
	require.InDelta(t, Width, got[0].X+got[1].X, 1e-9, "in the middle")
}

// Entries of a legend share a line if they have room, and a long one has several lines.
func TestLegend(t *testing.T) {
	places := func(labels ...string) (out [][]string) {
		p := New("")
		for _, label := range labels {
			p.Legend = append(p.Legend, Series{Label: label})
		}
		for _, m := range regexp.MustCompile(`<text x="(.*?)" y="(.*?)"`).FindAllStringSubmatch(string(p.SVG(10)), -1) {
			out = append(out, m[1:])
		}
		return out
	}
	short := places("a", "b", "c")
	require.Len(t, short, 3)
	require.Equal(t, short[0][1], short[2][1])
	require.NotEqual(t, short[0][0], short[2][0])
	long := places(strings.Repeat("words ", 20), "b")
	require.Len(t, long, 3)
	require.NotEqual(t, long[0][1], long[1][1])
	require.NotEqual(t, long[1][1], long[2][1])
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", -0.001: "0", 1.005e2: "100.5", 2.0 / 3: "0.67", -12.5: "-12.5", 1e7: "10000000"} {
		require.Equal(t, want, number(v))
	}
	require.Equal(t, "0", number(math.Copysign(0, -1)))
}
