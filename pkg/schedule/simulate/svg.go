package simulate

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"strconv"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// The layout of a drawing, in pixels.
const (
	svgLeft, svgRight, svgTop = 120, 20, 56
	svgWide                   = 1000 // of the time
	svgLane                   = 18   // of a stream: sends above, what comes in below
	svgTicks                  = 10   // at most, beside that at 0
)

// svgOps bounds a drawing, which nobody can read beyond it.
const svgOps = 20000

// svgColors are those of the kinds of ops.
var svgColors = [...]string{
	schedule.Reduce: "#b5483a", schedule.Send: "#3b6fb6", schedule.Recv: "#5a9e6f", schedule.RecvReduce: "#d99a2b",
	schedule.Copy: "#7d7d7d", schedule.Put: "#7a5aa6", schedule.Signal: "#a9b8cc", schedule.Wait: "#cfcfcf",
	schedule.Flush: "#cfcfcf",
}

// WriteSVG draws a timeline: a row for every stream of every rank, in which each op reaches
// from when it is posted to its end, and those of the critical path have a border. The time is
// in units of so many picoseconds each.
func (t *Timeline) WriteSVG(out io.Writer, title, unit string, each Picoseconds) error {
	total := 0
	first := make([]int, len(t.Ops)+1) // by rank: its first row
	for r, ops := range t.Program.Ops {
		streams := 1
		for i := range ops {
			streams = max(streams, int(ops[i].Stream)+1)
		}
		first[r+1] = first[r] + streams
		total += len(ops)
	}
	if total > svgOps {
		return fmt.Errorf("%d ops, a drawing has at most %d: take fewer ranks", total, svgOps)
	}
	rows := first[len(t.Ops)]
	height := svgTop + rows*svgLane + 30
	at := func(x Picoseconds) float64 {
		return svgLeft + float64(x)*svgWide/float64(max(1, t.Makespan))
	}
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n", svgLeft+svgWide+svgRight, height)
	fmt.Fprintf(w, "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n<text x=\"8\" y=\"18\" font-size=\"14\">%s</text>\n", html.EscapeString(title))
	used := [len(svgColors)]bool{}
	for _, ops := range t.Program.Ops {
		for i := range ops {
			used[ops[i].Kind] = true
		}
	}
	x := svgLeft
	for k, color := range svgColors {
		if used[k] {
			fmt.Fprintf(w, "<rect x=\"%d\" y=\"30\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%d\" y=\"39\">%s</text>\n", x, color, x+14, schedule.Kind(k))
			x += 90
		}
	}
	fmt.Fprintf(w, "<rect x=\"%d.5\" y=\"30.5\" width=\"9\" height=\"9\" fill=\"none\" stroke=\"#000000\"/><text x=\"%d\" y=\"39\">critical path</text>\n", x, x+14)
	step := svgStep(t.Makespan)
	for when := Picoseconds(0); when <= t.Makespan; when += step {
		fmt.Fprintf(w, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#dddddd\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
			at(when), svgTop, at(when), svgTop+rows*svgLane, at(when), svgTop+rows*svgLane+14, strconv.FormatFloat(float64(when)/float64(each), 'f', -1, 64))
	}
	fmt.Fprintf(w, "<text x=\"8\" y=\"%d\">%s</text>\n", svgTop+rows*svgLane+14, html.EscapeString(unit))
	for r, ops := range t.Program.Ops {
		for s := range first[r+1] - first[r] {
			label := fmt.Sprintf("rank %d", r)
			if first[r+1]-first[r] > 1 {
				label = fmt.Sprintf("rank %d, stream %d", r, s)
			}
			fmt.Fprintf(w, "<text x=\"8\" y=\"%d\">%s</text>\n", svgTop+(first[r]+s)*svgLane+12, label)
		}
		for i := range ops {
			o := &ops[i]
			fmt.Fprintf(w, "<rect %s fill=\"%s\"><title>rank %d, op %d: %s</title></rect>\n",
				t.box(r, i, first[r], at), svgColors[o.Kind], r, i, html.EscapeString(o.String()))
		}
	}
	if total > 0 { // above the ops that share their time
		for _, s := range t.CriticalPath().Steps {
			fmt.Fprintf(w, "<rect %s fill=\"none\" stroke=\"#000000\"/>\n", t.box(s.Rank, s.Op, first[s.Rank], at))
		}
	}
	fmt.Fprintln(w, "</svg>")
	return w.Flush()
}

// svgStep is the time from one tick to the next: 1, 2 or 5 times a power of ten of picoseconds, and so
// of all units of time.
func svgStep(makespan Picoseconds) Picoseconds {
	for power := Picoseconds(1); ; power *= 10 {
		for _, digit := range []Picoseconds{1, 2, 5} {
			if makespan/(digit*power) <= svgTicks {
				return digit * power
			}
		}
	}
}

// box is the place of op i of rank r, whose first stream has a row: attributes of a rectangle.
func (t *Timeline) box(r, i, row int, at func(Picoseconds) float64) string {
	o, x := &t.Program.Ops[r][i], &t.Ops[r][i]
	y := svgTop + (row+int(o.Stream))*svgLane + 1
	switch o.Kind {
	case schedule.Send, schedule.Put, schedule.Signal:
	default:
		y += svgLane / 2
	}
	return fmt.Sprintf("x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"", at(x.Posted), y, max(0.5, at(x.End)-at(x.Posted)-1), svgLane/2-2)
}
