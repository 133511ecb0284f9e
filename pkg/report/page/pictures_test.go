package page_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/golden"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/report/page"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// example returns a page of two runs of a sweep with made-up figures, in five repeats. In the second run, all_reduce
// of eight ranks is slower, ranks 2 and 5 are slow together, one case fails and one has no document.
func example(t *testing.T) []byte {
	t.Helper()
	sides := []*runs{newRuns(t), newRuns(t)}
	var requested []plan.Requested
	for _, c := range exampleCases() {
		requested = append(requested, plan.Requested{SKU: c.SKU, Disposition: plan.Runnable, Case: c})
		for run, side := range sides {
			if run == 1 && c.Family == collective.Name && collective.Of(&c).Op == "reduce" {
				continue
			}
			a := attempt([]string{"1001", "1002"}[run])
			a.At = a.At.AddDate(0, 0, 7*run).Add(time.Duration(side.n) * time.Minute)
			side.add(exampleDocument(c, a, run))
		}
	}
	m := &plan.Matrix{Version: 1, RequestedOther: requested}
	p, _, err := page.Build([]string{sides[0].dir, sides[1].dir}, []string{"before", "after"}, []*plan.Matrix{m})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, p.WriteHTML(&b))
	return b.Bytes()
}

func exampleCases() (out []plan.Case) {
	collectives := func(op string, world, repeats int, sizes ...int64) {
		for i := range repeats {
			out = append(out, libraryCase("example", "nccl", op, world, func(c *plan.Case) {
				collective.Of(c).Sizes = sizes
				if repeats > 1 {
					c.Repeat = i + 1
				}
			}))
		}
	}
	var sizes []int64
	for size := int64(8); size <= 1<<30; size *= 8 {
		sizes = append(sizes, size)
	}
	for _, world := range []int{2, 4, 8} {
		collectives("all_reduce", world, 5, sizes...)
	}
	collectives("all_gather", 8, 5, sizes...)
	collectives("broadcast", 8, 1, sizes...)
	collectives("reduce", 8, 1, sizes...)
	collectives("p2p", 8, 1, 1<<20)
	c := expert("example", "deepep-v2")
	ep.Of(&c).Ladder = plan.Ladder{1, 2, 4, 8, 16, 32, 64, 128}
	c.CaseID = c.ID()
	return append(out, c)
}

// exampleDocument returns a document of a case with the times of a start and a rate.
func exampleDocument(c plan.Case, a result.Attempt, run int) result.Document {
	d := resulttest.Successful(c, a)
	d.Head().Topology.DeviceProduct, d.Head().Runtime.AcceleratorRuntime = "Made-up GPU", "CUDA 12.8"
	library(d, []string{"2.27.3", "2.28.9"}[run])
	measured, ok := d.(*collective.Document)
	if !ok {
		return d
	}
	op := collective.Of(&c).Op
	if run == 1 && op == "broadcast" {
		return resulttest.Fail(library(resulttest.New(c, a), "2.28.9"), "rank-died: rank 3 signal 9")
	}
	for i := range measured.Measurement.Rows {
		r := &measured.Measurement.Rows[i]
		start, rate := 6+1.7*math.Log2(float64(c.World)), 420e3/(1+0.08*float64(c.World)) // µs, bytes per µs
		if op == "p2p" && (*r.Src == 2 && *r.Dst == 5 || *r.Src == 5 && *r.Dst == 2) {
			rate *= 0.6
		}
		slower := 1.0
		if run == 1 && op == "all_reduce" && c.World == 8 {
			slower = 1.12
		}
		noise := 1 + 0.004*math.Sin(float64(7*c.Repeat+3*i+5*run))
		for _, mode := range vocab.TimingModes() {
			if timing := *r.Timing(mode); timing != nil {
				*r.Timing(mode) = resulttest.Timing(&measured.Identity.Case, r.Bytes, (start+float64(r.Bytes)/rate)*slower*noise, timing.SampleCount)
			}
		}
	}
	return d
}

// The pictures of docs/images show the page as it is: what the example looks like in the browser. -update draws them
// again. Fonts and versions of the browser may differ, so that pixels do.
func TestPictures(t *testing.T) {
	html := example(t)
	for name, of := range map[string]struct {
		width, height int64
		theme, at     string // what is at the top of the window
	}{
		"report.png":        {1440, 900, "light", "h1"},
		"report-chart.png":  {1440, 760, "light", "#view-collectives"},
		"report-narrow.png": {400, 800, "dark", "#view-collectives"},
	} {
		b := show(t, html, "", scheme(of.theme), screen(of.width, of.height))
		var shot []byte
		b.run(fmt.Sprintf(`document.querySelector(%q).scrollIntoView()`, of.at))
		b.do(chromedp.CaptureScreenshot(&shot))
		kept := golden.Kept(t, "../../../docs/images/"+name, shot)
		require.Less(t, unlike(t, shot, kept), 0.04, "docs/images/%s shows an older page: go test -update draws it again", name)
	}
}

// unlike returns the share of the squares of two pictures, 20 pixels wide, whose brightness differs by a tenth.
func unlike(t *testing.T, a, b []byte) float64 {
	t.Helper()
	x, err := png.Decode(bytes.NewReader(a))
	require.NoError(t, err)
	y, err := png.Decode(bytes.NewReader(b))
	require.NoError(t, err)
	if x.Bounds() != y.Bounds() {
		return 1
	}
	const side = 20
	differ, all := 0, 0
	for row := 0; row+side <= x.Bounds().Dy(); row += side {
		for column := 0; column+side <= x.Bounds().Dx(); column += side {
			square := image.Rect(column, row, column+side, row+side)
			all++
			if math.Abs(brightness(x, square)-brightness(y, square)) > 0.1 {
				differ++
			}
		}
	}
	return float64(differ) / float64(all)
}

func brightness(of image.Image, square image.Rectangle) (sum float64) {
	for y := square.Min.Y; y < square.Max.Y; y++ {
		for x := square.Min.X; x < square.Max.X; x++ {
			sum += float64(color.GrayModel.Convert(of.At(x, y)).(color.Gray).Y)
		}
	}
	return sum / 255 / float64(square.Dx()*square.Dy())
}
