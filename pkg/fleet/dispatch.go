package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"
)

const (
	findPause = 5 * time.Second
	findPolls = 36 // three minutes
	clockSkew = 10 * time.Second
)

// Request describes a run to dispatch.
type Request struct {
	Workflow string            // name of the workflow's file
	Ref      string            // branch or tag; empty: the default branch
	Inputs   map[string]string // those that differ from the default
	// MarkInput is the input for a mark, which the name of the setup job shows. By it the run
	// is found if GitHub does not answer with its id.
	MarkInput string
}

// Dispatched is a run that was dispatched.
type Dispatched struct {
	ID  int64
	URL string
	Ref string
}

// Dispatch starts a run and returns it. If the answer is lost, it looks for the run instead
// of sending the request again, and fails if it finds none. A request that GitHub refused
// because of an unknown field is sent again without that field.
func (c *Client) Dispatch(ctx context.Context, want Request) (Dispatched, error) {
	repo, resp, err := c.gh.Repositories.Get(ctx, c.owner, c.name)
	if err != nil {
		return Dispatched{}, c.failed(ctx, "repository", err)
	}
	want.Ref = cmp.Or(want.Ref, repo.GetDefaultBranch())
	d := Dispatched{Ref: want.Ref}
	since := serverTime(resp.Header, c.clock.Now()).Add(-clockSkew)
	inputs := map[string]string{}
	maps.Copy(inputs, want.Inputs)
	if want.MarkInput != "" {
		inputs[want.MarkInput] = rand.Text()[:16]
	}
	body := map[string]any{"ref": want.Ref, "inputs": inputs, "return_run_details": true}
	for {
		req, err := c.gh.NewRequest(http.MethodPost, fmt.Sprintf("repos/%s/%s/actions/workflows/%s/dispatches", c.owner, c.name, want.Workflow), body)
		if err != nil {
			return Dispatched{}, err
		}
		var answer struct {
			ID  int64  `json:"workflow_run_id"`
			URL string `json:"html_url"`
		}
		resp, err := c.gh.Do(ctx, req, &answer)
		refused, isRefused := errors.AsType[*github.ErrorResponse](err)
		_, isLost := errors.AsType[*LostError](err)
		unprocessable := statusOf(err) == http.StatusUnprocessableEntity
		switch {
		case err == nil && resp.StatusCode == http.StatusOK && answer.ID > 0:
			d.ID, d.URL = answer.ID, answer.URL
			return d, nil
		case err == nil:
		case unprocessable && body["return_run_details"] != nil && strings.Contains(refused.Message, "return_run_details"):
			delete(body, "return_run_details")
			continue
		case unprocessable && inputs[want.MarkInput] != "" && want.refusesMark(refused.Message):
			delete(inputs, want.MarkInput)
			continue
		case isRefused && refused.Response.StatusCode < 500:
			return Dispatched{}, c.failed(ctx, "dispatch "+want.Workflow, err)
		case ctx.Err() != nil:
			return Dispatched{}, &Interrupted{"interrupted while dispatching: a run may have started; look at the runs of " + want.Workflow + " before you dispatch again"}
		case !isLost && resp == nil: // GitHub did not get the request, or a rate limit refused it to the end
			return Dispatched{}, c.failed(ctx, "dispatch "+want.Workflow, err)
		default:
			c.tell("the answer to the dispatch was lost; looking for the run")
		}
		return c.find(ctx, d, want, inputs[want.MarkInput], since)
	}
}

// Interrupted is the error of a request that the end of its context cut off: GitHub may have done what it asked for.
// It says what to look at.
type Interrupted struct{ text string }

func (e *Interrupted) Error() string { return e.text }

// refusesMark reports whether GitHub refused the mark, which older workflows have no input
// for.
func (r Request) refusesMark(message string) bool {
	return strings.Contains(message, "nexpected inputs") && strings.Contains(message, `"`+r.MarkInput+`"`)
}

// find looks for the run of a dispatch whose answer has no id: the one whose setup job shows
// the mark. Without a mark it cannot be found.
func (c *Client) find(ctx context.Context, d Dispatched, want Request, mark string, since time.Time) (Dispatched, error) {
	if mark == "" {
		return Dispatched{}, fmt.Errorf("a run may have started, but the workflow at %s has no input %q by which to find it: look at the runs of %s before you dispatch again", d.Ref, want.MarkInput, want.Workflow)
	}
	var last error
	other := map[int64]bool{} // runs whose setup job shows another mark or none
	for poll := range findPolls {
		if poll > 0 {
			_ = c.clock.Sleep(ctx, findPause) // fails if ctx has ended
		}
		if ctx.Err() != nil {
			break
		}
		runs, err := c.runs(ctx, want.Workflow, &github.ListWorkflowRunsOptions{Event: "workflow_dispatch", Created: ">=" + since.UTC().Format(time.RFC3339)})
		if err != nil {
			last = err
			continue
		}
		for _, run := range runs {
			if other[run.ID] {
				continue
			}
			jobs, err := c.jobs(ctx, run.ID)
			if err != nil {
				last = err
				continue
			}
			for _, j := range jobs {
				if strings.Contains(j.GetName(), mark) {
					d.ID, d.URL = run.ID, run.URL
					return d, nil
				}
			}
			other[run.ID] = len(jobs) > 0
		}
	}
	if ctx.Err() != nil {
		return Dispatched{}, &Interrupted{"interrupted while looking for the run: it may have started; look at the runs of " + want.Workflow + " before you dispatch again"}
	}
	err := fmt.Errorf("no run of this dispatch was found, but it may still start: look at the runs of %s before you dispatch again", want.Workflow)
	return Dispatched{}, errors.Join(err, last)
}

func (c *Client) runs(ctx context.Context, workflow string, filter *github.ListWorkflowRunsOptions) ([]Run, error) {
	list, err := all(ctx, (*github.WorkflowRun).GetID, func(ctx context.Context, opt github.ListOptions) ([]*github.WorkflowRun, int, *github.Response, error) {
		f := *filter
		f.ListOptions = opt
		runs, resp, err := c.gh.Actions.ListWorkflowRunsByFileName(ctx, c.owner, c.name, workflow, &f)
		if err != nil {
			return nil, 0, nil, err
		}
		return runs.WorkflowRuns, runs.GetTotalCount(), resp, nil
	})
	if err != nil {
		return nil, c.failed(ctx, "runs of "+workflow, err)
	}
	out := make([]Run, len(list))
	for i, w := range list {
		out[i] = runOf(w)
	}
	return out, nil
}
