package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/sethvargo/go-githubactions"

	"github.com/collectivex/collectivex/pkg/sanitize"
	"github.com/collectivex/collectivex/pkg/strictyaml"
)

// SetOutput sets an output of the Actions step that this program runs in. Without one, it
// returns an EnvironmentError.
func (s Streams) SetOutput(name, value string) error {
	if strings.Contains(value, "_GitHubActionsFileCommandDelimeter_") {
		return fmt.Errorf("output %s contains the delimiter of output files", name)
	}
	return s.command("GITHUB_OUTPUT", "output "+name, func(a *githubactions.Action) { a.SetOutput(name, value) })
}

// AddStepSummary adds to the summary of the Actions job that this program runs in. Without
// one, it returns an EnvironmentError.
func (s Streams) AddStepSummary(markdown string) error {
	return s.command(stepSummary, "job summary", func(a *githubactions.Action) { a.AddStepSummary(markdown) })
}

// command gives the runner a command through the file in a variable.
func (s Streams) command(variable, what string, give func(*githubactions.Action)) (err error) {
	if s.Getenv(variable) == "" {
		return EnvironmentError("%s is not set: not running in a step of an Actions job", variable)
	}
	defer func() { // the library panics if it cannot write the file
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: %v", what, r)
		}
	}()
	give(githubactions.New(githubactions.WithGetenv(s.Getenv), githubactions.WithWriter(s.Out)))
	return nil
}

// stepSummary names the file to which a step of an Actions job adds its part of
// the job summary.
const stepSummary = "GITHUB_STEP_SUMMARY"

// StepSummaryLeft returns how many of limit bytes this step may still add to the job summary.
// ok is false without one.
func (s Streams) StepSummaryLeft(limit int) (left int, ok bool) {
	path := s.Getenv(stepSummary)
	if path == "" {
		return 0, false
	}
	if info, err := os.Stat(path); err == nil {
		limit -= int(min(info.Size(), int64(limit)))
	}
	return limit, true
}

// Annotation returns the line with which a step annotates its job: an error or a warning.
func Annotation(kind, title, text string) string {
	c := githubactions.Command{Name: kind, Message: sanitize.Line(text)}
	if title != "" {
		c.Properties = githubactions.CommandProperties{"title": sanitize.Line(title)}
	}
	return c.String()
}

// annotate writes an annotation for each diagnostic in err, at its file, line and column.
func annotate(w io.Writer, err error) {
	about, _ := errors.AsType[strictyaml.Errors](err)
	for _, d := range about {
		fmt.Fprintln(w, &githubactions.Command{Name: "error", Message: sanitize.Line(d.Msg), Properties: githubactions.CommandProperties{
			"file": sanitize.Line(d.File), "line": strconv.Itoa(d.Line), "col": strconv.Itoa(d.Col),
		}})
	}
}
