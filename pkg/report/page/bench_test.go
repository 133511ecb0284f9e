package page_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/report/page"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
)

// many writes n documents of unlike cases, with figures that differ in every document: half of
// them EP and half collectives, or half transfers and half copies.
func many(tb testing.TB, n int, memory bool) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "run.ndjson")
	f, err := os.Create(path)
	require.NoError(tb, err)
	defer f.Close()
	w := bufio.NewWriter(f)
	for i := range n {
		sku := fmt.Sprintf("sku%02d", i%40)
		noise := 1 + float64(i*7919%1000)/3000
		var d result.Document
		switch {
		case memory && i%2 == 0:
			d = bursts(sku, i/40, noise)
		case memory:
			d = copyDocument(sku, i/40, noise)
		case i%2 == 0:
			c := expert(sku, "deepep-v2")
			ep.Of(&c).Ladder = plan.Ladder{1, 2, 4, 8, 16, 32, 64, 128}
			ep.Of(&c).Workload = fmt.Sprintf("workload%d", i/40)
			c.CaseID = c.ID()
			doc := resulttest.EP(c, attempt("1"))
			for k := range doc.Measurement.Rows {
				of := &doc.Measurement.Rows[k].Components
				for q, component := range []*ep.Component{&of.Dispatch, &of.Combine, &of.Roundtrip, &of.PairPeriod} {
					p := component.Percentiles
					by := noise * (1 + float64((i*31+k*17+q*7)%97)/500)
					*p = p.Map(func(us float64) float64 { return us * by })
				}
			}
			d = doc
		default:
			c := libraryCase(sku, "nccl", "all_reduce", 2+i/40)
			collective.Of(&c).Sizes = nil
			for s := int64(8); s <= 1<<30; s *= 4 {
				collective.Of(&c).Sizes = append(collective.Of(&c).Sizes, s)
			}
			d = slower(resulttest.Collective(c, attempt("1")), noise)
		}
		data, err := result.EncodeDocument(d)
		require.NoError(tb, err)
		_, err = w.Write(data)
		require.NoError(tb, err)
	}
	require.NoError(tb, w.Flush())
	return path
}

// bursts returns a document of the grid that CollectiveX itself plans: six context lengths and
// six numbers of requests.
func bursts(sku string, seed int, noise float64) result.Document {
	d := resulttest.Transfer(plantest.Transfer(func(c *plan.Case) {
		t := transfer.Of(c)
		c.SKU, t.Seed, t.Workload = sku, uint64(seed), fmt.Sprintf("cache%d", seed)
		t.ISLLadder, t.BatchSizes, t.PageTokens = plan.Ladder{2048, 8192, 32768, 65536, 131072, 524288}, plan.Ladder{1, 2, 4, 8, 16, 32}, plan.Ladder{256}
		t.PoolBudget = transfer.MaxPoolBytes
	}), attempt("1"))
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		ms := r.Latency.P50 * noise * (1 + float64((seed*31+i*17)%97)/500)
		r.Latency = result.Burst{P50: ms, P95: ms * 1.1, Min: ms, Max: 2 * ms, N: r.Latency.N}
		r.Request = result.Burst{P50: ms * 0.8, P95: ms, Min: ms / 2, Max: ms, N: r.Request.N}
		r.Parts = transfer.Parts{Prepare: ms * 0.1, Post: ms * 0.2, Wait: ms * 0.7}
		r.GBps = float64(r.ReqBytes) * float64(r.Batch) / ms / 1e6
		r.GBpsPrepared = r.GBps
	}
	return d
}

// copyDocument returns a document of eight sizes on three numbers of streams.
func copyDocument(sku string, seed int, noise float64) result.Document {
	tests := slices.DeleteFunc(copies.Tests(), func(name string) bool { return strings.HasSuffix(name, "_sm") || copies.TestOf(name).Swap })
	d := resulttest.Copy(plantest.Copy("ce", tests[seed%len(tests)], func(c *plan.Case) {
		b := copies.Of(c)
		c.SKU, b.Seed, b.Sizes, b.Streams = sku, uint64(seed), nil, []int{1, 2, 4}
		for size := int64(32 << 10); size <= 512<<20; size *= 4 {
			b.Sizes = append(b.Sizes, size)
		}
	}), attempt("1"))
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		for k, c := range []**copies.Clock{&r.Device, &r.Host} {
			by := noise * (1 + float64((seed*31+i*17+k*7)%97)/500)
			us := (*c).Micros.P50 * by
			*c = &copies.Clock{Micros: result.Burst{P50: us, P95: us * 1.1, Min: us, Max: 2 * us, N: (*c).Micros.N}, GBps: (*c).GBps / by, OppositeGBps: (*c).OppositeGBps / by}
		}
	}
	return d
}

// reportVariable has the test binary write the report of the documents at its value, say what
// that took, and end.
const reportVariable = "CX_TEST_REPORT_OF"

// cost is what a report took: its bytes, processor time, and the peak of resident memory.
type cost struct {
	Bytes   int
	Seconds float64
	PeakKiB int
}

// report writes the report of the documents at path.
func report(path string) (c cost, err error) {
	p, _, err := page.Build([]string{path}, nil, nil)
	if err != nil {
		return c, err
	}
	if err := p.WriteHTML((*counter)(&c.Bytes)); err != nil {
		return c, err
	}
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return c, err
	}
	c.Seconds = float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
	// Not Maxrss, which has the memory of the process that started this one.
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return c, err
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	_, err = fmt.Sscan(peak, &c.PeakKiB)
	return c, err
}

// BenchmarkTenThousand writes the report of 10,000 documents, in a process of its own.
func BenchmarkTenThousand(b *testing.B) {
	for _, memory := range []bool{false, true} {
		b.Run(fmt.Sprintf("memory=%v", memory), func(b *testing.B) { tenThousand(b, memory) })
	}
}

func tenThousand(b *testing.B, memory bool) {
	in := many(b, 10000, memory)
	for b.Loop() {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), reportVariable+"="+in)
		out, err := cmd.Output()
		require.NoError(b, err)
		var c cost
		require.NoError(b, json.Unmarshal(out, &c))
		b.ReportMetric(float64(c.Bytes)/1e6, "MB/file")
		b.ReportMetric(c.Seconds, "cpu-s/op")
		b.ReportMetric(float64(c.PeakKiB)*1024/1e6, "MB/peak")
	}
}

// BenchmarkBrowser shows that report in Chromium: the time to the first chart, and that of
// a change of what a chart with 500 series shows.
func BenchmarkBrowser(b *testing.B) {
	p, _, err := page.Build([]string{many(b, 10000, false)}, nil, nil)
	require.NoError(b, err)
	var html bytes.Buffer
	require.NoError(b, p.WriteHTML(&html))
	for b.Loop() {
		tab := show(b, html.Bytes(), "")
		b.ReportMetric(get[float64](tab, `performance.getEntriesByName("chart")[0].startTime`), "ms/first")
		b.ReportMetric(get[float64](tab, `(() => {
			const start = performance.now();
			[...document.querySelectorAll("#view-collectives .controls button")].find(e => e.textContent === "log y").click();
			return performance.now() - start;
		})()`), "ms/redraw")
		require.Equal(b, 500, tab.count("#view-collectives svg .line"))
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
