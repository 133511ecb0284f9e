package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	collectivebench "github.com/collectivex/collectivex/pkg/collective/bench"
	"github.com/collectivex/collectivex/pkg/measure"
	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sanitize"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/schedule/study"
	"github.com/collectivex/collectivex/pkg/steps"
	stepsbench "github.com/collectivex/collectivex/pkg/steps/bench"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// How many samples are taken of the cases, models and overlaps of a study.
var (
	studyTiming = collective.Counts{Warmup: 1, Iterations: 20, Trials: 6, Aggregate: 1, Launches: 1}
	modelTiming = collective.Counts{Warmup: 1, Iterations: 10, Trials: 3, Aggregate: 1, Launches: 1}

	overlapSampling = overlap.Sampling{Warmup: 2, Iterations: 20}
)

// inRuns spreads the trials of a backend over its runs.
func inRuns(t collective.Counts, backend string) collective.Counts {
	t.Trials /= stepsbench.Runs(backend)
	return t
}

// studyType is the element type of cases and models.
const studyType = "float"

// modelMeasurer measures what a study needs: its rows, and its models.
type modelMeasurer interface {
	study.Measurer
	// Model returns the model that follows from messages between any two ranks.
	Model(ctx context.Context, p study.Pairs) (simulate.Model, error)
}

// studyMeasurer measures what a study needs on this machine.
type studyMeasurer struct {
	streams cli.Streams
	cases   map[*study.Case]*studyCase // the cases to measure
	warned  bool                       // it warned that ranks take turns on processors
	shared  bool                       // it warned that the two sides of an overlap do
}

// newStudyMeasurer returns a measurer of cases at sizes in bytes.
func newStudyMeasurer(s cli.Streams, unmeasured map[*study.Case][]int64) *studyMeasurer {
	m := &studyMeasurer{streams: s, cases: map[*study.Case]*studyCase{}}
	for c, sizes := range unmeasured {
		m.cases[c] = &studyCase{sizes: sizes}
	}
	return m
}

// studyCase is a case that a study has to measure.
type studyCase struct {
	sizes []int64
	runs  []*collective.Document // so far
	err   error                  // of the failed run; no run follows it
}

// run measures a case once more.
func (m *studyMeasurer) run(ctx context.Context, c *study.Case) {
	at := m.cases[c]
	if at.err != nil {
		return
	}
	var measured []*collective.Document
	measured, at.err = measureCases(ctx, m.streams, c.Backend, c.Ranks, ofSteps, []plan.Case{{
		Family: steps.Name, Precision: studyType, Sampling: bench.Name, Contract: collective.Contract, Block: &steps.Block{
			Op: c.Collective, Algorithm: c.Algorithm, Width: c.Width, Segments: c.Segments, RedOp: schedule.RedOp(c.Collective), Sizes: at.sizes,
			Placements: []string{vocab.InPlace}, Modes: []string{vocab.Blocking}, Buffers: c.Buffers, Measure: inRuns(studyTiming, c.Backend),
		},
	}})
	at.runs = append(at.runs, measured...)
}

// Case implements study.Measurer: in place, each time from a common start of all ranks to the
// end of the last, the median of the runs, some of which Model may have made.
func (m *studyMeasurer) Case(ctx context.Context, c *study.Case, sizes []int64) (study.Times, error) {
	at := m.cases[c]
	for at.err == nil && len(at.runs) < stepsbench.Runs(c.Backend) {
		if err := ctx.Err(); err != nil {
			return study.Times{}, err
		}
		m.run(ctx, c)
	}
	if at.err != nil {
		return study.Times{}, at.err
	}
	m.warn(c.Backend, c.Ranks)
	out := study.Times{Device: sanitize.Line(at.runs[0].Topology.DeviceProduct)}
	for i := range sizes {
		var us []float64
		for _, d := range at.runs {
			if n := len(d.Measurement.Rows); n != len(sizes) {
				return study.Times{}, fmt.Errorf("%d of %d sizes were measured: choose sizes that fit into memory", n, len(sizes))
			}
			r := &d.Measurement.Rows[i]
			if r.Bytes != r.Requested {
				return study.Times{}, fmt.Errorf("%d bytes are measured as %d: choose sizes that divide into 16 bytes for each of %d ranks", r.Requested, r.Bytes, c.Ranks)
			}
			us = append(us, r.Blocking.Percentiles.P50)
		}
		out.At = append(out.At, map[string]simulate.Picoseconds{"": simulate.FromNanoseconds(1000 * measure.LowerMedian(us))})
	}
	return out, nil
}

func (m *studyMeasurer) Overlap(ctx context.Context, o *study.Overlap, sizes []int64) (study.Times, error) {
	op := overlap.Ops(o.Form, []string{o.Collective})[0]
	b := overlap.New(o.Form, op, &overlapSampling)
	b.Algorithm, b.Hidden, b.Products, b.Collectives, b.Compute, b.Sizes = o.Algorithm, o.Hidden, o.Products, o.Collectives, o.Compute, sizes
	c := plan.Case{Family: overlap.Name, Precision: o.DType, Sampling: bench.Name, Contract: overlap.Contract, World: o.Ranks, Block: b}
	if why := overlap.Remainder(&c); why != "" {
		return study.Times{}, errors.New(why)
	}
	if err := ctx.Err(); err != nil {
		return study.Times{}, err
	}
	measured, err := measureCases(ctx, m.streams, o.Backend, o.Ranks, func(d result.Document) (*overlap.Document, bool) {
		v, ok := d.(*overlap.Document)
		return v, ok
	}, []plan.Case{c})
	if err != nil {
		return study.Times{}, err
	}
	m.warn(o.Backend, o.Ranks)
	if measured[0].Measurement.SharedProcessor && !m.shared {
		m.shared = true
		m.streams.Tell("warning: %s: %s", o.Name, overlap.SharedProcessor)
	}
	out := study.Times{Device: sanitize.Line(measured[0].Topology.DeviceProduct)}
	for i := range measured[0].Measurement.Rows {
		at := map[string]simulate.Picoseconds{}
		for name, burst := range measured[0].Measurement.Rows[i].Times() {
			at[name] = simulate.FromNanoseconds(1000 * burst.P50)
		}
		out.At = append(out.At, at)
	}
	if len(out.At) != len(sizes) {
		return study.Times{}, fmt.Errorf("%d of %d sizes were measured: choose sizes that fit into memory", len(out.At), len(sizes))
	}
	return out, nil
}

// Model implements modelMeasurer. The cases that the model is to predict are measured in turns with it:
// the times of a machine change over minutes.
func (m *studyMeasurer) Model(ctx context.Context, p study.Pairs) (simulate.Model, error) {
	m.warn(p.Backend, p.Ranks)
	var predicted []*study.Case
	for c := range m.cases {
		if c.Backend == p.Backend && c.Ranks == p.Ranks && c.Buffers == p.Buffers {
			predicted = append(predicted, c)
		}
	}
	slices.SortFunc(predicted, func(a, b *study.Case) int { return cmp.Compare(a.Name, b.Name) })
	messages := &stepsbench.Messages{DType: studyType, Sizes: p.Sizes(), Timing: inRuns(modelTiming, p.Backend), Buffers: p.Buffers}
	model, err := measureModel(ctx, m.streams, p.Backend, p.Ranks, messages, func() {
		for _, c := range predicted {
			m.run(ctx, c)
		}
	})
	if err != nil {
		return simulate.Model{}, err
	}
	return *model, nil
}

// warn warns once of ranks of a host that take turns.
func (m *studyMeasurer) warn(backend string, ranks int) {
	if text := takingTurns(ranks); backend == bench.HostBackend && text != "" && !m.warned {
		m.warned = true
		warn(m.streams, text)
	}
}

// measureModel measures the messages that make a model of the machine, in as many runs as its backend
// needs, and calls between after each run.
func measureModel(ctx context.Context, s cli.Streams, backend string, ranks int, m *stepsbench.Messages, between func()) (*simulate.Model, error) {
	var all []*collective.Document
	for range stepsbench.Runs(backend) {
		for _, cases := range [][]plan.Case{m.Operations(ranks), m.Schedules(ranks)} {
			measured, err := measureCases(ctx, s, backend, ranks, asCollective, cases)
			if err != nil {
				return nil, err
			}
			all = append(all, measured...)
		}
		between()
	}
	return stepsbench.MachineModel(backend, all)
}

// ofSteps returns the document of a schedule as one of collectives.
func ofSteps(d result.Document) (*collective.Document, bool) {
	s, ok := d.(*steps.Document)
	if !ok {
		return nil, false
	}
	return s.Collective(), true
}

// asCollective returns the document of a collective or a schedule.
func asCollective(d result.Document) (*collective.Document, bool) {
	if c, ok := d.(*collective.Document); ok {
		return c, true
	}
	return ofSteps(d)
}

// measureCases measures cases of a family and returns their documents, converted by of. It fails unless
// all cases passed.
func measureCases[D result.Document](ctx context.Context, s cli.Streams, backend string, ranks int, of func(result.Document) (D, bool), cases []plan.Case) ([]D, error) {
	flags, _ := collectivebench.NewFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	flags.Backend = backend
	cat, p, err := benchPlace(ctx, s, flags.Output, cases[0].Family)
	if err != nil {
		return nil, err
	}
	b, err := newBenchRun(ctx, s, flags.Output, cat, p, ranks, nil, func(_ *catalog.Catalog, be *catalog.Backend, world int) (planner.Direct, error) {
		return planner.Direct{Suite: bench.Name, Backend: be.Name, World: world, Repeats: 1, Cases: cases}, nil
	})
	if err != nil {
		return nil, err
	}
	defer b.drop()
	var out []D
	err = b.run(ctx, s, hearer{count: func(d result.Document) {
		if measured, ok := of(d); ok && d.Head().Outcome.Status == result.Success {
			out = append(out, measured)
		}
	}})
	if err != nil {
		return nil, err
	}
	var verdict error
	if len(out) < len(cases) {
		verdict = errors.New("was not measured")
	}
	return out, b.end(s, nil, nil, verdict)
}
