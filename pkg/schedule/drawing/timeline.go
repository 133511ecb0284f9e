// Package drawing draws topologies, and timelines of simulations, as SVG files.
package drawing

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/chart"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
)

// maxOps is the maximum number of ops in a timeline that can still be read.
const maxOps = 20000

// Each stream is a row, with sends, puts and signals in its upper half and all other ops in its lower half.
// Ranks are rankGap apart.
const (
	rowHeight = 26  // in pixels
	rankGap   = 0.4 // of a row
)

// kinds lists, by kind of op, its name in the legend, its colour and that of its description. The simulator does not support gets.
var kinds = [...]struct {
	name, fill, ink string
}{
	schedule.Reduce:     {"add", "#b5483a", "#ffffff"},
	schedule.Send:       {"send", "#3b6fb6", "#ffffff"},
	schedule.Recv:       {"receive", "#5a9e6f", "#000000"},
	schedule.RecvReduce: {"receive and add", "#d99a2b", "#000000"},
	schedule.Copy:       {"copy", "#7d7d7d", "#000000"},
	schedule.Put:        {"put", "#7a5aa6", "#ffffff"},
	schedule.Signal:     {"signal", "#a9b8cc", "#000000"},
	schedule.Wait:       {"wait", "#cfcfcf", "#000000"},
	schedule.Flush:      {"wait for puts", "#cfcfcf", "#000000"},
}

// Timeline draws a simulation as SVG, with a row for every stream of every rank. Each op is a box from the
// time when it is posted to its end, with its description inside. Ops on the critical path have a border.
// The time axis has the label unit, with note as a second line, and each is the length of one unit.
// Timeline fails if the program has too many ops.
func Timeline(t *simulate.Timeline, title, note, unit string, each simulate.Picoseconds) ([]byte, error) {
	total := 0
	g := &gantt{Timeline: t, each: float64(each), used: map[schedule.Kind]bool{}}
	var labels []chart.Tick
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
			labels = append(labels, chart.Tick{Value: -g.rows - float64(s) - 0.5, Label: label})
		}
		g.rows += float64(streams) + rankGap
	}
	if total > maxOps {
		return nil, fmt.Errorf("%d ops, a drawing has at most %d: use fewer ranks", total, maxOps)
	}
	p := chart.New(title)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, float64(max(1, t.Makespan))/g.each, -g.rows, 0
	p.X.Ticks, p.Y.Ticks = chart.Even, func(float64, float64) []chart.Tick { return labels }
	p.X.Label = unit + "\n" + note
	p.Add(g.draw)
	for k, kind := range kinds {
		if g.used[schedule.Kind(k)] {
			p.Legend = append(p.Legend, chart.Swatch(kind.name, chart.Style{Fill: kind.fill}))
		}
	}
	p.Legend = append(p.Legend, chart.Swatch("critical path", border))
	return p.SVG(g.rows * rowHeight), nil
}

// border is how ops on the critical path are drawn.
var border = chart.Style{Stroke: "#000000"}

// gantt draws the ops of a timeline.
type gantt struct {
	*simulate.Timeline
	each  float64
	first []float64 // by rank: the top of its first row, in rows
	rows  float64   // height of all rows and gaps, in rows
	used  map[schedule.Kind]bool
}

// draw draws each op with its number and description, and then the borders, so that no other op covers one.
func (g *gantt) draw(c *chart.Canvas) {
	for r, ops := range g.Program.Ops {
		for i := range ops {
			a, b := g.box(c, r, i)
			c.Box(a, b, chart.Style{Fill: kinds[ops[i].Kind].fill})
			label := fmt.Sprintf("op %d: %s", i, ops[i].String())
			size := min(0.9*(b.Y-a.Y), 0.95*(b.X-a.X)/chart.TextWidth(label, 1))
			c.Text(chart.Point{X: a.X, Y: (a.Y + b.Y) / 2}, "start", size, kinds[ops[i].Kind].ink, label)
		}
	}
	if g.Makespan == 0 {
		return
	}
	for _, s := range g.CriticalPath().Steps {
		a, b := g.box(c, s.Rank, s.Op)
		c.Box(a, b, border)
	}
}

// box returns the upper left and the lower right corner of op i of rank r. There is a gap to the next op if
// there is room.
func (g *gantt) box(c *chart.Canvas, r, i int) (a, b chart.Point) {
	o, times := &g.Program.Ops[r][i], &g.Ops[r][i]
	top := g.first[r] + float64(o.Stream) + 0.03
	switch o.Kind {
	case schedule.Send, schedule.Put, schedule.Signal:
	default:
		top += 0.5
	}
	a, b = c.At(float64(times.Posted)/g.each, -top), c.At(float64(times.End)/g.each, -top-0.44)
	b.X = max(b.X-0.7, a.X+0.4)
	return a, b
}
