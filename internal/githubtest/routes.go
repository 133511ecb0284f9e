package githubtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// routes returns the handler of the API, below /api/v3.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", notFound)
	mux.HandleFunc("GET /orgs/acme/actions/runners", func(w http.ResponseWriter, r *http.Request) { s.runners(w, r, true) })
	repo := func(route string, serve http.HandlerFunc) {
		method, path, _ := strings.Cut(route, " ")
		mux.HandleFunc(method+" /repos/"+Repo+path, serve)
	}
	ofRun := func(route string, serve func(w http.ResponseWriter, r *http.Request, run *Run)) {
		method, path, _ := strings.Cut(route, " ")
		repo(method+" /actions/runs/{id}"+path, func(w http.ResponseWriter, r *http.Request) {
			i := slices.IndexFunc(s.Runs, func(run *Run) bool { return strconv.FormatInt(run.ID, 10) == r.PathValue("id") })
			if i < 0 || s.Runs[i].hidden() {
				notFound(w, r)
				return
			}
			serve(w, r, s.Runs[i])
		})
	}
	repo("GET ", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, map[string]any{"default_branch": "main", "owner": map[string]any{"type": "Organization"}})
	})
	repo("GET /actions/runners", func(w http.ResponseWriter, r *http.Request) { s.runners(w, r, false) })
	repo("POST /actions/workflows/{file}/dispatches", s.dispatch)
	repo("GET /actions/workflows/{file}/runs", s.list)
	repo("GET /actions/artifacts/{id}/zip", s.artifact)
	repo("GET /check-runs/{id}/annotations", s.annotations)
	ofRun("GET ", func(w http.ResponseWriter, r *http.Request, run *Run) { writeTagged(w, r, s.show(run)) })
	ofRun("GET /jobs", s.jobs)
	ofRun("GET /artifacts", s.artifacts)
	ofRun("POST /cancel", s.cancel)
	ofRun("POST /force-cancel", s.cancel)
	ofRun("POST /rerun-failed-jobs", s.rerun)
	return mux
}

func notFound(w http.ResponseWriter, _ *http.Request) { fail(w, http.StatusNotFound, "Not Found") }

func (r *Run) hidden() bool {
	if r.Hidden > 0 {
		r.Hidden--
		return true
	}
	return false
}

func (s *Server) jobs(w http.ResponseWriter, r *http.Request, run *Run) {
	var list []any
	for _, j := range run.Jobs {
		if s.Clock.Now().Sub(run.Started) >= j.Made {
			list = append(list, s.showJob(run, j))
		}
	}
	writeList(w, r, "jobs", list)
}

func (s *Server) artifacts(w http.ResponseWriter, r *http.Request, run *Run) {
	var list []any
	for _, a := range slices.Backward(run.Artifacts) { // newest first
		if name := r.URL.Query().Get("name"); s.Clock.Now().Sub(run.Started) < a.After || name != "" && a.Name != name {
			continue
		}
		v := map[string]any{"id": a.ID, "name": a.Name, "size_in_bytes": len(a.Zip), "expired": a.Expired}
		if a.Digest != "" {
			v["digest"] = a.Digest
		}
		list = append(list, v)
	}
	writeList(w, r, "artifacts", list)
}

func (s *Server) cancel(w http.ResponseWriter, _ *http.Request, run *Run) {
	if status, _ := s.state(run); status == "completed" {
		fail(w, http.StatusConflict, "Cannot cancel a workflow run that is completed.")
		return
	}
	run.Cancelled = true
	write(w, http.StatusAccepted, map[string]any{})
}

func (s *Server) rerun(w http.ResponseWriter, _ *http.Request, run *Run) {
	if status, _ := s.state(run); status != "completed" {
		fail(w, http.StatusForbidden, "This workflow is already running")
		return
	}
	var failed []*Job
	for _, j := range run.Jobs {
		if j.Conclusion != "success" && j.Conclusion != "skipped" {
			failed = append(failed, j)
		}
	}
	run.Attempt++
	run.Started, run.Cancelled = s.Clock.Now(), false
	for _, j := range failed {
		j.ID, j.Attempt = s.NewID(), run.Attempt
	}
	for _, a := range run.Artifacts {
		a.After = 0
	}
	if s.Rerun != nil {
		s.Rerun(run, failed)
	}
	s.number(run)
	write(w, http.StatusCreated, map[string]any{})
}

func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Ref     string         `json:"ref"`
		Inputs  map[string]any `json:"inputs"`
		Details *bool          `json:"return_run_details"`
	}
	if r.PathValue("file") != s.Workflow {
		notFound(w, r)
		return
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		fail(w, http.StatusBadRequest, "Problems parsing JSON")
		return
	}
	if body.Details != nil && s.NoDetails {
		fail(w, http.StatusUnprocessableEntity, "Invalid request.\n\n\"return_run_details\" is not a permitted key.")
		return
	}
	inputs := map[string]string{}
	var unknown []string
	for name, v := range body.Inputs {
		inputs[name] = fmt.Sprint(v)
		if s.Inputs != nil && !slices.Contains(s.Inputs, name) {
			unknown = append(unknown, strconv.Quote(name))
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		fail(w, http.StatusUnprocessableEntity, "Unexpected inputs provided: ["+strings.Join(unknown, ", ")+"]")
		return
	}
	s.dispatches++
	run := s.Start(inputs)
	if body.Ref != "" {
		run.Ref = body.Ref
	}
	if body.Details == nil || !*body.Details || s.BareDispatch {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	v := s.show(run)
	write(w, http.StatusOK, map[string]any{"workflow_run_id": run.ID, "run_url": v["url"], "html_url": v["html_url"]})
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	since, _ := time.Parse(time.RFC3339, strings.TrimPrefix(q.Get("created"), ">="))
	var list []any
	for _, run := range slices.Backward(s.Runs) {
		status, conclusion := s.state(run)
		if run.Started.Add(s.skew).Before(since) || run.hidden() ||
			q.Get("status") != "" && q.Get("status") != status && q.Get("status") != conclusion ||
			q.Get("branch") != "" && q.Get("branch") != run.Ref {
			continue
		}
		list = append(list, s.show(run))
	}
	writeList(w, r, "workflow_runs", list)
}

func (s *Server) state(run *Run) (status, conclusion string) {
	if run.Cancelled {
		return "completed", "cancelled"
	}
	conclusion, running := "success", false
	over := true
	for _, j := range run.Jobs {
		st, c, _, _ := s.jobState(run, j)
		running = running || st != "queued"
		over = over && st == "completed"
		if c == "failure" {
			conclusion = c
		}
	}
	switch {
	case over && len(run.Jobs) > 0:
		return "completed", conclusion
	case running:
		return "in_progress", ""
	default:
		return "queued", ""
	}
}

func (s *Server) jobState(run *Run, j *Job) (status, conclusion string, started, ended time.Time) {
	if j.Attempt < run.Attempt { // kept from an earlier attempt
		return "completed", j.Conclusion, run.Started.Add(-j.Run), run.Started
	}
	started = run.Started.Add(j.Made + j.Queue)
	ended = started.Add(j.Run)
	switch now := s.Clock.Now(); {
	case run.Cancelled && (j.Queue < 0 || now.Before(ended)):
		return "completed", "cancelled", started, now
	case j.Queue < 0 || now.Before(started):
		return "queued", "", time.Time{}, time.Time{}
	case now.Before(ended):
		return "in_progress", "", started, time.Time{}
	default:
		return "completed", j.Conclusion, started, ended
	}
}

func (s *Server) show(run *Run) map[string]any {
	status, conclusion := s.state(run)
	v := map[string]any{
		"id": run.ID, "run_attempt": run.Attempt, "status": status, "conclusion": nil, "head_sha": run.SHA, "event": "workflow_dispatch",
		"url":      fmt.Sprintf("https://api.github.com/repos/%s/actions/runs/%d", Repo, run.ID),
		"html_url": s.WebURL(run.ID),
		"name":     "CollectiveX Sweep", "display_title": run.title(), "head_branch": run.Ref, "workflow_id": 7, "created_at": run.Started, "run_started_at": run.Started, "updated_at": s.Clock.Now(),
	}
	if status == "completed" {
		v["conclusion"] = conclusion
	}
	return v
}

// title names a run by its inputs, as the run-name of the workflow does.
func (r *Run) title() string {
	return cmp.Or(r.Inputs["suite"], "smoke") + " on " + cmp.Or(r.Inputs["sku"], "all")
}

func (s *Server) showJob(run *Run, j *Job) map[string]any {
	status, conclusion, started, ended := s.jobState(run, j)
	v := map[string]any{
		"id": j.ID, "run_id": run.ID, "name": j.Name, "status": status, "conclusion": nil, "labels": j.Labels,
		"run_attempt": j.Attempt, "html_url": fmt.Sprintf("%s/job/%d", s.WebURL(run.ID), j.ID),
		"runner_name": nil,
	}
	if status == "queued" {
		return v
	}
	v["runner_name"], v["started_at"] = j.Runner, started
	step := map[string]any{"name": j.Step, "status": status, "conclusion": nil}
	if status == "completed" {
		v["conclusion"], v["completed_at"], step["conclusion"] = conclusion, ended, conclusion
	}
	if j.Step != "" {
		v["steps"] = []any{step}
	}
	return v
}

// artifactOf returns the artifact with an id, nil if there is none.
func (s *Server) artifactOf(id string) *Artifact {
	for _, run := range s.Runs {
		for _, a := range run.Artifacts {
			if strconv.FormatInt(a.ID, 10) == id {
				return a
			}
		}
	}
	return nil
}

func (s *Server) artifact(w http.ResponseWriter, r *http.Request) {
	switch a := s.artifactOf(r.PathValue("id")); {
	case a == nil:
		notFound(w, r)
	case a.Expired:
		fail(w, http.StatusGone, "Artifact has expired")
	default:
		w.Header().Set("Location", s.blob.URL+"/"+r.PathValue("id")+"?sig=secret")
		w.WriteHeader(http.StatusFound)
	}
}

func (s *Server) annotations(w http.ResponseWriter, r *http.Request) {
	list := []any{}
	for _, run := range s.Runs {
		for _, j := range run.Jobs {
			if strconv.FormatInt(j.ID, 10) != r.PathValue("id") {
				continue
			}
			for _, e := range j.Errors {
				title, message, _ := strings.Cut(e, "\x00")
				list = append(list, map[string]any{"annotation_level": "failure", "title": title, "message": message})
			}
			if j.Conclusion == "failure" {
				list = append(list, map[string]any{"annotation_level": "failure", "message": "Process completed with exit code 1."})
			}
		}
	}
	write(w, http.StatusOK, list)
}

func (s *Server) runners(w http.ResponseWriter, r *http.Request, org bool) {
	if !org && s.NoRunners || org && s.NoOrgRunners {
		fail(w, http.StatusForbidden, "Resource not accessible by personal access token")
		return
	}
	var list []any
	for _, one := range s.Runners {
		if one.Org != org {
			continue
		}
		status := "offline"
		if one.Online {
			status = "online"
		}
		labels := []any{}
		for _, l := range one.Labels {
			labels = append(labels, map[string]any{"name": l})
		}
		list = append(list, map[string]any{"id": s.NewID(), "name": one.Name, "os": "linux", "status": status, "busy": one.Busy, "labels": labels})
	}
	writeList(w, r, "runners", list)
}
