package page

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/figure"
)

// linear returns the linear red, green and blue of a colour.
func linear(colour string) (rgb [3]float64) {
	for i := range rgb {
		v, _ := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		c := float64(v) / 255
		if rgb[i] = c / 12.92; c > 0.04045 {
			rgb[i] = math.Pow((c+0.055)/1.055, 2.4)
		}
	}
	return rgb
}

// contrast is the contrast ratio of WCAG 2.
func contrast(a, b string) float64 {
	luminance := func(colour string) float64 {
		c := linear(colour)
		return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2]
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// seen are colours as people with deuteranopia and protanopia see them: the matrices of
// Machado, Oliveira and Fernandes (2009) at severity 1, on linear light.
var seen = map[string][3][3]float64{
	"all colours": {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"deuteranopia": {
		{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881},
	},
	"protanopia": {
		{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998},
	},
}

// lab returns CIELAB of linear light, D65.
func lab(c [3]float64) [3]float64 {
	f := func(t float64) float64 {
		if t > 216.0/24389 {
			return math.Cbrt(t)
		}
		return (24389.0/27*t + 16) / 116
	}
	x := f((0.4124*c[0] + 0.3576*c[1] + 0.1805*c[2]) / 0.9505)
	y := f(0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2])
	z := f((0.0193*c[0] + 0.1192*c[1] + 0.9505*c[2]) / 1.089)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

func TestColoursCanBeToldApart(t *testing.T) {
	for _, theme := range themes {
		for i, a := range theme.Series {
			require.GreaterOrEqual(t, contrast(a, theme.Ground), 3.0, "%s on %s", a, theme.Name)
			for who, m := range seen {
				for _, b := range theme.Series[:i] {
					of := func(colour string) [3]float64 {
						c := linear(colour)
						var out [3]float64
						for r := range out {
							out[r] = min(1, max(0, m[r][0]*c[0]+m[r][1]*c[1]+m[r][2]*c[2]))
						}
						return lab(out)
					}
					x, y := of(a), of(b)
					distance := math.Hypot(math.Hypot(x[0]-y[0], x[1]-y[1]), x[2]-y[2])
					require.Greater(t, distance, 10.0, "%s and %s, %s, %s", a, b, theme.Name, who)
				}
			}
		}
		for _, text := range []string{theme.Ink, theme.Muted} {
			for _, ground := range []string{theme.Ground, theme.Panel} {
				require.GreaterOrEqual(t, contrast(text, ground), 4.5, "text %s on %s of %s", text, ground, theme.Name)
			}
		}
		require.GreaterOrEqual(t, contrast(theme.Ink, theme.Warn), 4.5)
	}
}

// backendsOf returns a view with a series for each name of a backend.
func backendsOf(names ...string) View {
	v := newView(figure.View{}).View
	for i := range v.Facets {
		v.Facets[i].Found = []string{""}
	}
	v.Facets[facetBackend].Found = names
	for k := range names {
		facets := make([]int, facetsOfCase)
		facets[facetBackend] = k
		v.Series = append(v.Series, Series{Facets: facets})
	}
	return v
}

// A series looks alike in every view, whatever else is in it.
func TestLooksAreStable(t *testing.T) {
	many := []View{backendsOf("nccl", "a", "b", "c", "d", "e", "f"), backendsOf("x", "y", "nccl")}
	assignLooks(many)
	for _, v := range many {
		seen := map[int]bool{}
		for _, s := range v.Series {
			require.False(t, seen[s.Look], "looks differ")
			seen[s.Look] = true
		}
	}
	require.Equal(t, many[0].Series[0].Look, many[1].Series[2].Look)
}
