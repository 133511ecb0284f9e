package page

import (
	"hash/fnv"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/chart"
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

// themes are the only place with colours, beside chart.Colours. Series on the dark background have the same
// colours, lighter where their contrast to it would be below 3:1.
var themes = []theme{
	{
		Name: "light", Ground: "#ffffff", Panel: "#f4f5f7", Ink: "#1b1f24", Muted: "#636c76", Grid: "#d8dee4", Warn: "#fff3cd",
		Series: chart.Colours, Heat: [2]string{"#f1f6fb", "#00507d"},
	},
	{
		Name: "dark", Ground: "#121212", Panel: "#1e2126", Ink: "#e6e8eb", Muted: "#9aa4af", Grid: "#343a42", Warn: "#4d3f10",
		Series: []string{"#0f82c4", "#e36a10", "#009e73", "#cc79a7", "#f0f0f0"}, Heat: [2]string{"#17212b", "#6cc5f7"},
	},
}

// dashes distinguish runs: SVG's stroke-dasharray.
var dashes = []string{"", "7,3", "2,3", "9,3,2,3", "4,2", "12,4"}

// assignLooks assigns each identity a colour and a marker: Look is round·colours+colour, and the marker has index
// round+colour, so that different colours have different markers. A subject (SKU, backend
// and ranks) has one look in all views; in each view, its first identity gets this look. Colours follow from a
// digest, so that they are the same on other pages, unless another one is used less.
func assignLooks(views []View) {
	l := looks{map[string]int{}, make([]int, len(themes[0].Series))}
	var subjects []string
	for i := range views {
		for k := range views[i].Series {
			subjects = append(subjects, views[i].subject(&views[i].Series[k]))
		}
	}
	slices.Sort(subjects)
	for _, name := range slices.Compact(subjects) {
		l.assign(name)
	}
	for i := range views {
		views[i].assignLooks(l.of)
	}
}

// assignLooks assigns the looks of a view; those of subjects are given.
func (v *View) assignLooks(subjects map[string]int) {
	l := looks{map[string]int{}, make([]int, len(themes[0].Series))}
	var others []string
	taken := map[string]bool{}
	for k := range v.Series {
		subject, name := v.subject(&v.Series[k]), v.identity(&v.Series[k])
		if _, ok := l.of[name]; ok {
			continue
		}
		if taken[subject] {
			others = append(others, name)
			continue
		}
		taken[subject] = true
		look := subjects[subject]
		l.of[name] = look
		l.rounds[look%len(l.rounds)] = max(l.rounds[look%len(l.rounds)], look/len(l.rounds)+1)
	}
	for _, name := range others {
		if _, ok := l.of[name]; !ok {
			l.assign(name)
		}
	}
	for k := range v.Series {
		v.Series[k].Look = l.of[v.identity(&v.Series[k])]
	}
}

// looks has the looks of names, and how often each colour is used.
type looks struct {
	of     map[string]int
	rounds []int
}

// assign gives a name a look.
func (l *looks) assign(name string) {
	h := fnv.New32a()
	h.Write([]byte(name))
	n := len(l.rounds)
	best := int(h.Sum32() % uint32(n))
	for i := range n {
		if k := (best + i) % n; l.rounds[k] < l.rounds[best] {
			best = k
		}
	}
	l.of[name] = l.rounds[best]*n + best
	l.rounds[best]++
}

// subject names the SKU, backend and ranks of a series.
func (v *View) subject(s *Series) string {
	return strings.Join([]string{
		v.Facets[facetSKU].Found[s.Facets[facetSKU]], v.Facets[facetBackend].Found[s.Facets[facetBackend]], v.Facets[facetRanks].Found[s.Facets[facetRanks]],
	}, "\x00")
}

// identity names what a series is of: its subject, and the facets of its view that tell series apart.
func (v *View) identity(s *Series) string {
	parts := []string{v.subject(s)}
	for i, k := range s.Facets[facetsOfCase:] {
		if f := &v.Facets[facetsOfCase+i]; !f.One && len(f.Found) > 1 {
			parts = append(parts, f.Title+" "+f.Found[k])
		}
	}
	return strings.Join(parts, "\x00")
}
