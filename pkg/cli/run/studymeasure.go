package run

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/english"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/schedule/study"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// The samples of what a study measures, of float elements in one buffer.
var studyTiming = plan.CollectiveTiming{Warmup: 1, Iterations: 20, Trials: 5, Aggregate: 1, Launches: 1}

const studyType = "float"

// studyMeasurer measures what a study needs on this machine.
type studyMeasurer struct {
	streams cli.Streams
	warned  bool // of ranks that take turns
}

// measureCase measures a case of a study in place, each time from a common start of all ranks to
// the end of the last.
func (m *studyMeasurer) measureCase(ctx context.Context, c *study.Case, sizes []int64) ([]simulate.Picoseconds, error) {
	d, err := m.measured(ctx, c.Backend, c.Ranks, plan.Case{Family: plan.FamilySchedule, Block: &plan.Schedule{
		Op: c.Collective, Algorithm: c.Algorithm, Width: c.Width, Segments: c.Segments, RedOp: planner.ScheduleRedOp(c.Collective), Sizes: sizes,
		Placements: []string{vocab.InPlace}, Modes: []string{vocab.Blocking}, Buffers: vocab.Warm, Measure: studyTiming,
	}})
	if err != nil {
		return nil, err
	}
	var times []simulate.Picoseconds
	for i := range d.Measurement.Rows {
		r := &d.Measurement.Rows[i]
		if r.Bytes != r.Requested {
			return nil, fmt.Errorf("%d bytes are measured as %d: choose sizes that divide into 16 bytes for each of %d ranks", r.Requested, r.Bytes, c.Ranks)
		}
		times = append(times, simulate.FromNanoseconds(1000*r.Blocking.Percentiles.P50))
	}
	if len(times) != len(sizes) {
		return nil, fmt.Errorf("%d of %d sizes were measured: choose sizes that fit into memory", len(times), len(sizes))
	}
	return times, nil
}

// measureModel measures the messages between any two ranks.
func (m *studyMeasurer) measureModel(ctx context.Context, p study.Pairs) (simulate.Model, error) {
	d, err := m.measured(ctx, p.Backend, p.Ranks, plan.Case{Family: plan.FamilyCollective, Block: &plan.Collective{
		Op: collective.P2P.String(), Sizes: p.Sizes(), Placements: []string{vocab.OutOfPlace}, Modes: []string{vocab.Pipelined},
		Buffers: vocab.Warm, Registration: vocab.Unregistered, Measure: studyTiming,
	}})
	if err != nil {
		return simulate.Model{}, err
	}
	model, err := bench.MachineModel(p.Backend, d)
	if err != nil {
		return simulate.Model{}, err
	}
	return *model, nil
}

// measured measures a case and returns its document, which passed. It warns once of ranks of a
// host that take turns.
func (m *studyMeasurer) measured(ctx context.Context, backend string, ranks int, c plan.Case) (*result.CollectiveDocument, error) {
	s := m.streams
	c.Precision, c.Sampling, c.Contract = studyType, bench.Name, vocab.ContractOp
	flags, _ := bench.NewFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	flags.Backend = backend
	b, err := newBenchRun(ctx, s, flags.Output, c.Family, ranks, func(_ *catalog.Catalog, be *catalog.Backend, world int) (planner.Direct, error) {
		return planner.Direct{Suite: bench.Name, Backend: be.Name, World: world, Repeats: 1, Cases: []plan.Case{c}}, nil
	})
	if err != nil {
		return nil, err
	}
	defer b.drop()
	if n := runtime.NumCPU(); b.place.machine.GPUs == nil && ranks > n && !m.warned {
		m.warned = true
		s.Tell("warning: %s on %s take turns: measured times are longer than with a processor for each rank",
			english.Count(ranks, "rank", "ranks"), english.Count(n, "processor", "processors"))
	}
	var out *result.CollectiveDocument
	err = b.run(ctx, s, func(d result.Document) error {
		out, _ = bench.Collective(d)
		return nil
	}, nil)
	if err != nil {
		return nil, err
	}
	var verdict error
	if out == nil || out.Outcome.Status != result.Success {
		verdict = errors.New("was not measured")
	}
	return out, b.end(s, nil, nil, verdict)
}
