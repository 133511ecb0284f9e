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
	svgLeft, svgRight, svgTop = 120, 20, 74
	svgLegend                 = 48   // top of the legend
	svgKind                   = 110  // of a kind of ops in the legend
	svgWide                   = 1000 // of the time
	svgLane                   = 18   // of a stream: sends above, what comes in below
	svgGap                    = 8    // between two ranks
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

// svgKinds are the words of the legend, in which ops are printed, too.
var svgKinds = [...]string{
	schedule.Reduce: "add", schedule.Send: "send", schedule.Recv: "receive", schedule.RecvReduce: "receive and add",
	schedule.Copy: "copy", schedule.Put: "put", schedule.Signal: "signal", schedule.Wait: "wait",
	schedule.Flush: "wait for puts",
}

// WriteSVG draws a timeline: a row for every stream of every rank, in which each op reaches
// from when it is posted to its end, and those of the critical path have a border. The note is a line
// below the title. The time is in units of so many picoseconds each.
func (t *Timeline) WriteSVG(out io.Writer, title, note, unit string, each Picoseconds) error {
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
	bottom := svgTop + rows*svgLane + (len(t.Ops)-1)*svgGap
	top := func(rank, stream int) int { return svgTop + (first[rank]+stream)*svgLane + rank*svgGap }
	at := func(x Picoseconds) float64 {
		return svgLeft + float64(x)*svgWide/float64(max(1, t.Makespan))
	}
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n", svgLeft+svgWide+svgRight, bottom+30)
	fmt.Fprintf(w, "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n<text x=\"8\" y=\"18\" font-size=\"14\">%s</text>\n<text x=\"8\" y=\"36\">%s</text>\n", html.EscapeString(title), html.EscapeString(note))
	used := [len(svgColors)]bool{}
	for _, ops := range t.Program.Ops {
		for i := range ops {
			used[ops[i].Kind] = true
		}
	}
	x := svgLeft
	for k, color := range svgColors {
		if used[k] {
			fmt.Fprintf(w, "<rect x=\"%d\" y=\"%d\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%d\" y=\"%d\">%s</text>\n", x, svgLegend, color, x+14, svgLegend+9, svgKinds[k])
			x += svgKind
		}
	}
	fmt.Fprintf(w, "<rect x=\"%d.5\" y=\"%d.5\" width=\"9\" height=\"9\" fill=\"none\" stroke=\"#000000\"/><text x=\"%d\" y=\"%d\">critical path</text>\n", x, svgLegend, x+14, svgLegend+9)
	step := svgStep(t.Makespan)
	for when := Picoseconds(0); when <= t.Makespan; when += step {
		fmt.Fprintf(w, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#dddddd\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
			at(when), svgTop, at(when), bottom, at(when), bottom+14, strconv.FormatFloat(float64(when)/float64(each), 'f', -1, 64))
	}
	fmt.Fprintf(w, "<text x=\"8\" y=\"%d\">%s</text>\n", bottom+14, html.EscapeString(unit))
	for r, ops := range t.Program.Ops {
		if r > 0 {
			y := top(r, 0) - svgGap/2
			fmt.Fprintf(w, "<line x1=\"8\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#dddddd\"/>\n", y, svgLeft+svgWide, y)
		}
		for s := range first[r+1] - first[r] {
			label := fmt.Sprintf("rank %d", r)
			if first[r+1]-first[r] > 1 {
				label = fmt.Sprintf("rank %d, stream %d", r, s)
			}
			fmt.Fprintf(w, "<text x=\"8\" y=\"%d\">%s</text>\n", top(r, s)+12, label)
		}
		for i := range ops {
			o := &ops[i]
			fmt.Fprintf(w, "<rect %s fill=\"%s\"><title>rank %d, op %d: %s</title></rect>\n",
				t.box(r, i, top, at), svgColors[o.Kind], r, i, html.EscapeString(o.String()))
		}
	}
	if total > 0 { // above the ops that share their time
		for _, s := range t.CriticalPath().Steps {
			fmt.Fprintf(w, "<rect %s fill=\"none\" stroke=\"#000000\"/>\n", t.box(s.Rank, s.Op, top, at))
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

// box is the place of op i of rank r, as attributes of a rectangle: top is where the row of a stream of a
// rank begins, and at where a time is.
func (t *Timeline) box(r, i int, top func(rank, stream int) int, at func(Picoseconds) float64) string {
	o, x := &t.Program.Ops[r][i], &t.Ops[r][i]
	y := top(r, int(o.Stream)) + 1
	switch o.Kind {
	case schedule.Send, schedule.Put, schedule.Signal:
	default:
		y += svgLane / 2
	}
	return fmt.Sprintf("x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"", at(x.Posted), y, max(0.5, at(x.End)-at(x.Posted)-1), svgLane/2-2)
}
