package page_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/report/page"
)

// axeSum is the digest and the file name of npm's package of axe-core, which finds what shuts people out who use a
// keyboard or a screen reader.
//
//go:embed testdata/axe-core.sha512
var axeSum string

// axePackage returns npm's package of axe-core from .tools, into which it is fetched unless .ci/run has.
func axePackage(t *testing.T) []byte {
	t.Helper()
	sum := strings.Fields(axeSum)
	tools, file := need.Source(".tools"), sum[1]
	read := func(dir string) ([]byte, error) {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if got := sha512.Sum512(data); err == nil && hex.EncodeToString(got[:]) != sum[0] {
			err = fmt.Errorf("%s has another digest", file)
		}
		return data, err
	}
	if data, err := read(tools); err == nil {
		return data
	}
	require.NoError(t, os.MkdirAll(tools, 0o755))
	dir, err := os.MkdirTemp(tools, "axe-core-new-")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	version := strings.TrimSuffix(strings.TrimPrefix(file, "axe-core-"), ".tgz")
	var why error
	for try := range 3 {
		time.Sleep(time.Duration(try) * 10 * time.Second)
		cmd := exec.CommandContext(t.Context(), need.Tool(t, "npm"), "pack", "--silent", "axe-core@"+version)
		cmd.Dir = dir
		said, err := cmd.CombinedOutput()
		if err != nil {
			why = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(said)))
			continue
		}
		data, err := read(dir)
		if err == nil {
			require.NoError(t, os.Rename(filepath.Join(dir, file), filepath.Join(tools, file)))
			return data
		}
		why = err
	}
	need.Missing(t, "npm's "+strings.TrimSuffix(file, ".tgz"), fmt.Sprintf("npm has to reach its registry (%v)", why))
	return nil
}

// axe returns the script of axe-core.
func axe(t *testing.T) string {
	t.Helper()
	need.EndToEnd(t, "to check the page with axe-core")
	z, err := gzip.NewReader(bytes.NewReader(axePackage(t)))
	require.NoError(t, err)
	for files := tar.NewReader(z); ; {
		head, err := files.Next()
		require.NoError(t, err, "package/axe.min.js")
		if head.Name == "package/axe.min.js" {
			text, err := io.ReadAll(files)
			require.NoError(t, err)
			return string(text)
		}
	}
}

// screens are the sizes of windows that the page is made for.
var screens = []struct{ width, height int64 }{{1440, 900}, {400, 800}}

func screen(width, height int64) chromedp.Action {
	return emulation.SetDeviceMetricsOverride(width, height, 1, false)
}

// axe-core finds nothing serious on each screen and in each scheme, with every table open, and with a hidden series and
// a value that nothing has.
func TestAxe(t *testing.T) {
	html, script := example(t), axe(t)
	for i, size := range screens {
		name := []string{"light", "dark"}[i]
		b := show(t, html, "", scheme(name), screen(size.width, size.height))
		b.run(`for (const button of document.querySelectorAll(".legend button:first-child")) button.click();
			for (const d of document.querySelectorAll("details")) d.open = true`)
		b.wait(`document.querySelectorAll("details[data-table=figures] tbody tr").length > 0`)
		b.run(script)
		var found []string
		b.do(chromedp.Evaluate(`axe.run({resultTypes: ["violations"]}).then(r => r.violations.filter(v => v.impact === "serious" || v.impact === "critical")
			.map(v => v.id + ": " + v.nodes.slice(0, 3).map(n => n.target + ": " + n.failureSummary).join("; ")))`, &found,
			func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		require.Empty(t, found, "%d × %d, %s", size.width, size.height, name)
	}
}

// A long name of a run has several lines.
func TestLongNamesHaveLines(t *testing.T) {
	p, _, err := page.Build([]string{repeated(t, "first").dir, repeated(t, "second").dir}, []string{strings.Repeat("x", 300), "second"}, nil)
	require.NoError(t, err)
	var html bytes.Buffer
	require.NoError(t, p.WriteHTML(&html))
	b := show(t, html.Bytes(), "", screen(400, 800))
	require.LessOrEqual(t, get[int](b, "document.documentElement.scrollWidth"), 400)
}

// On a narrow screen, the page does not scroll sideways, and charts are drawn for it: text of at least 11 px inside
// the chart, labels of an axis apart, no blank bands.
func TestNarrowScreen(t *testing.T) {
	b := show(t, example(t), "", screen(400, 800))
	require.LessOrEqual(t, get[int](b, "document.documentElement.scrollWidth"), 400)
	require.Empty(t, get[[]string](b, `[...document.querySelectorAll(".plot > svg")].flatMap(chart => {
		const bad = [], box = chart.getBoundingClientRect(), scale = box.width / chart.viewBox.baseVal.width;
		const texts = [...chart.querySelectorAll("text")].filter(e => e.textContent).map(e => ({e, r: e.getBoundingClientRect()}));
		for (const {e, r} of texts) {
			if (parseFloat(getComputedStyle(e).fontSize) * scale < 11) bad.push("small: " + e.textContent);
			if (r.left < box.left - 1 || r.right > box.right + 1 || r.bottom > box.bottom + 1) bad.push("outside: " + e.textContent);
			for (const o of texts) if (o.e !== e && r.left < o.r.right - 1 && o.r.left < r.right - 1 && r.top < o.r.bottom - 4 && o.r.top < r.bottom - 4) bad.push("overlaps: " + e.textContent);
		}
		if (Math.max(...texts.map(t => t.r.bottom)) < box.bottom - 30) bad.push("a blank band below");
		if (chart.closest(".holder").offsetHeight > box.height + 4) bad.push("a blank band around");
		return bad;
	})`))
	saved := b.download("collectivex-pairs.svg", func() { b.press("view-pairs", "save SVG") })
	require.Contains(t, string(saved), `viewBox="0 0 960 `, "saved figures are as wide as on other screens")
	b.do(screen(1440, 900))
	b.wait(`[...document.querySelectorAll(".plot > svg")].every(chart => chart.viewBox.baseVal.width > 800)`)
}

// While a chart is on the screen, its controls and its legend are too.
func TestControlsAndLegendStay(t *testing.T) {
	html := example(t)
	for _, size := range screens {
		b := show(t, html, "", screen(size.width, size.height))
		for _, view := range []string{"collectives", "pairs", "ep"} {
			require.Empty(t, get[string](b, fmt.Sprintf(`(() => {
				const part = name => document.querySelector("#view-%[1]s " + name).getBoundingClientRect();
				const chart = part(".plot");
				window.scrollBy(0, chart.top + chart.height / 2 - innerHeight / 2);
				const nav = document.querySelector("nav").getBoundingClientRect();
				const controls = part(".controls"), legend = part(".legend");
				if (controls.top < nav.bottom - 1 || controls.bottom > innerHeight / 2) return "controls at " + controls.top;
				if (legend.top < controls.bottom - 1 || legend.bottom > innerHeight + 1) return "legend at " + legend.top + " to " + legend.bottom;
				return "";
			})()`, view)), "%s, %d × %d", view, size.width, size.height)
		}
	}
}

// A screen reader says the point that a key chose, and not what the pointer passes.
func TestKeysAreHeard(t *testing.T) {
	b := show(t, two(t).html(), "")
	const told = "#view-collectives .told"
	require.Equal(t, "status", get[string](b, `document.querySelector("`+told+`").getAttribute("role")`))
	b.do(chromedp.Focus("#view-collectives .plot"), chromedp.KeyEvent(kb.ArrowRight))
	require.Regexp(t, `^first h200 nccl 2 ranks.*\. 8 B\. `, b.texts(told)[0])
	b.key("collectives", "Escape")
	require.Equal(t, []string{""}, b.texts(told))
}

// A run has one colour and one dash in all charts of a page, also where the first run has no figures.
func TestRunsLookAlikeInAllCharts(t *testing.T) {
	r := two(t)
	later := attempt("second")
	later.At = later.At.AddDate(0, 0, 1)
	r.add(resulttest.EP(expert("h200", "deepep-v2"), later))
	b := show(t, r.html(), "")
	dash := func(view string) []string {
		return get[[]string](b, `[...document.querySelectorAll("#view-`+view+` .line")].map(e => e.getAttribute("stroke-dasharray"))`)
	}
	require.Equal(t, []string{"", "", "7,3", "7,3"}, dash("collectives"))
	require.Equal(t, []string{"7,3"}, dash("ep"))
}
