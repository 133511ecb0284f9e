package chart

import (
	"encoding/xml"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// A long title has several lines.
func TestLongTitle(t *testing.T) {
	require.Equal(t, "a short title", New("a short title").Title.Text)
	title := strings.TrimSpace(strings.Repeat("all_reduce of six ranks ", 9))
	p := New(title)
	lines := strings.Split(p.Title.Text, "\n")
	require.Greater(t, len(lines), 1)
	require.Equal(t, title, strings.Join(lines, " "))
	for _, line := range lines {
		require.Less(t, p.Title.TextStyle.Width(line), Width)
	}
}

// A plot can have one point or none, and texts of any kind; equal plots have equal bytes.
func TestSVG(t *testing.T) {
	for _, points := range []plotter.XYs{nil, {{X: 1, Y: 1}}, {{X: 1, Y: 1}, {X: 64, Y: 9}}} {
		draw := func() string {
			p := New("a < b & c")
			p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, Powers{Bytes: true}
			p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, Decades{}
			AddGrid(p)
			if points != nil {
				line, err := plotter.NewLine(points)
				require.NoError(t, err)
				p.Add(line)
			}
			p.Legend.Add("a legend", Swatch{})
			text, err := SVG(p, Height)
			require.NoError(t, err)
			return string(text)
		}
		text := draw()
		require.Equal(t, text, draw())
		require.NoError(t, xml.Unmarshal([]byte(text), new(struct{ XMLName xml.Name })))
		require.Contains(t, text, ">a &lt; b &amp; c<")
		require.Contains(t, text, ">a legend<")
	}
}
