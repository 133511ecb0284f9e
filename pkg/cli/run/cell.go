package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/shard"
)

// cellRun is how this program runs a cell, whether for shard or for sweep.
type cellRun struct {
	matrix  *plan.Matrix
	cluster cluster
	team    *launch.Team // of ranks that another launcher started; else nil
	run     shard.Run
	results string
	resume  bool
	repeat  int           // 0: all repeats of the cases
	only    []string      // case ids, of first repeats; empty: all cases
	repeats int           // of each case; 0: as planned
	limit   time.Duration // 0: as long as it takes
	watch   func(result.Document)
	files   map[string][]byte // see shard.Shard
}

// newCellRun returns the settings that all cells of a matrix share. It fails if an injected fault
// matches none of its cases.
func newCellRun(s cli.Streams, m *plan.Matrix, localID string) (cellRun, error) {
	if err := checkFaults(s, m); err != nil {
		return cellRun{}, err
	}
	around, err := newCluster(s)
	if err != nil {
		return cellRun{}, err
	}
	run, err := newRun(s, localID)
	return cellRun{matrix: m, cluster: around, run: run}, err
}

// watchEvery is the minimum time between two updates of a watched case.
const watchEvery = time.Second

const noLimit = time.Duration(1 << 62)

// do runs one cell, with progress. A failed case is not an error; see shard.Counts.
func (r cellRun) do(ctx context.Context, s cli.Streams, cell plan.Cell) (shard.Counts, error) {
	cases, err := r.matrix.Cases(cell)
	if err != nil {
		return shard.Counts{}, cli.UsageError("%w", err)
	}
	if r.repeat > 0 {
		cases = slices.DeleteFunc(cases, func(q plan.Requested) bool { return q.Case.Repeat != r.repeat })
	}
	cases = r.selected(cases)
	if r.repeat > 1 && len(cases) == 0 {
		return shard.Counts{}, nil
	}
	p := newProgress(s, fmt.Sprintf("%s: %s", cell.ID, plural.Count(len(cases), "case", "cases")))
	defer p.end()
	return r.observed(ctx, cell, cases, p)
}

// selected returns the cases that the run is limited to, each as often as it asks.
func (r cellRun) selected(cases []plan.Requested) (out []plan.Requested) {
	if len(r.only) == 0 && r.repeats == 0 {
		return cases
	}
	if len(r.only) > 0 {
		cases = slices.DeleteFunc(cases, func(q plan.Requested) bool { return !slices.Contains(r.only, firstID(q.Case)) })
	}
	if r.repeats == 0 {
		return cases
	}
	for repeat := range r.repeats {
		taken := map[string]bool{} // a cell may have several repeats of a case, or only later ones
		for _, q := range cases {
			if first := firstID(q.Case); !taken[first] {
				taken[first] = true
				q.Case.Repeat = repeat + 1
				q.Case.CaseID = q.Case.ID()
				out = append(out, q)
			}
		}
	}
	return out
}

// observed runs the cases of a cell and reports to an observer.
func (r cellRun) observed(ctx context.Context, cell plan.Cell, cases []plan.Requested, o shard.Observer) (shard.Counts, error) {
	r.run.MatrixSHA256 = r.matrix.SHA256
	request := r.cluster.request(cell)
	launcher, listen := launch.For(request), request.Listen()
	if r.team != nil {
		launcher, listen = r.team, r.team.Listen()
	}
	sh := shard.Shard{
		Cell: cell, Cases: cases, Run: r.run, Families: families(),
		Launcher: launcher,
		Network:  request.NetworkEnv,
		Listen:   listen,
		Fits:     func(f rank.Facts) error { return fits(cell, f.DeviceProduct, f.DeviceArch) },
		Files:    r.files,
		Results:  r.results, Resume: r.resume, Limit: cmp.Or(r.limit, noLimit),
		Observer: o, Watch: r.watch, WatchEvery: watchEvery,
	}
	counts, err := sh.Do(ctx)
	switch {
	case errors.Is(err, shard.ErrExists), errors.Is(err, shard.ErrOther):
		return counts, cli.UsageError("%w", err)
	case err != nil:
		return counts, cli.EnvironmentError("cell %s: %w", cell.ID, err)
	default:
		return counts, nil
	}
}

// checkFaults returns an error if an injected fault matches none of the runnable cases.
func checkFaults(s cli.Streams, m *plan.Matrix) error {
	faults, err := rank.ParseFaults(s.Getenv(rank.FaultVariable), faultKinds()...)
	if err != nil {
		return cli.UsageError("%w", err)
	}
	var cases []plan.Case
	for q := range m.Requested() {
		if q.Disposition == plan.Runnable && families()[q.Case.Family].Computes == nil { // others have no ranks
			cases = append(cases, q.Case)
		}
	}
	if err := rank.CheckFaults(faults, cases, idle); err != nil {
		return cli.UsageError("%w", err)
	}
	return nil
}

// newRun returns the description of this run for documents: its identity, which on Actions is the
// job's, and what may be published about this machine.
func newRun(s cli.Streams, localID string) (shard.Run, error) {
	faults, err := rank.ParseFaults(s.Getenv(rank.FaultVariable), faultKinds()...)
	if err != nil {
		return shard.Run{}, cli.UsageError("%w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return shard.Run{}, cli.EnvironmentError("%w", err)
	}
	screen := provenance.ScreenOf(host, os.Environ())
	run := shard.Run{
		RunID: s.Getenv(runIDVariable), RunAttempt: s.Getenv("GITHUB_RUN_ATTEMPT"),
		SourceSHA: s.Getenv("GITHUB_SHA"), Generator: "cxrun " + cli.Build(),
		Environment: func(env, seen, found map[string]string) map[string]string {
			if seen == nil {
				seen = given(os.Environ(), env)
			}
			return published(screen, seen, found, faults)
		},
		Screen: screen,
	}
	if run.RunID == "" {
		run.RunID, run.RunAttempt = localID, "1"
	}
	return run, nil
}

// given returns the environment that ranks should get: what they inherit, with env added.
func given(inherited []string, env map[string]string) map[string]string {
	all := map[string]string{}
	for _, kv := range inherited {
		name, value, _ := strings.Cut(kv, "=")
		all[name] = value
	}
	maps.Copy(all, env)
	for name := range strings.SplitSeq(env[launch.UnsetVariable], ",") {
		delete(all, name)
	}
	return all
}

// published returns the environment of ranks for documents, with the settings that they found beside it. It
// includes injected faults, so that a run with faults never looks like one without.
func published(screen *provenance.Screen, seen, found map[string]string, faults []rank.Fault) map[string]string {
	var environ []string
	for name, value := range seen {
		environ = append(environ, name+"="+value)
	}
	out := maps.Clone(screen.Environment(environ, found))
	if len(faults) > 0 {
		var spelled []string
		for _, f := range faults {
			spelled = append(spelled, f.String())
		}
		out[rank.FaultVariable] = strings.Join(spelled, ";")
	}
	return out
}

const runIDVariable = "GITHUB_RUN_ID"

func localRunID(now time.Time) string {
	var suffix [3]byte
	_, _ = rand.Read(suffix[:]) // never fails
	return fmt.Sprintf("local-%s-%x", now.UTC().Format("20060102T150405Z"), suffix)
}
