package simulate

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A diagram has a circle for each node and a line for each two that a link connects.
func TestDiagram(t *testing.T) {
	for _, tt := range []struct {
		topology     Topology
		nodes, lines int
	}{
		{Full(4), 4, 6}, {Switch(4), 5, 4}, {Ring(6), 6, 6}, {Mesh(3, 2), 6, 7}, {Torus(3, 2), 6, 9}, {Torus(4, 4), 16, 32}, {Hosts(4, 2), 9, 20},
	} {
		var b strings.Builder
		require.NoError(t, tt.topology.WriteSVG(&b, "a < b"))
		require.Equal(t, tt.nodes, strings.Count(b.String(), "<circle "), tt.topology.Name)
		require.Equal(t, tt.lines, strings.Count(b.String(), "<path "), tt.topology.Name)
		require.NoError(t, xml.Unmarshal([]byte(b.String()), new(struct{ XMLName xml.Name })))
	}
	for title, want := range map[string]string{"six ranks of a switch": ">six ranks of a switch<", "six ranks": ">six ranks: switch<"} {
		var b strings.Builder
		require.NoError(t, Switch(6).WriteSVG(&b, title))
		require.Contains(t, b.String(), want)
		require.Contains(t, b.String(), `r="28"`, "the word fits into the circle")
	}
	require.EqualError(t, Ring(200).WriteSVG(io.Discard, ""), "200 ranks, a diagram has at most 128")
}
