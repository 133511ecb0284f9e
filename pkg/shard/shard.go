package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Run identifies the run that the documents belong to, and their author.
type Run struct {
	RunID      string
	RunAttempt string
	SourceSHA  string
	// MatrixSHA256 is the digest of the matrix file that asked for the cases.
	MatrixSHA256 string
	Generator    string // program and version
	// Environment returns the published environment of ranks: seen, which they reported, or if
	// that is nil, ours with env added. found has the settings that they found in addition to it.
	Environment func(env, seen, found map[string]string) map[string]string
	// Screen decides what may be published.
	Screen *provenance.Screen
}

// Shard is one cell to run.
type Shard struct {
	Cell     plan.Cell
	Cases    []plan.Requested // of the cell, in its order
	Run      Run
	Families Registry
	Launcher launch.Launcher
	// Listen is the address of this host at which the store of a group is served over TCP;
	// empty for a store in files.
	Listen string
	// Network, if not nil, returns variables for the ranks of a case that select its network.
	// They override the variables of the case.
	Network func(plan.Case) map[string]string
	// Files has the content of the files that cases name, by hexadecimal SHA-256. Ranks get it
	// with every case; see rank.Session.File.
	Files   map[string][]byte
	Results string // directory of the documents
	Resume  bool   // continue after an earlier shard on Results
	// Limit is the maximum time of the shard, without its wait for machines. Cases that do
	// not fit are skipped.
	Limit time.Duration
	// Fits returns why a rank's device is not one of the cell's platform, nil if it is. The
	// first error ends the shard.
	Fits     func(rank.Facts) error
	Observer Observer
	// Watch, if not nil, receives the document of the running case with the results so far,
	// at most once every WatchEvery.
	Watch      func(result.Document)
	WatchEvery time.Duration
}

// End is how an attempt of a case ended.
type End struct {
	Document result.Document
	Took     time.Duration // without the wait for machines
	// Logs is the private directory with the output of the ranks; empty if none was
	// started.
	Logs string
	// Failure is the first line of the error text of the lowest failed rank. It is
	// private, and empty if no rank reported a failure.
	Failure string
}

// Observer receives the events of a shard, in order. All of it may be published, except
// what End calls private.
type Observer interface {
	// Started reports that an attempt at the n-th of total cases begins.
	Started(n, total int, c plan.Case, attempt int)
	// Ended reports how the attempt ended, after its document is on disk.
	Ended(n, total int, e End)
	// Kept reports a case that an earlier shard finished, with or without success.
	Kept(n, total int, c plan.Case, passed bool)
	// Warn reports what an operator should know.
	Warn(text string)
}

// Counts has the numbers of cases by how they ended.
type Counts struct {
	Passed, Failed int // of the cases that it ran
	Kept           int // cases that an earlier shard finished
	KeptFailed     int // kept cases without a success
}

// NotPassed returns the number of cases of the cell, run or kept, without a success.
func (c Counts) NotPassed() int { return c.Failed + c.KeptFailed }

// Errors for a results directory that this shard must not write to.
var (
	ErrExists = errors.New("the directory already has documents of this cell; resume, or use another directory")
	ErrOther  = errors.New("the directory has results of another plan; use another directory")
)

// ErrEnvironment is wrapped by errors that mean that this machine cannot continue:
// documents cannot be written, devices are not the platform's, or ranks do not start or
// cannot be killed. Finished documents are intact. Every other case has a document with
// that reason, unless documents cannot be written.
var ErrEnvironment = errors.New("environment")

// Parts of a shard's time limit that are kept in reserve.
const (
	minBudget  = 5 * time.Second // minimum to start a case
	endReserve = 5 * time.Second // to kill the last case and write documents
)

type runner struct {
	*Shard
	started  time.Time
	history  history
	machines launch.Allocation // nil until the first group
	logs     string
	private  *slog.Logger // messages that must not be published
	groups   int
	began    time.Time     // of the running attempt
	waited   time.Duration // part of the attempt in which the cell waited for its machines
	warm     *group
	counts   Counts
	lacking  error // of cases whose ranks lacked something on this machine, such as memory
}

// Do runs the cell. Every case ends in a document, unless documents cannot be written. The
// error also wraps ErrEnvironment if ranks of some case found that the machine lacks
// something, such as disk space, while the other cases were run.
func (s *Shard) Do(ctx context.Context) (counts Counts, err error) {
	r := &runner{Shard: s, started: time.Now()}
	r.logs = filepath.Join(s.Results, "logs", r.started.UTC().Format("20060102T150405.000Z"))
	results, err := takeResults(ctx, s.Results)
	if err != nil {
		return r.counts, fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	defer func() { err = errors.Join(err, results.Release()) }()
	if r.history, err = readHistory(s.Results, s.Run, s.Observer.Warn); err != nil {
		return r.counts, fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	if err := r.history.admits(s.Cases, s.Run.MatrixSHA256, s.Resume); err != nil {
		return r.counts, fmt.Errorf("%s: %w", s.Results, err)
	}
	log, err := openLog(r.logs)
	if err != nil {
		return r.counts, fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	defer log.Close()
	r.private = slog.New(slog.NewTextHandler(log, nil))
	defer func() { err = errors.Join(err, r.release(ctx)) }()
	order := r.order()
	for n, index := range order {
		if err := r.attempts(ctx, n+1, index); err != nil {
			return r.counts, errors.Join(err, r.giveUp(n+1, order[n+1:], err))
		}
	}
	return r.counts, r.lacking
}

func openLog(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(dir, "shard.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// order returns the indices of the cases, sorted by group. Groups, and the cases of each, are
// in the order of the cell, but all groups of one repeat run before any of the next, so that
// repeats of a case lie apart in time.
func (r *runner) order() []int {
	var keys []string
	byKey := map[string][]int{}
	for i, q := range r.Cases {
		k := groupKey(q.Case)
		if byKey[k] == nil {
			keys = append(keys, k)
		}
		byKey[k] = append(byKey[k], i)
	}
	slices.SortStableFunc(keys, func(a, b string) int {
		return r.Cases[byKey[a][0]].Case.Repeat - r.Cases[byKey[b][0]].Case.Repeat
	})
	var order []int
	for _, k := range keys {
		order = append(order, byKey[k]...)
	}
	return order
}

// attempts runs the n-th case until it succeeds, ends in a way that a retry cannot change,
// or has no retries left. Every attempt has a document.
func (r *runner) attempts(ctx context.Context, n, index int) error {
	c := r.Cases[index].Case
	if r.history.of(c).finished {
		r.keep(n, c)
		return nil
	}
	for retries := r.Cell.Retries; ; retries-- {
		outcome, err := r.attempt(ctx, n, index)
		if err != nil {
			r.counts.Failed++
			return fmt.Errorf("%w: case %s: %w", ErrEnvironment, c.CaseID, err)
		}
		switch {
		case outcome.Status == result.Success:
			r.counts.Passed++
			return nil
		case retries == 0 || !retryable(outcome):
			r.counts.Failed++
			for _, reason := range outcome.Reasons {
				if reason.Code == result.ReasonEnvironment {
					r.lacking = errors.Join(r.lacking, fmt.Errorf("%w: case %s: %s", ErrEnvironment, c.CaseID, reason))
				}
			}
			return nil
		}
	}
}

// keep counts a case that an earlier shard finished.
func (r *runner) keep(n int, c plan.Case) {
	r.counts.Kept++
	passed := r.history.of(c).passed
	if !passed {
		r.counts.KeptFailed++
	}
	r.Observer.Kept(n, len(r.Cases), c, passed)
}

// retryable reports whether another attempt may end differently: after an accident, but never
// after a wrong result.
func retryable(o result.Outcome) bool { return o.Status == result.Failed && accident(o.Code()) }

// accident reports whether a code is of a death, a hang or an error of the library or a device.
func accident(code result.Code) bool {
	return slices.Contains([]result.Code{
		result.ReasonRankDied, result.ReasonTimeout, result.ReasonLibrary, result.ReasonDevice,
	}, code)
}

// giveUp writes documents for the remaining cases of a machine that cannot continue, unless
// documents cannot be written.
func (r *runner) giveUp(n int, rest []int, cause error) error {
	if errors.Is(cause, errUnwritten) {
		return nil
	}
	for i, index := range rest {
		if c := r.Cases[index].Case; r.history.of(c).finished {
			r.keep(n+1+i, c)
			continue
		}
		r.counts.Failed++
		if _, err := r.skip(n+1+i, index, result.ReasonEnvironment.With("an earlier case ended the cell")); err != nil {
			return err
		}
	}
	return nil
}

// release ends the warm group and gives the machines back.
func (r *runner) release(ctx context.Context) error {
	err := r.closeGroup(ctx)
	if r.machines != nil {
		err = errors.Join(err, r.machines.Release())
	}
	return err
}

func (r *runner) closeGroup(ctx context.Context) error {
	g := r.warm
	if g == nil {
		return nil
	}
	r.warm = nil
	return g.close(ctx)
}
