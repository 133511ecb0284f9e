// Openmpi measures the host library, by cxrun bench, against OpenMPI's all_reduce on this
// machine, in turns, and prints the ratio. It needs Go, Debian's openmpi-bin and
// libopenmpi-dev, and root for a network namespace: mpirun listens on every
// address.
//
//	go run ./bench/openmpi
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/measure"
)

// A point is one comparison; most is the ratio that it has to stay within.
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

func main() {
	rounds := flag.Int("rounds", 5, "turns of each library at each point")
	flag.Parse()
	if err := compare(os.Stdout, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "openmpi:", err)
		os.Exit(1)
	}
}

func compare(w io.Writer, rounds int) error {
	dir, err := os.MkdirTemp("", "cx-openmpi-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	host, mpi := filepath.Join(dir, "cxrun"), filepath.Join(dir, "allreduce")
	for _, build := range [][]string{{"go", "build", "-o", host, "./cmd/cxrun"}, {"mpicc", "-O3", "-o", mpi, "bench/openmpi/testdata/allreduce.c"}} {
		if out, err := exec.Command(build[0], build[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s (run from the root of the repository): %w\n%s", build[0], err, out)
		}
	}
	fmt.Fprintf(w, "| bytes | ranks | host µs (min … max) | OpenMPI µs (min … max) | ratio of medians | ratios of turns | target |\n")
	fmt.Fprintf(w, "|--:|--:|--:|--:|--:|--:|--:|\n")
	missed := 0
	for _, p := range points {
		var ours, theirs, ratios []float64
		for range rounds {
			a, err := runHost(host, p)
			if err != nil {
				return fmt.Errorf("host, %d bytes, %d ranks: %w", p.bytes, p.world, err)
			}
			b, err := runMPI(mpi, p)
			if err != nil {
				return fmt.Errorf("OpenMPI, %d bytes, %d ranks: %w", p.bytes, p.world, err)
			}
			ours, theirs = append(ours, a...), append(theirs, b...)
			ratios = append(ratios, measure.Percentile(a, 50)/measure.Percentile(b, 50))
		}
		ratio := measure.Percentile(ours, 50) / measure.Percentile(theirs, 50)
		target := "-"
		if p.most > 0 {
			target = fmt.Sprintf("≤ %.1f", p.most)
			if ratio > p.most {
				target += " missed"
				missed++
			}
		}
		fmt.Fprintf(w, "| %d | %d | %s | %s | %.2f | %.2f … %.2f | %s |\n", p.bytes, p.world, spread(ours), spread(theirs),
			ratio, slices.Min(ratios), slices.Max(ratios), target)
	}
	if missed > 0 {
		return fmt.Errorf("%d targets missed", missed)
	}
	return nil
}

func spread(us []float64) string {
	return fmt.Sprintf("%.4g (%.4g … %.4g)", measure.Percentile(us, 50), slices.Min(us), slices.Max(us))
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
