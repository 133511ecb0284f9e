package page_test

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/report/page"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// overLane returns a document of pulls and pushes over a lane, in pages of 16 tokens and as
// one block, with 128 and 256 tokens in bursts of 1 and 4 requests. A burst takes 1 ms for each
// 128 tokens of its requests, a tenth of that for preparation.
func overLane(lane, run string) *transfer.Document {
	d := resulttest.Transfer(plantest.Transfer(func(c *plan.Case) {
		t := transfer.Of(c)
		c.TopologyClass = "host-kv-" + lane
		t.Mode, t.ISLLadder, t.PageTokens, t.BatchSizes = lane, plan.Ladder{128, 256}, plan.Ladder{16}, plan.Ladder{1, 4}
		t.Timing.Reps, t.Timing.Trials = 10, 2 // enough for a p95
	}), attempt(run))
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		ms := float64(r.ISL*r.Batch) / 128
		r.Latency = result.Burst{P50: ms, P95: 2 * ms, Min: ms, Max: 2 * ms, N: r.Latency.N}
		r.Request = result.Burst{P50: ms / 2, P95: ms, Min: ms / 2, Max: ms, N: r.Request.N}
		r.Parts = transfer.Parts{Prepare: ms / 10, Post: ms * 3 / 10, Wait: ms * 6 / 10}
		r.GBps = float64(r.ReqBytes) * float64(r.Batch) / ms / 1e6
		r.GBpsPrepared = r.GBps
	}
	return d
}

// tip returns what a chart says of its first point.
func (b *tab) tip(view string) string {
	b.t.Helper()
	b.key(view, "Escape")
	b.key(view, "ArrowRight")
	return b.said(view)
}

func (b *tab) key(view, name string) {
	b.t.Helper()
	b.run(fmt.Sprintf(`document.querySelector("#view-%s .plot").dispatchEvent(new KeyboardEvent("keydown", {key: %q, bubbles: true}))`, view, name))
}

// choose chooses an option of a chart.
func (b *tab) choose(view, title, option string) {
	b.t.Helper()
	b.run(fmt.Sprintf(`(() => {
		const select = [...document.querySelectorAll("#view-%s label.choice")].find(l => l.firstChild.textContent === %q).querySelector("select");
		select.value = [...select.options].find(o => o.textContent === %q).value;
		select.dispatchEvent(new Event("change"));
	})()`, view, title, option))
}

// said returns what a chart says of the point at hand.
func (b *tab) said(view string) string {
	b.t.Helper()
	return strings.Join(b.texts("#view-"+view+" .tip:not([hidden]) div"), "\n")
}

// lines returns the names of the series that a chart shows.
func (b *tab) lines(view string) []string {
	b.t.Helper()
	return b.texts("#view-" + view + ` .legend button[aria-pressed=true]`)
}

func (b *tab) banner(view string) string {
	b.t.Helper()
	return strings.Join(b.texts("#view-"+view+" .banner:not([hidden]) span"), "\n")
}

// table opens a table of a chart and returns its rows.
func (b *tab) table(view string) [][]string {
	b.t.Helper()
	b.run(fmt.Sprintf(`document.querySelector("#view-%s details[data-table=figures]").open = true`, view))
	b.wait(fmt.Sprintf(`document.querySelectorAll("#view-%s details[data-table=figures] tbody tr").length > 0`, view))
	text := b.download("collectivex-"+view+"-figures.csv", func() {
		b.run(fmt.Sprintf(`document.querySelector("#view-%s details[data-table=figures] .csv").click()`, view))
	})
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	require.NoError(b.t, err)
	return rows
}

func TestTransfersOverContextAndBatch(t *testing.T) {
	r := newRuns(t)
	r.add(overLane(vocab.LaneSharedMemory, "1"))
	r.add(overLane(vocab.LaneProcessVM, "1"))
	html := r.html()
	b := show(t, html, "")
	require.Equal(t, []string{
		"shm bulk batch 1", "shm pages of 16 batch 1", "shm pages of 16 batch 4",
		"vm bulk batch 1", "vm pages of 16 batch 1", "vm pages of 16 batch 4",
	}, b.lines("transfers"))
	require.Equal(t, "Transfers: p50 rate in GB/s", b.texts("#view-transfers .plot svg > text")[0])
	require.Empty(t, b.banner("transfers"), "lanes are compared side by side")
	require.NotContains(t, string(html), "mixes different values of topology: ")
	require.Contains(t, b.texts("#view-transfers .plot svg > text"), "context in tokens")
	require.Equal(t, []string{"p50", "p95"}, b.texts("#view-transfers .controls label:nth-child(2) option"), "no percentile that no burst has")
	n := overLane(vocab.LaneSharedMemory, "1").Measurement.Rows[0].Latency.N
	require.Regexp(t, fmt.Sprintf(`(?s)pull with preparation .*context: 128\n.*p50 1000, p95 2000 µs\nrate at p50 .*\n%d samples\n.*comparison key [0-9a-f]{32}`, n), b.tip("transfers"))

	b.press("view-transfers", "pages of 16")
	require.Len(t, b.lines("transfers"), 4)
	b.press("view-transfers", "p50–p95 band")
	require.Equal(t, 4, b.count("#view-transfers svg .band"))
	b.press("view-transfers", "vm")
	b.press("view-transfers", "push")
	b.press("view-transfers", "without preparation")
	require.Equal(t, []string{"batch 1", "batch 4"}, b.lines("transfers"))
	require.Contains(t, b.tip("transfers"), "p50 900 µs", "90 % of the burst, and no p95")
	require.Empty(t, b.banner("transfers"))
	again := show(t, html, get[string](b, "location.hash"))
	require.Equal(t, []string{"batch 1", "batch 4"}, again.lines("transfers"))
	require.Contains(t, again.tip("transfers"), "push without preparation")

	b.press("view-transfers", "with preparation")
	b.press("view-transfers", "batch 1")
	b.choose("transfers", "over", "batch")
	require.Equal(t, "batch", b.texts("#view-transfers .plot svg > text")[len(b.texts("#view-transfers .plot svg > text"))-1])
	require.Equal(t, []string{"context 128", "context 256"}, b.lines("transfers"), "nothing of the other form is hidden, and other choices stay")
	look := get[[]string](b, `[...document.querySelectorAll("#view-transfers .legend svg")].map(e => e.innerHTML)`)
	require.NotEqual(t, look[0], look[1])
	require.Contains(t, b.tip("transfers"), "context 128\nbatch: 1\nlatency p50 1000, p95 2000 µs")
	b.key("transfers", "ArrowRight")
	require.Contains(t, b.said("transfers"), "context 128\nbatch: 4\nlatency p50 4000, p95 8000 µs")
	b.press("view-transfers", "context 256")
	b.run(`[...document.querySelectorAll("#view-transfers fieldset button")].find(b => b.textContent === "without preparation").dispatchEvent(new MouseEvent("click", {shiftKey: true, bubbles: true}))`)
	require.Len(t, b.lines("transfers"), 3, "a line for each clock, one of them hidden")
	require.Contains(t, b.banner("transfers"), "different values of clock: with preparation, without preparation")
	again = show(t, html, get[string](b, "location.hash"))
	require.Equal(t, b.lines("transfers"), again.lines("transfers"))
	b.press("view-transfers", "with preparation context 256")
	rows := b.table("transfers")
	require.Equal(t, []string{"series", "batch", "state", "p50 µs", "p95 µs", "rate at p50 GB/s", "samples"}, rows[0])
	require.Len(t, rows, 1+2*2*2)
	wellFormed(t, b.download("collectivex-transfers.svg", func() { b.press("view-transfers", "save SVG") }))
	b.choose("transfers", "over", "context")
	require.Equal(t, "context: 128", strings.Split(b.tip("transfers"), "\n")[1])
}

// Contexts are whole numbers, of which no digit is rounded away.
func TestContextsHaveAllDigits(t *testing.T) {
	r := newRuns(t)
	r.add(resulttest.Transfer(plantest.Transfer(func(c *plan.Case) {
		b := transfer.Of(c)
		b.Mode, b.ISLLadder, b.PageTokens, b.BatchSizes = vocab.LaneSharedMemory, plan.Ladder{16384, 65536}, plan.Ladder{16}, plan.Ladder{1}
	}), attempt("1")))
	p, _, err := page.Build([]string{r.dir}, nil, nil)
	require.NoError(t, err)
	pictures := p.Pictures()
	b := show(t, r.html(), "")
	for _, want := range []string{"16384", "32768", "65536"} {
		require.Contains(t, b.texts(`#view-transfers .plot svg > text[text-anchor="middle"]`), want)
		require.Contains(t, string(pictures[0].SVG), ">"+want+"</text>", "without scripts")
	}
}

// The coverage says which points of a case were not measured, and why.
func TestPointsThatWereNotMeasured(t *testing.T) {
	r := newRuns(t)
	d := overLane(vocab.LaneSharedMemory, "1")
	d.Workload.Dropped = []transfer.DroppedPoint{{ISL: 256, PageTokens: 16, Batch: 4, Reason: result.Reason{Code: result.ReasonMemoryForSize}}}
	d.Measurement.Rows = slices.DeleteFunc(d.Measurement.Rows, func(r transfer.Row) bool { return r.ISL == 256 && r.Batch == 4 })
	var err error
	d.ComparisonKey, err = result.ComparisonKey(result.Settled(d), d.Provenance.Environment)
	require.NoError(t, err)
	r.add(d)
	r.add(overLane(vocab.LaneProcessVM, "1"))
	p, _, err := page.Build([]string{r.dir}, nil, nil)
	require.NoError(t, err)
	reasons := map[string]string{}
	for _, c := range p.Coverage {
		require.Equal(t, c.Asked, c.Measured)
		reasons[c.ID] = c.Reason
	}
	require.Equal(t, map[string]string{
		"local-host-kv-tiny-shm-xfer-ep2-paged-bf16": "not measured: 1 point (memory-for-size)", "local-host-kv-tiny-vm-xfer-ep2-paged-bf16": "",
	}, reasons)
}

// A case whose data took another lane has only rows that passed, and none of them counts.
func TestTransfersThatDoNotCount(t *testing.T) {
	r := newRuns(t)
	d := overLane(vocab.LaneSharedMemory, "1")
	d.Measurement.Rows[1].Verify = result.Verify{Detail: "stale: 3 of 512 words wrong"}
	d.Outcome = result.Outcome{Status: result.Invalid, Reasons: result.Reasons{result.ReasonCheck.With("stale, 3 words")}}
	r.add(d)
	strayed := overLane(vocab.LaneProcessVM, "1")
	strayed.Measurement.Lane = vocab.LaneTCP
	strayed.Outcome = result.Outcome{Status: result.Invalid, Reasons: result.Reasons{result.ReasonCheck.With("lane tcp instead of vm")}}
	r.add(strayed)
	killed := overLane(vocab.LaneTCP, "1")
	killed.Measurement.Lane = ""
	r.add(resulttest.Fail(killed, "rank-died: rank 0"))
	b := show(t, r.html(), "")
	rows := len(d.Measurement.Rows) / 2 // of pulls
	for _, x := range []string{"batch", "context"} {
		b.choose("transfers", "over", x)
		of := map[string]int{}
		for _, row := range b.table("transfers")[1:] {
			of[row[2]]++
			require.Equal(t, strings.Contains(row[2], "stale"), strings.Contains(row[0], "shm paged bulk") && strings.Contains(strings.Join(row, " "), "256"), row)
		}
		require.Equal(t, map[string]int{
			"ok": rows - 1, "invalid: stale: 3 of 512 words wrong": 1, "invalid: lane tcp instead of vm": rows,
			"incomplete: the case ended before its lane was known": rows,
		}, of, x)
	}
	require.Equal(t, 7, b.count("#view-transfers svg .bad"), "one of shm, all three of vm and tcp")
	muted := get[string](b, `getComputedStyle(document.documentElement).getPropertyValue("--muted")`)
	require.Equal(t, muted, get[string](b, `document.querySelector("#view-transfers svg .bad").getAttribute("stroke")`))
}

func TestCopiesByTwoClocks(t *testing.T) {
	r := newRuns(t)
	add := func(test string, change func(*copies.Row)) {
		d := resulttest.Copy(plantest.Copy("ce", test, func(c *plan.Case) { copies.Of(c).Streams = []int{1, 2} }), attempt("1"))
		for i := range d.Measurement.Rows {
			device := *d.Measurement.Rows[i].Device
			device.Micros.P50, device.Micros.Min = device.Micros.P50/2, device.Micros.Min/2
			device.GBps *= 2
			d.Measurement.Rows[i].Device = &device
			change(&d.Measurement.Rows[i])
		}
		r.add(d)
	}
	add("host_to_device_memcpy_ce", func(*copies.Row) {})
	add("device_to_host_memcpy_ce", func(r *copies.Row) { r.Device = nil })
	add("device_to_device_bidirectional_memcpy_read_ce", func(r *copies.Row) { r.Device.OppositeGBps = r.Device.GBps / 2 })
	html := r.html()
	b := show(t, html, "")
	require.Equal(t, []string{"streams 1", "streams 2"}, b.lines("copies-device"), "one test at a time")
	require.Equal(t, "Copies by the device's clock: p50 rate in GB/s", b.texts("#view-copies-device .plot svg > text")[0])
	require.NotContains(t, b.texts("#view-copies-device fieldset button"), "device_to_host_memcpy_ce", "it has no such clock")
	require.Contains(t, b.texts("#view-copies-host fieldset button"), "device_to_host_memcpy_ce")
	c := plantest.Copy("ce", "device_local_copy")
	samples := copies.Of(&c).Timing.Trials
	require.Regexp(t, fmt.Sprintf(`(?s)host_to_device_memcpy_ce pinned loop streams 1\n4 KiB\n.*p50 0\.5205.* µs\n.*GB/s\n%d samples`, samples), b.tip("copies-device"))
	require.Contains(t, b.tip("copies-host"), "p50 1.041")

	b.press("view-copies-device", "device_to_device_bidirectional_memcpy_read_ce")
	require.Equal(t, []string{
		"as named streams 1", "opposite streams 1", "as named streams 2", "opposite streams 2",
	}, b.lines("copies-device"))
	require.Empty(t, b.banner("copies-device"))
	b.press("view-copies-device", "opposite")
	require.Contains(t, b.tip("copies-device"), "p50 1.041")
	require.Equal(t, []string{"streams 1", "streams 2"}, show(t, html, get[string](b, "location.hash")).lines("copies-device"))
	rows := b.table("copies-device")
	require.Equal(t, []string{"series", "bytes of a copy", "state", "p50 µs", "rate at p50 GB/s", "samples"}, rows[0], "no percentile of too few samples")
	require.Equal(t, []string{"4096", "ok"}, rows[1][1:3])
}
