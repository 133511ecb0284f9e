package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Layouts of other programs for the file of results.
const (
	ncclTests = "nccl-tests" // its -J, version 3
	rcclJSON  = "json"       // rccl-tests' -Z
	rcclCSV   = "csv"
)

// layout returns the layout of the file of results, empty for our own. -X makes it the file of -J.
func (f *Flags) layout() (string, error) {
	switch {
	case f.testsLayout && f.File == "":
		return "", cli.UsageError("--nccl-tests-json is the layout of the file of -J: add -J FILE")
	case f.testsLayout && f.reporter != "":
		return "", cli.UsageError("--nccl-tests-json and -X: choose one layout")
	case f.testsLayout:
		return ncclTests, nil
	case f.reporter == "" && f.Set("output_format"):
		return "", cli.UsageError("-Z is the format of the file of -X: add -X FILE")
	case f.reporter == "":
		return "", nil
	case f.File != "":
		return "", cli.UsageError("-X and -J both name the file of the results: choose one")
	case f.format != rcclJSON && f.format != rcclCSV:
		return "", cli.UsageError("-Z %q: want %s or %s", f.format, rcclCSV, rcclJSON)
	}
	f.File = f.reporter
	return f.format, nil
}

// Translate implements bench.Translator.
func (p *Report) Translate() ([]byte, bool, error) {
	var text []byte
	var err error
	switch p.r.layout {
	case "":
		return nil, false, nil
	case ncclTests:
		text, err = json.Marshal(p.ofNCCLTests(time.Now()))
	case rcclJSON:
		text, err = json.MarshalIndent(p.ofRCCLTests(), "", " ")
	default:
		text = asCSV(p.ofRCCLTests())
	}
	return append(bytes.TrimSuffix(text, []byte("\n")), '\n'), true, err
}

// testsFile is the file of nccl-tests' -J, version 3. What it has of hosts and processes is empty.
type testsFile struct {
	Version     int           `json:"version"`
	Start       string        `json:"start_time"`
	Args        []string      `json:"args"`
	Env         []string      `json:"env"` // what may be published
	NCCL        int           `json:"nccl_version"`
	Config      testsConfig   `json:"config"`
	Results     []testsResult `json:"results"`
	OutOfBounds struct {
		Count int    `json:"count"` // rows with wrong elements
		Okay  string `json:"okay"`
	} `json:"out_of_bounds"`
	Average struct {
		Bandwidth *float64 `json:"bandwidth"`
		Okay      string   `json:"okay"`
	} `json:"average_bus_bandwidth"`
	Errors []string `json:"errors"`
	End    string   `json:"end_time"`
}

type testsConfig struct {
	Threads      int           `json:"nthreads"`
	GPUs         int           `json:"ngpus"`
	First        int64         `json:"minimum_bytes"`
	Last         int64         `json:"maximum_bytes"`
	Factor       int64         `json:"step_factor,omitempty"`
	Step         int64         `json:"step_bytes,omitempty"`
	Warmup       int           `json:"warmup_iters"`
	Iterations   int           `json:"iterations"`
	Aggregate    int           `json:"aggregated_iterations"`
	Validation   int           `json:"validation"`
	Graph        int           `json:"graph"`
	Blocking     string        `json:"blocking_collectives"`
	PerIteration string        `json:"per_iter_timing"`
	Skip         int           `json:"per_iter_skip"`
	ParallelInit string        `json:"parallel_init"`
	Devices      []testsDevice `json:"devices"`
}

type testsDevice struct {
	Rank   int    `json:"rank"`
	Group  int    `json:"group"`
	PID    int    `json:"pid"`
	Host   string `json:"hostname"`
	Device int    `json:"device"`
	Hex    string `json:"device_hex"`
	Info   string `json:"device_info"`
}

type testsResult struct {
	Size           int64           `json:"size"`
	Count          int64           `json:"count"`
	Type           string          `json:"type"`
	RedOp          string          `json:"redop"`
	Root           string          `json:"root"`
	OutOfPlace     *testsFigures   `json:"out_of_place"`
	OutOfPlaceEach *testsIteration `json:"out_of_place_per_iter,omitempty"`
	InPlace        *testsFigures   `json:"in_place"`
	InPlaceEach    *testsIteration `json:"in_place_per_iter,omitempty"`
	Iterations     int             `json:"actual_iterations"`
	Experiment     string          `json:"experiment_name"` // nccl-tests' is empty; see experiment
}

type testsFigures struct {
	Time    *float64 `json:"time,omitempty"`
	CPUTime *float64 `json:"cpu_time,omitempty"`
	AlgBW   float64  `json:"alg_bw"`
	BusBW   float64  `json:"bus_bw"`
	Wrong   *int64   `json:"nwrong"` // null: not checked completely
}

// testsIteration lacks the times of the iterations and what follows from them alone; the samples of --out have them.
type testsIteration struct {
	Skipped int      `json:"skipped_iterations"`
	Min     float64  `json:"min_us"`
	Max     float64  `json:"max_us"`
	Mean    float64  `json:"avg_us"`
	P50     float64  `json:"p50_us"`
	P95     *float64 `json:"p95_us"`
	P99     *float64 `json:"p99_us"`
}

// ofNCCLTests returns the report as nccl-tests would have written it at the given time.
func (p *Report) ofNCCLTests(now time.Time) testsFile {
	f := testsFile{
		Version: 3, Start: p.StartedAt.Local().Format(time.DateTime), End: now.Local().Format(time.DateTime),
		Args: append([]string{p.Program}, p.Arguments...), Env: []string{}, Config: p.config(), Results: []testsResult{}, Errors: slices.Clone(p.Violations),
	}
	if p.Library != nil && p.Library.Version != nil {
		f.NCCL = versionCode(*p.Library.Version)
	}
	for i, c := range p.Results {
		if i == 0 {
			for name, value := range c.Environment {
				f.Env = append(f.Env, name+"="+value)
			}
		}
		for rows := c.Rows; len(rows) > 0; {
			n := inLine(len(rows), func(i int) *collective.Row { return &rows[i].Row })
			f.Results = append(f.Results, p.result(&c, rows[:n]))
			rows = rows[n:]
		}
		if p.r.unfinished(c.Outcome) {
			f.Errors = append(f.Errors, fmt.Sprintf("%s %s: %s", c.CaseID, c.Outcome.Status, c.Outcome.Reasons))
		}
		for _, row := range c.Rows {
			f.OutOfBounds.Count += min(1, int(row.Check.Wrong))
		}
	}
	f.OutOfBounds.Okay = strconv.FormatBool(!p.failed && p.shown > 0 && !p.unfinished)
	f.Average.Bandwidth, f.Average.Okay = p.AvgBusBW, "unchecked"
	return f
}

func (p *Report) config() testsConfig {
	m := &p.r.Shape.Measure
	c := testsConfig{
		Threads: 1, GPUs: p.World, First: p.r.given[0], Last: p.r.given[1], Step: p.r.given[2], Warmup: m.Warmup, Iterations: m.Iterations, Aggregate: m.Aggregate,
		Validation: cmp.Or(m.Checks, collective.DefaultChecks), Blocking: strconv.FormatBool(m.Wait != "" || p.Mode == vocab.Blocking),
		PerIteration: strconv.FormatBool(p.r.View.PerIteration), Skip: m.Skip, ParallelInit: "true", Devices: []testsDevice{},
	}
	if p.Mode == vocab.Graph {
		c.Graph = m.Launches
	}
	if p.r.factor > 1 {
		c.Factor, c.Step = p.r.factor, 0
	}
	for rank := range p.World {
		c.Devices = append(c.Devices, testsDevice{Rank: rank, Device: rank, Info: result.Text(p.Device)})
	}
	return c
}

// experiment names what nccl-tests' columns do not tell apart: the variant of a case, and the ranks of a row that is not
// for all ranks.
func experiment(c *CaseRows, row *collective.Row) string {
	parts := []string{collective.Variant(c.Algorithm, c.CTAs)}
	if row.Src != nil || row.Group != nil {
		parts = append(parts, members(row))
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

// result returns the rows of a size.
func (p *Report) result(c *CaseRows, rows []Row) testsResult {
	out := testsResult{
		Size: rows[0].Bytes, Count: rows[0].Count, Type: c.DType, RedOp: cmp.Or(c.RedOp, noRedOp), Root: fmt.Sprintf("%6d", c.Root), Iterations: p.r.Shape.Measure.Iterations,
		Experiment: experiment(c, &rows[0].Row),
	}
	for i := range rows {
		row := &rows[i]
		var figures *testsFigures
		if s := row.Shown; s != nil {
			figures = &testsFigures{AlgBW: s.AlgBW, BusBW: s.BusBW}
			if figures.Time = &s.TimeUS; p.CPUTime {
				figures.Time, figures.CPUTime = nil, &s.TimeUS
			}
			if row.Check.Counted() {
				figures.Wrong = &row.Check.Wrong
			}
		}
		var each *testsIteration
		if t := row.PerIteration; t != nil {
			q := t.Percentiles.Of(t.SampleCount)
			each = &testsIteration{p.r.Shape.Measure.Skip, t.Min, t.Max, t.Mean, q.P50, q.P95, q.P99}
		}
		if row.Placement == vocab.OutOfPlace {
			out.OutOfPlace, out.OutOfPlaceEach = figures, each
		} else {
			out.InPlace, out.InPlaceEach = figures, each
		}
	}
	return out
}

// versionCode returns the code of a version of NCCL, such as 22809 of 2.28.9; 0 if the text is no version.
func versionCode(version string) int {
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return 0
	}
	return major*10000 + minor*100 + patch
}

// rcclRow is a record of rccl-tests' reporter.
type rcclRow struct {
	Cycle        int     `json:"numCycle"`
	Name         string  `json:"name"`
	Nodes        int     `json:"nodes"`
	Ranks        int     `json:"ranks"`
	RanksPerNode int     `json:"ranksPerNode"`
	GPUsPerRank  int     `json:"gpusPerRank"`
	Size         int64   `json:"size"`
	Type         string  `json:"type"`
	RedOp        string  `json:"redop"`
	InPlace      int     `json:"inPlace"`
	Time         float64 `json:"time"`
	AlgBW        float64 `json:"algBw"`
	BusBW        float64 `json:"busBw"`
	Wrong        string  `json:"wrong"`
}

// testNames are the names of rccl-tests for operations; others have ours.
var testNames = map[string]string{
	"all_reduce": "AllReduce", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter", "alltoall": "AlltoAll", "alltoallv": "AlltoAllv",
	"broadcast": "Broadcast", "reduce": "Reduce", "gather": "Gather", "scatter": "Scatter", "sendrecv": "SendRecv", "hypercube": "HyperCube",
}

// ofRCCLTests returns the rows that were timed as the records of rccl-tests.
func (p *Report) ofRCCLTests() []rcclRow {
	name := p.r.Name()
	if other := testNames[name]; other != "" {
		name = other
	}
	out := []rcclRow{}
	for _, c := range p.Results {
		for i := range c.Rows {
			row := &c.Rows[i]
			if row.Shown == nil {
				continue
			}
			r := rcclRow{
				Cycle: c.Repeat - 1, Name: name, Nodes: c.nodes, Ranks: p.World, RanksPerNode: p.World / max(1, c.nodes), GPUsPerRank: 1,
				Size: row.Bytes, Type: c.DType, RedOp: cmp.Or(c.RedOp, noRedOp), Time: row.Shown.TimeUS, AlgBW: row.Shown.AlgBW, BusBW: row.Shown.BusBW, Wrong: "N/A",
			}
			if of := experiment(&c, &row.Row); of != "" {
				r.Name += " " + strings.ReplaceAll(of, ",", " ") // no commas, for CSV
			}
			if row.Placement == vocab.InPlace {
				r.InPlace = 1
			}
			if row.Check.Counted() {
				r.Wrong = strconv.FormatInt(row.Check.Wrong, 10)
			}
			out = append(out, r)
		}
	}
	return out
}

// asCSV returns records as CSV, with a heading. No field has a comma.
func asCSV(rows []rcclRow) []byte {
	var out bytes.Buffer
	fmt.Fprintln(&out, "numCycle,name,nodes,ranks,ranksPerNode,gpusPerRank,size,type,redop,inPlace,time,algBw,busBw,wrong")
	for _, r := range rows {
		fmt.Fprintf(&out, "%d,%s,%d,%d,%d,%d,%d,%s,%s,%d,%f,%f,%f,%s\n",
			r.Cycle, r.Name, r.Nodes, r.Ranks, r.RanksPerNode, r.GPUsPerRank, r.Size, r.Type, r.RedOp, r.InPlace, r.Time, r.AlgBW, r.BusBW, r.Wrong)
	}
	return out.Bytes()
}
