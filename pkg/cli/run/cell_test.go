package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/fold"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/provenance"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// TestMain lets this test binary be its own ranks, and describe its machine.
func TestMain(m *testing.M) {
	// Anything but tests is a command: one that ran the tests instead would start
	// itself without end.
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		ctx, _ := cli.WithSignals(context.Background())
		os.Exit(Main(ctx, cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// cxrun runs the program in this process.
func cxrun(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	for k, v := range env {
		t.Setenv(k, v) // for the ranks
	}
	var out, errs bytes.Buffer
	code = Main(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(k string) string { return env[k] }}, args)
	return code, out.String(), progressLines.ReplaceAllString(errs.String(), "")
}

// ran runs the program as cxrun does, and requires an exit code.
func ran(t *testing.T, exit int, env map[string]string, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := cxrun(t, env, args...)
	require.Equal(t, exit, code, "%v: %s", args, stderr)
	return stdout, stderr
}

// readFile returns the content of a file.
func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return data
}

// decoded returns the value that JSON holds.
func decoded[T any](t *testing.T, text string) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

// progressLines matches what is told of a case after half a minute, on a slow machine.
var progressLines = regexp.MustCompile(`(?m)^\[\d+/\d+\] running .*\n`)

// planned writes the matrix of the smoke suite, with few samples, and returns its path.
func planned(t *testing.T) string {
	t.Helper()
	cat, err := catalog.Load(os.DirFS(fewSamples(t)))
	require.NoError(t, err)
	m, err := planHere(cat, planner.Filters{}, planner.Machine{CPU: runtime.GOARCH})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), matrixFile)
	require.NoError(t, m.WriteFile(path))
	return path
}

func TestShardRefuses(t *testing.T) {
	matrix := planned(t)
	raw := readFile(t, matrix)
	variant := func(name, old, changed string) string {
		text := strings.Replace(string(raw), old, changed, 1)
		require.NotEqual(t, string(raw), text)
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	const cell = "local-host-collective-n1"
	tests := []struct {
		name   string
		matrix string
		id     string
		want   string
	}{
		{"unknown cell", matrix, "local-host-n9", `"local-host-n9"`},
		{"matrix of another format", variant("format.json", `"format":1`, `"format":2`), cell, "format 2"},
		{"matrix of another version", variant("version.json", `"version":"dev"`, `"version":"v9"`), cell, "v9 … dev"},
		{"truncated matrix", variant("cut.json", `"include":[`, ``), cell, "cut.json: matrix"},
		{"case that no matrix has", variant("case.json", `"case_ids":["`, `"case_ids":["other","`), cell, "other"},
		{"case without a budget", variant("budget.json", `,"budget_seconds":`, `,"budget_seconds":-`), "local-host-bf16-n1", "budget_seconds"},
		{"no matrix", filepath.Join(t.TempDir(), "none.json"), cell, "no such file"},
		{"no cell", matrix, "", "--id"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			results := filepath.Join(t.TempDir(), "results")
			_, stderr := ran(t, cli.ExitUsage, nil, "shard", "--matrix", tt.matrix, "--id", tt.id, "--results", results)
			wording.Has(t, stderr, tt.want)
			require.NoDirExists(t, results, "nothing was begun")
		})
	}
}

func TestAFaultThatCannotBeReadIsRefused(t *testing.T) {
	_, stderr := ran(t, cli.ExitUsage, map[string]string{rank.FaultVariable: "rank=x"}, "sweep", "--out", t.TempDir())
	require.Contains(t, stderr, `CX_FAULT "rank=x"`)
}

func TestAFaultThatStrikesNothingIsRefused(t *testing.T) {
	need.Full(t)
	for fault, want := range map[string]string{
		"case=no-such-*,rank=0,kind=exit": "no-such-* … 2 cases",
		"rank=64,kind=exit":               "rank=64 … 4 ranks",
	} {
		out := filepath.Join(t.TempDir(), "out")
		_, stderr := ran(t, cli.ExitUsage, map[string]string{rank.FaultVariable: fault}, "sweep", "--sku", "local", "--ep", "2,4", "--out", out)
		wording.Has(t, stderr, want)
		require.Equal(t, 1, strings.Count(stderr, "\n"))
		require.NoDirExists(t, out, "nothing was begun")
	}
	_, stderr := ran(t, cli.ExitUsage, map[string]string{rank.FaultVariable: "case=no-such-*,rank=0,kind=exit"},
		"shard", "--matrix", planned(t), "--id", "local-host-bf16-n1", "--results", t.TempDir())
	require.Contains(t, stderr, "no-such-*")
}

func TestAnEmptyElementIsRefused(t *testing.T) {
	_, stderr := ran(t, cli.ExitUsage, nil, "sweep", "--sku", ",", "--out", t.TempDir())
	require.Contains(t, stderr, "an element is empty")
}

func TestDefinitionsThatAreNotThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	_, stderr := ran(t, cli.ExitUsage, nil, "sweep", "--definitions", dir, "--out", t.TempDir())
	require.Equal(t, "cxrun: --definitions "+dir+": no such directory\n", stderr)
}

func TestPublishedEnvironmentShowsFaults(t *testing.T) {
	faults, err := rank.ParseFaults("rank=1,kind=exit; case=a*,rank=0,kind=hang,at=end")
	require.NoError(t, err)
	got := published(provenance.NewScreen(), given([]string{"NCCL_ALGO=Ring", "HOME=/root"}, map[string]string{"NCCL_ALGO": "Tree"}), nil, faults)
	require.Equal(t, map[string]string{
		"NCCL_ALGO": "Tree",
		"CX_FAULT":  "case=*,rank=1,kind=exit,at=start;case=a*,rank=0,kind=hang,at=end",
	}, got)
}

// The operator's network is in the documents of ranks on several nodes, and so in their keys,
// as far as its names may be published. Documents of one node have none of it, inherited or
// from the image.
func TestPublishedEnvironmentShowsTheNetwork(t *testing.T) {
	operator, err := catalog.ParseOperator("operator.yaml", []byte(`platforms:
  pair:
    network: {socket_interface: gpuhost17, rdma_devices: ["mlx5_0:1"], gid_index: 3}
`))
	require.NoError(t, err)
	inherited := []string{"NCCL_DEBUG=WARN", "NCCL_IB_HCA=mlx5_7", "UCCL_IB_TC=1"}
	document := func(nodes int) map[string]string {
		c := plantest.EP(2)
		c.Nodes = nodes
		env := cluster{operator: operator}.request(plan.Cell{SKU: "pair"}).NetworkEnv(c)
		return published(provenance.NewScreen("gpuhost17"), given(inherited, env), nil, nil)
	}
	require.Equal(t, map[string]string{"NCCL_DEBUG": "WARN"}, document(1))
	two := document(2)
	require.Equal(t, "=mlx5_0:1", two["NCCL_IB_HCA"])
	require.Equal(t, "3", two["NCCL_IB_GID_INDEX"])
	require.Equal(t, provenance.Withheld, two["NCCL_SOCKET_IFNAME"])
	require.Equal(t, "1", two["UCCL_IB_TC"], "what nobody chose stays as it is")
	for name, value := range two {
		require.NotContains(t, name+value, "gpuhost17")
	}
}

func TestASweepNeedsAFreshDirectory(t *testing.T) {
	out := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(out, matrixFile), nil, 0o644))
	_, stderr := ran(t, cli.ExitUsage, nil, "sweep", "--out", out)
	require.Contains(t, stderr, "already holds a run")
}

func TestASweepOfNothingIsGood(t *testing.T) {
	ran(t, cli.ExitOK, nil, "sweep", "--out", t.TempDir(), "--phase", "prefill", "--mode", "low-latency")
}

// sweptDocuments returns the documents of a sweep in out by case id, all valid.
func sweptDocuments(t *testing.T, out string) map[string]result.Document {
	t.Helper()
	docs := map[string]result.Document{}
	for rec, err := range fold.Read([]string{filepath.Join(out, foldFile)}) {
		require.NoError(t, err)
		d, err := result.Decode(rec.Line)
		require.NoError(t, err)
		require.NoError(t, result.Validate(d))
		docs[d.Head().Identity.CaseID] = d
	}
	return docs
}

func TestSweep(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	stdout, stderr := ran(t, cli.ExitOK, nil, "sweep", "--out", out, "--ep", "2")
	require.Regexp(t, `(?m)^\[1/1\] success   local-host-tiny-normal-decode-ep2-uniform-bf16  \d+\.\ds$`, stderr)
	require.Contains(t, stdout, "all in one "+filepath.Join(out, foldFile))
	_, next, _ := strings.Cut(stdout, "charts: cxrun ")
	ran(t, cli.ExitOK, nil, strings.Fields(next)...)
	require.FileExists(t, filepath.Join(out, "report.html"))
	docs := sweptDocuments(t, out)
	require.Len(t, docs, 1)
	for id, d := range docs {
		head := d.Head()
		require.Equal(t, result.Success, head.Outcome.Status, id)
		require.Equal(t, "1", *head.Identity.AllocationFactors.RunAttempt)
		require.Regexp(t, `^local-\d{8}T\d{6}Z-[0-9a-f]{6}$`, *head.Identity.AllocationFactors.RunID)
		require.NotContains(t, head.Provenance.Environment, rank.FaultVariable)
		require.Nil(t, head.Runtime.CollectiveLibrary, "a host's backend is no library")
		require.Nil(t, head.Implementation.LibraryVersion)
		require.Empty(t, head.Provenance.Libraries)
		require.Zero(t, head.Topology.GPUsPerNode)
		require.Zero(t, head.Topology.ScaleUpDomain)
		require.Positive(t, head.Identity.Case.GPUsPerNode, "as the dashboard needs it")
		samples, err := filepath.Glob(filepath.Join(out, cellsDir, "*", "samples", id+"_*.ndjson.gz"))
		require.NoError(t, err)
		require.Len(t, samples, 1)
	}
}

func TestSweepWithADeadRank(t *testing.T) {
	need.Full(t)
	out := filepath.Join(t.TempDir(), "out")
	stdout, _ := ran(t, cli.ExitFailed, map[string]string{rank.FaultVariable: "case=*-ep2-*,rank=1,kind=kill,at=record-9"},
		"sweep", "--definitions", fewSamples(t), "--out", out, "--ep", "2,4")
	require.Contains(t, stdout, "rank-died: rank 1 signal 9")
	docs := sweptDocuments(t, out)
	const dead = "local-host-tiny-normal-decode-ep2-uniform-bf16"
	for id, d := range docs {
		want := result.Success
		if id == dead {
			want = result.Failed
		}
		require.Equal(t, want, d.Head().Outcome.Status, id)
		require.Contains(t, d.Head().Provenance.Environment, rank.FaultVariable, "a run with faults says so")
	}
	require.Contains(t, docs, dead)
}

// Wrong data, injected into one rank of the cases of two ranks, makes them
// invalid, and costs those of four ranks nothing.
func TestWrongDataIsInvalid(t *testing.T) {
	need.Full(t)
	tests := []struct{ name, fault, filter string }{
		{"a bit of a token flipped", "kind=flip-bit", "--ep=2,4"},
		{"two tokens swapped", "kind=swap-tokens", "--ep=2"},
		{"token dropped", "kind=drop-token", "--ep=2"},
		{"token doubled", "kind=double-token", "--ep=2"},
		{"wrong weight", "kind=wrong-weight", "--ep=2"},
		{"wrong expert", "kind=wrong-expert", "--ep=2"},
		{"stale data of the previous pair", "kind=stale", "--ep=2"},
		{"nothing sent from the second dispatch on", "kind=no-send,at=dispatch-2", "--ep=2"},
		{"ones from the second combine on", "kind=ones,at=combine-2", "--ep=2"},
		{"a bit of a result flipped", "kind=flip-bit", "--op=all_reduce"},
		{"two parts of a result swapped", "kind=swap", "--op=all_reduce"},
		{"stale result of the previous window", "kind=stale", "--op=all_reduce"},
	}
	hit := func(id string) bool { return strings.Contains(id, "-ep2-") || strings.Contains(id, "-w2-") }
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			glob := "*-w2-*"
			if strings.HasPrefix(tt.filter, "--ep") {
				glob = "*-ep2-*"
			}
			faults := fmt.Sprintf("case=%s,rank=1,%s", glob, tt.fault)
			ran(t, cli.ExitFailed, map[string]string{rank.FaultVariable: faults}, "sweep", "--definitions", fewSamples(t), "--out", out, tt.filter)
			docs := sweptDocuments(t, out)
			require.NotEmpty(t, docs)
			for id, d := range docs {
				want := result.Outcome{Status: result.Success, Reasons: result.Reasons{}}
				if hit(id) {
					want = result.Outcome{Status: result.Invalid, Reasons: result.Reasons{{Code: result.ReasonSemantics}}}
				}
				require.Equal(t, want, d.Head().Outcome, id)
			}
		})
	}
}

// A case with wrong data is invalid, and not retried, also if the same fault then ends a rank. A case whose rank only
// dies is retried.
func TestWrongDataOutlastADeath(t *testing.T) {
	need.Full(t)
	definitions := fewSamples(t)
	backends := filepath.Join(definitions, "backends.yaml")
	host := regexp.MustCompile(`(?m)^  host:.*\n`)
	require.NoError(t, os.WriteFile(backends, host.ReplaceAll(readFile(t, backends), []byte("$0    retries: 1\n")), 0o644))
	for _, tt := range []struct{ filter, wrong, dies string }{
		{"--ep=2,4", "*-ep2-*", "*-ep4-*"},
		{"--op=all_reduce", "*-w2-*", "*-w4-*"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		faults := fmt.Sprintf("case=%[1]s,rank=0,kind=flip-bit;case=%[1]s,rank=1,kind=segv,at=end;case=%[2]s,rank=1,kind=segv,at=end", tt.wrong, tt.dies)
		ran(t, cli.ExitFailed, map[string]string{rank.FaultVariable: faults}, "sweep", "--definitions", definitions, "--out", out, tt.filter)
		attempts := map[string]int{}
		for _, name := range documentsBelow(t, out) {
			id, _, _ := strings.Cut(filepath.Base(name), "_")
			attempts[id]++
		}
		docs := sweptDocuments(t, out)
		require.NotEmpty(t, docs)
		for id, d := range docs {
			o := d.Head().Outcome
			if hit, err := path.Match(tt.wrong, id); err == nil && hit {
				require.Equal(t, result.Invalid, o.Status, id)
				require.Equal(t, result.ReasonSemantics, o.Code(), id)
				require.Equal(t, 1, attempts[id], id)
			} else if dies, err := path.Match(tt.dies, id); err == nil && dies {
				require.Equal(t, result.Failed, o.Status, id)
				require.Equal(t, result.ReasonRankDied, o.Code(), id)
				require.Equal(t, 2, attempts[id], id)
			}
		}
	}
}

// A sweep that plans nothing says so, and leaves nothing behind.
func TestSweepOfNothing(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	stdout, stderr := ran(t, cli.ExitOK, nil, "sweep", "--sku", "local", "--backend", "nccl", "--out", out)
	wording.Has(t, stderr, "no case matches the filters … --suite")
	require.Empty(t, stdout)
	require.NoDirExists(t, out)
}
