// Openmpi measures the host library against OpenMPI's all_reduce on this
// machine, in turns, and prints the ratio. It needs Debian's openmpi-bin and
// libopenmpi-dev, and root for a network namespace: mpirun listens on every
// address.
//
//	go run ./bench/openmpi
package main

import (
	"bytes"
	"context"
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
	"time"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/host"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// A point is one comparison; Most is the ratio that it has to stay within.
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
	asRank := flag.String("rank", "", "be a rank: DIR,RANK,WORLD (internal)")
	flag.Parse()
	var err error
	if *asRank != "" {
		err = beRank(*asRank)
	} else {
		err = compare(os.Stdout, *rounds)
	}
	if err != nil {
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
	program := filepath.Join(dir, "allreduce")
	if out, err := exec.Command("mpicc", "-O3", "-o", program, "bench/openmpi/testdata/allreduce.c").CombinedOutput(); err != nil {
		return fmt.Errorf("mpicc (run from the root of the repository): %w\n%s", err, out)
	}
	fmt.Fprintf(w, "| bytes | ranks | host µs (min … max) | OpenMPI µs (min … max) | ratio of medians | ratios of turns | target |\n")
	fmt.Fprintf(w, "|--:|--:|--:|--:|--:|--:|--:|\n")
	missed := 0
	for _, p := range points {
		var ours, theirs, ratios []float64
		for round := range rounds {
			a, err := runHost(filepath.Join(dir, fmt.Sprintf("%d-%d-%d", p.bytes, p.world, round)), p)
			if err != nil {
				return fmt.Errorf("host, %d bytes, %d ranks: %w", p.bytes, p.world, err)
			}
			b, err := runMPI(program, p)
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

func runMPI(program string, p point) ([]float64, error) {
	line := fmt.Sprintf("ip link set lo up; mpirun --allow-run-as-root --oversubscribe -np %d %s %d %d %d %d",
		p.world, program, p.bytes, p.warmup, p.iterations, p.trials)
	cmd := exec.Command("unshare", "--net", "bash", "-c", line)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", line, err, stderr.String())
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

// runHost runs the same as rank processes, as a shard would.
func runHost(dir string, p point) ([]float64, error) {
	store, err := rendezvous.OpenFile(dir)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	c := plan.Case{
		CaseID: "bench", Family: collective.Name, Backend: "host", World: p.world, Nodes: 1,
		GPUsPerNode: p.world, RanksPerNode: p.world, Precision: "float", Repeat: 1,
		Block: &collective.Block{
			Op: "all_reduce", RedOp: "sum", Sizes: []int64{p.bytes}, Placements: []string{vocab.OutOfPlace},
			Modes: []string{vocab.Pipelined}, Buffers: vocab.Warm, Registration: "none",
			Measure: collective.Counts{Warmup: p.warmup, Iterations: p.iterations, Trials: p.trials, Aggregate: 1, Launches: 1},
		},
	}
	for n, order := range []rank.Order{{Scope: "case", Case: c}, {Stop: true}} {
		raw, err := json.Marshal(order)
		if err != nil {
			return nil, err
		}
		if err := store.Put(context.Background(), rank.OrderKey(n+1), raw); err != nil {
			return nil, err
		}
	}
	if err := runRanks(dir, p.world); err != nil {
		return nil, err
	}
	streams := make([]rank.Stream, p.world)
	for r := range streams {
		if streams[r], err = rank.ReadStream(store, "case", r); err != nil {
			return nil, err
		}
	}
	doc, err := result.New(c, result.Attempt{Ordinal: 1, At: time.Now()})
	if err != nil {
		return nil, err
	}
	if err := runner.Assemble(doc, streams); err != nil {
		return nil, err
	}
	if o := doc.Head().Outcome; o.Status != result.Success {
		return nil, fmt.Errorf("%s: %v", o.Status, o.Reasons)
	}
	return slowest(streams)
}

// slowest returns the slowest rank of each trial.
func slowest(streams []rank.Stream) ([]float64, error) {
	var perRank [][]float64
	for _, s := range streams {
		var mine []float64
		for _, r := range s.Records {
			var sample struct {
				US []float64 `json:"us"`
			}
			if err := json.Unmarshal(r.Data, &sample); err != nil {
				return nil, err
			}
			mine = append(mine, sample.US...)
		}
		perRank = append(perRank, mine)
	}
	return measure.OverRanks(perRank, measure.Max)
}

func runRanks(dir string, world int) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	var ranks []*exec.Cmd
	for r := range world {
		cmd := exec.Command(exe, "--rank", fmt.Sprintf("%s,%d,%d", dir, r, world))
		if err := cmd.Start(); err != nil {
			return err
		}
		ranks = append(ranks, cmd)
	}
	for r, cmd := range ranks {
		if e := cmd.Wait(); e != nil && err == nil {
			err = fmt.Errorf("rank %d: %w", r, e)
		}
	}
	return err
}

func beRank(text string) error {
	fields := strings.Split(text, ",")
	if len(fields) != 3 {
		return fmt.Errorf("--rank %q: want DIR,RANK,WORLD", text)
	}
	r, err := strconv.Atoi(fields[1])
	if err != nil {
		return err
	}
	world, err := strconv.Atoi(fields[2])
	if err != nil {
		return err
	}
	store, err := rendezvous.OpenFile(fields[0])
	if err != nil {
		return err
	}
	find := func(plan.Case) (rank.Opener, error) { return host.Open, nil }
	return rank.Loop(context.Background(), rank.Place{Rank: r, World: world, LocalRank: r}, store, find, nil, io.Discard)
}
