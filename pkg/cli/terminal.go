package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Terminal returns the width of the terminal behind w. ok is false if w is not a terminal
// that can redraw lines: in CI, whose logs keep every line, on a dumb one, and on one without
// a width, as act gives its steps.
func (s Streams) Terminal(w io.Writer) (width int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || s.Getenv("CI") != "" || s.Getenv("TERM") == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	return width, err == nil && width > 0
}

// OnActions reports whether this is a step of an Actions job.
func (s Streams) OnActions() bool { return s.Getenv("GITHUB_ACTIONS") == "true" }
