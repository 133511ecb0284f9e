package page

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/chart"
	"github.com/collectivex/collectivex/pkg/figure"
	"github.com/collectivex/collectivex/pkg/result"
)

// drawn returns the picture of a view.
func drawn(t *testing.T, v *View) string {
	t.Helper()
	text := v.draw()
	require.NoError(t, xml.Unmarshal(text, new(struct{ XMLName xml.Name })))
	require.NotRegexp(t, "NaN|Inf", string(text))
	return string(text)
}

// A point that does not count is a grey ring, and the line leaves it out. A picture has at most maxDrawn series.
func TestPictureOfLines(t *testing.T) {
	var names []string
	for i := range maxDrawn + 2 {
		names = append(names, fmt.Sprintf("backend%d", i))
	}
	v := backendsOf(names...)
	v.Facets[facetSKU].Found, v.Facets[facetRanks].Found = []string{"h200"}, []string{"8"}
	for k := range v.Series {
		for x := int64(1); x <= 4; x *= 2 {
			v.Series[k].Points = append(v.Series[k].Points, figure.Point{X: x, Time: result.Percentiles{P50: float64(x)}})
		}
	}
	v.Series[3].Points[1].Reason = "wrong"
	picture := drawn(t, &v)
	muted := `fill="none" stroke="` + themes[0].Muted + `"`
	require.Equal(t, 1, strings.Count(picture, muted))
	ring, _, _ := strings.Cut(picture, muted)
	require.True(t, strings.HasSuffix(ring, chart.Markers[0].Path+`" `))
	line := ring[:strings.LastIndex(ring, ` stroke-width="1.8"`)]
	require.Equal(t, 1, strings.Count(line[strings.LastIndex(line, "<path"):], "L"), "from the first point to the third")
	require.Contains(t, picture, ">backend23<")
	require.NotContains(t, picture, ">backend24<")
	require.Contains(t, picture, ">2 more series not drawn<")
	require.Equal(t, 1, strings.Count(picture, ">h200 8 ranks<"), "what all series share is below the title")
	require.Less(t, strings.LastIndex(picture, ">backend"), strings.Index(picture, "more series"), "below all others")
}

// The name of a series that is alone has what the title lacks. Numbers have the titles of their facets.
func TestNameOfOneSeries(t *testing.T) {
	v := backendsOf("nccl")
	v.Facets = append(v.Facets, Facet{figure.Facet{Title: "root", Number: true}, []string{"0"}},
		Facet{figure.Facet{Title: "operation", One: true}, []string{"all_reduce"}}, Facet{figure.Facet{Title: "registration"}, []string{"none"}})
	v.Series[0].Facets = append(v.Series[0].Facets, 0, 0, 0)
	names, shared := v.labels([]*Series{&v.Series[0]})
	require.Equal(t, []string{"nccl root 0"}, names)
	require.Empty(t, shared)
}

// A remark agrees with its number.
func TestMore(t *testing.T) {
	require.Equal(t, []markup{"", " 1 more row is left out.", " 2 more rows are left out."}, []markup{more(0), more(1), more(2)})
}

// Where the figures of the last pairs are missing, the others keep their ranks.
func TestPictureOfSomePairs(t *testing.T) {
	v := backendsOf("a")
	v.Shape = figure.Grid
	v.Facets[facetRanks].Found = []string{"4"}
	s := &v.Series[0]
	for x := int64(1); x <= 4; x++ {
		s.Points = append(s.Points, figure.Point{X: x, Time: result.Percentiles{P50: float64(10 * x)}})
	}
	require.Equal(t, "rank 0 to rank 3", v.at(s, 3))
	require.Equal(t, "rank 1 to rank 0", v.at(s, 4))
	require.Equal(t, 2, strings.Count(drawn(t, &v), ">3<"), "a row and a column of rank 3")
}

// Figures in cells are no wider than their cell.
func TestFiguresFitTheirCells(t *testing.T) {
	v := backendsOf("a")
	v.Shape = figure.Grid
	v.Facets[facetRanks].Found = []string{"16"}
	v.Series[0].Points = []figure.Point{{X: 1, Time: result.Percentiles{P50: 0.001509}}}
	cell := float64(gridHeight) / 17
	m := regexp.MustCompile(`font-size="([0-9.]+)"[^>]*>0\.001509<`).FindStringSubmatch(drawn(t, &v))
	require.NotNil(t, m)
	size, err := strconv.ParseFloat(m[1], 64)
	require.NoError(t, err)
	require.LessOrEqual(t, chart.TextWidth("0.001509", size), cell)
}

// A heat map has a cell for each pair, coloured from the lowest to the highest figure that counts.
func TestPictureOfPairs(t *testing.T) {
	v := backendsOf("a", "b")
	v.Shape = figure.Grid
	v.Facets[facetRanks].Found = []string{"3"}
	for k := range v.Series {
		for i, us := range []float64{0, 10, 30, 0, 0, 20, 20, 20, 0} {
			v.Series[k].Points = append(v.Series[k].Points, figure.Point{X: int64(i), Time: result.Percentiles{P50: us}})
		}
	}
	v.Series[0].Points[7].Reason, v.Series[0].Points[7].Time.P50 = "wrong", 5
	picture := drawn(t, &v)
	heat := themes[0].Heat
	require.Equal(t, 1+5, strings.Count(picture, "<rect"), "the ground and cells")
	require.Equal(t, 1+1, strings.Count(picture, `fill="`+heat[0]+`" stroke`), "a cell and the legend")
	require.Equal(t, 1+1, strings.Count(picture, `fill="`+heat[1]+`"`))
	require.Equal(t, 2, strings.Count(picture, `fill="`+mixed(heat[0], heat[1], 0.5)+`"`))
	low := regexp.MustCompile(` y="(.*?)" width=".*?" height=".*?" fill="` + heat[0]).FindStringSubmatch(picture)
	high := regexp.MustCompile(` y="(.*?)" width=".*?" height=".*?" fill="` + heat[1]).FindStringSubmatch(picture)
	require.Equal(t, low[1], high[1], "from rank 0 to ranks 1 and 2")
	for _, text := range []string{`aria-label=": p50 latency in µs&#xA;a 3 ranks"`, ">lowest: 10<", ">highest: 30<", ">1 more series not drawn<"} {
		require.Contains(t, picture, text)
	}

	v.Series[0].Points = nil
	v.Facets[facetRanks].Found = []string{"250"}
	for i := range int64(250 * 250) { // cells too small for figures and edges
		v.Series[0].Points = append(v.Series[0].Points, figure.Point{X: i, Time: result.Percentiles{P50: 20}})
	}
	picture = drawn(t, &v)
	require.Less(t, strings.Count(picture, "<text"), 10)
	require.Less(t, strings.Count(picture, `stroke="`+themes[0].Grid+`"`), 10)
	require.NotContains(t, picture, `width="-`)
}
