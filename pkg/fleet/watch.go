package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/collectivex/collectivex/pkg/plan"
)

// States of a job.
const (
	Queued    = "queued"
	Running   = "running"
	Success   = "success"
	Failure   = "failure"
	Cancelled = "cancelled"
	Skipped   = "skipped"
)

// JobStates lists the states of a job, in the order in which they are shown.
func JobStates() []string { return []string{Queued, Running, Success, Failure, Cancelled, Skipped} }

// Job is one job of a run: a cell, setup or aggregate.
type Job struct {
	ID      int64     `json:"job_id,omitempty"` // 0: GitHub has not made it yet
	Name    string    `json:"name"`             // of a cell: its id
	SKU     string    `json:"sku,omitempty"`    // of a cell; empty while the plan is not known
	Label   string    `json:"label,omitempty"`  // of the runner that it needs
	State   string    `json:"state"`
	Runner  string    `json:"runner,omitempty"`
	Step    string    `json:"step,omitempty"`   // that runs or failed
	Reason  string    `json:"reason,omitempty"` // of a failure
	URL     string    `json:"url,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	planned time.Duration
}

// Over reports whether the job has ended.
func (j Job) Over() bool { return j.State != Queued && j.State != Running }

// Failed reports whether the job ended badly.
func (j Job) Failed() bool { return j.State == Failure || j.State == Cancelled }

// Sweep is a run at one time.
type Sweep struct {
	Run
	Cells []Job     `json:"cells"` // by plan; by name while the plan is not known
	Other []Job     `json:"other"` // setup and aggregate
	At    time.Time `json:"at"`
	// Left is the estimated time until the last cell ends; 0 if it is not known or over.
	Left time.Duration `json:"-"`
	// Plan is nil while it is not known.
	Plan *plan.Matrix `json:"-"`
}

// Failed returns the jobs that ended badly.
func (s *Sweep) Failed() []Job {
	return slices.DeleteFunc(slices.Concat(s.Other, s.Cells), func(j Job) bool { return !j.Failed() })
}

const (
	pollPause     = 15 * time.Second
	slowPause     = 30 * time.Second
	slowAfter     = 10 * time.Minute
	appearPolls   = 20 // of a run that GitHub does not show yet: five minutes
	maxAnnotation = 10 // requests for the reasons of failures in one poll
)

// ErrDeadline ends a watch at its deadline.
var ErrDeadline = errors.New("deadline")

// ErrCellFailed ends a watch at the first failure, if it is FailFast.
var ErrCellFailed = errors.New("a cell failed")

// Watch says how to follow a run.
type Watch struct {
	Deadline time.Duration // 0: none
	FailFast bool          // end with the first cell that fails
	Show     func(*Sweep)  // called after each poll
}

// Watch follows a run until it is completed and returns its last state. The error wraps
// ErrDeadline or ErrCellFailed if w ended the watch.
func (c *Client) Watch(ctx context.Context, id int64, w Watch) (*Sweep, error) {
	v := &view{client: c, id: id, reasons: map[int64]string{}}
	began := c.clock.Now()
	gaveUp := fmt.Errorf("%w: run %d is not over after %s; it goes on", ErrDeadline, id, w.Deadline)
	outer := ctx
	if w.Deadline > 0 { // it ends requests and their waits too
		var cancel context.CancelFunc
		ctx, cancel = c.clock.WithTimeout(ctx, w.Deadline)
		defer cancel()
	}
	var last *Sweep
	for poll := 0; ; poll++ {
		s, err := v.poll(ctx)
		passed := c.clock.Now().Sub(began)
		switch {
		case err == nil:
			last = s
			w.Show(s)
			if s.Completed() {
				return s, nil
			}
			if failed := s.Failed(); w.FailFast && len(failed) > 0 {
				return s, fmt.Errorf("%w: %s; run %d goes on: 'cxgen cancel %d' ends it", ErrCellFailed, failed[0].Name, id, id)
			}
		case statusOf(err) == http.StatusNotFound && last == nil && poll < appearPolls:
			// GitHub shows a new run only after a while.
		case ctx.Err() != nil && outer.Err() == nil:
			return last, gaveUp
		default:
			return last, err
		}
		pause := pollPause
		if passed >= slowAfter {
			pause = slowPause
		}
		if w.Deadline > 0 {
			if passed >= w.Deadline {
				return last, gaveUp
			}
			pause = min(pause, w.Deadline-passed)
		}
		if err := c.clock.Sleep(ctx, pause); err != nil {
			if outer.Err() == nil {
				return last, gaveUp
			}
			return last, err
		}
	}
}

// view is what a watch remembers between two polls.
type view struct {
	client  *Client
	id      int64
	attempt int
	plan    *plan.Matrix
	noPlan  bool             // there is none that this program can read
	noNotes bool             // the token may not read annotations
	reasons map[int64]string // by job
}

// poll asks GitHub for the state of the run.
func (v *view) poll(ctx context.Context) (*Sweep, error) {
	run, err := v.client.Run(ctx, v.id)
	if err != nil {
		return nil, err
	}
	if run.Attempt != v.attempt {
		v.attempt, v.plan, v.noPlan = run.Attempt, nil, false
	}
	jobs, err := v.client.jobs(ctx, v.id)
	if err != nil {
		return nil, err
	}
	s := &Sweep{Run: run, At: v.client.clock.Now(), Cells: []Job{}, Other: []Job{}}
	v.fetchPlan(ctx, jobs)
	s.Plan = v.plan
	place := map[string]int{}
	if v.plan != nil {
		for i := range v.plan.Include {
			cell := &v.plan.Include[i]
			place[cell.ID] = i
			state := Queued
			if run.Completed() {
				state = Skipped
			}
			s.Cells = append(s.Cells, Job{Name: cell.ID, SKU: cell.SKU, Label: cell.Runner, State: state, planned: time.Duration(cell.Minutes) * time.Minute})
		}
	}
	asked := 0
	for _, g := range jobs {
		j := jobOf(g)
		if j.Failed() && v.reasons[j.ID] == "" && asked < maxAnnotation {
			asked++
			v.reasons[j.ID] = v.reason(ctx, j)
		}
		if j.Failed() {
			j.Reason = v.reasons[j.ID]
		}
		i, planned := place[j.Name]
		switch {
		case planned:
			j.SKU, j.Label, j.planned = s.Cells[i].SKU, s.Cells[i].Label, s.Cells[i].planned
			s.Cells[i] = j
		case notCell(j.Name):
			s.Other = append(s.Other, j)
		case v.plan == nil && j.State != Skipped:
			s.Cells = append(s.Cells, j)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	s.Left = left(s)
	return s, nil
}

// notCell reports whether the job of that name is setup or aggregate.
func notCell(name string) bool {
	return name == "setup" || strings.HasPrefix(name, "setup ") || name == "aggregate"
}

// fetchPlan fetches the plan once setup has uploaded it. Without it cells are shown by the
// names of their jobs only.
func (v *view) fetchPlan(ctx context.Context, jobs []*github.WorkflowJob) {
	if v.plan != nil || v.noPlan || !slices.ContainsFunc(jobs, func(j *github.WorkflowJob) bool {
		return strings.HasPrefix(j.GetName(), "setup") && j.GetConclusion() == Success
	}) {
		return
	}
	m, err := v.client.Matrix(ctx, v.id)
	switch {
	case err == nil:
		v.plan = m
	case errors.Is(err, ErrNoMatrix) || ctx.Err() != nil:
	default:
		v.noPlan = true
		v.client.tell(fmt.Sprintf("the plan of the run cannot be read, so cells are shown without their platforms: %v", err))
	}
}

func jobOf(g *github.WorkflowJob) Job {
	j := Job{
		ID: g.GetID(), Name: g.GetName(), State: Queued, Runner: g.GetRunnerName(), URL: g.GetHTMLURL(),
		Label: strings.Join(g.Labels, ","),
	}
	switch g.GetStatus() {
	case "in_progress":
		j.State = Running
	case "completed":
		switch g.GetConclusion() {
		case Success, Skipped, Cancelled:
			j.State = g.GetConclusion()
		case "neutral":
			j.State = Success
		default: // failure, timed_out, startup_failure, action_required
			j.State = Failure
		}
	}
	if j.State != Queued {
		j.Started = g.GetStartedAt().Time
	}
	if j.Over() {
		j.Ended = g.GetCompletedAt().Time
	}
	for _, step := range g.Steps {
		if j.State == Running && step.GetStatus() == "in_progress" || j.Failed() && j.Step == "" && (step.GetConclusion() == Failure || step.GetConclusion() == Cancelled) {
			j.Step = step.GetName()
		}
	}
	return j
}

// reason returns why a job failed: its error annotations, else its step.
func (v *view) reason(ctx context.Context, j Job) string {
	fallback := "no step ran"
	if j.Step != "" {
		fallback = "step " + j.Step
	}
	if v.noNotes {
		return fallback
	}
	notes, _, err := v.client.gh.Checks.ListCheckRunAnnotations(ctx, v.client.owner, v.client.name, j.ID, &github.ListOptions{PerPage: 100})
	if err != nil {
		if status := statusOf(err); status == http.StatusForbidden || status == http.StatusNotFound {
			v.noNotes = true
			v.client.tell("the token may not read annotations (Checks: read), so failures are shown with their step only")
		}
		return fallback
	}
	var said []string
	for _, n := range notes {
		text := n.GetMessage()
		if n.GetAnnotationLevel() != Failure || strings.HasPrefix(text, "Process completed with exit code") {
			continue
		}
		if title := n.GetTitle(); title != "" {
			text = title + ": " + text
		}
		said = append(said, text)
	}
	const shown = 3
	if more := len(said) - shown; more > 0 {
		said = append(said[:shown], fmt.Sprintf("and %d more", more))
	}
	return cmp.Or(strings.Join(said, "; "), fallback)
}

// left estimates how long the cells still take; 0 if no cell has finished. It scales the
// planned times by the times of the finished cells, and assumes that the cells of a platform
// share as many runners as run now.
func left(s *Sweep) time.Duration {
	if s.Completed() || s.Plan == nil {
		return 0
	}
	var took, planned time.Duration
	for _, j := range s.Cells {
		if (j.State == Success || j.State == Failure) && !j.Started.IsZero() && j.Ended.After(j.Started) {
			took += j.Ended.Sub(j.Started)
			planned += j.planned
		}
	}
	if planned <= 0 {
		return 0
	}
	pace := float64(took) / float64(planned)
	work, runners := map[string]time.Duration{}, map[string]int{}
	for _, j := range s.Cells {
		need := time.Duration(pace * float64(j.planned))
		switch j.State {
		case Running:
			runners[j.SKU]++
			work[j.SKU] += max(need-s.At.Sub(j.Started), 0)
		case Queued:
			work[j.SKU] += need
		}
	}
	var longest time.Duration
	for sku, w := range work {
		longest = max(longest, w/time.Duration(max(runners[sku], 1)))
	}
	return longest
}
