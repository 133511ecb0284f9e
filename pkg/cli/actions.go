package cli

import (
	"fmt"
	"strings"

	"github.com/sethvargo/go-githubactions"

	"github.com/collectivex/collectivex/pkg/foreign"
)

// SetOutput sets an output of the Actions step this program runs in. It is an
// EnvironmentError where there is no such step.
func (s Streams) SetOutput(name, value string) (err error) {
	const variable = "GITHUB_OUTPUT"
	if s.Getenv(variable) == "" {
		return EnvironmentError("%s is not set: not running in a step of an Actions job", variable)
	}
	if strings.Contains(value, "_GitHubActionsFileCommandDelimeter_") {
		return fmt.Errorf("output %s contains the delimiter of output files", name)
	}
	defer func() { // the library panics where the file cannot be written
		if r := recover(); r != nil {
			err = fmt.Errorf("output %s: %v", name, r)
		}
	}()
	githubactions.New(githubactions.WithGetenv(s.Getenv), githubactions.WithWriter(s.Out)).SetOutput(name, value)
	return nil
}

// Annotation returns the line by which a step annotates its job: an error or a
// warning, with a title where it is not empty.
func Annotation(kind, title, text string) string {
	c := githubactions.Command{Name: kind, Message: foreign.Line(text)}
	if title != "" {
		c.Properties = githubactions.CommandProperties{"title": foreign.Line(title)}
	}
	return c.String()
}
