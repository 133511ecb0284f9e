package cli

import (
	"fmt"
	"os"

	"github.com/sethvargo/go-githubactions"
)

// stepSummary names the file to which a step of an Actions job adds its part of
// the job summary.
const stepSummary = "GITHUB_STEP_SUMMARY"

// StepSummaryLeft returns how much of limit bytes this step may still add to
// the job summary, and whether there is one.
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

// AddStepSummary adds to the summary of the Actions job this program runs in.
// It is an EnvironmentError where there is no such job.
func (s Streams) AddStepSummary(markdown string) (err error) {
	if s.Getenv(stepSummary) == "" {
		return EnvironmentError("%s is not set: not running in a step of an Actions job", stepSummary)
	}
	defer func() { // the library panics where the file cannot be written
		if r := recover(); r != nil {
			err = fmt.Errorf("job summary: %v", r)
		}
	}()
	githubactions.New(githubactions.WithGetenv(s.Getenv), githubactions.WithWriter(s.Out)).AddStepSummary(markdown)
	return nil
}
