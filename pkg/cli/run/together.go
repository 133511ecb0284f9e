package run

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/rendezvous"
)

// together is the place of this process if mpirun, srun or torchrun started several as the ranks of one bench. It is
// nil if the bench was started alone.
type together struct{ launch.Started }

// startedTogether returns how a bench was started.
func startedTogether(s cli.Streams) (*together, error) {
	p, err := launch.Together(s.Getenv)
	if err != nil {
		return nil, cli.EnvironmentError("%w", err)
	}
	if p == nil {
		return nil, nil //nolint:nilnil // started alone
	}
	return &together{*p}, nil
}

// ranks returns the number of ranks, which is one for each process. It fails if the flags ask for another number.
func (t *together) ranks(o *bench.Output, asked int) (int, error) {
	given := o.Set("ngpus") || o.Set("nthreads")
	switch {
	case t == nil:
		return asked, nil
	case given && asked != 1:
		return 0, cli.UsageError("%s started %d processes, each of which is one rank: leave -t and -g out", t.Launcher(), t.World)
	case !given && asked != 0 && asked != t.World:
		return 0, cli.UsageError("this measurement has %d ranks, and %s started %d processes, each of which is one rank: start %[1]d", asked, t.Launcher(), t.World)
	default:
		return t.World, nil
	}
}

// once returns err, without its text if another process on this host prints it: all have the same command. Files may
// differ between hosts.
func (t *together) once(err error) error {
	if t != nil && t.Rank > 0 && t.Local != 0 && cli.Code(err) == cli.ExitUsage {
		return &cli.ExitError{Code: cli.ExitUsage}
	}
	return err
}

// run calls lead in the process of rank 0. The others run their ranks until lead has returned, and end with the same
// exit code.
func (t *together) run(ctx context.Context, s cli.Streams, p *place, task string, wait bool, lead func(*launch.Team) error) (err error) {
	m, err := t.Member(s.Getenv)
	if err == nil {
		err = os.Unsetenv(rendezvous.TokenVariable) // the ranks have a token of their own
	}
	if err != nil {
		return cli.EnvironmentError("%s started %d processes for one measurement: %w", t.Launcher(), t.World, err)
	}
	var devices []string
	m.Task = cli.Build() + " " + p.backend.Name + " " + task
	m.Tell = func(format string, args ...any) { s.Tell("cxrun: "+format, args...) }
	if g := p.machine.GPUs; g != nil {
		m.Task += " " + g.Product
		m.Devices, devices = g.Count, p.survey.Addresses[g.Vendor]
	}
	team, err := launch.Join(ctx, m, command.Host{})
	if _, all := errors.AsType[launch.Disagreement](err); all && t.Rank > 0 {
		return &cli.ExitError{Code: cli.ExitEnvironment} // rank 0 prints the error
	}
	if err != nil {
		return cli.EnvironmentError("%w", err)
	}
	defer func() { err = errors.Join(err, team.Close(ctx, cli.Code(err))) }()
	own := min(team.LocalRank(), len(devices))
	ctx, release, err := takeTurn(ctx, s, devices[own:min(own+1, len(devices))], wait)
	if err != nil {
		return err
	}
	defer release()
	if team.Leads() {
		p.machine.Nodes = team.Nodes()
		p.note += fmt.Sprintf("; %d ranks started by %s", t.World, t.Launcher())
		return lead(team)
	}
	switch code, err := team.Serve(ctx); {
	case err != nil:
		return cli.EnvironmentError("%w", err)
	case code != cli.ExitOK:
		return &cli.ExitError{Code: code}
	default:
		return nil
	}
}
