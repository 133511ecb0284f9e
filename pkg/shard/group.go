package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
)

// How long the shard waits for ranks.
const (
	pollInterval = 40 * time.Millisecond  // between two looks at the ranks' streams: seldom, since it takes time from ranks that measure
	failureGrace = 500 * time.Millisecond // for the other ranks to tell their part of a failure
	dumpGrace    = 3 * time.Second        // to write stacks
	stopGrace    = 30 * time.Second       // to close libraries and devices
)

// groupKey is what cases of one cell must share to run in one warm group. The
// library file is chosen by environment, and the inherited part of that is the
// shard's own.
func groupKey(c plan.Case) string {
	env, _ := json.Marshal(c.Env) // keys are sorted; strings always marshal
	return fmt.Sprint(c.Family, c.Backend, c.World, c.Nodes, c.RanksPerNode, c.Repeat, string(env))
}

// group is a warm group of ranks.
type group struct {
	key    string
	ranks  launch.Group
	store  *rendezvous.File
	dir    string // of the store; removed at the end
	logs   string // directory
	world  int
	orders int
	broken bool // a rank has ended
	// fits refuses a rank whose device is not what the cell is for.
	fits func(rank.Facts) error
	// deadline is when the shard's time ends.
	deadline time.Time
}

// startGroup starts the ranks for c and those that may follow it, within budget.
func (r *runner) startGroup(ctx context.Context, c plan.Case, budget time.Duration) (*group, error) {
	r.groups++
	name := fmt.Sprintf("group-%03d", r.groups)
	g := &group{
		key: groupKey(c), dir: filepath.Join(r.scratch.Dir(), name), logs: filepath.Join(r.logs, name),
		world: c.World, fits: r.Fits, deadline: r.deadline(),
	}
	var err error
	if g.store, err = rendezvous.OpenFile(g.dir); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	g.ranks, err = r.Launcher.Start(ctx, launch.Spec{
		Places: launch.Places(c.World, c.RanksPerNode), Store: g.dir, Env: c.Env, LogDir: g.logs,
	})
	if err != nil {
		return nil, errors.Join(err, g.store.Close(), os.RemoveAll(g.dir))
	}
	return g, nil
}

// alive reports whether all ranks wait for the next case.
func (g *group) alive() bool {
	select {
	case <-g.ranks.Exits():
		g.broken = true
	default:
	}
	return !g.broken
}

// ended is how the ranks ended a case.
type ended struct {
	streams []rank.Stream
	reasons result.Reasons // why not all ranks did the case; empty where they did
	misfit  error          // a device is not what the cell is for
}

// failure is End.Failure.
func (e ended) failure() string {
	for _, s := range e.streams {
		if s.Failure != nil {
			line, _, _ := strings.Cut(s.Failure.Text, "\n")
			return line
		}
	}
	return ""
}

// do gives the ranks a case and waits for its end, or ends it: after budget,
// with late as the reason, or with ctx. Where there is a reason, the group is
// dead. An error means that the machine is of no more use: the store cannot be
// written or read, or ranks do not die. w shows what the ranks leave meanwhile.
func (g *group) do(ctx context.Context, c plan.Case, budget time.Duration, late result.Reason, w *watcher) (ended, error) {
	g.orders++
	scope := fmt.Sprintf("case-%04d", g.orders)
	if err := g.order(ctx, rank.Order{Scope: scope, Case: c}); err != nil {
		return ended{}, err
	}
	readers := make([]*rank.Reader, g.world)
	for r := range readers {
		readers[r] = rank.NewReader(g.store, scope, r)
	}
	end, err := g.wait(ctx, readers, budget, late, w)
	if len(end.reasons) > 0 || err != nil {
		g.broken = true
		err = errors.Join(err, g.ranks.Kill())
	}
	left, inTime := within(g.deadline, func() read { return rest(readers) })
	if !inTime {
		return ended{reasons: result.Reasons{result.ReasonTimeout.With("shard time limit")}, misfit: end.misfit}, err
	}
	end.streams, end.reasons = streams(readers), slices.Compact(append(end.reasons, left.reasons...))
	return end, errors.Join(err, left.err)
}

// streams returns what was read so far.
func streams(readers []*rank.Reader) []rank.Stream {
	all := make([]rank.Stream, len(readers))
	for i, r := range readers {
		all[i] = r.Stream
	}
	return all
}

// read is why the records that the ranks left of a case are incomplete.
type read struct {
	reasons result.Reasons
	err     error // of the store
}

// rest reads what the ranks have left since the last look.
func rest(readers []*rank.Reader) (left read) {
	for _, r := range readers {
		switch err := r.Next(); {
		case errors.Is(err, rank.ErrStore):
			left.err = errors.Join(left.err, err)
		case err != nil:
			left.reasons = append(left.reasons, badRecords(r.Rank))
		}
	}
	return left
}

// badRecords is the reason for a case when a rank's records are malformed.
func badRecords(rank int) result.Reason {
	return result.ReasonInternal.With("records of rank %d", rank)
}

func (g *group) order(ctx context.Context, o rank.Order) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return g.store.Put(context.WithoutCancel(ctx), rank.OrderKey(g.orders), raw)
}

// wait returns when all ranks have said done, or with the reasons why they
// will not, the likeliest cause first.
func (g *group) wait(ctx context.Context, readers []*rank.Reader, budget time.Duration, late result.Reason, w *watcher) (ended, error) {
	timeout := time.NewTimer(budget)
	defer timeout.Stop()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	exits := g.ranks.Exits()
	for {
		var exited *launch.Exit
		select {
		case <-ctx.Done():
			return ended{reasons: result.Reasons{result.ReasonSkipped.With("cancelled")}}, nil
		case <-timeout.C:
			g.dump(ctx)
			return ended{reasons: result.Reasons{late}}, nil
		case exit, ok := <-exits:
			if !ok {
				exits = nil // all have ended; the look below says how
			} else {
				exited, g.broken = &exit, true
			}
		case <-poll.C:
		}
		for _, r := range readers {
			known := r.Facts
			switch err := r.Next(); {
			case errors.Is(err, rank.ErrStore):
				return ended{}, err
			case err != nil:
				return ended{reasons: result.Reasons{badRecords(r.Rank)}}, nil
			}
			if r.Facts == known {
				continue
			}
			if err := g.fits(*r.Facts); err != nil {
				return ended{reasons: result.Reasons{result.ReasonEnvironment.With("device of rank %d", r.Rank)}, misfit: err}, nil
			}
		}
		switch {
		case exited != nil && !readers[exited.Rank].Done, slices.ContainsFunc(readers, func(r *rank.Reader) bool { return r.Failure != nil }):
			reasons, err := g.reasons(ctx, readers, exited)
			return ended{reasons: reasons}, err
		case !slices.ContainsFunc(readers, func(r *rank.Reader) bool { return !r.Done }):
			return ended{}, nil
		}
		w.look(readers)
	}
}

// reasons says why a case failed, once it is known that a rank did: a rank
// that died without a word before those that told of an error, since they may
// only have lost their peer. first is the exit that was seen, if any.
func (g *group) reasons(ctx context.Context, readers []*rank.Reader, first *launch.Exit) (result.Reasons, error) {
	exits := g.drain(ctx, failureGrace)
	if first != nil {
		exits = append(exits, *first)
	}
	slices.SortFunc(exits, func(a, b launch.Exit) int { return a.Rank - b.Rank })
	if left := rest(readers); left.err != nil {
		return nil, left.err
	}
	var reasons result.Reasons
	for _, e := range exits {
		switch {
		case readers[e.Rank].Ended(): // its exit is no part of this case
		case e.Code == rank.ExitStore:
			reasons = append(reasons, result.ReasonEnvironment.With("store of rank %d", e.Rank))
		default:
			reasons = append(reasons, result.ReasonRankDied.With("%s", e))
		}
	}
	for _, r := range readers {
		if r.Failure != nil {
			reasons = append(reasons, reasonOf(*r.Failure, r.Rank))
		}
	}
	return reasons, nil
}

// drain returns the exits that come within grace and before ctx ends, at once
// when all ranks have ended.
func (g *group) drain(ctx context.Context, grace time.Duration) (exits []launch.Exit) {
	g.broken = true
	deadline := time.After(grace)
	for {
		select {
		case <-ctx.Done():
			return exits
		case exit, ok := <-g.ranks.Exits():
			if !ok {
				return exits
			}
			exits = append(exits, exit)
		case <-deadline:
			return exits
		}
	}
}

// dump has all ranks print their stacks and gives them time to do so.
func (g *group) dump(ctx context.Context) {
	g.ranks.Dump()
	g.drain(ctx, dumpGrace)
}

// reasonOf is the published form of a rank's failure: its reason, which must be
// of the published form, and the rank.
func reasonOf(f rank.Failure, rank int) result.Reason {
	if f.Reason.Check() != nil {
		return result.ReasonInternal.With("rank %d", rank)
	}
	detail := f.Reason.Detail
	if detail != "" {
		detail += ", "
	}
	return f.Reason.Code.With("%srank %d", detail, rank)
}

// close ends a group: ranks that wait for a case close what they opened, and
// all of them are gone when it returns without error.
func (g *group) close(ctx context.Context) error {
	if !g.broken && ctx.Err() == nil {
		g.orders++
		if g.order(ctx, rank.Order{Stop: true}) == nil {
			g.drain(ctx, min(stopGrace, time.Until(g.deadline)))
		}
	}
	return errors.Join(g.ranks.Kill(), g.store.Close(), os.RemoveAll(g.dir))
}
