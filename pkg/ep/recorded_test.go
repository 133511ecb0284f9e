package ep_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/ep"
)

func TestParseRecorded(t *testing.T) {
	want := []int{3, 1, 0, 2, 1, 3}
	for name, text := range map[string]string{
		"text":       "3 1\n\n0\t2\r\n1 3",
		"JSON lines": "[3, 1]\n[0,2]\n  [1,3]\n",
		"both":       "3 1\n[0, 2]\n1 3\n",
	} {
		r, err := ep.ParseRecorded("trace.txt", []byte(text))
		require.NoError(t, err, name)
		require.Equal(t, want, r.Experts, name)
		require.NoError(t, r.Fits(3, 2, 4), name)
	}
}

// TestRecordedErrors: whatever is wrong with a routing is reported with file and line.
func TestRecordedErrors(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", "t:1:1: the file has no tokens"},
		{"\n \n", "t:1:1: the file has no tokens"},
		{"0 1\n2 x\n", `t:2:1: invalid expert id "x": want a whole number from 0`},
		{"0 1\n2 -1\n", `t:2:1: invalid expert id "-1": want a whole number from 0`},
		{"0 1\n[2, 1.5]\n", "t:2:1: want a JSON list of expert ids: json: cannot unmarshal number 1.5 into Go value of type int"},
		{"0 1\n[2, -1]\n", "t:2:1: invalid expert id -1: the experts are 0 to 3"},
		{"0 1\n\n2 4\n", "t:3:1: invalid expert id 4: the experts are 0 to 3"},
		{"0 1\n2 2\n", "t:2:1: expert 2 appears twice: the experts of a token must be distinct"},
		{"0 1\n2 3 1\n", "t:2:1: 3 expert ids, want 2, the case's top-k"},
		{"0 1\n[]\n", "t:2:1: 0 expert ids, want 2, the case's top-k"},
		{"0 1\n2 3\n", "t:2:1: the file has 2 tokens, but the largest batch has 3: add tokens or shorten the ladder"},
		{strings.Repeat("0 1\n", ep.MaxRecordedIDs/2) + "2 3", "t:131073:1: more than 262144 expert ids: give fewer tokens"},
	} {
		r, err := ep.ParseRecorded("t", []byte(tc.text))
		if err == nil {
			err = r.Fits(3, 2, 4)
		}
		require.EqualError(t, err, tc.want)
	}
}

// TestRecordedInDefinitions: a suite names a recorded routing by its path below the
// definitions.
func TestRecordedInDefinitions(t *testing.T) {
	const suite = `platforms: [local]
sampling: smoke
ep:
  - workload: tiny
    backends: [host]
    degrees: [2]
    modes: [normal]
    phases: [decode]
    precisions: [bf16]
    routings: [uniform, "file:routing/mine.txt"]
`
	defs := plantest.Definitions()
	load := func(suite string) error {
		defs["suites/mine.yaml"] = &fstest.MapFile{Data: []byte(suite)}
		_, err := catalog.Load(defs)
		return err
	}
	require.ErrorContains(t, load(suite), `routing "routing/mine.txt": file does not exist`)
	defs["routing/mine.txt"] = &fstest.MapFile{Data: []byte("0 x\n")}
	require.ErrorContains(t, load(suite), "routing/mine.txt:1:1: ")
	defs["routing/mine.txt"] = &fstest.MapFile{Data: []byte("0\n")}
	require.ErrorContains(t, load(suite), "routing/mine.txt:1:1: 1 ", "the workload says how many")
	require.ErrorContains(t, load(strings.Replace(suite, "routing/mine", "../mine", 1)), `"../mine.txt" is not a path inside the definitions`)
}

// TestRecordedRoutingIsItsDigest: two routings from files have different names, and
// neither can have the other's experts or digest.
func TestRecordedRoutingIsItsDigest(t *testing.T) {
	var one, other ep.Block
	one.Record([]int{0, 1, 2, 3})
	other.Record([]int{0, 1, 3, 2})
	require.Regexp(t, `^file-[0-9a-f]{12}$`, one.Routing)
	require.NotEqual(t, one.Routing, other.Routing)
	require.NoError(t, one.CheckRecorded())
	require.NoError(t, (&ep.Block{Routing: "uniform"}).CheckRecorded())

	const want = "routing, routing_sha256 and routing_experts do not match"
	for _, change := range []func(e *ep.Block){
		func(e *ep.Block) { e.Routing = other.Routing },
		func(e *ep.Block) { e.Routing = "uniform" },
		func(e *ep.Block) { e.RoutingSHA256 = other.RoutingSHA256 },
		func(e *ep.Block) { e.RoutingExperts = other.RoutingExperts },
		func(e *ep.Block) { e.RoutingExperts, e.RoutingSHA256 = nil, "" },
	} {
		e := one
		change(&e)
		require.EqualError(t, e.CheckRecorded(), want)
	}
}
