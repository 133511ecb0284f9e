package bench

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// reported is what flags write to their file about two cases, the second with wrong elements.
func reported(t *testing.T, flags string) string {
	t.Helper()
	r, err := ask(t, "all_reduce -b 1K -e 4K -f 2 -n 7 "+flags)
	require.NoError(t, err)
	started := time.Date(2026, 11, 26, 20, 0, 0, 0, time.Local)
	p := NewReport(&r, bench.NewHead("cxrun test", []string{"bench", "all_reduce"}, started, "nccl", 2))
	for repeat := range 2 {
		d := document(rowOf(vocab.OutOfPlace, 8), rowOf(vocab.InPlace, 4))
		version := "2.28.9"
		d.Runtime.CollectiveLibrary = &result.CollectiveLibrary{Kind: "nccl", Version: &version}
		d.Identity.Repeat, d.Identity.Case.Nodes = repeat+1, 1
		d.Measurement.Rows[0].PerIteration = timing(16)
		if repeat > 0 {
			d.Measurement.Rows[1].Check = collective.Check{Wrong: 3, Checked: 512}
		}
		p.Add(d)
	}
	text, is, err := p.Translate()
	require.NoError(t, err)
	require.True(t, is)
	return string(text)
}

// The file has the members of nccl-tests' version 3, in its order and of its types.
func TestLayoutOfNCCLTests(t *testing.T) {
	text := reported(t, "-J file.json --nccl-tests-json -I 1 -K 2")
	end := strings.Index(text, `"end_time":`)
	require.Positive(t, end)
	config, results, found := strings.Cut(text[:end], `"results":`)
	require.True(t, found)
	//nolint:testifylint // the order counts
	require.Equal(t, `{"version":3,"start_time":"2026-11-26 20:00:00","args":["cxrun test","bench","all_reduce"],"env":[],"nccl_version":22809,`+
		`"config":{"nthreads":1,"ngpus":2,"minimum_bytes":1024,"maximum_bytes":4096,"step_factor":2,"warmup_iters":1,"iterations":7,"aggregated_iterations":1,`+
		`"validation":64,"graph":0,"blocking_collectives":"false","per_iter_timing":"true","per_iter_skip":2,"parallel_init":"true",`+
		`"devices":[{"rank":0,"group":0,"pid":0,"hostname":"","device":0,"device_hex":"","device_info":"Some GPU"},`+
		`{"rank":1,"group":0,"pid":0,"hostname":"","device":1,"device_hex":"","device_info":"Some GPU"}]},`, config)
	const head = `{"size":1024,"count":256,"type":"float","redop":"sum","root":"    -1","out_of_place":{"time":8,"alg_bw":0.128,"bus_bw":0.128,"nwrong":0},` +
		`"out_of_place_per_iter":{"skipped_iterations":2,"min_us":15,"max_us":20,"avg_us":0,"p50_us":16,"p95_us":18,"p99_us":19},` +
		`"in_place":{"time":4,"alg_bw":0.256,"bus_bw":0.256,"nwrong":`
	//nolint:testifylint // the order counts
	require.Equal(t, `[`+head+`0},"actual_iterations":7,"experiment_name":""},`+head+`3},"actual_iterations":7,"experiment_name":""}],`+
		`"out_of_bounds":{"count":1,"okay":"false"},"average_bus_bandwidth":{"bandwidth":0.192,"okay":"unchecked"},"errors":[],`, results)
	require.Contains(t, reported(t, "-J file.json --nccl-tests-json -C 1"), `"cpu_time":1.5,`)
}

// A measurement that ended early is not okay, and the errors say why.
func TestAnUnfinishedMeasurementIsNotOkay(t *testing.T) {
	r, err := ask(t, "all_reduce -J file.json --nccl-tests-json")
	require.NoError(t, err)
	p := NewReport(&r, bench.NewHead("cxrun test", nil, time.Now(), "nccl", 2))
	d := document(rowOf(vocab.OutOfPlace, 8))
	d.Identity.CaseID = "a-case"
	d.Outcome = result.Outcome{Status: result.Failed, Reasons: resulttest.Reasons("skipped: cancelled")}
	p.Add(d)
	text, _, err := p.Translate()
	require.NoError(t, err)
	require.Contains(t, string(text), `"out_of_bounds":{"count":0,"okay":"false"}`)
	require.Contains(t, string(text), `"errors":["a-case failed: skipped: cancelled"]`)
}

// experiments returns the members by which the results of a file in nccl-tests' layout differ.
func experiments(t *testing.T, line string, documents ...*collective.Document) (sizes [4]int64, names []string) {
	t.Helper()
	r, err := ask(t, line+" -J file.json --nccl-tests-json")
	require.NoError(t, err)
	p := NewReport(&r, bench.NewHead("cxrun test", nil, time.Now(), "nccl", 4))
	for _, d := range documents {
		p.Add(d)
	}
	text, _, err := p.Translate()
	require.NoError(t, err)
	var f testsFile
	require.NoError(t, json.Unmarshal(text, &f))
	for _, result := range f.Results {
		names = append(names, result.Experiment)
	}
	return [4]int64{f.Config.First, f.Config.Last, f.Config.Step, f.Config.Factor}, names
}

// Variants, pairs and groups have results of their own, which name them, and the sizes are as the flags gave them.
func TestResultsOfOneSizeDiffer(t *testing.T) {
	chosen := document(rowOf(vocab.OutOfPlace, 8), rowOf(vocab.InPlace, 8))
	chosen.Identity.Case.Block = &collective.Block{Algorithm: "ring_ll", CTAs: 8}
	sizes, names := experiments(t, "all_reduce --algo ring -b 1K -e 3K -f 2", document(rowOf(vocab.OutOfPlace, 8), rowOf(vocab.InPlace, 8)), chosen)
	require.Equal(t, []string{"", "ring_ll(8)"}, names)
	require.Equal(t, [4]int64{1 << 10, 3 << 10, 0, 2}, sizes)

	pair := func(src, dst int) collective.Row {
		row := rowOf(vocab.OutOfPlace, 8)
		row.Src, row.Dst = &src, &dst
		return row
	}
	sizes, names = experiments(t, "p2p -b 1K -e 2K -i 1K", document(pair(0, 1), pair(2, 3)))
	require.Equal(t, []string{"rank 0 to 1", "rank 2 to 3"}, names)
	require.Equal(t, [4]int64{1 << 10, 2 << 10, 1 << 10, 0}, sizes)

	var rows []collective.Row
	for _, group := range [][]int{{0, 2}, {1, 3}} {
		for _, placement := range []string{vocab.OutOfPlace, vocab.InPlace} {
			row := rowOf(placement, 8)
			row.Group = group
			rows = append(rows, row)
		}
	}
	_, names = experiments(t, "all_reduce", document(rows...))
	require.Equal(t, []string{"ranks 0,2", "ranks 1,3"}, names)

	r, err := ask(t, "all_reduce -X file.csv -Z csv")
	require.NoError(t, err)
	p := NewReport(&r, bench.NewHead("cxrun test", nil, time.Now(), "nccl", 4))
	p.Add(document(rows...))
	text, _, err := p.Translate()
	require.NoError(t, err)
	require.Contains(t, string(text), ",AllReduce ranks 1 3,")
}

// The records of rccl-tests, in both of its formats.
func TestLayoutsOfRCCLTests(t *testing.T) {
	var rows []map[string]any
	require.NoError(t, json.Unmarshal([]byte(reported(t, "-X file.json")), &rows))
	require.Len(t, rows, 4)
	require.Equal(t, map[string]any{
		"numCycle": 1.0, "name": "AllReduce", "nodes": 1.0, "ranks": 2.0, "ranksPerNode": 2.0, "gpusPerRank": 1.0, "size": 1024.0, "type": "float",
		"redop": "sum", "inPlace": 1.0, "time": 4.0, "algBw": 0.256, "busBw": 0.256, "wrong": "3",
	}, rows[3])
	lines := strings.Split(reported(t, "-X file.csv -Z csv"), "\n")
	require.Len(t, lines, 1+4+1)
	require.Equal(t, "numCycle,name,nodes,ranks,ranksPerNode,gpusPerRank,size,type,redop,inPlace,time,algBw,busBw,wrong", lines[0])
	require.Equal(t, "0,AllReduce,1,2,2,1,1024,float,sum,0,8.000000,0.128000,0.128000,0", lines[1])
}

func TestRefusalsOfLayouts(t *testing.T) {
	for line, want := range map[string]string{
		"--nccl-tests-json":           "--nccl-tests-json is the layout of the file of -J: add -J FILE",
		"-J a --nccl-tests-json -X b": "--nccl-tests-json and -X: choose one layout",
		"-J a -X b":                   "-X and -J both name the file of the results: choose one",
		"-Z csv":                      "-Z is the format of the file of -X: add -X FILE",
		"-X a -Z xml":                 `-Z "xml": want csv or json`,
	} {
		_, err := ask(t, "all_reduce "+line)
		require.EqualError(t, err, want)
	}
}
