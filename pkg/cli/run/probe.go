package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/preflight"
)

// probeLimit is the maximum time for the examination. Drivers that start cold take seconds.
const probeLimit = 2 * time.Minute

// machineHere examines this machine in another process of this program. If a driver or library
// crashes when it is opened, the sweep goes on without the GPUs. The only error is errInterrupted.
func machineHere(ctx context.Context, defs cli.Definitions) (preflight.Survey, error) {
	d, err := probe(ctx, command.Host{}, defs)
	switch {
	case ctx.Err() != nil:
		return d, errInterrupted
	case err != nil:
		return preflight.Survey{Unusable: []string{fmt.Sprintf("the GPUs of this machine cannot be examined: %v; 'cxrun doctor' examines them again and reports more", err)}}, nil
	default:
		return d, nil
	}
}

func probe(ctx context.Context, s command.Starter, defs cli.Definitions) (preflight.Survey, error) {
	var d preflight.Survey
	program, err := os.Executable()
	if err != nil {
		return d, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	args := []string{program, surveyCommand}
	if defs.Dir != "" {
		args = append(args, "--definitions", defs.Dir)
	}
	text, err := command.Output(ctx, s, command.Command{Args: args})
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s", probeLimit)
	}
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		return d, fmt.Errorf("cxrun %s: %w", surveyCommand, err)
	}
	return d, nil
}

// surveyCommand is hidden, since its output may contain paths of this machine.
const surveyCommand = "survey"

func newSurvey(s cli.Streams) *cobra.Command {
	var defs cli.Definitions
	cmd := &cobra.Command{
		Use:    surveyCommand,
		Short:  "Report, as JSON, what planning needs to know about this machine",
		Hidden: true,
		Args:   cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cat, err := defs.Load()
			if err != nil {
				return err
			}
			return s.JSON(here().examiner(nil).Survey(cat.Backends))
		},
	}
	defs.AddFlag(cmd.Flags())
	return cmd
}

// tellUnusable warns if none of the GPUs here can be used.
func tellUnusable(s cli.Streams, m preflight.Survey) {
	if len(m.GPUs) == 0 && len(m.Unusable) > 0 {
		warn(s, strings.Join(m.Unusable, "; ")+"; they are left out")
	}
}

func warn(s cli.Streams, texts ...string) {
	for _, text := range texts {
		s.Tell("cxrun: warning: %s", text)
	}
}
