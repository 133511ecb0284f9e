// Package openmpi compares the host library, measured by cxrun bench, with OpenMPI's all_reduce on this
// machine, in turns. The benchmark fails at a point whose ratio is above its target. It needs Debian's
// openmpi-bin and libopenmpi-dev, and root for a network namespace, since mpirun listens on every address.
//
//	go test ./bench/openmpi -run '^$' -bench . -benchtime 5x
package openmpi

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/measure"
)

// A point is one comparison. most is the maximum ratio; 0 is no limit.
type point struct {
	bytes      int64
	world      int
	warmup     int
	iterations int
	trials     int
	most       float64
}

var points = []point{
	{8, 2, 1000, 20000, 5, 1.5},
	{1 << 10, 2, 1000, 10000, 5, 0},
	{64 << 10, 2, 100, 1000, 5, 0},
	{1 << 20, 2, 10, 100, 5, 0},
	{64 << 20, 2, 2, 8, 3, 0.5},
	{8, 4, 100, 2000, 5, 0},
	{64 << 20, 4, 2, 8, 3, 0.7},
}

func BenchmarkAllReduce(b *testing.B) {
	if _, err := exec.LookPath("mpicc"); err != nil {
		b.Skip("install Debian's openmpi-bin and libopenmpi-dev: ", err)
	}
	host, mpi := filepath.Join(b.TempDir(), "cxrun"), filepath.Join(b.TempDir(), "allreduce")
	for _, build := range [][]string{{"go", "build", "-o", host, "../../cmd/cxrun"}, {"mpicc", "-O3", "-o", mpi, "testdata/allreduce.c"}} {
		out, err := exec.Command(build[0], build[1:]...).CombinedOutput()
		require.NoError(b, err, "%s", out)
	}
	for _, p := range points {
		b.Run(fmt.Sprintf("bytes=%d/ranks=%d", p.bytes, p.world), func(b *testing.B) {
			var ours, theirs, ratios []float64
			for b.Loop() {
				x, err := runHost(host, p)
				require.NoError(b, err)
				y, err := runMPI(mpi, p)
				require.NoError(b, err)
				ours, theirs = append(ours, x...), append(theirs, y...)
				ratios = append(ratios, measure.Percentile(x, 50)/measure.Percentile(y, 50))
			}
			report := func(us []float64, name string) {
				b.ReportMetric(slices.Min(us), name+"-µs-min")
				b.ReportMetric(measure.Percentile(us, 50), name+"-µs")
				b.ReportMetric(slices.Max(us), name+"-µs-max")
			}
			report(ours, "host")
			report(theirs, "openmpi")
			ratio := measure.Percentile(ours, 50) / measure.Percentile(theirs, 50)
			b.ReportMetric(ratio, "ratio")
			b.ReportMetric(slices.Min(ratios), "ratio-min")
			b.ReportMetric(slices.Max(ratios), "ratio-max")
			if p.most > 0 && ratio > p.most {
				b.Errorf("the ratio is %.2f, must be at most %.1f", ratio, p.most)
			}
		})
	}
}

// runMPI returns the time of each trial.
func runMPI(program string, p point) ([]float64, error) {
	out, err := run("unshare", "--net", "bash", "-c", fmt.Sprintf("ip link set lo up; mpirun --allow-run-as-root --oversubscribe -np %d %s %d %d %d %d",
		p.world, program, p.bytes, p.warmup, p.iterations, p.trials))
	if err != nil {
		return nil, err
	}
	var us []float64
	for field := range strings.FieldsSeq(string(out)) {
		v, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return nil, err
		}
		us = append(us, v)
	}
	return us, nil
}

// runHost returns the minimum, the median and the maximum of the trials.
func runHost(program string, p point) ([]float64, error) {
	out, err := run(program, "bench", "all_reduce", "--backend", "host", "--buffers", "warm", "--json", "-g", strconv.Itoa(p.world), "-b", strconv.FormatInt(p.bytes, 10),
		"-e", strconv.FormatInt(p.bytes, 10), "-w", strconv.Itoa(p.warmup), "-n", strconv.Itoa(p.iterations), "--trials", strconv.Itoa(p.trials))
	if err != nil {
		return nil, err
	}
	var measured struct {
		Results []struct {
			Rows []struct {
				Placement string `json:"placement"`
				Pipelined struct {
					Percentiles struct{ P50 float64 } `json:"percentiles_us"`
					Min         float64               `json:"min_us"`
					Max         float64               `json:"max_us"`
				} `json:"pipelined"`
			} `json:"rows"`
		} `json:"results"`
	}
	if err := json.Unmarshal(out, &measured); err != nil {
		return nil, err
	}
	for _, result := range measured.Results {
		for _, row := range result.Rows {
			if t := row.Pipelined; row.Placement == "out_of_place" {
				return []float64{t.Min, t.Percentiles.P50, t.Max}, nil
			}
		}
	}
	return nil, fmt.Errorf("cxrun bench has no row out of place: %s", out)
}

// run returns the standard output of a program, whose standard error goes into the error.
func run(program string, args ...string) ([]byte, error) {
	var stderr strings.Builder
	cmd := exec.Command(program, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, stderr.String())
	}
	return out, nil
}
