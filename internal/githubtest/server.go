// Package githubtest is a stand-in for GitHub: the part of its REST API that operates
// workflow runs, and the store of its artifacts, on two servers of the loopback. Runs
// proceed with an injected clock, and faults are injected by route.
package githubtest

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Token is the token that the server accepts.
const Token = "ghp_thisIsTheTokenThatMustNotLeak0042"

// Repo is the repository that the server has.
const Repo = "acme/fleet"

// Job is a job of a run. It is queued, starts and ends by the clock.
type Job struct {
	ID         int64
	Name       string
	Labels     []string
	Runner     string
	Made       time.Duration // since the start of the attempt; before that it is not listed
	Queue      time.Duration // from then until it starts; negative: forever
	Run        time.Duration // from then until it ends
	Conclusion string
	Step       string   // that runs, and that fails
	Errors     []string // annotations: title\x00message
	Attempt    int
}

// Artifact is an artifact of a run.
type Artifact struct {
	ID      int64
	Name    string
	Zip     []byte
	Digest  string // as the API says it; empty: none
	Expired bool
	After   time.Duration // since the start of the attempt; before that it is not listed
}

// Run is a run of the workflow.
type Run struct {
	ID        int64
	Attempt   int
	Started   time.Time
	Inputs    map[string]string
	Ref       string
	SHA       string
	Hidden    int // how many requests for it, or lists, it is still invisible to
	Cancelled bool
	Jobs      []*Job
	Artifacts []*Artifact
}

// Runner is a self-hosted runner.
type Runner struct {
	Name   string
	Labels []string
	Online bool
	Busy   bool
	Org    bool // of the organization, not of the repository
}

// Fault changes the answer to one request. It may call next for the true one.
type Fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Server is a stand-in for GitHub. Fields may be changed between requests.
type Server struct {
	URL   string // of the API: GITHUB_API_URL
	Clock *Clock

	// Sweep makes the jobs and artifacts of a run that is dispatched.
	Sweep func(*Run)
	// Rerun makes the jobs and artifacts of a further attempt.
	Rerun func(r *Run, jobs []*Job)
	// Workflow is the name of the workflow's file.
	Workflow string
	// NoDetails makes the server refuse return_run_details, as old ones do; BareDispatch makes
	// it answer without the run.
	NoDetails, BareDispatch bool
	// Inputs are the inputs that the workflow takes; nil: any.
	Inputs []string
	Runs   []*Run
	// Runners are the runners of the repository and of its organization.
	Runners []Runner
	// NoRunners and NoOrgRunners make the server refuse to list runners.
	NoRunners, NoOrgRunners bool

	blob       *httptest.Server
	api        http.Handler
	mu         sync.Mutex
	faults     map[string][]Fault
	asked      []string
	leaks      []string
	next       int64
	skew       time.Duration
	dispatches int // number carried out
}

// New starts a server. The test fails at its end if the token reached the store.
func New(t testing.TB) *Server {
	s := &Server{Clock: NewClock(), Workflow: "collectivex-sweep.yml", faults: map[string][]Fault{}, next: 1000}
	s.api = http.StripPrefix("/api/v3", s.routes())
	ctx, end := context.WithCancel(context.Background()) // of all requests
	start := func(serve http.HandlerFunc) *httptest.Server {
		h := httptest.NewUnstartedServer(serve)
		h.Config.BaseContext = func(net.Listener) context.Context { return ctx }
		h.Start()
		return h
	}
	s.blob = start(s.serveBlob)
	api := start(s.serveAPI)
	s.URL = api.URL + "/api/v3"
	t.Cleanup(func() {
		end()
		api.CloseClientConnections()
		s.blob.CloseClientConnections()
		api.Close()
		s.blob.Close()
		for _, leak := range s.Leaks() {
			t.Errorf("the token reached the store of artifacts: %s", leak)
		}
	})
	return s
}

// WebURL returns the address of a run's page.
func (s *Server) WebURL(run int64) string {
	return fmt.Sprintf("%s/%s/actions/runs/%d", strings.TrimSuffix(s.URL, "/api/v3"), Repo, run)
}

// BlobURL returns the root of the store.
func (s *Server) BlobURL() string { return s.blob.URL }

// Fail injects faults into the next requests of a route, one each; nil lets one pass. A
// route is a method and the end of a path, such as "GET /jobs"; the store has "BLOB".
func (s *Server) Fail(route string, faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[route] = append(s.faults[route], faults...)
}

// Asked returns the requests since the last call, as METHOD PATH?QUERY.
func (s *Server) Asked() []string {
	return s.drain(&s.asked)
}

// Leaks returns the requests since the last call that brought the token, or any
// credentials, to the store.
func (s *Server) Leaks() []string {
	return s.drain(&s.leaks)
}

func (s *Server) drain(list *[]string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := *list
	*list = nil
	return out
}

// Dispatches returns how many dispatches were carried out.
func (s *Server) Dispatches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dispatches
}

// Skew sets the clock of the server ahead of the client's.
func (s *Server) Skew(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew = d
}

// NewID returns an unused id.
func (s *Server) NewID() int64 {
	s.next++
	return s.next
}

// Start adds a run, as a dispatch does.
func (s *Server) Start(inputs map[string]string) *Run {
	r := &Run{ID: s.NewID(), Attempt: 1, Started: s.Clock.Now(), Inputs: inputs, Ref: "main", SHA: strings.Repeat("ab", 20)}
	if s.Sweep != nil {
		s.Sweep(r)
	}
	for _, j := range r.Jobs {
		j.Attempt = 1
	}
	s.number(r)
	s.Runs = append(s.Runs, r)
	return r
}

// number gives ids to the jobs and artifacts of a run that have none.
func (s *Server) number(r *Run) {
	for _, j := range r.Jobs {
		if j.ID == 0 {
			j.ID = s.NewID()
		}
	}
	for _, a := range r.Artifacts {
		if a.ID == 0 {
			a.ID = s.NewID()
		}
	}
}

// Zip returns an archive of the files, in order of their names.
func Zip(files map[string]string) []byte {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		must(must(z.Create(name)).Write([]byte(files[name])))
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// NewArtifact returns an artifact with the digest of its zip.
func NewArtifact(name string, data []byte) *Artifact {
	sum := sha256.Sum256(data)
	return &Artifact{Name: name, Zip: data, Digest: "sha256:" + hex.EncodeToString(sum[:])}
}

func (s *Server) fault(key string) Fault {
	for route, list := range s.faults {
		if len(list) > 0 && matches(route, key) {
			s.faults[route] = list[1:]
			return list[0]
		}
	}
	return nil
}

func matches(route, key string) bool {
	method, path, _ := strings.Cut(route, " ")
	gotMethod, gotPath, _ := strings.Cut(key, " ")
	return method == gotMethod && strings.HasSuffix(gotPath, path)
}

func (s *Server) serveBlob(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen := fmt.Sprint(r.URL, r.Header); r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" || strings.Contains(seen, Token) {
		s.leaks = append(s.leaks, r.Method+" "+r.URL.Path)
		http.Error(w, "unexpected Authorization", http.StatusForbidden)
		return
	}
	s.serve(w, r, "BLOB "+r.URL.Path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := s.artifactOf(strings.TrimPrefix(r.URL.Path, "/"))
		if a == nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/zip")
		w.Header().Set("Content-Length", strconv.Itoa(len(a.Zip)))
		_, _ = w.Write(a.Zip)
	}))
}

// serve answers with the next fault of the route, or with truly if there is none. It releases the
// lock only while it serves a fault.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, key string, truly http.Handler) {
	f := s.fault(key)
	if f == nil {
		truly.ServeHTTP(w, r)
		return
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	f(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		truly.ServeHTTP(w, r)
	}))
}

func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body) // net/http notices a client that goes away only after that
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Date", s.Clock.Now().Add(s.skew).UTC().Format(http.TimeFormat))
	path, ok := strings.CutPrefix(r.URL.Path, "/api/v3")
	key := r.Method + " " + path
	s.asked = append(s.asked, r.Method+" "+strings.TrimPrefix(r.URL.String(), "/api/v3"))
	switch {
	case !ok:
		notFound(w, r)
	case r.Header.Get("Authorization") != "Bearer "+Token:
		fail(w, http.StatusUnauthorized, "Bad credentials")
	default:
		s.serve(w, r, key, s.api)
	}
}

func fail(w http.ResponseWriter, status int, message string) {
	write(w, status, map[string]any{"message": message, "documentation_url": "https://docs.github.com/rest"})
}

func write(w http.ResponseWriter, status int, v any) {
	data := must(json.Marshal(v))
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

// writeTagged is write with an ETag, and with status 304 if the client has the answer.
func writeTagged(w http.ResponseWriter, r *http.Request, v any) {
	sum := sha256.Sum256(must(json.Marshal(v)))
	tag := `W/"` + hex.EncodeToString(sum[:8]) + `"`
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	write(w, http.StatusOK, v)
}

// writeList writes the page of a list that the query asks for, with a link to the next one.
func writeList(w http.ResponseWriter, r *http.Request, name string, list []any) {
	size, number := 30, 1
	if n, err := strconv.Atoi(r.URL.Query().Get("per_page")); err == nil && n > 0 {
		size = min(n, 100)
	}
	if n, err := strconv.Atoi(r.URL.Query().Get("page")); err == nil && n > 0 {
		number = n
	}
	first := min((number-1)*size, len(list))
	last := min(first+size, len(list))
	if last < len(list) {
		q := r.URL.Query()
		q.Set("page", strconv.Itoa(number+1))
		w.Header().Set("Link", fmt.Sprintf("<http://%s%s?%s>; rel=%q", r.Host, r.URL.Path, q.Encode(), "next"))
	}
	writeTagged(w, r, map[string]any{"total_count": len(list), name: list[first:last]})
}
