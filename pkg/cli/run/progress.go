package run

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sanitize"
	"github.com/collectivex/collectivex/pkg/shard"
)

// How often a running case is reported: on a terminal its line is drawn again, elsewhere a line
// is added.
const (
	terminalTick = time.Second
	plainTick    = 30 * time.Second
)

// progress shows the progress of a shard: a line for each case that ended, and on a terminal a
// last line with the running one. On Actions the lines of a cell are folded, and failed cases
// are annotations.
type progress struct {
	w       io.Writer
	width   int // of the terminal; 0 without one
	actions bool
	paint   func(colour, text string) string

	mu      sync.Mutex
	running string // the case; "" between cases
	counter string
	since   time.Time
	stop    chan struct{}
	stopped sync.WaitGroup
}

var _ shard.Observer = (*progress)(nil)

// newProgress returns the progress of one cell. The caller calls end.
func newProgress(s cli.Streams, title string) *progress {
	p := startProgress(s)
	p.actions = s.OnActions()
	if p.actions {
		fmt.Fprintf(p.w, "::group::%s\n", sanitize.Line(title))
	} else {
		fmt.Fprintln(p.w, sanitize.Line(title))
	}
	return p
}

func startProgress(s cli.Streams) *progress {
	p := &progress{w: s.Err, stop: make(chan struct{})}
	p.paint = func(colour, text string) string { return s.Paint(s.Err, colour, text) }
	p.width, _ = s.Terminal(s.Err)
	tick := plainTick
	if p.width > 0 {
		tick = terminalTick
	}
	p.stopped.Go(func() { p.watch(tick) })
	return p
}

// end stops the progress. Nothing is written after it returns.
func (p *progress) end() {
	close(p.stop)
	p.stopped.Wait()
	p.line("")
	if p.actions {
		fmt.Fprintln(p.w, "::endgroup::")
	}
}

func (p *progress) watch(tick time.Duration) {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-t.C:
			p.mu.Lock()
			if p.running != "" {
				p.status()
			}
			p.mu.Unlock()
		}
	}
}

// status reports the running case. The caller holds the lock.
func (p *progress) status() {
	text := sanitize.Line(fmt.Sprintf("%s running %4s  %s", p.counter, time.Since(p.since).Round(time.Second), p.running))
	if p.width == 0 {
		fmt.Fprintln(p.w, text)
		return
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", text[:min(len(text), p.width-1)])
}

// line replaces the line of the running case; an empty text only clears it.
func (p *progress) line(text string) { p.print(sanitize.Line(text)) }

// print is line for text that may have several lines and commands of Actions.
func (p *progress) print(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = ""
	if p.width > 0 {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	if text != "" {
		fmt.Fprintln(p.w, text)
	}
}

// above calls f, which may write lines above the line of the running case.
func (p *progress) above(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width > 0 {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	f()
	if p.width > 0 && p.running != "" {
		p.status()
	}
}

func counter(n, total int) string {
	digits := len(fmt.Sprint(total))
	return fmt.Sprintf("[%*d/%d]", digits, n, total)
}

func (p *progress) Started(n, total int, c plan.Case, attempt int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running, p.counter, p.since = c.CaseID, counter(n, total), time.Now()
	if attempt > 1 {
		p.running += fmt.Sprintf(" (attempt %d)", attempt)
	}
	if p.width > 0 {
		p.status()
	}
}

func (p *progress) Ended(n, total int, e shard.End) {
	id, o := e.Document.Head().Identity.CaseID, e.Document.Head().Outcome
	text, annotation := fmt.Sprintf("%s %-9s %s  %.1fs", counter(n, total), o.Status, id, e.Took.Seconds()), ""
	colour := cli.Green
	if o.Status != result.Success {
		colour = cli.Red
		reasons := o.Reasons.String()
		text += "  " + reasons
		if e.Logs != "" {
			text += "; logs in " + e.Logs
		}
		if p.actions {
			annotation = "\n" + cli.Annotation("error", id, reasons)
		}
	}
	p.print(strings.Replace(sanitize.Line(text), o.Status, p.paint(colour, o.Status), 1) + annotation)
}

func (p *progress) Kept(n, total int, c plan.Case, passed bool) {
	text := fmt.Sprintf("%s %-9s %s", counter(n, total), "kept", c.CaseID)
	if !passed {
		text += "  failed before"
	}
	p.line(text)
}

func (p *progress) Warn(text string) {
	if p.actions {
		p.print(cli.Annotation("warning", "", text))
	} else {
		p.line("warning: " + text)
	}
}
