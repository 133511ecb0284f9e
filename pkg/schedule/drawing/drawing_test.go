package drawing

import (
	"encoding/xml"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
)

// A topology has a circle for each node, and a line for each two that a link connects.
func TestTopology(t *testing.T) {
	for _, tt := range []struct {
		topology     simulate.Topology
		nodes, lines int
	}{
		{simulate.Full(4), 4, 6},
		{simulate.Switch(4), 5, 4},
		{simulate.Ring(6), 6, 6},
		{simulate.Mesh(3, 2), 6, 7},
		{simulate.Torus(3, 2), 6, 9},
		{simulate.Torus(4, 4), 16, 32},
		{simulate.Hosts(4, 2), 9, 20},
	} {
		text, err := Topology(tt.topology, "a < b")
		require.NoError(t, err)
		drawing := string(text)
		require.NoError(t, xml.Unmarshal(text, new(struct{ XMLName xml.Name })))
		require.Len(t, tt.topology.Lines(), tt.lines)
		require.Equal(t, tt.lines, strings.Count(drawing, `stroke="#888888"`), tt.topology.Name)
		require.Equal(t, tt.nodes, strings.Count(drawing, `fill="#dce6f2"`), tt.topology.Name)
	}
	for title, want := range map[string]string{"six ranks of a switch": ">six ranks of a switch<", "six ranks": ">six ranks: switch<"} {
		text, err := Topology(simulate.Switch(6), title)
		require.NoError(t, err)
		require.Contains(t, string(text), want)
	}
	_, err := Topology(simulate.Ring(200), "")
	require.EqualError(t, err, "200 ranks, a diagram has at most 128")
}

// The links around a row of a torus are arcs, the others are straight.
func TestArcs(t *testing.T) {
	text, err := Topology(simulate.Torus(3, 2), "")
	require.NoError(t, err)
	arcs := 0
	for _, m := range regexp.MustCompile(`d="M\S+ (\S+)Q\S+ (\S+) \S+ (\S+)"`).FindAllStringSubmatch(string(text), -1) {
		if m[1] == m[3] && m[2] != m[1] {
			arcs++
		}
	}
	require.Equal(t, 2, arcs)
}

func timeline(t *testing.T, name string, ranks int) *simulate.Timeline {
	t.Helper()
	p, err := schedule.Generate(name, schedule.AllReduce, schedule.Shape{Ranks: ranks, Segments: 2})
	require.NoError(t, err)
	m := simulate.Machine{Topology: simulate.Full(ranks), Sharing: simulate.Unloaded, Latency: simulate.Microsecond, PerByte: 20, ReduceByte: 1, Engines: 1}
	r, err := simulate.Trace(t.Context(), p, m, 1<<20, 1)
	require.NoError(t, err)
	return r
}

// A timeline is valid XML, the same every time, has each op of the program in words, and above all of
// them a border for each step of the critical path.
func TestTimeline(t *testing.T) {
	for _, name := range []string{"ring", "bidirectional", "double_tree"} {
		r := timeline(t, name, 4)
		draw := func() string {
			text, err := Timeline(r, "a < b", "c & d", "µs", simulate.Microsecond)
			require.NoError(t, err)
			return string(text)
		}
		drawing := draw()
		require.Equal(t, drawing, draw())
		require.NoError(t, xml.Unmarshal([]byte(drawing), new(struct{ XMLName xml.Name })))
		ops := 0
		for _, list := range r.Program.Ops {
			ops += len(list)
		}
		require.Equal(t, ops, strings.Count(drawing, ">op "))
		require.Contains(t, drawing, ">op 0: "+r.Program.Ops[0][0].String()+"<")
		above := drawing[strings.LastIndex(drawing, ">op "):]
		require.Len(t, r.CriticalPath().Steps, strings.Count(above, `<rect`))
		require.Equal(t, strings.Count(above, `<rect`), strings.Count(above, `fill="none" stroke="#000000"`)-1, "borders of the steps, and the legend")
		for _, text := range []string{">a &lt; b<", ">c &amp; d<", ">µs<", ">receive and add<", ">critical path<"} {
			require.Contains(t, drawing, text)
		}
		require.NotContains(t, drawing, "recv")
		if name == "ring" { // 38.2 µs
			for _, tick := range []string{"0", "5", "10", "35"} {
				require.Contains(t, drawing, ">"+tick+"<")
			}
		}
	}
	_, err := Timeline(timeline(t, "ring", 128), "", "", "", 1)
	require.EqualError(t, err, "65024 ops, a drawing has at most 20000: use fewer ranks")
}

// The description of an op has a contrast of 4.5:1 to its colour, as WCAG asks.
func TestContrast(t *testing.T) {
	luminance := func(colour string) (sum float64) {
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			v, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
			require.NoError(t, err)
			sum += weight * math.Pow((float64(v)/255+0.055)/1.055, 2.4)
		}
		return sum
	}
	for _, kind := range kinds {
		if kind.fill != "" {
			a, b := luminance(kind.fill), luminance(kind.ink)
			require.Greater(t, (max(a, b)+0.05)/(min(a, b)+0.05), 4.5, kind.name)
		}
	}
}

// The lanes of a rank are below and closer to each other than to those of the next one, and a program without
// ops can be drawn.
func TestBoxes(t *testing.T) {
	text, err := Timeline(timeline(t, "ring", 2), "", "", "", simulate.Microsecond)
	require.NoError(t, err)
	var tops, heights []float64
	for _, m := range regexp.MustCompile(`<rect x=".*?" y="(.*?)" width=".*?" height="(.*?)" fill="#[0-9a-e]`).FindAllStringSubmatch(string(text), -1) {
		top, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		height, err := strconv.ParseFloat(m[2], 64)
		require.NoError(t, err)
		tops, heights = append(tops, top), append(heights, height)
	}
	slices.Sort(tops)
	tops = slices.Compact(tops)
	require.Len(t, tops, 4, "each rank sends and receives")
	require.GreaterOrEqual(t, tops[1]-tops[0], slices.Max(heights))
	require.Greater(t, tops[2]-tops[1], tops[1]-tops[0]+1)
	_, err = Timeline(timeline(t, "ring", 1), "", "", "", 1)
	require.NoError(t, err)
}
