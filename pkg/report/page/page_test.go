package page_test

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/report/page"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// runs are documents of some runs as a test needs them.
type runs struct {
	t   *testing.T
	dir string
	n   int
}

func newRuns(t *testing.T) *runs { return &runs{t: t, dir: t.TempDir()} }

func (r *runs) add(d result.Document) {
	r.n++
	_, err := result.Write(r.dir, d, r.n, func([]byte) error { return nil })
	require.NoError(r.t, err)
}

func (r *runs) html(matrices ...*plan.Matrix) []byte {
	p, _, err := page.Build([]string{r.dir}, nil, matrices)
	require.NoError(r.t, err)
	var b bytes.Buffer
	require.NoError(r.t, p.WriteHTML(&b))
	return b.Bytes()
}

func attempt(run string) result.Attempt {
	a := resulttest.Attempt()
	a.RunID, a.Vendor = run, vocab.NVIDIA
	return a
}

func libraryCase(sku, backend, op string, world int, change ...func(*plan.Case)) plan.Case {
	c := resulttest.CollectiveCase()
	c.SKU, c.Backend, c.World, c.RanksPerNode, collective.Of(&c).Op = sku, backend, world, world, op
	for _, f := range change {
		f(&c)
	}
	c.CaseID = c.ID()
	return c
}

func expert(sku, backend string) plan.Case {
	c := resulttest.EPCase()
	c.SKU, c.Backend, ep.Of(&c).Ladder = sku, backend, plan.Ladder{1, 2, 4, 8}
	t := &ep.Of(&c).Timing
	t.TrialsPerPoint, t.ChainTrialsPerPoint = 25, 10 // enough for a p99
	c.CaseID = c.ID()
	return c
}

// library gives a document the version of its library.
func library(d result.Document, version string) result.Document {
	d.Head().Runtime.CollectiveLibrary = &result.CollectiveLibrary{Kind: "nccl", Version: &version}
	return d
}

// slower multiplies all latencies of a document.
func slower(d *collective.Document, by float64) *collective.Document {
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		for _, mode := range vocab.TimingModes() {
			if t := *r.Timing(mode); t != nil {
				*r.Timing(mode) = resulttest.Timing(&d.Identity.Case, r.Bytes, t.Percentiles.P50*by, t.SampleCount)
			}
		}
	}
	return d
}

// two are two runs of one all_reduce case on 2 and 4 ranks; the second is a tenth slower.
func two(t *testing.T) *runs {
	r := newRuns(t)
	for _, world := range []int{2, 4} {
		c := libraryCase("h200", "nccl", "all_reduce", world)
		r.add(resulttest.Collective(c, attempt("first")))
		later := attempt("second")
		later.At = later.At.AddDate(0, 0, 1)
		r.add(slower(resulttest.Collective(c, later), 1.1))
	}
	return r
}

const (
	drawn   = "#view-collectives svg .line"
	legend  = "#view-collectives .legend button"
	between = "#view-collectives svg .between"
)

func TestAChartShowsItsSeriesAndHidesThem(t *testing.T) {
	b := show(t, two(t).html(), "")
	require.Equal(t, 4, b.count(drawn))
	require.Equal(t, []string{"first 2 ranks", "first 4 ranks", "second 2 ranks", "second 4 ranks"}, b.texts(legend))
	require.Equal(t, "Collectives: p50 bus bandwidth in GB/s", b.texts("#view-collectives .plot svg > text")[0])
	require.Contains(t, b.texts("#view-collectives .plot svg > text"), "8 B")

	b.press("view-collectives", "first 4 ranks")
	require.Equal(t, 3, b.count(drawn))
	require.Equal(t, 4, b.count(legend), "what is hidden stays in the legend")
	b.press("view-collectives", "second")
	require.Equal(t, 2, b.count(drawn))
	b.run(`document.querySelector("#view-collectives select").value = 0; document.querySelector("#view-collectives select").dispatchEvent(new Event("change"))`)
	require.Equal(t, "Collectives: p50 latency in µs", b.texts("#view-collectives .plot svg > text")[0])
}

// An axis of less than three decades has a labelled line at every 1, 2 and 5, or if these are few at equal distances. A
// longer one labels powers of ten.
func TestLinesOfAnAxis(t *testing.T) {
	html := func(times ...float64) []byte {
		r := newRuns(t)
		d := resulttest.Collective(libraryCase("h200", "nccl", "all_reduce", 2), attempt("1"))
		for i := range d.Measurement.Rows {
			row := &d.Measurement.Rows[i]
			for _, mode := range vocab.TimingModes() {
				if timing := *row.Timing(mode); timing != nil {
					us := times[slices.Index([]int64{8, 1024, 1 << 20}, row.Requested)]
					*row.Timing(mode) = resulttest.Timing(&d.Identity.Case, row.Bytes, us, timing.SampleCount)
				}
			}
		}
		r.add(d)
		return r.html()
	}
	const labels = `#view-collectives .plot svg > text[text-anchor="end"]`
	b := show(t, html(1.6, 12, 80), "#collectives.show=latency")
	require.Equal(t, []string{"1", "2", "5", "10", "20", "50", "100"}, b.texts(labels))
	require.Zero(t, b.count(between))
	b = show(t, html(1.6, 12, 80), "")
	require.Equal(t, []string{"0.001", "0.01", "0.1", "1", "10", "100"}, b.texts(labels))
	require.Equal(t, 2*5, b.count(between))
	b = show(t, html(12, 13, 14), "#collectives.show=latency")
	require.Equal(t, []string{"10", "12", "14", "16", "18", "20"}, b.texts(labels))
	require.Zero(t, b.count(between))
}

// Runs of other cases than the first have no comparison, unless there is just one.
func TestRunsOfOtherCases(t *testing.T) {
	r := newRuns(t)
	for i, op := range []string{"all_reduce", "all_gather", "all_reduce", "broadcast"} {
		a := attempt(strconv.Itoa(i))
		a.At = a.At.AddDate(0, 0, i)
		r.add(resulttest.Collective(libraryCase("h200", "nccl", op, 2), a))
		p, _, err := page.Build([]string{r.dir}, nil, nil)
		require.NoError(t, err)
		require.Len(t, p.Comparisons, min(1, i))
	}
}

func TestTheAddressHasTheState(t *testing.T) {
	html := two(t).html()
	b := show(t, html, "")
	require.Empty(t, get[string](b, "location.hash"))
	b.press("view-collectives", "second")
	b.press("view-collectives", "log y")
	b.press("view-collectives", "2 ranks")
	hash := get[string](b, "location.hash")
	before := get[string](b, `document.querySelector("#view-collectives .plot svg").outerHTML`)

	again := show(t, html, hash)
	require.Equal(t, before, get[string](again, `document.querySelector("#view-collectives .plot svg").outerHTML`))
	require.Equal(t, 1, again.count(drawn))
	require.Equal(t, []string{"false"}, get[[]string](again, `[...document.querySelectorAll("#view-collectives .controls button")].filter(b => b.textContent === "log y").map(b => b.getAttribute("aria-pressed"))`))

	foreign := show(t, html, "#collectives.run=nobody~%25&collectives.hidden=x&collectives.show=y&theme=z")
	require.Equal(t, 4, foreign.count(drawn), "an address from elsewhere harms nothing")
}

func TestEachPointSaysWhatStandsBehindIt(t *testing.T) {
	b := show(t, two(t).html(), "")
	tip := func() string { return strings.Join(b.texts("#view-collectives .tip:not([hidden]) div"), "\n") }
	key := func(name string) {
		b.run(fmt.Sprintf(`document.querySelector("#view-collectives .plot").dispatchEvent(new KeyboardEvent("keydown", {key: %q, bubbles: true}))`, name))
	}
	require.Empty(t, tip())
	key("ArrowRight")
	require.Regexp(t, `(?s)first h200 nccl 2 ranks.*8 B\nlatency p50 2\.001 µs\n.*GB/s\n\d+ samples\n.*comparison key [0-9a-f]{32}`, tip())
	key("ArrowRight")
	require.Contains(t, tip(), "1 KiB")
	key("ArrowDown")
	require.Contains(t, tip(), "4 ranks")
	require.Contains(t, tip(), "1 KiB")
	key("Escape")
	require.Empty(t, tip())

	b.run(`(() => {
		const plot = document.querySelector("#view-collectives .plot"), box = plot.querySelector("svg .points").getBoundingClientRect();
		plot.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + 3, clientY: box.bottom - 3, bubbles: true}));
	})()`)
	require.Contains(t, tip(), "8 B")
}

func TestInvalidRungsAreGreyAndStay(t *testing.T) {
	r := newRuns(t)
	c := libraryCase("h200", "nccl", "all_reduce", 2)
	d := resulttest.Collective(c, attempt("1"))
	for i := range d.Measurement.Rows {
		if r := &d.Measurement.Rows[i]; r.Bytes == 1024 {
			r.Check.Passed, r.Check.Wrong = false, 7
		}
	}
	d.Outcome = result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonSemantics}}}
	r.add(d)
	html := r.html()
	b := show(t, html, "")
	require.Equal(t, 1, b.count("#view-collectives svg .bad"))
	muted := get[string](b, `getComputedStyle(document.documentElement).getPropertyValue("--muted")`)
	require.Equal(t, muted, get[string](b, `document.querySelector("#view-collectives svg .bad").getAttribute("stroke")`))
	require.Equal(t, 1, strings.Count(get[string](b, `document.querySelector("#view-collectives svg .line").getAttribute("d")`), "L"), "the line leaves the rung out")
	b.run(`document.querySelector("#view-collectives details[data-table=figures]").open = true`)
	b.wait(`document.querySelectorAll("#view-collectives details[data-table=figures] tbody tr").length > 0`)
	require.Equal(t, 3, b.count("#view-collectives details[data-table=figures] tbody tr"))
	require.Equal(t, 1, b.count("#view-collectives details[data-table=figures] tr.bad"))
	require.Contains(t, b.texts("#coverage tbody td"), "invalid")
	require.Contains(t, string(html), "invalid: failed its checks")
}

func TestABannerNamesWhatAChartMixes(t *testing.T) {
	r := newRuns(t)
	c := libraryCase("h200", "nccl", "all_reduce", 2)
	r.add(library(resulttest.Collective(c, attempt("1")), "2.27.3"))
	r.add(library(resulttest.Collective(c, attempt("2")), "2.28.9"))
	cached := libraryCase("h200", "nccl", "all_reduce", 2, func(c *plan.Case) { c.Contract = ep.ContractCachedLayout })
	r.add(library(resulttest.Collective(cached, attempt("3")), "2.28.9"))
	b := show(t, r.html(), "")
	banner := func() []string { return b.texts("#view-collectives .banner:not([hidden]) span") }
	require.Len(t, banner(), 2)
	require.Contains(t, strings.Join(banner(), "\n"), "library version: nccl 2.27.3, nccl 2.28.9")
	require.Contains(t, strings.Join(banner(), "\n"), "different values of contract: ")
	b.press("view-collectives", "2")
	require.Empty(t, banner())
	b.press("view-collectives", "3")
	require.Len(t, banner(), 1, "two runs of one library")
}

// An operation is one value at a time unless asked for more, which the banner says.
func TestUnlikeMeasurementsAreApart(t *testing.T) {
	r := newRuns(t)
	r.add(resulttest.Collective(libraryCase("h200", "nccl", "all_reduce", 2), attempt("1")))
	r.add(resulttest.Collective(libraryCase("h200", "nccl", "all_gather", 2), attempt("1")))
	r.add(resulttest.EP(expert("h200", "deepep-v2"), attempt("1")))
	b := show(t, r.html(), "")
	require.Equal(t, 1, b.count(drawn))
	require.Equal(t, 0, b.count("#view-collectives .banner:not([hidden])"))
	b.run(`[...document.querySelectorAll("#view-collectives fieldset button")].find(b => b.textContent === "all_gather").dispatchEvent(new MouseEvent("click", {shiftKey: true, bubbles: true}))`)
	require.Equal(t, 2, b.count(drawn))
	require.Contains(t, strings.Join(b.texts("#view-collectives .banner:not([hidden])"), ""), "different values of operation: all_gather, all_reduce")

	require.Equal(t, "Expert parallelism: p50 latency in µs", b.texts("#view-ep .plot svg > text")[0])
	require.Subset(t, b.texts("#view-ep fieldset button"), []string{"pair period", "roundtrip", "dispatch", "combine", "dispatch floor", "combine floor"})
	b.press("view-ep", "p50–p99 band")
	require.Equal(t, 1, b.count("#view-ep svg .band"))
	require.Contains(t, b.texts("#view-ep option"), "token rate (tokens/s)")
	require.Contains(t, b.texts("#view-ep option"), "bandwidth per GPU (GB/s)")
}

func TestFiguresAreSortedWithinAComparisonKeyOnly(t *testing.T) {
	b := show(t, two(t).html(), "")
	b.run(`document.querySelector("#view-collectives details[data-table=figures]").open = true`)
	b.wait(`document.querySelectorAll("#view-collectives details[data-table=figures] tbody").length === 2`)
	column := func() [][]string {
		return get[[][]string](b, `[...document.querySelectorAll("#view-collectives details[data-table=figures] tbody")].map(body => [...body.rows].map(row => row.cells[3].dataset.value))`)
	}
	before := column()
	sort := func() {
		b.run(`[...document.querySelectorAll("#view-collectives details[data-table=figures] th button")].find(b => b.textContent === "p50 µs").click()`)
	}
	sort()
	up := column()
	sort()
	down := column()
	require.NotEqual(t, up, down)
	for k := range before {
		require.ElementsMatch(t, before[k], up[k], "rows stay with their key")
		reversed := slices.Clone(down[k])
		slices.Reverse(reversed)
		require.Equal(t, up[k], reversed)
	}
	require.Equal(t, "descending", get[string](b, `document.querySelector("#view-collectives th[aria-sort]").getAttribute("aria-sort")`))
}

func TestFiguresAndTablesAreSaved(t *testing.T) {
	r := newRuns(t)
	d := library(resulttest.Collective(libraryCase("h200", "nccl", "all_reduce", 2), attempt("1")), "=cmd()")
	r.add(d)
	b := show(t, r.html(), "")
	picture := b.download("collectivex-collectives.svg", func() { b.press("view-collectives", "save SVG") })
	wellFormed(t, picture)
	require.Contains(t, string(picture), "h200 nccl 2 ranks", "the legend is in it")
	image, err := png.Decode(bytes.NewReader(b.download("collectivex-collectives.png", func() { b.press("view-collectives", "save PNG") })))
	require.NoError(t, err)
	require.Equal(t, 1920, image.Bounds().Dx())

	b.run(`document.querySelector("#view-collectives details[data-table=figures]").open = true`)
	b.wait(`document.querySelector("#view-collectives details[data-table=figures] .csv")`)
	text := b.download("collectivex-collectives-figures.csv", func() { b.run(`document.querySelector("#view-collectives details[data-table=figures] .csv").click()`) })
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 4)
	require.Equal(t, []string{"1 h200 nccl 2 ranks all_reduce pipelined out_of_place float sum root 0 warm none", "8", "ok", "2.001"}, rows[1][:4])
	text = b.download("collectivex-provenance.csv", func() { b.run(`document.querySelector("#provenance .csv").click()`) })
	require.NotRegexp(t, `(?m)^=`, string(text))
}

func wellFormed(t *testing.T, text []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

func TestThemes(t *testing.T) {
	html := two(t).html()
	ground := `document.querySelector("#view-collectives .plot svg rect").getAttribute("fill")`
	light, dark := show(t, html, "", scheme("light")), show(t, html, "", scheme("dark"))
	require.Equal(t, "#ffffff", get[string](light, ground))
	require.Equal(t, "#121212", get[string](dark, ground))
	require.Equal(t, "rgb(18, 18, 18)", get[string](dark, "getComputedStyle(document.body).backgroundColor"))
	light.run(`document.querySelector("#theme").click()`)
	require.Equal(t, "#121212", get[string](light, ground))
	require.Contains(t, get[string](light, "location.hash"), "theme=dark")
}

func TestPairsAreAHeatMap(t *testing.T) {
	r := newRuns(t)
	r.add(resulttest.Collective(libraryCase("h200", "nccl", "p2p", 4), attempt("1")))
	b := show(t, r.html(), "")
	require.Equal(t, 12, b.count("#view-pairs svg .cell"), "each of 4 ranks to 3 others")
	require.Contains(t, b.texts("#view-pairs fieldset button[aria-pressed=true]"), "1 MiB", "the largest size comes first")
	b.run(`document.querySelector("#view-pairs .plot").dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}))`)
	require.Contains(t, b.texts("#view-pairs .tip div"), "rank 0 to rank 1")

	r = newRuns(t)
	r.add(resulttest.Copy(plantest.CopyOn("ce", "device_to_device_memcpy_read_ce", 4), attempt("1")))
	b = show(t, r.html(), "")
	require.Equal(t, 12, b.count("#view-copies-pairs svg .cell"), "copies between them, too")
}

func TestComparisonOfRuns(t *testing.T) {
	r := two(t)
	c := libraryCase("h200", "nccl", "all_gather", 2)
	r.add(resulttest.Collective(c, attempt("first")))
	other := attempt("second")
	other.At = other.At.AddDate(0, 0, 1)
	other.Environment = map[string]string{"NCCL_ALGO": "Tree"}
	r.add(resulttest.Collective(c, other))
	html := r.html()
	p, _, err := page.Build([]string{r.dir}, nil, nil)
	require.NoError(t, err)
	require.Len(t, p.Comparisons, 1)
	rows := p.Comparisons[0].Rows
	require.Equal(t, "second", p.Comparisons[0].Run)
	require.Len(t, rows, 2*2+1, "two cases, each with two timing modes, and one that cannot be compared")
	for _, row := range rows[:4] {
		require.Len(t, row, len(p.Heads()))
		require.Equal(t, []string{"unclear¹", "+10.0 %"}, row[2:4])
		require.Equal(t, "6: +10.0 … +10.0 %", row[len(row)-1], "three sizes, each with two placements")
	}
	require.Equal(t, "incomparable²", rows[4][2])
	notes := p.Comparisons[0].Notes
	require.Len(t, notes, 2)
	require.Contains(t, notes[0], "¹ fewer than 5 runs a side: measure both again with ")
	require.Contains(t, notes[1], `environment.NCCL_ALGO Ring → Tree`)
	require.Contains(t, string(html), ">&#43;10.0 %</td>")
}

// A table sorts by the figures in its texts, over all its groups, and a search leaves the rows that match.
func TestTablesAreSortedAndSearched(t *testing.T) {
	r := newRuns(t)
	for i, by := range []float64{1.2, 0.5, 1.1, 0.9} {
		c := libraryCase("h200", "nccl", []string{"all_reduce", "all_gather", "broadcast", "reduce"}[i], 2)
		later := attempt("second")
		later.At = later.At.AddDate(0, 0, 1)
		r.add(resulttest.Collective(c, attempt("first")))
		r.add(slower(resulttest.Collective(c, later), by))
	}
	b := show(t, r.html(), "")
	sorted := func(table, column string, cell int) []string {
		b.run(fmt.Sprintf(`[...document.querySelectorAll("%s th button")].find(b => b.textContent === %q).click()`, table, column))
		return slices.Compact(get[[]string](b, fmt.Sprintf(`[...document.querySelectorAll("%s tbody tr")].map(row => row.cells[%d].textContent)`, table, cell)))
	}
	const comparison = "table[data-name=comparison]"
	require.Equal(t, []string{"-50.0 %", "-10.0 %", "+10.0 %", "+20.0 %"}, sorted(comparison, "time, − is faster", 3))
	require.Equal(t, []string{"+20.0 %", "+10.0 %", "-10.0 %", "-50.0 %"}, sorted(comparison, "time, − is faster", 3))
	sorted("table[data-name=collectives-series]", "lowest latency µs", 9)
	heads := slices.Compact(get[[]string](b, `[...document.querySelectorAll("table[data-name=collectives-series] tbody")].map(body => body.rows[0].cells[9].textContent)`))
	require.Equal(t, []string{"1", "1.801", "2.001"}, heads, "groups are in the order of their first rows")

	fill := func(cells string) {
		b.run(`[...document.querySelectorAll("table[data-name=headlines] tbody tr")].forEach((row, i) => row.cells[0].textContent = ` + cells + `[i % 4])`)
	}
	fill(`["512 KiB", "8 B", "1.125 MiB", "2 KiB"]`)
	require.Equal(t, []string{"8 B", "2 KiB", "512 KiB", "1.125 MiB"}, sorted("table[data-name=headlines]", "run", 0))
	fill(`["300 k", "1.2 G", "950", "3.31 M"]`)
	require.Equal(t, []string{"1.2 G", "3.31 M", "300 k", "950"}, sorted("table[data-name=headlines]", "run", 0))

	b.run(`(() => { const s = document.querySelector("#search"); s.value = "broadcast"; s.dispatchEvent(new Event("input")); })()`)
	require.Equal(t, 2, get[int](b, `document.querySelectorAll("#coverage table[data-name=coverage] tbody tr:not([hidden])").length`))
}

// Where x has one value, there is a bar for each series, from zero.
func TestOneValueOfXHasBars(t *testing.T) {
	r := newRuns(t)
	for _, world := range []int{2, 4} {
		r.add(resulttest.Collective(libraryCase("h200", "nccl", "all_reduce", world, func(c *plan.Case) { collective.Of(c).Sizes = []int64{1 << 20} }), attempt("1")))
	}
	b := show(t, r.html(), "")
	require.Equal(t, 2, b.count("#view-collectives svg .bar"))
	require.Contains(t, b.texts("#view-collectives .plot svg > text"), "0")
	require.Contains(t, b.texts("#view-collectives .plot svg > text"), "at 1 MiB")
	require.Contains(t, b.tip("collectives"), "1 MiB")
}

// Of runs without a case in common, each case is new or gone.
func TestRunsWithNothingInCommon(t *testing.T) {
	r := newRuns(t)
	r.add(resulttest.Collective(libraryCase("h200", "nccl", "all_reduce", 2), attempt("first")))
	later := attempt("second")
	later.At = later.At.AddDate(0, 0, 1)
	r.add(resulttest.Collective(libraryCase("h200", "nccl", "all_gather", 2), later))
	b := show(t, r.html(), "")
	require.Equal(t, []string{"gone", "new"}, get[[]string](b, `[...document.querySelectorAll("#comparison tbody tr")].map(row => row.cells[2].textContent)`))
}

// With five repeats a side, the page has the verdicts of compare.
func TestVerdictsOfRepeatedRuns(t *testing.T) {
	r := newRuns(t)
	add := func(op string, repeats int, by float64) {
		for _, run := range []string{"first", "second"} {
			for i := range repeats {
				c := libraryCase("h200", "nccl", op, 2, func(c *plan.Case) { c.Repeat = i + 1 })
				a := attempt(run)
				a.At = a.At.Add(time.Duration(i) * time.Minute)
				d := slower(resulttest.Collective(c, a), 1+float64(i)/1000)
				if run == "second" {
					a.At = a.At.AddDate(0, 0, 1)
					d = library(slower(resulttest.Collective(c, a), by*(1+float64(i)/1000)), "2.28.9").(*collective.Document)
				}
				r.add(d)
			}
		}
	}
	add("all_reduce", 5, 1.2)
	add("all_gather", 5, 1)
	add("broadcast", 4, 1.2)
	p, _, err := page.Build([]string{r.dir, r.dir}, nil, nil)
	require.NoError(t, err)
	require.Len(t, p.Comparisons, 1)
	c := p.Comparisons[0]
	require.Equal(t, "second", c.Run)
	require.Equal(t, "first", c.First)
	require.Contains(t, c.Beside, "library version: – → nccl 2.28.9")
	statuses := map[string]int{}
	for _, row := range c.Rows {
		require.Equal(t, strings.Contains(row[0], "broadcast"), strings.HasPrefix(row[2], "unclear"), "%v", row)
		statuses[strings.TrimRight(strings.Fields(row[2])[0], "¹²³")]++
	}
	require.Equal(t, map[string]int{"slower?": 2, "same": 2, "unclear": 2}, statuses)
	b := show(t, r.html(), "")
	require.Equal(t, p.Heads(), b.texts(`#comparison table[data-name=comparison] th`))
	require.Contains(t, b.texts(`#comparison table[data-name=comparison] td`), "+20.0 %")
}

// repeated has three repeats of one case in each of some runs.
func repeated(t *testing.T, names ...string) *runs {
	r := newRuns(t)
	for k, run := range names {
		for i := range 3 {
			c := libraryCase("h200", "nccl", "all_reduce", 2, func(c *plan.Case) { c.Repeat = i + 1 })
			a := attempt(run)
			a.At = a.At.AddDate(0, 0, k)
			r.add(slower(resulttest.Collective(c, a), 1+float64(i)/50))
		}
	}
	return r
}

// The repeats of a case are one line with a band, and one row with their spread. Single ones are a choice away.
func TestRepeatsAreOneLine(t *testing.T) {
	r := repeated(t, "1")
	p, _, err := page.Build([]string{r.dir}, nil, nil)
	require.NoError(t, err)
	v := p.Views[0]
	require.Len(t, v.Series, 4*4, "of each mode and placement, the median and three repeats")
	require.Len(t, v.Listed(), 4)
	require.Equal(t, "2.041 ± 2.0 % (n=3)", p.Groups(v)[0][0].Low.Text)
	require.Equal(t, "2.041 ± 2.0 % (n=3)", p.Rungs(v)[0][0].Figures[0].Text)
	require.Len(t, p.Coverage, 1)
	require.Equal(t, 3, p.Coverage[0].Repeats)
	pictures := p.Pictures()
	require.Contains(t, string(pictures[0].SVG), ">h200 nccl 2 ranks ")
	require.NotContains(t, string(pictures[0].SVG), "repeat")

	once := newRuns(t)
	once.add(resulttest.Collective(libraryCase("h200", "nccl", "all_reduce", 2), attempt("1")))
	p, _, err = page.Build([]string{once.dir}, nil, nil)
	require.NoError(t, err)
	require.NotContains(t, p.Views[0].Columns(), "repeat")
	require.Equal(t, []string{""}, p.Views[0].Facets[4].Found, "nothing is repeated")

	b := show(t, r.html(), "")
	require.Equal(t, 1, b.count(drawn))
	require.Equal(t, 1, b.count("#view-collectives svg .band"))
	require.Contains(t, b.tip("collectives"), "median of 3 repeats: p50 from 2.001 to 2.081 µs")
	b.press("view-collectives", "2")
	require.Equal(t, 1, b.count(drawn))
	require.Equal(t, 0, b.count("#view-collectives svg .band"))
	require.Contains(t, b.tip("collectives"), "repeat 2")
}

// Runs that differ in nothing else have colours of their own, and their names, wherever they are shown.
func TestRunsHaveNamesAndColours(t *testing.T) {
	first, second := repeated(t, "first"), newRuns(t)
	a := attempt("second")
	a.At = a.At.AddDate(0, 0, 1)
	second.add(resulttest.Collective(libraryCase("h200", "nccl", "all_reduce", 2), a))
	a.RunID = "third"
	second.add(resulttest.Collective(libraryCase("h200", "nccl", "all_reduce", 2), a))
	p, _, err := page.Build([]string{first.dir, second.dir}, []string{"monday", "tuesday"}, nil)
	require.NoError(t, err)
	var names []string
	for _, r := range p.Runs {
		names = append(names, r.Name)
	}
	require.Equal(t, []string{"monday", "tuesday second", "tuesday third"}, names)
	require.Equal(t, "monday", p.Comparisons[0].First)
	pictures := p.Pictures()
	picture := string(pictures[0].SVG)
	for _, name := range names {
		require.Contains(t, picture, ">"+name+"<")
	}
	colours := map[string]bool{}
	for _, m := range regexp.MustCompile(`<path d="M[^"]*" fill="none" stroke="(#[0-9a-f]{6})" stroke-width="1.8"`).FindAllStringSubmatch(picture, -1) {
		colours[m[1]] = true
	}
	require.GreaterOrEqual(t, len(colours), 3, "a colour for each run")
}

// The lines of fits run where α + n/B does, and a point says what they are.
func TestFitsAreDrawn(t *testing.T) {
	const alpha, bandwidth = 5.0, 100.0 // µs, GB/s
	r := newRuns(t)
	c := libraryCase("h200", "nccl", "all_reduce", 2, func(c *plan.Case) {
		collective.Of(c).Sizes = nil
		for size := int64(8); size <= 1<<30; size *= 8 {
			collective.Of(c).Sizes = append(collective.Of(c).Sizes, size)
		}
	})
	d := resulttest.Collective(c, attempt("1"))
	for i := range d.Measurement.Rows {
		row := &d.Measurement.Rows[i]
		for _, mode := range vocab.TimingModes() {
			if timing := *row.Timing(mode); timing != nil {
				*row.Timing(mode) = resulttest.Timing(&d.Identity.Case, row.Bytes, alpha+float64(row.Requested)/(bandwidth*1e3), timing.SampleCount)
			}
		}
	}
	r.add(d)
	b := show(t, r.html(), "")
	b.press("view-collectives", "fits")
	require.Equal(t, 0, b.count("#view-collectives svg .fit"), "fits are of the latency")
	require.Contains(t, strings.Join(b.texts("#view-collectives"), ""), "Fits are of the latency.")
	b.run(`document.querySelector("#view-collectives select").value = 0; document.querySelector("#view-collectives select").dispatchEvent(new Event("change"))`)
	require.Equal(t, 1, b.count("#view-collectives svg .fit"))
	// The line starts and ends where the curve does, and lies on it between.
	ends := get[[]float64](b, `(() => {
		const at = (name, fraction) => { const p = document.querySelector("#view-collectives svg " + name); return p.getPointAtLength(fraction * p.getTotalLength()); };
		return [0, 1].flatMap(f => { const a = at(".line", f), b = at(".fit", f); return [Math.abs(a.x - b.x), Math.abs(a.y - b.y)]; });
	})()`)
	for _, distance := range ends {
		require.Less(t, distance, 1.5, "px")
	}
	b.run(`document.querySelector("#view-collectives .plot").dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}))`)
	require.Regexp(t, `fit: α 5(\.0*)? ± \S+ µs, B 100(\.0*)? ± \S+ GB/s, n½ 488(\.\d+)? KiB`, strings.Join(b.texts("#view-collectives .tip div"), "\n"))
	b.press("view-collectives", "fits")
	require.Equal(t, 0, b.count("#view-collectives svg .fit"))
}

// A reader without scripts sees the figures, what is missing, and why.
func TestReadableWithoutScripts(t *testing.T) {
	r := newRuns(t)
	good, bad := libraryCase("h200", "nccl", "all_reduce", 2), expert("h200", "deepep-v2")
	lost, never := libraryCase("h200", "nccl", "all_gather", 2), expert("mi300x", "mori")
	r.add(resulttest.Collective(good, attempt("1")))
	r.add(resulttest.Fail(resulttest.New(bad, attempt("1")), "rank-died: rank 1 signal 9"))
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "torn.json"), []byte(`{"version":1,`), 0o644))
	reason := "backend-platform-unsupported"
	m := &plan.Matrix{Version: 1, RequestedOther: []plan.Requested{
		{SKU: "h200", Disposition: plan.Runnable, Case: good}, {SKU: "h200", Disposition: plan.Runnable, Case: lost},
	}, RequestedCases: []plan.Requested{
		{SKU: "h200", Disposition: plan.Runnable, Case: bad}, {SKU: "mi300x", Disposition: plan.Unsupported, Reason: &reason, Case: never},
	}}
	b := open(t, r.html(m), "", emulation.SetScriptExecutionDisabled(true))
	b.wait(`document.querySelector("#provenance table")`)
	require.Equal(t, 0, b.count("#view-collectives .controls"), "no script ran")
	require.Equal(t, []string{"1", "4", "1", "0", "1", "1", "1", "2"}, slices.Delete(b.texts("#runs td"), 1, 3))
	states := get[[][]string](b, `[...document.querySelectorAll("#coverage table[data-name=coverage] tbody tr")].map(r => [r.cells[1].textContent, r.cells[4].textContent, r.cells[5].textContent])`)
	require.Equal(t, [][]string{
		{"missing", lost.CaseID, "the cell wrote no document"},
		{"failed", bad.CaseID, "rank-died: rank 1 signal 9"},
		{"measured", good.CaseID, ""},
		{"unsupported", never.CaseID, reason},
	}, states)
	require.Equal(t, []string{"truncated JSON", "1"}, b.texts("#coverage table[data-name=files] td"))
	require.True(t, get[bool](b, `(() => { const i = document.querySelector("#view-collectives figure > img"); return i.complete && i.naturalWidth > 0; })()`))
	require.Equal(t, 3*4, b.count(`#view-collectives table[data-name=collectives-rungs] tbody tr`), "two timing modes and two placements")
	require.Contains(t, b.texts(`#view-collectives table[data-name=collectives-rungs] td`), "2.001")
	require.Regexp(t, `^[1-9]\d* samples$`, get[string](b, `document.querySelector("#view-collectives table[data-name=collectives-rungs] td.figure").title`))
}

// A simulated case has no chart and no comparison in common with a measured one, whichever run
// they are of, and is not called measured.
func TestSimulationsStandAlone(t *testing.T) {
	r := newRuns(t)
	measured, simulated := plantest.Twins()
	later := attempt("second")
	later.At = later.At.AddDate(0, 0, 1)
	for _, a := range []result.Attempt{attempt("first"), later} {
		r.add(resulttest.Schedule(measured, a))
		r.add(resulttest.Simulation(simulated, a))
	}
	p, _, err := page.Build([]string{r.dir}, nil, nil)
	require.NoError(t, err)
	states := map[string]string{}
	for _, c := range p.Coverage {
		states[c.ID] = c.State
	}
	require.Equal(t, map[string]string{measured.CaseID: "measured", simulated.CaseID: "simulated"}, states)
	shown := map[string][]string{}
	for _, v := range p.Views {
		for _, s := range v.Series {
			shown[v.Name] = append(shown[v.Name], p.Cases[s.Case].ID)
		}
	}
	require.NotEmpty(t, shown["schedules"])
	require.NotEmpty(t, shown["simulations"])
	for view, ids := range shown {
		for _, id := range ids {
			require.Equal(t, view == "simulations", id == simulated.CaseID, "%s in the view %s", id, view)
		}
	}
	require.Len(t, p.Comparisons, 1)
	for _, row := range p.Comparisons[0].Rows {
		require.Equal(t, row[0] == simulated.CaseID, row[1] == "simulated", "%v", row)
	}
}

// A simulated time is one figure: nothing on the page gives it percentiles or samples.
func TestSimulatedTimesHaveNoPercentiles(t *testing.T) {
	r := newRuns(t)
	later := attempt("second")
	later.At = later.At.AddDate(0, 0, 1)
	for _, a := range []result.Attempt{attempt("first"), later} {
		r.add(resulttest.Simulation(plantest.Simulation(), a))
	}
	html := r.html()
	b := show(t, html, "")
	const view = "simulations"
	texts := func() string { return strings.Join(b.texts("#view-simulations"), "\n") + b.tip(view) }
	require.Equal(t, "Simulated schedules: simulated time in µs", b.texts("#view-simulations .plot svg > text")[0])
	require.Regexp(t, `\nsimulated time [0-9.]+ µs\nsize by simulated time [0-9.]+ GB/s\n`, b.tip(view))
	head := []string{"series", "size", "state", "simulated time µs", "size by simulated time GB/s"}
	require.Equal(t, head, b.table(view)[0])
	require.NotRegexp(t, `p50|percentile|sample|latency`, texts())
	b.choose(view, "show", "size by simulated time (GB/s)")
	require.Equal(t, "Simulated schedules: size by simulated time in GB/s", b.texts("#view-simulations .plot svg > text")[0])
	require.NotRegexp(t, `p50|percentile|sample|latency`, texts())
	require.NotContains(t, strings.Join(b.texts("#view-simulations td[title], #comparison td[title]"), "")+
		get[string](b, `[...document.querySelectorAll("#view-simulations td, #comparison td")].map(e => e.title).join()`), "samples of")
	p, _, err := page.Build([]string{r.dir}, nil, nil)
	require.NoError(t, err)
	pictures := p.Pictures()
	require.Contains(t, string(pictures[0].SVG), ">Simulated schedules: simulated time in µs")
}

// Text from documents is text, whatever is in it, on the page and in the figures.
func TestHostileText(t *testing.T) {
	const hostile = "</script></svg><img src=x onerror=window.hurt=1><script>window.hurt=2</script>\"'`${window.hurt=3}\x00\u202e]]>"
	r := newRuns(t)
	a := attempt("1")
	a.Environment = map[string]string{hostile: hostile}
	for _, c := range []plan.Case{
		libraryCase("h200", "nccl", "all_reduce", 2), libraryCase("h200", "nccl", "p2p", 2), expert("h200", "deepep-v2"),
	} {
		c.TopologyClass = hostile
		d := resulttest.Successful(c, a)
		e := d.Head()
		e.Topology.DeviceProduct, e.Runtime.Framework, e.Runtime.AcceleratorRuntime = hostile, hostile, hostile
		version := hostile
		e.Implementation.LibraryVersion = &version
		data, err := result.EncodeDocument(d)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(r.dir, fmt.Sprintf("%d.json", r.n)), data, 0o644))
		r.n++
	}
	p, _, err := page.Build([]string{r.dir}, nil, nil)
	require.NoError(t, err)
	require.Len(t, p.Cases, 3)
	pictures := p.Pictures()
	require.Len(t, pictures, 3)
	for _, picture := range pictures {
		wellFormed(t, picture.SVG)
	}
	html := r.html()
	require.NotContains(t, string(html), "<img src=x")
	require.Contains(t, string(html), "&lt;img src=x onerror=window.hurt=1&gt;")
	b := show(t, html, "")
	for _, view := range []string{"view-collectives", "view-pairs", "view-ep"} {
		b.run(fmt.Sprintf(`for (const d of document.querySelectorAll("#%s details")) d.open = true;
			document.querySelector("#%s .plot").dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}))`, view, view))
		require.Contains(t, strings.Join(b.texts("#"+view+" .tip"), ""), "<img src=x")
		wellFormed(t, b.download("collectivex-"+strings.TrimPrefix(view, "view-")+".svg", func() { b.press(view, "save SVG") }))
	}
	require.Equal(t, 0, b.count("img"))
	require.Equal(t, 2, b.count("script"))
	require.True(t, get[bool](b, "window.hurt === undefined"))
}

// The name of a run cannot end an attribute.
func TestHostileNames(t *testing.T) {
	const hostile = `" onfocus="window.hurt=1`
	p, _, err := page.Build([]string{repeated(t, "first").dir, repeated(t, "second").dir}, []string{hostile, "second"}, nil)
	require.NoError(t, err)
	var html bytes.Buffer
	require.NoError(t, p.WriteHTML(&html))
	require.NotContains(t, html.String(), hostile)
	require.Contains(t, html.String(), `aria-label="second against &#34; onfocus=&#34;window.hurt=1"`)
}

// The policy allows the page's own script and style and nothing else.
func TestThePolicyHolds(t *testing.T) {
	html := bytes.Replace(two(t).html(), []byte("</body>"), []byte(`<script>window.hurt = 1</script><img src="https://example.invalid/x"></body>`), 1)
	b := open(t, html, "")
	blocked := func() string {
		b.lock.Lock()
		defer b.lock.Unlock()
		return strings.Join(b.bad, "\n")
	}
	require.Eventually(t, func() bool {
		return strings.Contains(blocked(), "script-src") && strings.Contains(blocked(), "img-src")
	}, patience, 20*time.Millisecond, "the browser says what it blocked")
	require.True(t, get[bool](b, "window.hurt === undefined"))
	b.lock.Lock()
	defer b.lock.Unlock()
	b.bad = nil
}

func TestEqualDocumentsMakeEqualPages(t *testing.T) {
	r := two(t)
	first, second := r.html(), r.html()
	require.Equal(t, first, second)
}

func TestNothingToShow(t *testing.T) {
	b := show(t, newRuns(t).html(), "")
	require.Equal(t, 1, b.count("#coverage table"))
	require.Equal(t, 0, b.count(".view"))
}
