package fleet

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"
)

// Label is a runner label and the runners that serve it.
type Label struct {
	Name    string   `json:"label"`
	SKUs    []string `json:"skus"`    // platforms that need it
	Hosted  bool     `json:"hosted"`  // by GitHub
	Online  int      `json:"online"`  // runners
	Busy    int      `json:"busy"`    // of those online
	Offline int      `json:"offline"` // runners
	Waiting int      `json:"waiting"` // queued cells of all runs
}

// Unserved reports whether no runner would take a job with this label now.
func (l Label) Unserved() bool { return !l.Hosted && l.Online == 0 }

// Runners returns the runners of each label in wanted, which has the platforms by label, in
// order of the labels. GitHub ignores the case of labels. Queued cells are counted in runs of
// the workflow's file.
func (c *Client) Runners(ctx context.Context, workflow string, wanted map[string][]string) ([]Label, error) {
	runners, err := c.runners(ctx)
	if err != nil {
		return nil, err
	}
	waiting, err := c.waiting(ctx, workflow)
	if err != nil {
		return nil, err
	}
	out := []Label{}
	for name, skus := range wanted {
		l := Label{Name: name, SKUs: slices.Sorted(slices.Values(skus)), Hosted: hosted.MatchString(name), Waiting: waiting[strings.ToLower(name)]}
		for _, r := range runners {
			if !slices.ContainsFunc(r.Labels, func(have *github.RunnerLabels) bool { return strings.EqualFold(have.GetName(), name) }) {
				continue
			}
			if r.GetStatus() != "online" {
				l.Offline++
				continue
			}
			l.Online++
			if r.GetBusy() {
				l.Busy++
			}
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// hosted matches the labels of GitHub's own runners.
var hosted = regexp.MustCompile(`(?i)^(ubuntu|windows|macos)-`)

// runners lists the runners of the repository and of its organization. It leaves out the
// latter if the token may not list them.
func (c *Client) runners(ctx context.Context) ([]*github.Runner, error) {
	list := func(page func(context.Context, *github.ListOptions) (*github.Runners, *github.Response, error)) ([]*github.Runner, error) {
		return all(ctx, (*github.Runner).GetID, func(ctx context.Context, opt github.ListOptions) ([]*github.Runner, int, *github.Response, error) {
			runners, resp, err := page(ctx, &opt)
			if err != nil {
				return nil, 0, nil, err
			}
			return runners.Runners, runners.TotalCount, resp, nil
		})
	}
	out, err := list(func(ctx context.Context, o *github.ListOptions) (*github.Runners, *github.Response, error) {
		return c.gh.Actions.ListRunners(ctx, c.owner, c.name, o)
	})
	if err != nil {
		return nil, c.failed(ctx, "runners of "+c.owner+"/"+c.name, err)
	}
	more, err := list(func(ctx context.Context, o *github.ListOptions) (*github.Runners, *github.Response, error) {
		return c.gh.Actions.ListOrganizationRunners(ctx, c.owner, o)
	})
	switch status := statusOf(err); {
	case status == http.StatusForbidden || status == http.StatusNotFound:
		c.tell(fmt.Sprintf("the token may not see runners of the organization %s: they are not counted", c.owner))
	case err != nil:
		return nil, c.failed(ctx, "runners of "+c.owner, err)
	}
	return append(out, more...), nil
}

// waiting counts the queued cells of all runs by label, in lower case.
func (c *Client) waiting(ctx context.Context, workflow string) (map[string]int, error) {
	out := map[string]int{}
	seen := map[int64]bool{}
	for _, status := range []string{"queued", "in_progress"} {
		runs, err := c.runs(ctx, workflow, &github.ListWorkflowRunsOptions{Status: status})
		if err != nil {
			return nil, err
		}
		for _, r := range runs {
			if seen[r.ID] { // it started between the two lists
				continue
			}
			seen[r.ID] = true
			jobs, err := c.jobs(ctx, r.ID)
			if err != nil {
				return nil, err
			}
			for _, g := range jobs {
				if j := jobOf(g); j.State == Queued && !notCell(j.Name) {
					for _, label := range g.Labels {
						out[strings.ToLower(label)]++
					}
				}
			}
		}
	}
	return out, nil
}
