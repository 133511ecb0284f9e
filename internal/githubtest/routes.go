package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/api/v3")
	if path == "/orgs/acme/actions/runners" {
		s.runners(w, r, true)
		return
	}
	rest, ok := strings.CutPrefix(path, "/repos/"+Repo)
	if !ok {
		fail(w, http.StatusNotFound, "Not Found")
		return
	}
	part := strings.Split(strings.TrimPrefix(rest, "/"), "/")
	get := r.Method == http.MethodGet
	switch {
	case rest == "" && get:
		write(w, http.StatusOK, map[string]any{"default_branch": "main", "owner": map[string]any{"type": "Organization"}})
	case rest == "/actions/runners" && get:
		s.runners(w, r, false)
	case rest == "/actions/workflows/"+s.Workflow+"/dispatches" && r.Method == http.MethodPost:
		s.dispatch(w, r)
	case rest == "/actions/workflows/"+s.Workflow+"/runs" && get:
		s.list(w, r)
	case len(part) == 4 && part[1] == "artifacts" && part[3] == "zip" && get:
		s.artifact(w, r, part[2])
	case len(part) == 4 && part[0] == "check-runs" && part[3] == "annotations" || len(part) == 3 && part[0] == "check-runs" && part[2] == "annotations":
		s.annotations(w, r, part[1])
	case len(part) >= 3 && part[1] == "runs":
		id, _ := strconv.ParseInt(part[2], 10, 64)
		i := slices.IndexFunc(s.Runs, func(r *Run) bool { return r.ID == id })
		if i < 0 || s.Runs[i].hidden() {
			fail(w, http.StatusNotFound, "Not Found")
			return
		}
		s.run(w, r, s.Runs[i], strings.Join(part[3:], "/"))
	case len(part) == 4 && part[1] == "jobs" && part[3] == "rerun":
		for _, run := range s.Runs {
			for _, j := range run.Jobs {
				if strconv.FormatInt(j.ID, 10) == part[2] {
					s.rerun(w, run, []*Job{j})
					return
				}
			}
		}
		fail(w, http.StatusNotFound, "Not Found")
	default:
		fail(w, http.StatusNotFound, "Not Found")
	}
}

func (r *Run) hidden() bool {
	if r.Hidden > 0 {
		r.Hidden--
		return true
	}
	return false
}

func (s *Server) run(w http.ResponseWriter, r *http.Request, run *Run, what string) {
	switch r.Method + " " + what {
	case "GET ":
		writeTagged(w, r, s.show(run))
	case "GET jobs":
		var list []any
		for _, j := range run.Jobs {
			if s.Clock.Now().Sub(run.Started) >= j.Made {
				list = append(list, s.showJob(run, j))
			}
		}
		total := len(list)
		writeTagged(w, r, map[string]any{"total_count": total, "jobs": page(w, r, list)})
	case "GET artifacts":
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
		total := len(list)
		writeTagged(w, r, map[string]any{"total_count": total, "artifacts": page(w, r, list)})
	case "POST cancel", "POST force-cancel":
		if status, _ := s.state(run); status == "completed" {
			fail(w, http.StatusConflict, "Cannot cancel a workflow run that is completed.")
			return
		}
		run.Cancelled = true
		write(w, http.StatusAccepted, map[string]any{})
	case "POST rerun-failed-jobs":
		var failed []*Job
		for _, j := range run.Jobs {
			if j.Conclusion != "success" && j.Conclusion != "skipped" {
				failed = append(failed, j)
			}
		}
		s.rerun(w, run, failed)
	default:
		fail(w, http.StatusNotFound, "Not Found")
	}
}

func (s *Server) rerun(w http.ResponseWriter, run *Run, jobs []*Job) {
	if status, _ := s.state(run); status != "completed" {
		fail(w, http.StatusForbidden, "This workflow is already running")
		return
	}
	run.Attempt++
	run.Started, run.Cancelled = s.Clock.Now(), false
	for _, j := range jobs {
		j.ID, j.Attempt = s.NewID(), run.Attempt
	}
	for _, a := range run.Artifacts {
		a.After = 0
	}
	if s.Rerun != nil {
		s.Rerun(run, jobs)
	}
	for _, a := range run.Artifacts {
		if a.ID == 0 {
			a.ID = s.NewID()
		}
	}
	write(w, http.StatusCreated, map[string]any{})
}

func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		fail(w, http.StatusBadRequest, "Problems parsing JSON")
		return
	}
	details := body["return_run_details"] == true
	if _, sent := body["return_run_details"]; sent && s.NoDetails {
		fail(w, http.StatusUnprocessableEntity, `Invalid request.

"return_run_details" is not a permitted key.`)
		return
	}
	inputs := map[string]string{}
	var unknown []string
	given, _ := body["inputs"].(map[string]any)
	for name, v := range given {
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
	s.details++
	run := s.Start(inputs)
	if ref, ok := body["ref"].(string); ok {
		run.Ref = ref
	}
	if !details || s.BareDispatch {
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
		status, _ := s.state(run)
		if run.Started.Add(s.skew).Before(since) || run.hidden() || q.Get("status") != "" && q.Get("status") != status {
			continue
		}
		list = append(list, s.show(run))
	}
	total := len(list)
	writeTagged(w, r, map[string]any{"total_count": total, "workflow_runs": page(w, r, list)})
}

// state returns the status and the conclusion of a run.
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
		"name":     "CollectiveX Sweep", "created_at": run.Started, "run_started_at": run.Started, "updated_at": s.Clock.Now(),
	}
	if status == "completed" {
		v["conclusion"] = conclusion
	}
	return v
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

func (s *Server) artifact(w http.ResponseWriter, r *http.Request, id string) {
	for _, run := range s.Runs {
		for _, a := range run.Artifacts {
			if strconv.FormatInt(a.ID, 10) != id {
				continue
			}
			if a.Expired {
				fail(w, http.StatusGone, "Artifact has expired")
				return
			}
			w.Header().Set("Location", s.blob.URL+"/"+id+"?sig=secret")
			w.WriteHeader(http.StatusFound)
			return
		}
	}
	fail(w, http.StatusNotFound, "Not Found")
}

func (s *Server) annotations(w http.ResponseWriter, r *http.Request, id string) {
	list := []any{}
	for _, run := range s.Runs {
		for _, j := range run.Jobs {
			if strconv.FormatInt(j.ID, 10) != id {
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
	total := len(list)
	write(w, http.StatusOK, map[string]any{"total_count": total, "runners": page(w, r, list)})
}
