// Package drawing draws topologies, and timelines of simulations, as SVG files.
package drawing

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/collectivex/collectivex/pkg/chart"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
)

// maxOps is the maximum number of ops in a timeline that can still be read.
const maxOps = 20000

// Each stream is a row, with sends, puts and signals in its upper half and all other ops in its lower half.
// Ranks are rankGap apart.
const (
	rowHeight = vg.Length(14)
	rankGap   = 0.4 // of a row
)

// kinds lists, by kind of op, its name in the legend and its colour. The simulator does not support gets.
var kinds = [...]struct {
	name string
	fill color.Color
}{
	schedule.Reduce:     {"add", color.RGBA{0xb5, 0x48, 0x3a, 0xff}},
	schedule.Send:       {"send", color.RGBA{0x3b, 0x6f, 0xb6, 0xff}},
	schedule.Recv:       {"receive", color.RGBA{0x5a, 0x9e, 0x6f, 0xff}},
	schedule.RecvReduce: {"receive and add", color.RGBA{0xd9, 0x9a, 0x2b, 0xff}},
	schedule.Copy:       {"copy", color.RGBA{0x7d, 0x7d, 0x7d, 0xff}},
	schedule.Put:        {"put", color.RGBA{0x7a, 0x5a, 0xa6, 0xff}},
	schedule.Signal:     {"signal", color.RGBA{0xa9, 0xb8, 0xcc, 0xff}},
	schedule.Wait:       {"wait", color.RGBA{0xcf, 0xcf, 0xcf, 0xff}},
	schedule.Flush:      {"wait for puts", color.RGBA{0xcf, 0xcf, 0xcf, 0xff}},
}

// Timeline draws a simulation as SVG, with a row for every stream of every rank. Each op is a box from the
// time when it is posted to its end, with its description inside. Ops on the critical path have a border.
// The time axis has the label unit, with note as a second line, and each is the length of one unit.
// Timeline fails if the program has too many ops.
func Timeline(t *simulate.Timeline, title, note, unit string, each simulate.Picoseconds) ([]byte, error) {
	total := 0
	g := &gantt{Timeline: t, each: float64(each), used: map[schedule.Kind]bool{}}
	var labels []plot.Tick
	for r, ops := range t.Program.Ops {
		total += len(ops)
		streams := 1
		for i := range ops {
			streams = max(streams, int(ops[i].Stream)+1)
			g.used[ops[i].Kind] = true
		}
		g.first = append(g.first, g.rows)
		for s := range streams {
			label := fmt.Sprintf("rank %d", r)
			if streams > 1 {
				label += fmt.Sprintf(", stream %d", s)
			}
			labels = append(labels, plot.Tick{Value: -g.rows - float64(s) - 0.5, Label: label})
		}
		g.rows += float64(streams) + rankGap
	}
	if total > maxOps {
		return nil, fmt.Errorf("%d ops, a drawing has at most %d: use fewer ranks", total, maxOps)
	}
	p := chart.New(title)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, float64(max(1, t.Makespan))/g.each, -g.rows, 0
	p.X.Tick.Marker, p.Y.Tick.Marker, p.Y.Tick.Length = chart.Even{}, plot.ConstantTicks(labels), 0
	p.X.Label.Text = unit + "\n" + note
	chart.AddGrid(p)
	p.Add(g)
	for k, kind := range kinds {
		if g.used[schedule.Kind(k)] {
			p.Legend.Add(kind.name, chart.Swatch{Fill: kind.fill})
		}
	}
	p.Legend.Add("critical path", chart.Swatch{Border: color.Black})
	return chart.SVG(p, vg.Length(g.rows)*rowHeight+4*vg.Centimeter)
}

// gantt plots the ops of a timeline; it implements plot.Plotter.
type gantt struct {
	*simulate.Timeline
	each  float64
	first []float64 // by rank: the top of its first row, in rows
	rows  float64   // height of all rows and gaps, in rows
	used  map[schedule.Kind]bool
}

func (g *gantt) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	words := text.Style{Color: color.White, Font: p.X.Tick.Label.Font, YAlign: draw.YCenter, Handler: plot.DefaultTextHandler}
	for r, ops := range g.Program.Ops {
		for i := range ops {
			box := g.box(r, i, x, y)
			chart.Swatch{Fill: kinds[ops[i].Kind].fill}.Draw(&c, box)
			label := fmt.Sprintf("op %d: %s", i, ops[i].String())
			words.Font.Size = box.Size().Y
			words.Font.Size *= min(0.9, 0.8*box.Size().X/words.Width(label))
			c.FillText(words, vg.Point{X: box.Min.X, Y: (box.Min.Y + box.Max.Y) / 2}, label)
		}
	}
	if g.Makespan == 0 {
		return
	}
	for _, s := range g.CriticalPath().Steps { // last, so that no other op covers a border
		chart.Swatch{Border: color.Black}.Draw(&c, g.box(s.Rank, s.Op, x, y))
	}
}

// box returns the rectangle of op i of rank r.
func (g *gantt) box(r, i int, x, y func(float64) vg.Length) vg.Rectangle {
	o, times := &g.Program.Ops[r][i], &g.Ops[r][i]
	top := g.first[r] + float64(o.Stream) + 0.03
	switch o.Kind {
	case schedule.Send, schedule.Put, schedule.Signal:
	default:
		top += 0.5
	}
	from, to := x(float64(times.Posted)/g.each), x(float64(times.End)/g.each)
	return vg.Rectangle{Min: vg.Point{X: from, Y: y(-top - 0.44)}, Max: vg.Point{X: max(to-vg.Points(0.5), from+vg.Points(0.3)), Y: y(-top)}}
}
