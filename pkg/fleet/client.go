// Package fleet operates sweeps on GitHub Actions: it dispatches runs of the workflow,
// watches them, fetches their artifacts, re-runs what failed, cancels, and finds runner
// labels without runners.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"
)

// DefaultAPI is the root of the API of github.com.
const DefaultAPI = "https://api.github.com"

// Options are the repository of a client, and how it reaches GitHub.
type Options struct {
	API   string // root of the API, as GITHUB_API_URL has it; empty: DefaultAPI
	Repo  string // OWNER/NAME
	Token Token
	Clock Clock
	// Tell reports, in one line, a wait or something that is left out.
	Tell func(line string)
}

// Client works on one repository. It is safe for concurrent use.
type Client struct {
	owner, name string
	gh          *github.Client
	blobs       *http.Client // never sends the token
	clock       Clock
	tell        func(string)
}

var repository = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+$`)

// CheckRepo returns an error unless the text is OWNER/NAME.
func CheckRepo(text string) error {
	if !repository.MatchString(text) {
		return fmt.Errorf("repository %q: want OWNER/NAME, such as acme/fleet", text)
	}
	return nil
}

// CheckHost returns an error unless host, from the URL of a run, is the server whose API has
// this root. An empty host, of a run given as a number, is valid.
func CheckHost(api, host string) error {
	u, err := parseAPI(api)
	if err != nil {
		return err
	}
	if here := strings.TrimPrefix(u.Host, "api."); host != "" && !strings.EqualFold(host, here) {
		return fmt.Errorf("the run is on %s, and GITHUB_API_URL is the API of %s: set it to the API of %s, such as %s", host, here, host, apiOf(host))
	}
	return nil
}

func apiOf(host string) string {
	if host == "github.com" || strings.HasSuffix(host, ".ghe.com") {
		return "https://api." + host
	}
	return "https://" + host + "/api/v3"
}

// New returns a client.
func New(o Options) (*Client, error) {
	api, err := parseAPI(o.API)
	if err != nil {
		return nil, err
	}
	if err := CheckRepo(o.Repo); err != nil {
		return nil, err
	}
	owner, name, _ := strings.Cut(o.Repo, "/")
	t := &transport{api: api, token: o.Token, next: http.DefaultTransport, clock: o.Clock, tell: o.Tell, kept: map[string]answer{}}
	gh := github.NewClient(&http.Client{Transport: t, CheckRedirect: sameAPI})
	gh.BaseURL = api
	return &Client{owner: owner, name: name, gh: gh, blobs: &http.Client{Transport: http.DefaultTransport}, clock: o.Clock, tell: o.Tell}, nil
}

// sameAPI follows the redirects of a renamed repository only. Others lead to storage, which
// must not see the token.
func sameAPI(req *http.Request, via []*http.Request) error {
	switch req.Response.StatusCode {
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if len(via) < 5 && req.URL.Host == via[0].URL.Host && req.URL.Scheme == via[0].URL.Scheme {
			return nil
		}
	}
	return http.ErrUseLastResponse
}

// parseAPI parses the root of an API. The token must not travel in clear text.
func parseAPI(text string) (*url.URL, error) {
	u, err := url.Parse(cmp.Or(text, DefaultAPI))
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("GITHUB_API_URL: want a URL such as https://api.github.com or https://HOST/api/v3")
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("GITHUB_API_URL: %s would see the token in clear text; use https", u.Host)
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/"
	return u, nil
}

// StatusError is the error of a request that GitHub refused.
type StatusError struct {
	Op     string // what was asked for
	Status int    // HTTP status
	Text   string // why, and what to do
}

func (e *StatusError) Error() string { return e.Op + ": " + e.Text }

// failed returns the error of an operation whose request failed, with what to do.
func (c *Client) failed(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil { // go-github does not say why
		return fmt.Errorf("%s: %w", op, context.Cause(ctx))
	}
	refused, ok := errors.AsType[*github.ErrorResponse](err)
	if !ok {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the URL
		}
		return fmt.Errorf("%s: %w", op, err)
	}
	status := refused.Response.StatusCode
	said := refused.Message
	if len(said) > 300 {
		said = said[:300] + "…"
	}
	if said != "" {
		said = " (" + said + ")"
	}
	var text string
	switch {
	case status == http.StatusUnauthorized:
		text = "GitHub does not accept the token" + said + "; check that it belongs to this server and has not expired"
	case status == http.StatusForbidden:
		text = "forbidden" + said + "; docs/operate.md lists what the token must be allowed to do"
	case status == http.StatusNotFound:
		text = fmt.Sprintf("not found in %s/%s, or the token has no access to it", c.owner, c.name)
	case status == http.StatusGone:
		text = "gone: GitHub no longer keeps it"
	case status >= 500:
		text = fmt.Sprintf("GitHub answers %d %s after %d tries; try again later", status, http.StatusText(status), tries)
	default:
		text = fmt.Sprintf("GitHub answers %d %s%s", status, http.StatusText(status), said)
	}
	return &StatusError{Op: op, Status: status, Text: text}
}

// statusOf returns the HTTP status that GitHub refused a request with, else 0.
func statusOf(err error) int {
	if refused, ok := errors.AsType[*github.ErrorResponse](err); ok {
		return refused.Response.StatusCode
	}
	if refused, ok := errors.AsType[*StatusError](err); ok {
		return refused.Status
	}
	return 0
}

// pageSizes are tried in turn: GitHub fails for good on large pages of large runs.
var pageSizes = []int{100, 30, 10}

// all collects a list over its pages, each id once. If entries were missed because the list
// changed while it was read, all reads it again.
func all[T any](ctx context.Context, id func(T) int64, page func(context.Context, github.ListOptions) (items []T, total int, resp *github.Response, err error)) ([]T, error) {
	var out []T
	size, again := 0, 0
	for {
		out = nil
		seen := map[int64]bool{}
		opt := github.ListOptions{PerPage: pageSizes[size], Page: 1}
		total := 0
		var err error
		for opt.Page != 0 {
			var items []T
			var resp *github.Response
			if items, total, resp, err = page(ctx, opt); err != nil {
				break
			}
			for _, it := range items {
				if !seen[id(it)] {
					seen[id(it)] = true
					out = append(out, it)
				}
			}
			opt.Page = resp.NextPage
		}
		switch {
		case err != nil && statusOf(err) >= 500 && size < len(pageSizes)-1:
			size++
		case err != nil:
			return nil, err
		case len(out) < total && again < 2:
			again++
		default:
			return out, nil
		}
	}
}

// RunRef is a run as a person gives it: a number, or a URL, which also has the server and the
// repository.
type RunRef struct {
	ID   int64
	Host string // of the server; empty for a number
	Repo string // OWNER/NAME; empty for a number
}

// ParseRun parses the number or the URL of a run.
func ParseRun(text string) (RunRef, error) {
	var r RunRef
	number := strings.TrimSpace(text)
	if m := runURL.FindStringSubmatch(number); m != nil {
		r.Host, r.Repo, number = m[1], m[2], m[3]
	}
	var err error
	if r.ID, err = strconv.ParseInt(number, 10, 64); err != nil || r.ID <= 0 {
		return RunRef{}, fmt.Errorf("run %q: want its number or its URL, such as https://github.com/acme/fleet/actions/runs/1001", text)
	}
	return r, nil
}

var runURL = regexp.MustCompile(`^https?://([^/]+)/([A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+)/actions/runs/([0-9]+)(?:[/?#].*)?$`)

// Run is a run of the workflow.
type Run struct {
	ID         int64  `json:"run_id"`
	Attempt    int    `json:"attempt"`
	URL        string `json:"url"`
	Status     string `json:"status"`     // as GitHub has it: queued, in_progress, completed, …
	Conclusion string `json:"conclusion"` // success, failure, cancelled, …; empty until it is completed
	SHA        string `json:"sha"`

	workflow      int64
	branch, title string    // the title shows the inputs
	Started       time.Time `json:"started"` // of the attempt
	Updated       time.Time `json:"updated"`
}

// Completed reports whether the run is over.
func (r Run) Completed() bool { return r.Status == "completed" }

func runOf(w *github.WorkflowRun) Run {
	started := w.GetRunStartedAt().Time
	if started.IsZero() {
		started = w.GetCreatedAt().Time
	}
	return Run{
		ID: w.GetID(), Attempt: max(w.GetRunAttempt(), 1), URL: w.GetHTMLURL(), Status: w.GetStatus(), Conclusion: w.GetConclusion(),
		SHA: w.GetHeadSHA(), Started: started, Updated: w.GetUpdatedAt().Time,
		workflow: w.GetWorkflowID(), branch: w.GetHeadBranch(), title: w.GetDisplayTitle(),
	}
}

// Run returns a run as it is now.
func (c *Client) Run(ctx context.Context, id int64) (Run, error) {
	w, _, err := c.gh.Actions.GetWorkflowRunByID(ctx, c.owner, c.name, id)
	if err != nil {
		return Run{}, c.failed(ctx, fmt.Sprintf("run %d", id), err)
	}
	return runOf(w), nil
}

func (c *Client) jobs(ctx context.Context, id int64) ([]*github.WorkflowJob, error) {
	list, err := all(ctx, (*github.WorkflowJob).GetID, func(ctx context.Context, opt github.ListOptions) ([]*github.WorkflowJob, int, *github.Response, error) {
		jobs, resp, err := c.gh.Actions.ListWorkflowJobs(ctx, c.owner, c.name, id, &github.ListWorkflowJobsOptions{Filter: "latest", ListOptions: opt})
		if err != nil {
			return nil, 0, nil, err
		}
		return jobs.Jobs, jobs.GetTotalCount(), resp, nil
	})
	if err != nil {
		return nil, c.failed(ctx, fmt.Sprintf("jobs of run %d", id), err)
	}
	return list, nil
}

// Cancel ends a run; force does not wait for jobs that take their time. It reports false
// for a run that was over already.
func (c *Client) Cancel(ctx context.Context, run int64, force bool) (bool, error) {
	how := "cancel"
	if force {
		how = "force-cancel"
	}
	req, err := c.gh.NewRequest(http.MethodPost, fmt.Sprintf("repos/%s/%s/actions/runs/%d/%s", c.owner, c.name, run, how), nil)
	if err != nil {
		return false, err
	}
	_, err = c.gh.Do(ctx, req, nil)
	_, accepted := errors.AsType[*github.AcceptedError](err)
	switch {
	case err == nil || accepted:
		return true, nil
	case statusOf(err) == http.StatusConflict:
		return false, nil
	default:
		return false, c.failed(ctx, fmt.Sprintf("cancel run %d", run), err)
	}
}
