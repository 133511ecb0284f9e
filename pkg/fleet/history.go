package fleet

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/google/go-github/v60/github"
)

// maxScanned limits the runs that History looks at for each run that it wants, since datasets expire.
const maxScanned = 3

// History downloads the datasets of the last n successful runs before a run that are like it: of its workflow, on its
// branch, with its inputs. Each has a directory below dir, named by its id. What an earlier call downloaded is kept, and
// runs without a dataset, such as an expired one, are passed over. The result has the oldest run first. History calls
// done after each dataset.
func (c *Client) History(ctx context.Context, run int64, n int, dir string, done func(Artifact)) ([]*Fetched, error) {
	r, err := c.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	before, err := c.before(ctx, r, maxScanned*n)
	if err != nil {
		return nil, err
	}
	var out []*Fetched
	for _, b := range before {
		if len(out) == n {
			break
		}
		f, err := c.Fetch(ctx, b.ID, filepath.Join(dir, strconv.FormatInt(b.ID, 10)), []string{KindAggregate}, done)
		if err != nil {
			return nil, err
		}
		switch {
		case len(f.Artifacts) == 0 || f.Artifacts[0].State == StateExpired: // missing, or the run goes on again
		case f.Artifacts[0].State == StateFailed:
			return nil, f.Err()
		default:
			out = append(out, f)
		}
	}
	slices.Reverse(out)
	return out, nil
}

// before returns at least the newest n successful runs before a run that are like it, if there are so many, newest first.
func (c *Client) before(ctx context.Context, r Run, n int) ([]Run, error) {
	found := 0
	list, err := all(ctx, (*github.WorkflowRun).GetID, func(ctx context.Context, opt github.ListOptions) ([]*github.WorkflowRun, int, *github.Response, error) {
		runs, resp, err := c.gh.Actions.ListWorkflowRunsByID(ctx, c.owner, c.name, r.workflow,
			&github.ListWorkflowRunsOptions{Branch: r.branch, Status: "success", ListOptions: opt})
		if err != nil {
			return nil, 0, nil, err
		}
		like := slices.DeleteFunc(runs.WorkflowRuns, func(w *github.WorkflowRun) bool {
			return w.GetID() >= r.ID || w.GetDisplayTitle() != r.title
		})
		if opt.Page == 1 {
			found = 0
		}
		if found += len(like); found >= n {
			resp.NextPage = 0
		}
		return like, 0, resp, nil
	})
	if err != nil {
		return nil, c.failed(ctx, fmt.Sprintf("runs before run %d", r.ID), err)
	}
	out := make([]Run, len(list))
	for i, w := range list {
		out[i] = runOf(w)
	}
	slices.SortFunc(out, func(a, b Run) int { return int(b.ID - a.ID) })
	return out, nil
}
