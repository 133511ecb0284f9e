package page_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/report/page"
	"github.com/collectivex/collectivex/pkg/result"
)

// overlapped returns a document of two sizes: at the first, half of the communication is hidden; at
// the second, together takes longer than one after the other.
func overlapped(form string) *overlap.Document {
	d := resulttest.Overlap(plantest.Overlap("host", form, 2), attempt("1"))
	r := &d.Measurement.Rows[1]
	r.Together.P50, r.Together.P95, r.Together.Max = r.Serial.P50*2, r.Serial.P50*2, r.Serial.P50*3
	r.Figures = r.Derive(form, 2)
	return d
}

func TestOverlapsByContender(t *testing.T) {
	r := newRuns(t)
	beside := overlapped(overlap.Beside)
	r.add(beside)
	r.add(overlapped(overlap.LinearRotation))
	html := r.html()
	b := show(t, html, "")
	const rotation = "linear-rotation (hidden 32)"
	const title = "Computation beside communication: "
	head := func() string { return b.texts("#view-overlaps .plot svg > text")[0] }
	require.Equal(t, title+"p50 latency in µs", head())
	require.Equal(t, []string{"compute", "communication", "together", "serial"}, b.lines("overlaps"), "one form at a time")
	require.Len(t, strokes(b, "overlaps"), 4, "each has a colour")
	b.key("overlaps", "ArrowRight")
	require.NotContains(t, b.said("overlaps"), "efficiency", "it is not of compute alone")
	b.key("overlaps", "ArrowDown")
	b.key("overlaps", "ArrowDown")
	n := strconv.Itoa(beside.Measurement.Rows[0].Together.N)
	require.Regexp(t, `(?s)beside all_gather \(hidden 32, 3 products, 2 collectives\) together float loop\n2 KiB\nlatency p50 25\.05 µs\noverlap efficiency 0\.5\nexposed time 5\.01 µs\n`+n+` samples\n.*comparison key [0-9a-f]{32}`, b.said("overlaps"))
	b.key("overlaps", "ArrowRight")
	require.Contains(t, b.said("overlaps"), "overlap efficiency -3\n")
	require.Empty(t, b.banner("overlaps"))

	b.choose("overlaps", "show", "overlap efficiency")
	require.Equal(t, title+"overlap efficiency", head())
	require.Len(t, b.lines("overlaps"), 1, "the figure is of both together")
	stamps := get[string](b, `document.querySelector("#view-overlaps svg .points").getAttribute("d")`)
	require.Equal(t, 2, strings.Count(stamps, "z"), "a figure below 0 is drawn")
	controls := b.texts("#view-overlaps .controls button, #view-overlaps .choice span")
	require.NotContains(t, controls, "percentile", "the figure follows from medians")
	require.NotContains(t, controls, "log y")
	require.Equal(t, title+"overlap efficiency", show(t, html, get[string](b, "location.hash")).texts("#view-overlaps .plot svg > text")[0])
	rows := b.table("overlaps")
	require.Equal(t, []string{"series", "bytes of the communication", "state", "p50 µs", "overlap efficiency", "exposed time µs", "samples"}, rows[0])
	require.Equal(t, []string{"0.5", "5.01024", n}, rows[1][4:])
	require.Equal(t, "-3", rows[2][4])
	b.choose("overlaps", "show", "exposed time (µs)")
	require.Equal(t, title+"exposed time in µs", head())

	b.choose("overlaps", "show", "latency (µs)")
	b.press("view-overlaps", rotation)
	require.Equal(t, overlap.Contenders(overlap.LinearRotation), b.lines("overlaps"))
	b.run(`[...document.querySelectorAll("#view-overlaps fieldset button")].find(b => b.textContent.startsWith("beside")).dispatchEvent(new MouseEvent("click", {shiftKey: true, bubbles: true}))`)
	require.Contains(t, b.banner("overlaps"), "different values of work: beside all_gather (hidden 32, 3 products, 2 collectives), "+rotation)

	require.Contains(t, string(html), `<td class="figure" data-value="-3"`, "in the tables of a page without scripts")
	p, _, err := page.Build([]string{r.dir}, nil, nil)
	require.NoError(t, err)
	for _, s := range p.Views[0].Series {
		require.Empty(t, s.Fits, "products do not follow α + n/B")
	}
}

// strokes returns the colours of the lines of a chart, each once.
func strokes(b *tab, view string) []string {
	b.t.Helper()
	return get[[]string](b, `[...new Set([...document.querySelectorAll("#view-`+view+` svg .line")].map(e => e.getAttribute("stroke")))]`)
}

// A row whose figures are below the noise has its times, and neither an efficiency nor an exposed time
// in the chart.
func TestOverlapsWithoutEfficiency(t *testing.T) {
	r := newRuns(t)
	d := overlapped(overlap.Beside)
	noisy := &d.Measurement.Rows[0]
	noisy.Together.P95, noisy.Together.Max = 9*noisy.Serial.P50, 9*noisy.Serial.P50
	noisy.Figures = noisy.Derive(overlap.Beside, 2)
	r.add(d)
	b := show(t, r.html(), "")
	b.key("overlaps", "ArrowRight")
	b.key("overlaps", "ArrowDown")
	b.key("overlaps", "ArrowDown")
	require.Contains(t, b.said("overlaps"), "together float loop\n2 KiB\n")
	require.NotContains(t, b.said("overlaps"), "efficiency")
	require.NotContains(t, b.said("overlaps"), "exposed time")
	b.choose("overlaps", "show", "overlap efficiency")
	require.Equal(t, 1, b.count("#view-overlaps svg .bar"), "the other row")
	rows := b.table("overlaps")
	require.Equal(t, []string{"", "-3"}, []string{rows[1][4], rows[2][4]})
}

func TestOverlapsThatDoNotCount(t *testing.T) {
	r := newRuns(t)
	d := overlapped(overlap.Beside)
	d.Measurement.Rows[1].Verify = overlap.Verify{Detail: "3 of 512 elements of products wrong", WrongProducts: 3}
	d.Outcome = result.Outcome{Status: result.Invalid, Reasons: result.Reasons{result.ReasonCheck.With("3 elements")}}
	r.add(d)
	b := show(t, r.html(), "")
	for show, bad := range map[string]int{"latency (µs)": 4, "overlap efficiency": 1} {
		b.choose("overlaps", "show", show)
		require.Equal(t, bad, b.count("#view-overlaps svg .bad"), show)
	}
	muted := get[string](b, `getComputedStyle(document.documentElement).getPropertyValue("--muted")`)
	require.Equal(t, muted, get[string](b, `document.querySelector("#view-overlaps svg .bad").getAttribute("stroke")`))
	require.Equal(t, "invalid: 3 of 512 elements of products wrong", b.table("overlaps")[2][2])
}
