package githubtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/matrix"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
)

// Plan plans with the shipped definitions, as setup does with the inputs of a dispatch.
func Plan(inputs map[string]string) *plan.Matrix {
	only := planner.Only{}
	for _, f := range planner.AllFilters() {
		if v := inputs[strings.ReplaceAll(f.Name, "-", "_")]; v != "" && v != catalog.All {
			only[f.Name] = strings.Split(v, ",")
		}
	}
	m := must(planner.Resolve(must(catalog.Load(matrix.FS)), planner.Filters{Only: only}, planner.Machine{}))
	m.Generator = plan.Generator{Program: "cxgen", Version: "of-another-commit", Format: plan.Format}
	return m
}

// Times of the jobs of Measured, from the start of the run.
const (
	setupEnds = time.Minute
	cellTakes = 4 * time.Minute
)

// Measured has runs proceed as the workflow's do: setup plans, each cell measures its
// cases and leaves their documents, and aggregate folds them. A case that fails reports
// true for fails its first attempt, and its cell with it.
func (s *Server) Measured(fails func(id string) bool) {
	s.Sweep = func(r *Run) {
		m := Plan(r.Inputs)
		name := "setup"
		if mark := r.Inputs["request"]; mark != "" {
			name += " " + mark
		}
		r.Jobs = append(r.Jobs, &Job{Name: name, Labels: []string{"ubuntu-24.04"}, Runner: "GitHub Actions 1", Queue: 5 * time.Second, Run: setupEnds - 5*time.Second, Conclusion: "success", Step: "Plan"})
		text := encode(m)
		matrix := NewArtifact("cxsweep-matrix-"+strconv.FormatInt(r.ID, 10), Zip(map[string]string{plan.FileName: text}))
		matrix.After = setupEnds
		r.Artifacts = append(r.Artifacts, matrix)
		s.cells(r, m, m.Include, fails)
	}
	s.Rerun = func(r *Run, jobs []*Job) {
		m := Plan(r.Inputs)
		encode(m)
		var again []plan.Cell
		for i := range m.Include {
			if slices.ContainsFunc(jobs, func(j *Job) bool { return j.Name == m.Include[i].ID }) {
				again = append(again, m.Include[i])
			}
		}
		r.Jobs = slices.DeleteFunc(r.Jobs, func(j *Job) bool { return slices.Contains(jobs, j) })
		s.cells(r, m, again, func(string) bool { return false })
	}
}

// encode returns the file of a matrix and sets its digest.
func encode(m *plan.Matrix) string {
	var text bytes.Buffer
	if err := m.Write(&text); err != nil {
		panic(err)
	}
	sum := sha256.Sum256(text.Bytes())
	m.SHA256 = hex.EncodeToString(sum[:])
	return text.String()
}

// cells adds the jobs of cells and aggregate with what they leave.
func (s *Server) cells(r *Run, m *plan.Matrix, cells []plan.Cell, fails func(string) bool) {
	attempt := resulttest.Attempt()
	attempt.RunID, attempt.RunAttempt, attempt.SourceSHA = strconv.FormatInt(r.ID, 10), strconv.Itoa(r.Attempt), r.SHA
	attempt.MatrixSHA256 = m.SHA256
	attempt.At = r.Started.Add(setupEnds)
	var ndjson strings.Builder
	end := setupEnds
	for i := range cells {
		c := &cells[i]
		j := &Job{
			ID: s.NewID(), Name: c.ID, Labels: []string{c.Runner}, Runner: "runner-" + strconv.Itoa(i+1), Made: setupEnds, Attempt: r.Attempt,
			Queue: time.Duration(i) * 2 * time.Minute, Run: cellTakes, Conclusion: "success", Step: "Run the cell",
		}
		files := map[string]string{}
		for k, q := range must(m.Cases(*c)) {
			d := resulttest.Successful(q.Case, attempt)
			if fails(q.Case.CaseID) {
				resulttest.Fail(d, "rank-died: rank 1 exit 1")
				j.Conclusion, j.Errors = "failure", append(j.Errors, q.Case.CaseID+"\x00failed: rank-died: rank 1 exit 1")
			}
			line := string(must(result.EncodeDocument(d)))
			files[must(result.FileName(d, k))] = line
			ndjson.WriteString(line)
		}
		a := NewArtifact(fmt.Sprintf("cxshard-%s-%d-%d", c.ID, r.ID, r.Attempt), Zip(files))
		a.After = j.Made + j.Queue + j.Run
		end = max(end, a.After)
		r.Jobs, r.Artifacts = append(r.Jobs, j), append(r.Artifacts, a)
	}
	last := &Job{ID: s.NewID(), Name: "aggregate", Labels: []string{"ubuntu-24.04"}, Runner: "GitHub Actions 2", Made: setupEnds, Queue: end - setupEnds, Run: 30 * time.Second, Attempt: r.Attempt, Conclusion: "success", Step: "Aggregate"}
	for _, j := range r.Jobs {
		if j.Conclusion == "failure" {
			last.Conclusion = "failure"
		}
	}
	id := strconv.FormatInt(r.ID, 10)
	fold := NewArtifact("cxsweep-aggregate-"+id, Zip(map[string]string{"collectivex-" + id + ".ndjson": ndjson.String()}))
	fold.After = end + last.Run
	r.Jobs, r.Artifacts = append(r.Jobs, last), append(r.Artifacts, fold)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
