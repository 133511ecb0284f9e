package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/collectivex/collectivex/pkg/affinity"
	"github.com/collectivex/collectivex/pkg/launch"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// errUnwritten is wrapped by errors for a document that could not be written.
var errUnwritten = errors.New("cannot write")

// cutOff is the reason of a case that the shard's time limit ended.
var cutOff = result.ReasonTimeout.With("shard time limit")

// errLate ends the writing of samples at the shard's time limit.
var errLate = errors.New("shard time limit")

// attempt runs the n-th case once and writes the document of the attempt. An error means
// that the machine cannot continue.
func (r *runner) attempt(ctx context.Context, n, index int) (result.Outcome, error) {
	q := r.Cases[index]
	budget, late := r.budget(q)
	switch {
	case ctx.Err() != nil:
		return r.skip(n, index, result.ReasonSkipped.With("cancelled"))
	case budget == 0:
		return r.skip(n, index, late)
	case r.Families[q.Case.Family].Backends[q.Case.Backend] == nil && r.compute(q.Case) == nil:
		return r.skip(n, index, result.ReasonNoLibrary.With("this program has no backend %s", q.Case.Backend))
	}
	past := r.history.of(q.Case)
	past.attempts++
	r.Observer.Started(n, len(r.Cases), q.Case, past.attempts)
	r.began, r.waited = time.Now(), 0
	if r.compute(q.Case) != nil {
		return r.finish(n, index, r.computed(ctx, q.Case, budget, late), "")
	}
	var end ended
	var fatal error
	var logs string
	if g, err := r.group(ctx, q.Case, budget); err != nil {
		r.private.Error("ranks did not start", "case", q.Case.CaseID, "error", err)
		end.reasons, fatal = unstarted(ctx, err, late)
	} else {
		logs = g.logs
		budget, late = r.budget(q) // ending a group and starting another may have taken long
		end, fatal = g.do(ctx, q.Case, budget, late, r.watcher(q.Case))
		if fatal != nil {
			end.reasons = append(end.reasons, result.ReasonEnvironment.With("ranks or their store"))
		}
	}
	outcome, err := r.finish(n, index, end, logs)
	if outcome.Status != result.Success {
		err = errors.Join(err, r.closeGroup(ctx)) // no other case inherits what this one did
	}
	return outcome, errors.Join(err, fatal, end.misfit)
}

// errPanic is wrapped by the error of a computation that panicked.
var errPanic = errors.New("panic")

// recovered returns the error of f, or one if f panics, since other cases of the cell follow.
func recovered(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	return f()
}

// compute returns what computes a case in this process, nil if ranks run it.
func (r *runner) compute(c plan.Case) Compute { return r.Families[c.Family].Computes[c.Backend] }

func (r *runner) computed(ctx context.Context, c plan.Case, budget time.Duration, late result.Reason) ended {
	doc, err := r.empty(c)
	if err != nil {
		return ended{reasons: result.Reasons{result.ReasonInternal.With("no document")}, text: err.Error()}
	}
	limited, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	failed, inTime := within(time.Now().Add(budget), func() error { return recovered(func() error { return r.compute(c)(limited, doc) }) })
	switch {
	case errors.Is(failed, errPanic):
		return ended{reasons: result.Reasons{result.ReasonInternal.With("in the computation")}, text: failed.Error()}
	case ctx.Err() != nil:
		return ended{reasons: result.Reasons{result.ReasonSkipped.With("cancelled")}}
	case !inTime, errors.Is(failed, context.DeadlineExceeded):
		return ended{reasons: result.Reasons{late}}
	case failed != nil:
		return ended{reasons: result.Reasons{result.Reason{Code: result.ReasonRefused}}, text: failed.Error()}
	default:
		return ended{computed: doc}
	}
}

// finish writes the document of an attempt and reports it to the observer.
func (r *runner) finish(n, index int, end ended, logs string) (result.Outcome, error) {
	doc, err := r.write(index, end)
	if err != nil {
		return result.Outcome{}, err
	}
	r.Observer.Ended(n, len(r.Cases), End{Document: doc, Took: r.ran(), Logs: logs, Failure: end.failure()})
	return doc.Head().Outcome, nil
}

// unstarted returns why a case has no ranks. It also returns err if the machine cannot
// continue: if the start was neither cancelled nor late.
func unstarted(ctx context.Context, err error, late result.Reason) (result.Reasons, error) {
	unready := &launch.Unready{}
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return result.Reasons{result.ReasonSkipped.With("cancelled")}, nil
	case errors.Is(err, context.DeadlineExceeded):
		return result.Reasons{late}, nil
	case errors.As(err, &unready):
		return result.Reasons{result.ReasonEnvironment.With("%s", unready.Reason)}, err
	default:
		return result.Reasons{result.ReasonEnvironment.With("ranks do not start")}, err
	}
}

// skip writes the document of a case that is not run.
func (r *runner) skip(n, index int, reason result.Reason) (result.Outcome, error) {
	r.history.of(r.Cases[index].Case).attempts++
	r.began, r.waited = time.Now(), 0
	return r.finish(n, index, ended{reasons: result.Reasons{reason}}, "")
}

// ran returns the time of the running attempt, without the wait for machines.
func (r *runner) ran() time.Duration { return max(0, time.Since(r.began)-r.waited) }

// elapsed returns the times of the running attempt, nil if it has no machines.
func (r *runner) elapsed() *result.Elapsed {
	if r.machines == nil {
		return nil
	}
	return &result.Elapsed{QueueSeconds: milliseconds(r.machines.Queued()), RunSeconds: milliseconds(r.ran())}
}

func milliseconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// budget returns the time that a case may take now, and the reason if it takes longer. The
// time is 0 if the shard has none left for the case.
func (r *runner) budget(q plan.Requested) (time.Duration, result.Reason) {
	budget := time.Duration(q.BudgetSeconds) * time.Second
	left := r.Limit - time.Since(r.started) - endReserve
	switch {
	case left < minBudget:
		return 0, result.ReasonSkipped.With("shard time limit")
	case left < budget:
		return left, cutOff
	default:
		return budget, result.ReasonTimeout.With("case budget of %d s", q.BudgetSeconds)
	}
}

// group returns the warm group if c can run in it, otherwise a new one, which must start
// within budget.
func (r *runner) group(ctx context.Context, c plan.Case, budget time.Duration) (*group, error) {
	if r.warm != nil && r.warm.key == groupKey(c) && r.warm.alive() {
		return r.warm, nil
	}
	if err := r.closeGroup(ctx); err != nil {
		return nil, err
	}
	g, err := r.startGroup(ctx, c, budget)
	r.warm = g
	return g, err
}

// write writes the samples and the document of an attempt. If the samples must not be
// published, or are not written in time, the document has that reason instead.
func (r *runner) write(index int, end ended) (result.Document, error) {
	c := r.Cases[index].Case
	doc, err := r.document(c, end)
	if err != nil {
		return nil, err
	}
	name, err := result.FileName(doc, index)
	if err != nil {
		return nil, err
	}
	var private error
	screen := func(b []byte) error {
		if err := r.Run.Screen.Document(b); err != nil {
			private = err
		}
		return private
	}
	inTime := func(b []byte) error {
		if time.Now().After(r.deadline()) {
			return errLate
		}
		return screen(b)
	}
	samples, err := writeSamples(r.Results, name, end.streams, inTime)
	if err == nil {
		_, err = result.Write(r.Results, doc, index, screen)
	}
	switch {
	case samples == nil:
	case err == nil:
		err = samples.Commit()
	default:
		samples.Abort()
	}
	var instead result.Reason
	switch {
	case private != nil:
		r.private.Error("not published", "case", c.CaseID, "error", private)
		instead = result.ReasonUnpublishable.With("document or samples")
	case errors.Is(err, errLate):
		instead = cutOff
	}
	if instead.Code != "" {
		judged := doc.Head().Outcome
		if private != nil { // a detail may be what must not be published
			for i := range judged.Reasons {
				judged.Reasons[i].Detail = ""
			}
		}
		if doc, err = r.empty(c, instead); err == nil {
			doc.Head().Outcome = outcome(judged, ended{reasons: result.Reasons{instead}})
			_, err = result.Write(r.Results, doc, index, r.Run.Screen.Document)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnwritten, err)
	}
	return doc, nil
}

// document returns the document of an attempt, made from what the ranks left. If that is
// not valid, the document has no rows and internal-error among its reasons.
func (r *runner) document(c plan.Case, end ended) (result.Document, error) {
	doc, err := r.blank(c, end.streams, end.reasons...)
	if err != nil {
		return nil, err
	}
	if end.computed != nil {
		return r.valid(c, end.computed, end, result.Validate(end.computed))
	}
	if len(end.streams) == 0 {
		return r.valid(c, doc, end, result.Validate(doc))
	}
	refused, inTime := within(r.deadline(), func() error { return r.assemble(doc, end) })
	if !inTime {
		return r.empty(c, cutOff)
	}
	return r.valid(c, doc, end, refused)
}

// valid returns doc or, if it was refused, a document with that reason.
func (r *runner) valid(c plan.Case, doc result.Document, end ended, refused error) (result.Document, error) {
	if refused == nil {
		return doc, nil
	}
	r.private.Error("no valid document", "case", c.CaseID, "error", refused)
	return r.empty(c, append(slices.Clone(end.reasons), result.ReasonInternal.With("no valid document"))...)
}

// assemble fills a document from what the ranks left, and validates it.
func (r *runner) assemble(doc result.Document, end ended) error {
	refused := r.Families[doc.Head().Identity.Case.Family].Assemble(doc, end.streams)
	r.describe(doc.Head(), end.streams)
	doc.Head().Outcome = outcome(doc.Head().Outcome, end)
	return errors.Join(refused, result.Validate(doc))
}

// outcome returns the outcome of an attempt that its family judged, and that not all ranks ran to
// its end if end has reasons. Wrong data count however the case ended, so that no later attempt replaces
// them, unless another case than the planned one ran. Missing checks do not, as the end explains
// them, nor do impossible times, which may be medians of few samples.
func outcome(judged result.Outcome, end ended) result.Outcome {
	wrong := judged.Status == result.Invalid && !judged.Reasons.Only(result.ReasonUnchecked, result.ReasonImplausible)
	switch {
	case len(end.reasons) == 0:
		return judged
	case wrong && !end.other && end.misfit == nil:
		return result.Outcome{Status: result.Invalid, Reasons: slices.Concat(judged.Reasons, end.reasons)}
	default:
		return result.Outcome{Status: result.Failed, Reasons: end.reasons}
	}
}

// deadline is when the shard's time ends.
func (r *runner) deadline() time.Time { return r.started.Add(r.Limit) }

// within returns what f returns. At the deadline it returns false and no longer waits for
// f, which continues.
func within[T any](deadline time.Time, f func() T) (value T, inTime bool) {
	done := make(chan T, 1)
	go func() { done <- f() }()
	select {
	case value = <-done:
		return value, true
	case <-time.After(time.Until(deadline)):
		return value, false
	}
}

// empty returns the document of a failed attempt, without rows. The document of a case without
// ranks does not describe this machine.
func (r *runner) empty(c plan.Case, reasons ...result.Reason) (result.Document, error) {
	return r.blank(c, nil, reasons...)
}

// blank is empty with the settings that ranks found.
func (r *runner) blank(c plan.Case, streams []rank.Stream, reasons ...result.Reason) (result.Document, error) {
	a := result.Attempt{
		RunID: r.Run.RunID, RunAttempt: r.Run.RunAttempt, SourceSHA: r.Run.SourceSHA, MatrixSHA256: r.Run.MatrixSHA256,
		Ordinal: r.history.of(c).attempts, At: time.Now(), Vendor: r.Cell.Vendor, Generator: r.Run.Generator,
	}
	if r.compute(c) == nil {
		r.place(&a, c, streams)
	}
	doc, err := result.New(c, a)
	if err != nil {
		return nil, err
	}
	head := doc.Head()
	head.Implementation.Maturity = r.Cell.Maturity
	head.Elapsed = r.elapsed()
	head.Outcome = result.Outcome{Status: result.Failed, Reasons: append(result.Reasons{}, reasons...)}
	return doc, nil
}

// place adds the image, environment and host of the ranks of a case.
func (r *runner) place(a *result.Attempt, c plan.Case, streams []rank.Stream) {
	var image launch.Image
	if r.machines != nil {
		image = r.machines.Image()
	}
	env := maps.Clone(image.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, r.environment(c))
	a.Image, a.ImageDigest = r.Cell.Image, image.Digest
	here := seen(streams)
	a.Environment, a.Host = r.Run.Environment(env, here.Environment, settings(c, streams)), here.Host
}

// describe adds what the ranks ran on and where. The ranks of a case have equal devices and
// libraries, so the first to report counts for all. What a runtime or library reports about
// itself is published only in its known form.
func (r *runner) describe(head *result.Envelope, streams []rank.Stream) {
	var devices []result.RankDevice
	for _, s := range streams {
		if s.Device != nil {
			d := *s.Device
			d.Partition = r.Run.Screen.Public(d.Partition)
			devices = append(devices, d)
		}
		if f := s.Facts; f != nil && len(f.CPUs) > 0 {
			head.Topology.Ranks = append(head.Topology.Ranks,
				result.RankPlace{Rank: s.Rank, CPUs: affinity.List(f.CPUs), NUMANode: f.NUMANode})
		}
	}
	head.Devices = result.NewDevices(devices)
	if first := slices.IndexFunc(streams, func(s rank.Stream) bool { return s.Facts != nil }); first >= 0 {
		r.describeSoftware(head, *streams[first].Facts)
	}
}

func (r *runner) describeSoftware(head *result.Envelope, f rank.Facts) {
	public := r.Run.Screen.Public
	head.Topology.DeviceProduct = public(f.DeviceProduct)
	head.Runtime.Framework = public(f.Framework)
	head.Runtime.AcceleratorRuntime = public(f.AcceleratorRuntime)
	if f.Library.Kind == "" {
		return // the backend of a host is not a library
	}
	for _, l := range append([]rank.Library{f.Library}, f.Beside...) {
		head.Provenance.Libraries = append(head.Provenance.Libraries, result.Library{
			Kind: public(l.Kind), Version: public(l.Version),
			SOName: r.Run.Screen.SOName(l.SOName), BuildID: r.Run.Screen.BuildID(l.BuildID),
		})
	}
	library := head.Provenance.Libraries[0]
	head.Runtime.CollectiveLibrary = &result.CollectiveLibrary{Kind: library.Kind}
	if f.Library.Version != "" {
		head.Runtime.CollectiveLibrary.Version = &library.Version
		head.Implementation.LibraryVersion = &library.Version
	}
}
