package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/affinity"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// ended is how the ranks ended a case.
type ended struct {
	streams []rank.Stream
	reasons result.Reasons // why not all ranks ran the case to its end; empty if they did
	misfit  error          // a device is not one of the cell's platform
	other   bool           // settings of ranks are not those of the plan, or differ

	// computed is the document of a case without ranks, nil if it was not computed.
	computed result.Document
	// text is why it was not computed, or why a case that all ranks ran does not count. It is private.
	text string
}

func (e ended) failure() string {
	text := e.text
	for _, s := range e.streams {
		if s.Failure != nil {
			text = s.Failure.Text
			break
		}
	}
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// caseRun is one case in a group of ranks.
type caseRun struct {
	*group
	readers []*rank.Reader
	exits   []launch.Exit // of ranks that ended since the case began
	misfit  *misfit
}

// misfit is a rank whose device is not one of the cell's platform.
type misfit struct {
	rank int
	err  error
}

// state is the state of a caseRun. It starts as running and changes once.
type state int

const (
	running   state = iota
	done            // every rank reported that it ended the case
	failed          // a rank reported a failure, or ended without reporting one
	malformed       // the records of a rank are malformed
	unfit           // a rank reported a device that is not the platform's
	overdue         // the time is up
	cancelled
)

// do runs a case on the group: it gives the ranks the case and waits for its end. It ends
// the case itself after budget, with late as the reason, or when ctx ends. The group is
// dead afterwards unless every rank ran the case to its end. An error means that the
// machine cannot continue: the store cannot be written or read, or ranks cannot be killed.
// Meanwhile, w shows the records.
func (g *group) do(ctx context.Context, c plan.Case, budget time.Duration, late result.Reason, w *watcher) (ended, error) {
	g.orders++
	scope := fmt.Sprintf("case-%04d", g.orders)
	if err := g.order(ctx, rank.Order{Scope: scope, Case: c, Files: g.files}); err != nil {
		return ended{}, err
	}
	r := &caseRun{group: g, readers: make([]*rank.Reader, g.world)}
	for n := range r.readers {
		r.readers[n] = rank.NewReader(g.store, scope, n)
	}
	var end ended
	now, err := r.wait(ctx, budget, w)
	if err == nil {
		end.reasons, err = r.reasons(ctx, now, late)
	}
	if r.misfit != nil {
		end.misfit = r.misfit.err
	}
	if now != done {
		g.broken = true
		err = errors.Join(err, g.ranks.Kill())
	}
	left, inTime := within(g.deadline, func() read { return rest(r.readers) })
	if !inTime {
		return ended{reasons: result.Reasons{cutOff}, misfit: end.misfit}, err
	}
	end.streams = streams(r.readers)
	for _, bad := range left.bad {
		end.reasons = append(end.reasons, result.ReasonInternal.With("records of rank %d", bad))
	}
	if len(end.reasons) == 0 {
		end.reasons, end.text = unplanned(g.env, end.streams)
		if len(end.reasons) == 0 {
			end.reasons, end.text = unlike(end.streams)
		}
		end.other = len(end.reasons) > 0
	}
	return end, errors.Join(err, left.err)
}

// wait waits for the end of the case and returns the state in which it ended. An error is
// one of the store.
func (r *caseRun) wait(ctx context.Context, budget time.Duration, w *watcher) (state, error) {
	timeout := time.NewTimer(budget)
	defer timeout.Stop()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	exits := r.ranks.Exits()
	for {
		select {
		case <-ctx.Done():
			return cancelled, nil
		case <-timeout.C:
			return overdue, nil
		case exit, ok := <-exits:
			if !ok {
				exits = nil // all have ended; poll finds out how
				break
			}
			r.exits, r.broken = append(r.exits, exit), true
		case <-poll.C:
		}
		if now, err := r.poll(); now != running || err != nil {
			return now, err
		}
		w.poll(r.readers)
	}
}

// poll reads the new records, and returns the resulting state.
func (r *caseRun) poll() (state, error) {
	for _, of := range r.readers {
		known := of.Facts
		switch err := of.Next(); {
		case errors.Is(err, rank.ErrStore):
			return running, err
		case err != nil:
			return malformed, nil
		case of.Facts == known:
			continue
		}
		if err := r.fits(*of.Facts); err != nil {
			r.misfit = &misfit{of.Rank, err}
			return unfit, nil
		}
	}
	switch {
	case slices.ContainsFunc(r.exits, func(e launch.Exit) bool { return !r.readers[e.Rank].Done }),
		slices.ContainsFunc(r.readers, func(of *rank.Reader) bool { return of.Failure != nil }):
		return failed, nil
	case slices.ContainsFunc(r.readers, func(of *rank.Reader) bool { return !of.Done }):
		return running, nil
	default:
		return done, nil
	}
}

// reasons returns why a case ended in this state. It returns nothing for done, and nothing
// for malformed, since the last reading of the records names the ranks. If the case is
// overdue, it first makes the ranks write their stacks to their logs.
func (r *caseRun) reasons(ctx context.Context, now state, late result.Reason) (result.Reasons, error) {
	switch now {
	case cancelled:
		return result.Reasons{result.ReasonSkipped.With("cancelled")}, nil
	case overdue:
		r.dump(ctx)
		_ = rest(r.readers) // its result is ignored: the records are read again when all ranks are dead
		return result.Reasons{late, stuck(r.readers)}, nil
	case unfit:
		return result.Reasons{result.ReasonEnvironment.With("device of rank %d", r.misfit.rank)}, nil
	case failed:
		return r.failures(ctx)
	default:
		return nil, nil
	}
}

// stuck returns where the ranks of an overdue case are: where they wait for others, or after
// how many records they stopped.
func stuck(readers []*rank.Reader) result.Reason {
	var places []string // in the order of their first ranks
	ranks := map[string][]int{}
	for _, of := range readers {
		place := "in " + of.Waits
		switch {
		case of.Done:
			place = "done"
		case of.Waits == "":
			place = fmt.Sprintf("after record %d", of.Written)
		}
		if ranks[place] == nil {
			places = append(places, place)
		}
		ranks[place] = append(ranks[place], of.Rank)
	}
	const shown = 3 // a reason is short
	var texts []string
	for i, place := range places {
		if i == shown {
			texts = append(texts, "others elsewhere")
			break
		}
		texts = append(texts, "rank "+affinity.List(ranks[place])+" "+place)
	}
	return result.ReasonTimeout.With("%s", strings.Join(texts, ", "))
}

// failures returns why a case failed, once a rank has. Ranks that died without reporting a
// failure come first: the failures that others report may only be the loss of that peer.
func (r *caseRun) failures(ctx context.Context) (result.Reasons, error) {
	r.exits = append(r.exits, r.drain(ctx, failureGrace)...)
	left := rest(r.readers)
	for left.err == nil && r.lost() {
		late := r.first(ctx, r.atMost(deathGrace))
		if len(late) == 0 {
			break
		}
		r.exits = append(r.exits, late...)
		left = rest(r.readers)
	}
	slices.SortFunc(r.exits, func(a, b launch.Exit) int { return a.Rank - b.Rank })
	if left.err != nil {
		return nil, left.err
	}
	var reasons result.Reasons
	for _, e := range r.exits {
		switch {
		case r.readers[e.Rank].Ended(): // its exit is not part of this case
		case e.Code == rank.ExitStore:
			reasons = append(reasons, result.ReasonEnvironment.With("store of rank %d", e.Rank))
		default:
			reasons = append(reasons, result.ReasonRankDied.With("%s", e))
		}
	}
	for _, of := range r.readers {
		if of.Failure != nil {
			reasons = append(reasons, reasonOf(*of.Failure, of.Rank))
		}
	}
	return reasons, nil
}

// lost reports whether a rank has lost another one whose end the launcher has not reported.
func (r *caseRun) lost() bool {
	died := func(e launch.Exit) bool { return !r.readers[e.Rank].Ended() }
	lost := func(of *rank.Reader) bool {
		return of.Failure != nil && of.Failure.Reason.Code == result.ReasonRankDied
	}
	return slices.ContainsFunc(r.readers, lost) && !slices.ContainsFunc(r.exits, died)
}

func streams(readers []*rank.Reader) []rank.Stream {
	all := make([]rank.Stream, len(readers))
	for i, r := range readers {
		all[i] = r.Stream
	}
	return all
}

// read is the result of reading the ranks' records.
type read struct {
	bad []int // ranks whose records are malformed
	err error // of the store
}

// rest reads the records since the last reading.
func rest(readers []*rank.Reader) (left read) {
	for _, r := range readers {
		switch err := r.Next(); {
		case errors.Is(err, rank.ErrStore):
			left.err = errors.Join(left.err, err)
		case err != nil:
			left.bad = append(left.bad, r.Rank)
		}
	}
	return left
}

// reasonOf returns the reason of a rank's failure with the rank added, or internal-error if
// the reason does not have its published form.
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

// watcher shows the document of a running case as it grows.
type watcher struct {
	show  func([]rank.Stream)
	every time.Duration
	next  time.Time // not before
}

// watchCost is the ratio of the pause after a poll to the time of the poll, which takes
// processor time from ranks that measure.
const watchCost = 50

// watcher returns the watcher of a case, nil if Watch is nil.
func (r *runner) watcher(c plan.Case) *watcher {
	if r.Watch == nil {
		return nil
	}
	running := result.Reasons{result.ReasonSkipped.With("still running")}
	return &watcher{
		show: func(streams []rank.Stream) {
			if doc, err := r.document(c, ended{streams: streams, reasons: running}); err == nil {
				r.Watch(doc)
			}
		},
		every: r.WatchEvery, next: time.Now().Add(r.WatchEvery),
	}
}

// poll shows the records so far, if it is time.
func (w *watcher) poll(readers []*rank.Reader) {
	began := time.Now()
	if w == nil || began.Before(w.next) {
		return
	}
	w.show(streams(readers))
	w.next = time.Now().Add(max(w.every, watchCost*time.Since(began)))
}
