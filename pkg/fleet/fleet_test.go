package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/githubtest"
	"github.com/collectivex/collectivex/pkg/fleet"
)

// stage is a client of a stand-in for GitHub.
type stage struct {
	*githubtest.Server
	client *fleet.Client
	told   []string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{Server: githubtest.New(t)}
	s.Measured(func(string) bool { return false })
	s.client = s.newClient(t, githubtest.Token)
	return s
}

func (s *stage) newClient(t *testing.T, token string) *fleet.Client {
	t.Helper()
	c, err := fleet.New(fleet.Options{
		API: s.URL, Repo: githubtest.Repo, Token: fleet.NewToken(token), Clock: s.Clock,
		Tell: func(line string) { s.told = append(s.told, line) },
	})
	require.NoError(t, err)
	return c
}

// smoke dispatches the smoke suite on the local platform.
func (s *stage) smoke() (fleet.Dispatched, error) {
	return s.client.Dispatch(context.Background(), fleet.Request{
		Workflow: s.Workflow, Inputs: map[string]string{"suite": "smoke", "sku": "local"}, MarkInput: "request",
	})
}

// start starts a run without a dispatch.
func (s *stage) start() *githubtest.Run {
	return s.Start(map[string]string{"suite": "smoke", "sku": "local"})
}

// watch watches a run to its end and returns how it ended, and how often it was shown.
func (s *stage) watch(id int64) (*fleet.Sweep, int, error) {
	n := 0
	sweep, err := s.client.Watch(context.Background(), id, fleet.Watch{Show: func(*fleet.Sweep) { n++ }})
	return sweep, n, err
}

// over moves the clock until every run is over.
func (s *stage) over(t *testing.T) {
	t.Helper()
	require.NoError(t, s.Clock.Sleep(context.Background(), 24*time.Hour))
}

// finished returns a stage with a run that is over.
func finished(t *testing.T) (*stage, *githubtest.Run) {
	t.Helper()
	s := newStage(t)
	run := s.start()
	s.over(t)
	return s, run
}

func (s *stage) fetch(id int64, dir string) (*fleet.Fetched, error) {
	return s.client.Fetch(context.Background(), id, dir, fleet.Documents(), func(fleet.Artifact) {})
}

// TestOneDispatch injects what can happen to a dispatch: in every case at most one run
// starts, and unless it is refused, it is found.
func TestOneDispatch(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*stage)
		runs    int
		err     string
		told    string
	}{
		"answered":                     {func(*stage) {}, 1, "", ""},
		"answered without the run":     {func(s *stage) { s.BareDispatch = true }, 1, "", ""},
		"details refused":              {func(s *stage) { s.NoDetails = true }, 1, "", ""},
		"answer lost":                  {func(s *stage) { s.Fail("POST /dispatches", githubtest.Lost()) }, 1, "", "looking for the run"},
		"answer cut":                   {func(s *stage) { s.Fail("POST /dispatches", githubtest.Cut()) }, 1, "", "looking for the run"},
		"answer stalled":               {func(s *stage) { s.Fail("POST /dispatches", stalledAfter(s)) }, 1, "", "looking for the run"},
		"502 after it was carried out": {func(s *stage) { s.Fail("POST /dispatches", after(githubtest.HTML(502))) }, 1, "", "looking for the run"},
		"502 before":                   {func(s *stage) { s.Fail("POST /dispatches", githubtest.HTML(502)) }, 0, "may still start", "looking for the run"},
		"connection broken before":     {func(s *stage) { s.Fail("POST /dispatches", githubtest.Broken()) }, 0, "before you dispatch again", "looking for the run"},
		"primary limit":                {func(s *stage) { s.Fail("POST /dispatches", githubtest.Primary(s.Clock.Now().Add(10*time.Minute))) }, 1, "", "rate limit of GitHub: waiting 10m1s"},
		"secondary limit":              {func(s *stage) { s.Fail("POST /dispatches", githubtest.Secondary(), githubtest.Secondary()) }, 1, "", "waiting 2m0s"},
		"limited for good":             {func(s *stage) { s.Fail("POST /dispatches", repeat(20, githubtest.Secondary())...) }, 0, "rate limit", "waiting 2m0s"},
		"no connection":                {func(s *stage) { s.Fail("GET /"+githubtest.Repo, last) }, 0, syscall.ECONNREFUSED.Error(), ""},
		"not a workflow":               {func(s *stage) { s.Workflow = "other.yml" }, 0, "not found", ""},
		"input refused":                {func(s *stage) { s.Inputs = []string{"request", "suite"} }, 0, `Unexpected inputs provided: ["sku"]`, ""},
		"mark refused":                 {func(s *stage) { s.Inputs = []string{"suite", "sku"} }, 1, "", ""},
		"mark refused, answer lost": {func(s *stage) {
			s.Inputs = []string{"suite", "sku"}
			s.Fail("POST /dispatches", nil, githubtest.Lost())
		}, 1, `has no input "request"`, "looking for the run"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			test.prepare(s)
			workflow := "collectivex-sweep.yml"
			d, err := s.client.Dispatch(context.Background(), fleet.Request{
				Workflow: workflow, Inputs: map[string]string{"suite": "smoke", "sku": "local"}, MarkInput: "request",
			})
			require.Equal(t, test.runs, s.Dispatches())
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
			} else {
				require.NoError(t, err)
				require.Equal(t, s.Runs[0].ID, d.ID)
				require.Equal(t, s.WebURL(d.ID), d.URL)
				require.Equal(t, "main", d.Ref)
			}
			told := strings.Join(s.told, "\n")
			require.Contains(t, told, test.told)
			const looks = "looking for the run"
			require.Equal(t, test.told == looks, strings.Contains(told, looks))
		})
	}
}

// last answers, and no connection after it is accepted.
func last(w http.ResponseWriter, r *http.Request, next http.Handler) {
	over, end := context.WithCancel(context.Background())
	end() // so that the shutdown does not wait for this answer
	_ = r.Context().Value(http.ServerContextKey).(*http.Server).Shutdown(over)
	next.ServeHTTP(w, r)
}

// after carries the request out, and then answers with a fault.
func after(f githubtest.Fault) githubtest.Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(discard{}, r)
		f(w, r, next)
	}
}

// stalledAfter carries the request out, and then never ends its answer.
func stalledAfter(s *stage) githubtest.Fault { return after(githubtest.Stall(s.Clock.Expire)) }

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

// A run whose answer is lost is found although GitHub shows it late, beside the run of
// somebody else, and although its clock is not this machine's.
func TestLostDispatchIsFound(t *testing.T) {
	for _, skew := range []time.Duration{0, time.Hour, -time.Hour} {
		s := newStage(t)
		s.Skew(skew)
		s.start()
		measured := s.Sweep
		s.Sweep = func(r *githubtest.Run) {
			measured(r)
			r.Hidden = 7
		}
		s.Fail("POST /dispatches", githubtest.Lost())
		s.Clock.OnSleep = func(time.Duration) {
			if len(s.Runs) == 2 { // another one, at once
				s.Clock.OnSleep = nil
				s.Sweep = measured
				s.start()
			}
		}
		d, err := s.smoke()
		require.NoError(t, err)
		require.Len(t, s.Runs, 3)
		require.Equal(t, s.Runs[1].ID, d.ID)
		require.Equal(t, 1, s.Dispatches())
	}
}

// A run that is cancelled by its user while its answer is awaited says that it may have
// started.
func TestInterruptedDispatch(t *testing.T) {
	s := newStage(t)
	ctx, cancel := context.WithCancel(context.Background())
	s.Fail("POST /dispatches", func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		cancel()
		<-r.Context().Done()
	})
	_, err := s.client.Dispatch(ctx, fleet.Request{Workflow: s.Workflow, MarkInput: "request"})
	require.ErrorContains(t, err, "a run may have started")
}

// TestWatchThroughFaults injects a fault into what a watch asks: it goes on as if nothing
// had happened, or ends with what to do.
func TestWatchThroughFaults(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for name, test := range map[string]struct {
		route  string
		faults []githubtest.Fault
		err    string
		told   string
	}{
		"502 with HTML":            {"GET /jobs", []githubtest.Fault{githubtest.HTML(502), githubtest.HTML(503)}, "", ""},
		"cut JSON":                 {"GET /jobs", []githubtest.Fault{githubtest.Cut()}, "", ""},
		"torn JSON":                {"GET /jobs", []githubtest.Fault{githubtest.Torn()}, "", ""},
		"connection broken":        {"GET /jobs", []githubtest.Fault{githubtest.Broken()}, "", ""},
		"broken for good":          {"GET /jobs", repeat(20, githubtest.Broken()), "EOF (5 tries)", ""},
		"down for good":            {"GET /jobs", repeat(20, githubtest.HTML(500)), "GitHub answers 500 Internal Server Error after 5 tries; try again later", ""},
		"429 with Retry-After":     {"GET /jobs", []githubtest.Fault{githubtest.Status(429, "{}", "Retry-After", "42")}, "", "waiting 42s"},
		"429 without":              {"GET /jobs", []githubtest.Fault{githubtest.Status(429, "<html>")}, "", "waiting 1m0s"},
		"limited for good":         {"GET /jobs", repeat(20, githubtest.Secondary()), "secondary rate limit of GitHub persists after 8 waits", ""},
		"reset in the past":        {"GET /jobs", []githubtest.Fault{githubtest.Primary(githubtest.Epoch.Add(-time.Hour))}, "", "waiting 1s"},
		"reset far ahead":          {"GET /jobs", []githubtest.Fault{githubtest.Primary(githubtest.Epoch.Add(1000 * time.Hour))}, "", "waiting 1h5m0s"},
		"401":                      {"GET /jobs", []githubtest.Fault{githubtest.Status(401, `{"message":"Bad credentials"}`)}, "does not accept the token (Bad credentials)", ""},
		"403":                      {"GET /jobs", []githubtest.Fault{githubtest.Status(403, `{"message":"Resource not accessible"}`)}, "forbidden (Resource not accessible); docs/operate.md", ""},
		"404":                      {"GET /jobs", []githubtest.Fault{githubtest.Status(404, `{}`)}, "not found in acme/fleet", ""},
		"410":                      {"GET /jobs", []githubtest.Fault{githubtest.Status(410, `{}`)}, "gone", ""},
		"an endless message":       {"GET /jobs", []githubtest.Fault{githubtest.Status(418, `{"message":"`+long+`"}`)}, "418", ""},
		"a message with the token": {"GET /jobs", []githubtest.Fault{githubtest.Status(418, `{"message":"`+githubtest.Token+` is bad"}`)}, "([token] is bad)", ""},
		"no plan to read":          {"BLOB ", []githubtest.Fault{githubtest.Status(200, "not a zip")}, "", ""},
		"no annotations":           {"GET /annotations", []githubtest.Fault{githubtest.Status(403, `{}`)}, "", ""},
		"a link elsewhere":         {"GET /jobs", []githubtest.Fault{githubtest.Status(302, "", "Location", "http://127.0.0.1:1/")}, "302", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			run := s.start()
			s.Fail(test.route, append([]githubtest.Fault{nil}[:min(1, strings.Count(test.route, "GET"))], test.faults...)...)
			sweep, shown, err := s.watch(run.ID)
			require.NotContains(t, fmt.Sprint(err, s.told), githubtest.Token)
			require.Less(t, len(fmt.Sprint(err)), 600)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, fleet.Success, sweep.Conclusion)
			require.GreaterOrEqual(t, shown, 3)
			require.Contains(t, strings.Join(s.told, "\n"), test.told)
		})
	}
}

func repeat(n int, f githubtest.Fault) []githubtest.Fault {
	return slices.Repeat([]githubtest.Fault{f}, n)
}

// An answer that stalls is given up, and asked for again.
func TestStalledAnswer(t *testing.T) {
	s, run := finished(t)
	s.Fail("GET /jobs", githubtest.Stall(s.Clock.Expire))
	sweep, _, err := s.watch(run.ID)
	require.NoError(t, err)
	require.Equal(t, fleet.Success, sweep.Conclusion)
}

// What has not changed is not sent again: polling costs nothing of the rate limit.
func TestUnchangedIsNotModified(t *testing.T) {
	s, run := finished(t)
	unmodified := 0
	s.Fail("GET /jobs", nil, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(counter{w, &unmodified}, r)
	})
	for range 2 {
		sweep, _, err := s.watch(run.ID)
		require.NoError(t, err)
		require.Len(t, sweep.Cells, len(githubtest.Plan(run.Inputs).Include))
	}
	require.Equal(t, 1, unmodified)
}

type counter struct {
	http.ResponseWriter
	n *int
}

func (c counter) WriteHeader(status int) {
	if status == http.StatusNotModified {
		*c.n++
	}
	c.ResponseWriter.WriteHeader(status)
}

// Runs of any size are seen whole: over pages, while jobs are added, and if GitHub fails on
// large pages.
func TestManyJobs(t *testing.T) {
	for _, n := range []int{31, 101, 256} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := newStage(t)
			s.Sweep = func(r *githubtest.Run) {
				for i := range n {
					r.Jobs = append(r.Jobs, &githubtest.Job{Name: fmt.Sprintf("cell-%03d", i), Run: time.Minute, Conclusion: "success"})
				}
			}
			run := s.start()
			s.over(t)
			grow := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				run.Jobs = append([]*githubtest.Job{{ID: s.NewID(), Name: "cell-new", Attempt: 1, Run: time.Minute, Conclusion: "success"}}, run.Jobs...)
				next.ServeHTTP(w, r)
			}
			if n > 100 { // before the second page
				s.Fail("GET /jobs", nil, grow)
			}
			sweep, _, err := s.watch(run.ID)
			require.NoError(t, err)
			want := n
			if n > 100 {
				want++
			}
			require.Len(t, sweep.Cells, want)

			s.Asked()
			s.Fail("GET /jobs", repeat(5, githubtest.HTML(502))...)
			sweep, _, err = s.watch(run.ID)
			require.NoError(t, err)
			require.Len(t, sweep.Cells, want)
			require.Contains(t, strings.Join(s.Asked(), "\n"), "per_page=30")
		})
	}
}

// A watch shows cells with their platform, the reasons of failures as they come, and ends
// as it is told.
func TestWatch(t *testing.T) {
	s := newStage(t)
	s.Measured(func(id string) bool { return strings.Contains(id, "all-reduce") })
	run := s.start()
	run.Hidden = 3
	var first *fleet.Sweep // with a failure
	estimated := false
	sweep, err := s.client.Watch(context.Background(), run.ID, fleet.Watch{Show: func(w *fleet.Sweep) {
		if first == nil && len(w.Failed()) > 0 {
			first = w
		}
		estimated = estimated || w.Left > 0
	}})
	require.NoError(t, err)
	require.Equal(t, fleet.Failure, sweep.Conclusion)
	require.True(t, estimated)
	require.False(t, first.Completed(), "failures are shown as they come")
	failed := first.Failed()[0]
	require.Equal(t, "local-host-collective-n1", failed.Name)
	require.Equal(t, "local", failed.SKU)
	require.Equal(t, "local-host-all-reduce-float-sum-w2-warm: failed: rank-died: rank 1 exit 1; "+
		"local-host-all-reduce-float-sum-w4-warm: failed: rank-died: rank 1 exit 1", failed.Reason)

	run = s.start()
	_, err = s.client.Watch(context.Background(), run.ID, fleet.Watch{FailFast: true, Show: func(*fleet.Sweep) {}})
	require.ErrorIs(t, err, fleet.ErrCellFailed)
	require.ErrorContains(t, err, "local-host-collective-n1")

	run = s.start()
	began := s.Clock.Now()
	sweep, err = s.client.Watch(context.Background(), run.ID, fleet.Watch{Deadline: 100 * time.Second, Show: func(*fleet.Sweep) {}})
	require.ErrorIs(t, err, fleet.ErrDeadline)
	require.Equal(t, 100*time.Second, s.Clock.Now().Sub(began))
	require.False(t, sweep.Completed())

	s.Fail("GET /jobs", githubtest.Stall(s.Clock.Expire))
	sweep, err = s.client.Watch(context.Background(), run.ID, fleet.Watch{Deadline: time.Hour, Show: func(*fleet.Sweep) {}})
	require.ErrorIs(t, err, fleet.ErrDeadline, "it ends a request, too")
	require.Nil(t, sweep)

	s.Fail("GET /annotations", githubtest.Status(403, `{}`))
	s.over(t)
	sweep, _, err = s.watch(run.ID)
	require.NoError(t, err)
	require.Equal(t, "step Run the cell", sweep.Failed()[1].Reason)
	require.Contains(t, strings.Join(s.told, "\n"), "may not read annotations")

	s.told = nil
	_, err = s.client.Watch(context.Background(), 99, fleet.Watch{Show: func(*fleet.Sweep) {}})
	require.ErrorContains(t, err, "run 99: not found")
}

// A watch asks less often when a run takes long.
func TestWatchSlowsDown(t *testing.T) {
	s := newStage(t)
	s.Sweep = func(r *githubtest.Run) {
		r.Jobs = []*githubtest.Job{{Name: "cell", Run: 15 * time.Minute, Conclusion: "success"}}
	}
	run := s.start()
	_, shown, err := s.watch(run.ID)
	require.NoError(t, err)
	require.Equal(t, 10*4+5*2+1, shown)
}

// A context that ends is the end of every command, at whatever request it ends.
func TestCancelledContext(t *testing.T) {
	s, run := finished(t)
	dir := t.TempDir()
	for _, route := range []string{"GET /jobs", "GET /artifacts", "GET /zip", "BLOB ", fmt.Sprintf("GET /runs/%d", run.ID), "POST /cancel"} {
		ctx, cancel := context.WithCancelCause(context.Background())
		cause := errors.New("enough")
		s.Fail(route, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			cancel(cause)
			<-r.Context().Done()
		})
		var err error
		switch route {
		case "GET /jobs":
			_, err = s.client.Watch(ctx, run.ID, fleet.Watch{Show: func(*fleet.Sweep) {}})
		case "POST /cancel":
			_, err = s.client.Cancel(ctx, run.ID, false)
		default:
			_, err = s.client.Fetch(ctx, run.ID, dir, fleet.Documents(), func(fleet.Artifact) {})
		}
		require.ErrorIs(t, err, cause, route)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "cells"))
	require.True(t, err != nil || len(entries) == 0)
}

func TestCancel(t *testing.T) {
	s := newStage(t)
	run := s.start()
	for _, force := range []bool{false, true} {
		run.Cancelled = false
		cancelled, err := s.client.Cancel(context.Background(), run.ID, force)
		require.NoError(t, err)
		require.True(t, cancelled)
		require.True(t, run.Cancelled)
		cancelled, err = s.client.Cancel(context.Background(), run.ID, force)
		require.NoError(t, err)
		require.False(t, cancelled, "it is over already")
	}
	s.Fail("POST /cancel", githubtest.HTML(502))
	_, err := s.client.Cancel(context.Background(), run.ID, false)
	require.ErrorContains(t, err, "answer was lost")
	_, err = s.client.Cancel(context.Background(), 99, false)
	require.ErrorContains(t, err, "not found")
}
