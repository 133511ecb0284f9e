package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"golang.org/x/term"

	"github.com/collectivex/collectivex/pkg/sanitize"
)

// Streams are the standard streams and the environment of a program, which tests replace.
type Streams struct {
	In     io.Reader
	Out    io.Writer
	Err    io.Writer
	Getenv func(string) string
}

// Tell prints one line to standard error; see sanitize.Line.
func (s Streams) Tell(format string, args ...any) {
	fmt.Fprintln(s.Err, sanitize.Line(fmt.Sprintf(format, args...)))
}

// Whole writes to Out and keeps the first error, for writers that ignore it.
type Whole struct {
	Out io.Writer
	Err error
}

// Write implements io.Writer.
func (w *Whole) Write(p []byte) (int, error) {
	n, err := w.Out.Write(p)
	if err != nil && w.Err == nil {
		w.Err = fmt.Errorf("standard output is incomplete: %w", err)
	}
	return n, err
}

// Table writes rows of cells, which may have any text, in aligned columns.
func Table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = sanitize.Line(cell)
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// JSON writes v to standard output as indented JSON.
func (s Streams) JSON(v any) error {
	e := json.NewEncoder(s.Out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Terminal returns the width of the terminal behind w. ok is false if w is not a terminal
// that can redraw lines: in CI, whose logs keep every line, on a dumb one, and on one without
// a width, as act gives its steps.
func (s Streams) Terminal(w io.Writer) (width int, ok bool) {
	for whole, ok := w.(*Whole); ok; whole, ok = w.(*Whole) {
		w = whole.Out
	}
	f, isFile := w.(*os.File)
	if !isFile || s.Getenv("CI") != "" || s.Getenv("TERM") == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	return width, err == nil && width > 0
}

// Colours for Paint.
const (
	Red    = "31"
	Green  = "32"
	Yellow = "33"
)

// Paint returns text in a colour if w is a terminal and NO_COLOR is not set, else text as it is.
func (s Streams) Paint(w io.Writer, colour, text string) string {
	if _, ok := s.Terminal(w); !ok || s.Getenv("NO_COLOR") != "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// OnActions reports whether this is a step of an Actions job.
func (s Streams) OnActions() bool { return s.Getenv("GITHUB_ACTIONS") == "true" }

// WithSignals returns a context that ends with the first SIGINT, SIGTERM or,
// unless it is ignored as under nohup, SIGHUP. A second signal ends the process at once.
func WithSignals(parent context.Context) (ctx context.Context, stop context.CancelFunc) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop = signal.NotifyContext(parent, ends...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
