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

	"github.com/collectivex/collectivex/pkg/claim"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Run says which run the documents belong to and who writes them.
type Run struct {
	RunID      string
	RunAttempt string
	SourceSHA  string
	// MatrixSHA256 is the digest of the matrix file that asked for the cases.
	MatrixSHA256 string
	Generator    string // program and version
	// Host is what documents say of this machine.
	Host map[string]string
	// Environment is what documents say of the environment of ranks that inherit
	// ours and get env on top.
	Environment func(env map[string]string) map[string]string
	// Screen decides what may be published.
	Screen *provenance.Screen
}

// Shard is one cell to run.
type Shard struct {
	Cell plan.Cell
	// Cases are the cell's, in its order.
	Cases    []plan.Requested
	Run      Run
	Families Registry
	Launcher launch.Launcher
	Results  string // directory of the documents
	Resume   bool   // go on where an earlier shard on Results stopped
	// Limit bounds the whole shard; what does not fit is skipped.
	Limit time.Duration
	// Fits returns why a rank's device is not one of the cell's platform, nil
	// where it is. The first that is not ends the shard.
	Fits func(rank.Facts) error
	// Scratch is where stores and shared memory go; see ScratchBase.
	Scratch  string
	Observer Observer
	// Watch is given the document of the running case as it would be if the case
	// ended now, at most every WatchEvery; nil where nobody watches.
	Watch      func(result.Document)
	WatchEvery time.Duration
}

// End is how an attempt of a case ended.
type End struct {
	Document result.Document
	Took     time.Duration
	// Logs is the private directory of what the ranks printed; empty where none was
	// started.
	Logs string
	// Failure is the first line of the error text of the lowest failed rank. It is
	// private, and empty if no rank reported a failure.
	Failure string
}

// Observer is told what a shard does, in order. All it is told may be published,
// except what End calls private.
type Observer interface {
	// Started tells that an attempt of the n-th of total cases begins.
	Started(n, total int, c plan.Case, attempt int)
	// Ended reports how the attempt ended, after its document is on disk.
	Ended(n, total int, e End)
	// Kept tells of a case that an earlier shard finished, with a success or without.
	Kept(n, total int, c plan.Case, passed bool)
	// Warn tells what an operator should know.
	Warn(text string)
}

// Counts is what a shard did.
type Counts struct {
	Passed, Failed int // of the cases that it ran
	Kept           int // cases that an earlier shard finished
	KeptFailed     int // those of them without a success
}

// NotPassed counts the cases of the cell, run or kept, without a success.
func (c Counts) NotPassed() int { return c.Failed + c.KeptFailed }

// What keeps a shard from writing into a results directory that is in use.
var (
	ErrExists = errors.New("results hold documents of this cell already; resume, or use another directory")
	ErrOther  = errors.New("results are of another plan; use another directory")
)

// ErrEnvironment is wrapped by errors that say that this machine cannot go on:
// documents cannot be written, devices are not the platform's, ranks do not
// start or do not die. Finished documents are intact, and every other case has
// one that says so, unless documents cannot be written.
var ErrEnvironment = errors.New("environment")

// Reserves of a shard's time limit.
const (
	leastBudget = 5 * time.Second // a case is not started with less
	endReserve  = 5 * time.Second // kept for killing the last case and writing documents
)

// runner is a running shard.
type runner struct {
	*Shard
	started time.Time
	history history
	scratch *claim.Claim
	logs    string
	private *slog.Logger // what may not be published
	groups  int
	warm    *group
	counts  Counts
	lacking error // what ranks lacked of this machine, as memory; other cases may have had it
}

// Do runs the cell. Every case of it ends in a document, unless documents
// cannot be written. The error wraps ErrEnvironment too where a rank of some case
// found the machine lacking, as on a full disk, and the others went on.
func (s *Shard) Do(ctx context.Context) (counts Counts, err error) {
	r := &runner{Shard: s, started: time.Now()}
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
	r.logs = filepath.Join(s.Results, "logs", r.started.UTC().Format("20060102T150405.000Z"))
	log, err := openLog(r.logs)
	if err != nil {
		return r.counts, fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	defer log.Close()
	r.private = slog.New(slog.NewTextHandler(log, nil))
	if r.scratch, err = newScratch(ctx, s.Scratch); err != nil {
		return r.counts, fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	defer func() { err = errors.Join(err, r.scratch.Remove()) }()
	defer func() { err = errors.Join(err, r.closeGroup(ctx)) }()
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

// order returns the indices of the cases with those of one group together,
// groups and cases in the order of the cell.
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
	var order []int
	for _, k := range keys {
		order = append(order, byKey[k]...)
	}
	return order
}

// attempts runs the n-th case until it ends well, or in a way that another
// attempt will not mend, or has no attempts left. Every attempt has a document.
func (r *runner) attempts(ctx context.Context, n, index int) error {
	c := r.Cases[index].Case
	if r.history.finished[keyOf(c)] {
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
		case retries == 0 || !mendable(outcome):
			r.counts.Failed++
			if outcome.Code() == result.ReasonEnvironment {
				r.lacking = errors.Join(r.lacking, fmt.Errorf("%w: case %s: %s", ErrEnvironment, c.CaseID, outcome.Reasons[0]))
			}
			return nil
		}
	}
}

// keep counts a case that an earlier shard finished.
func (r *runner) keep(n int, c plan.Case) {
	r.counts.Kept++
	passed := r.history.passed[keyOf(c)]
	if !passed {
		r.counts.KeptFailed++
	}
	r.Observer.Kept(n, len(r.Cases), c, passed)
}

// mendable reports whether another attempt may end otherwise: after a death, a
// hang or an error of the library or a device, never after a wrong result.
func mendable(o result.Outcome) bool {
	return o.Status == result.Failed && slices.Contains([]result.Code{
		result.ReasonRankDied, result.ReasonTimeout, result.ReasonLibrary, result.ReasonDevice,
	}, o.Code())
}

// giveUp writes documents for the cases that a machine that failed will not
// run, unless it is the documents that failed.
func (r *runner) giveUp(n int, rest []int, cause error) error {
	if errors.Is(cause, errUnwritten) {
		return nil
	}
	for i, index := range rest {
		if c := r.Cases[index].Case; r.history.finished[keyOf(c)] {
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

// closeGroup ends the warm group, if there is one.
func (r *runner) closeGroup(ctx context.Context) error {
	g := r.warm
	if g == nil {
		return nil
	}
	r.warm = nil
	return g.close(ctx)
}
