package run

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
)

// An alltoallv has the size and the ranks of its file.
func TestBenchTraffic(t *testing.T) {
	need.Full(t)
	file := filepath.Join(t.TempDir(), "pair.txt")
	require.NoError(t, os.WriteFile(file, []byte("0 4096\n1024 12\n"), 0o600))
	stdout, _ := onHost(t, "alltoallv", "--traffic", file, "-n", "3")
	require.Regexp(t, `(?m)^ +4108 +1027 +float +none +-1 .* 0 +N/A`, stdout)

	for _, tt := range []struct {
		want string
		args []string
	}{
		{"--traffic FILE … alltoallv", []string{"alltoallv"}},
		{"--traffic FILE … alltoallv", []string{"alltoall", "--traffic", file}},
		{"--maxbytes: ", []string{"alltoallv", "--traffic", file, "-e", "1M"}},
		{"--traffic: open " + file + ".no: no such file or directory", []string{"alltoallv", "--traffic", file + ".no"}},
		{file + " … 2 ranks … 4 ranks … -t … -g", []string{"alltoallv", "--traffic", file, "-t", "4"}},
		{file + ":2:6: 12 bytes … double", []string{"alltoallv", "--traffic", file, "-d", "double"}},
	} {
		_, stderr := ran(t, cli.ExitUsage, nil, append([]string{"bench", "--backend", "host"}, tt.args...)...)
		wording.Has(t, stderr, "cxrun: … "+tt.want)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
}

// A p2p writes a model of the machine, which simulations and studies take.
func TestBenchModel(t *testing.T) {
	need.Full(t)
	for _, backend := range []string{"host", "nccl"} {
		t.Run(backend, func(t *testing.T) {
			if backend != bench.HostBackend {
				standIns(t)
			}
			t.Chdir(t.TempDir())
			args := []string{"bench", "p2p", "--backend", backend, "-t", "2", "-b", "1K", "-e", "64K", "-f", "4", "-n", "3", "--model", "model.yaml"}
			ran(t, cli.ExitOK, nil, args...)
			data := readFile(t, "model.yaml")
			model, err := simulate.ReadModel("model.yaml", data)
			require.NoError(t, err)
			wording.Has(t, model.Origin, "measured: … float … 2 ranks … fresh buffers, backend "+backend)
			require.Len(t, model.Pairs, 2)
			require.Len(t, model.Both, 1)
			require.NotEmpty(t, model.Reduce)
			require.NotEmpty(t, model.Copy)
			// One message each way, after the start: as long as both ways, or as one of them alone.
			slower := 0.0
			for _, p := range append(model.Pairs, model.Both...) {
				slower = max(slower, p.Classes[0].Points[0].Nanoseconds)
			}
			slower += model.Start + model.Flight
			stdout, _ := ran(t, cli.ExitOK, nil, "schedule", "simulate", "all_gather", "rotation", "--ranks", "2", "--bytes", "2K", "--model", "model.yaml", "--json")
			var answer struct {
				Makespan float64 `json:"makespan_ns"`
			}
			require.NoError(t, json.Unmarshal([]byte(stdout), &answer))
			require.InDelta(t, slower, answer.Makespan, 0.002)

			require.NoError(t, os.WriteFile("study.yaml", []byte(`title: one gather
element_bytes: 1
elements: [2048]
models: {here: {file: model.yaml}}
cases: [{name: rotation, collective: all_gather, algorithm: rotation, ranks: 2, topology: full, models: [here]}]
`), 0o600))
			ran(t, cli.ExitOK, nil, "study", "study.yaml", "-o", "out")
			rows := readFile(t, "out/rows.csv")
			require.Contains(t, string(rows), fmt.Sprintf("2,full mesh,here,,,2048,%.3f,", answer.Makespan))
		})
	}
}

func TestBenchModelRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct{ args, want string }{
		{"bench all_reduce --model m.yaml", "--model: … p2p"},
		{"bench p2p -d all --model m.yaml", "--model: … p2p … -d all"},
		{"bench p2p -m 4 --model m.yaml", "--model: -m 4, -n 20 and -w 1: "},
		{"bench p2p -n 1 --model m.yaml", "--model: -m 1, -n 1 and -w 1: "},
		{"bench p2p -w 0 --model m.yaml", "--model: -m 1, -n 20 and -w 0: "},
		{"bench p2p -b 4 -e 64 -f 2 --model m.yaml", "--model: … 4 bytes … -b, -e and -f … 16"},
		{"bench p2p -b 1K -e 2K -f 2 --model m.yaml", "--model: 2 sizes … 4 … -b, -e and -f"},
		{"schedule simulate all_gather ring --model m.yaml --latency 5", "--model: … --latency"},
		{"schedule simulate all_gather ring --model m.yaml", "--model: open m.yaml: no such file or directory"},
	} {
		t.Chdir(dir)
		code, _, stderr := cxrun(t, nil, strings.Fields(tt.args)...)
		require.Equal(t, cli.ExitUsage, code, tt.args)
		wording.Has(t, stderr, tt.want)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
}

// Each pair of ranks has a line, with a comment before it that names them.
func TestBenchPairs(t *testing.T) {
	need.Full(t)
	stdout, _ := onHost(t, "p2p", "-t", "2", "-b", "8", "-e", "8", "-n", "3")
	require.Regexp(t, `(?m)^# +size .* src   dst\n# +\(B\).*\n +8 +2 +float .* 0 +N/A.* N/A     0     1\n +8 +2 +float .* 0 +N/A.* N/A     1     0\n`, stdout)
}
