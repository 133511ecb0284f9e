package export_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/export"
	"github.com/collectivex/collectivex/pkg/result"
)

// event is what Perfetto reads of a trace event.
type event struct {
	Name string
	Ph   string
	Pid  int
	Tid  int
	Ts   float64
	Dur  *float64
	S    string
	Args map[string]any
}

// traced exports the trace of a document with the given records beside it, and returns the
// events of each track of each rank.
func traced(t *testing.T, d result.Document, records ...string) (map[string][]event, error) {
	t.Helper()
	dir := t.TempDir()
	path, err := result.Write(dir, d, 0, func([]byte) error { return nil })
	require.NoError(t, err)
	if len(records) > 0 {
		require.NoError(t, os.Mkdir(filepath.Join(dir, result.SamplesDir), 0o755))
		f, err := os.Create(result.SamplesFile(path))
		require.NoError(t, err)
		z := gzip.NewWriter(f)
		for _, r := range records {
			_, err := fmt.Fprintln(z, r)
			require.NoError(t, err)
		}
		require.NoError(t, z.Close())
		require.NoError(t, f.Close())
	}
	out := filepath.Join(dir, "trace.json")
	if _, err := export.Write([]string{path}, nil, out, "json", "cxrun test"); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	var trace struct {
		TraceEvents []event
		OtherData   map[string]any
	}
	require.NoError(t, json.Unmarshal(text, &trace))
	names := map[string]string{}
	tracks := map[string][]event{}
	for _, e := range trace.TraceEvents {
		id := fmt.Sprintf("%d/%d", e.Pid, e.Tid)
		switch e.Ph {
		case "M":
			if e.Name == "thread_name" {
				names[id] = fmt.Sprintf("rank %d %s", e.Pid, e.Args["name"])
			}
		case "C":
			tracks[e.Name] = append(tracks[e.Name], e)
		default:
			require.Contains(t, names, id, "tracks are named before their events")
			tracks[names[id]] = append(tracks[names[id]], e)
		}
	}
	require.Equal(t, "cxrun test", trace.OtherData["generator"])
	return tracks, nil
}

// spans spells events as start+duration.
func spans(events []event) (out []string) {
	for _, e := range events {
		dur := 0.0
		if e.Dur != nil {
			dur = *e.Dur
		}
		out = append(out, fmt.Sprintf("%s %g+%g", e.Name, e.Ts, dur))
	}
	return out
}

// The iterations of fresh windows begin on all ranks at once; a chain runs on by itself.
func TestTraceOfEP(t *testing.T) {
	d := resulttest.EP(resulttest.EPCase(), resulttest.Attempt())
	before := &result.DeviceState{SMMHz: 1980, PowerW: 100}
	d.Devices = result.NewDevices([]result.RankDevice{{Rank: 1, Before: before, After: &result.DeviceState{SMMHz: 1200, PowerW: 700}}})
	fresh := `{"rank":%d,"kind":"ep-fresh","data":{"trial":0,"tokens_per_rank":4,"component":"dispatch","us":[%s]}}`
	chain := `{"rank":%d,"kind":"ep-chain","data":{"trial":0,"tokens_per_rank":4,"dispatch_us":[1,1],"combine_us":[2,2],"pair_us":[4,5],"start_to_start_us":[4.5]}}`
	check := `{"rank":%d,"kind":"ep-verdict","data":{"tokens_per_rank":4,"when":"after","passed":%t}}`
	got, err := traced(t, d,
		fmt.Sprintf(fresh, 0, "1,2"), fmt.Sprintf(chain, 0), fmt.Sprintf(check, 0, true),
		`{"rank":0,"kind":"ep-point","data":{"tokens_per_rank":4,"digest":"00"}}`,
		fmt.Sprintf(fresh, 1, "3,1"), fmt.Sprintf(chain, 1), fmt.Sprintf(check, 1, false))
	require.NoError(t, err)
	require.Equal(t, []string{"4 tokens per rank 0+1", "4 tokens per rank 3+2"}, spans(got["rank 0 dispatch"]))
	require.Equal(t, []string{"4 tokens per rank 0+3", "4 tokens per rank 3+1"}, spans(got["rank 1 dispatch"]))
	require.Equal(t, []string{
		"pair, 4 tokens per rank 5+4", "dispatch 5+1", "combine 7+2",
		"pair, 4 tokens per rank 9.5+5", "dispatch 9.5+1", "combine 12.5+2",
	}, spans(got["rank 1 chain"]))
	require.Equal(t, []string{"failed: after, 4 tokens per rank 14.5+0"}, spans(got["rank 1 checks"]))
	require.Equal(t, []string{"passed: after, 4 tokens per rank 14.5+0"}, spans(got["rank 0 checks"]))
	require.Len(t, got["SM clock MHz"], 2)
	require.Equal(t, 14.5, got["power W"][1].Ts)
	require.Equal(t, 700.0, got["power W"][1].Args["value"])
}

// Where the samples have it, EP windows, chains and verdicts stand where they began, by
// each rank's clock.
func TestTraceOfEPInTime(t *testing.T) {
	at := func(us int) string {
		return resulttest.At.Add(time.Duration(us) * time.Microsecond).Format(time.RFC3339Nano)
	}
	var records []string
	for rank, late := range []int{0, 3} {
		records = append(records,
			fmt.Sprintf(`{"rank":%d,"kind":"ep-fresh","data":{"trial":0,"tokens_per_rank":4,"component":"dispatch","began":%q,"us":[1,2]}}`, rank, at(late)),
			fmt.Sprintf(`{"rank":%d,"kind":"ep-chain","data":{"trial":0,"tokens_per_rank":4,"began":%q,"dispatch_us":[1,1],"combine_us":[2,2],"pair_us":[4,5],"start_to_start_us":[4.5]}}`, rank, at(100+late)),
			fmt.Sprintf(`{"rank":%d,"kind":"ep-verdict","data":{"tokens_per_rank":4,"when":"after","began":%q,"passed":true}}`, rank, at(200+late)))
	}
	got, err := traced(t, resulttest.EP(resulttest.EPCase(), resulttest.Attempt()), records...)
	require.NoError(t, err)
	require.Equal(t, []string{"4 tokens per rank 0+1", "4 tokens per rank 1+2"}, spans(got["rank 0 dispatch"]))
	require.Equal(t, []string{"4 tokens per rank 3+1", "4 tokens per rank 4+2"}, spans(got["rank 1 dispatch"]))
	require.Equal(t, []string{
		"pair, 4 tokens per rank 103+4", "dispatch 103+1", "combine 105+2",
		"pair, 4 tokens per rank 107.5+5", "dispatch 107.5+1", "combine 110.5+2",
	}, spans(got["rank 1 chain"]))
	require.Equal(t, []string{"passed: after, 4 tokens per rank 200+0"}, spans(got["rank 0 checks"]))
}

// Windows of collectives stand where they were recorded.
func TestTraceOfACollective(t *testing.T) {
	c := resulttest.CollectiveCase()
	sample := `{"rank":%d,"kind":"collective-sample","data":{"requested":8,"placement":"in_place","mode":%q,"trial":0,"us":%s,"began":%q,"check":{"checked":22,"wrong":%d}}}`
	at := func(us int) string {
		return resulttest.At.Add(time.Duration(us) * time.Microsecond).Format(time.RFC3339Nano)
	}
	got, err := traced(t, resulttest.Collective(c, resulttest.Attempt()),
		fmt.Sprintf(sample, 0, "pipelined", "[0.5]", at(10), 0),
		fmt.Sprintf(sample, 0, "per_iteration", "[1,2]", at(30), 0),
		fmt.Sprintf(sample, 0, "", "[]", at(40), 3),
		fmt.Sprintf(sample, 1, "pipelined", "[0.25]", at(12), 0))
	require.NoError(t, err)
	n := collective.Of(&c).Measure.Iterations * max(1, collective.Of(&c).Measure.Aggregate)
	require.Equal(t, []string{fmt.Sprintf("8 bytes, in_place 0+%g", 0.5*float64(n))}, spans(got["rank 0 pipelined"]))
	require.Equal(t, []string{fmt.Sprintf("8 bytes, in_place 2+%g", 0.25*float64(n))}, spans(got["rank 1 pipelined"]))
	require.Equal(t, []string{"8 bytes, in_place 20+1", "8 bytes, in_place 21+2"}, spans(got["rank 0 per_iteration"]))
	require.Equal(t, []string{"failed: 8 bytes, in_place 30+0"}, spans(got["rank 0 checks"]))
}

func TestTracesThatCannotBeMade(t *testing.T) {
	d := resulttest.EP(resulttest.EPCase(), resulttest.Attempt())
	_, err := traced(t, d)
	require.ErrorContains(t, err, "has no raw samples beside it")
	_, err = traced(t, d, `{"rank":2,"kind":"ep-point","data":{}}`)
	require.ErrorContains(t, err, ".ndjson.gz:1: rank 2 of 2")
	_, err = traced(t, d, `{"rank":1,"kind":"ep-chain","data":{"pair_us":[1]}}`)
	require.ErrorContains(t, err, "a chain has 1 pairs, but 0 dispatches")
	_, err = export.Write([]string{documents(t)}, nil, filepath.Join(t.TempDir(), "t.json"), "json", "cxrun test")
	require.ErrorContains(t, err, "has no raw samples beside it")
}
