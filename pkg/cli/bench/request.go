package bench

import (
	"slices"
	"strconv"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/english"
	"github.com/collectivex/collectivex/pkg/fit"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/regular"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// all is what -o and -d take for everything that the backend has.
const all = catalog.All

// Request is a collective measurement that makes sense by itself; whether it
// can be done here is another question.
type Request struct {
	Op collective.Op
	// World is the ranks; 0 is as many as there are devices.
	World  int
	Cycles int
	// Budget is the seconds a case may take; 0 is what fits its sizes.
	Budget int
	View   View
	Limits Limits
	// Model is the file for a model of the machine; empty for none.
	Model string
	// Files has the content of the files that its cases name; see shard.Shard.
	Files map[string][]byte

	redop, dtype string
	root         int // -1: all
	shape        plan.Collective
	traffic      *catalog.Traffic  // of an alltoallv
	schedule     *plan.Schedule    // its name and shape; nil for the library's own operation
	program      *schedule.Program // of a plan in a file
	env          map[string]string
}

// Buffers lists what --buffers takes.
func Buffers() []string {
	return []string{vocab.Shifted, vocab.Warm, vocab.Cold, vocab.Fresh, vocab.FreshCold}
}

// Request reads the flags for an operation. Its errors end the program with
// cli.ExitUsage.
func (f *Flags) Request(op string) (Request, error) {
	r := Request{Cycles: f.cycles, Budget: f.Timeout, redop: f.redop, dtype: f.dtype, root: f.root}
	var err error
	if err = Known("operation", op, vocab.Ops()); err != nil {
		return r, err
	}
	if r.Op, err = collective.ParseOp(op); err != nil {
		return r, cli.UsageError("%w", err)
	}
	if err = f.refuse(); err != nil {
		return r, err
	}
	if f.set("nthreads") || f.set("ngpus") {
		r.World = f.threads * f.gpus
	}
	for _, name := range []struct {
		what, got string
		names     []string
	}{
		{"reduction", f.redop, append(vocab.RedOps(), all)},
		{"element type", f.dtype, append(vocab.DTypes(), all)},
		{"kind of buffers", f.buffers, Buffers()},
	} {
		if err := Known(name.what, name.got, name.names); err != nil {
			return r, err
		}
	}
	if err = f.amounts(&r); err != nil {
		return r, err
	}
	mode := vocab.Pipelined
	switch {
	case f.launches > 0:
		mode = vocab.Graph
	case f.blocking > 0:
		mode = vocab.Blocking
	}
	r.shape.Op, r.shape.Buffers, r.shape.Unalign = op, f.buffers, f.unalign
	r.shape.Registration = vocab.Registrations()[f.registration]
	r.shape.Modes = []string{mode}
	if f.perIter > 0 {
		r.shape.Modes = append(r.shape.Modes, vocab.PerIteration)
	}
	r.shape.Placements = []string{vocab.OutOfPlace}
	if r.Op.InPlace() {
		r.shape.Placements = append(r.shape.Placements, vocab.InPlace)
	}
	r.shape.Measure = plan.CollectiveTiming{
		Warmup: f.warmup, Iterations: f.iterations, Trials: f.trials, Aggregate: f.aggregate, Launches: max(1, f.launches),
	}
	if f.check != plan.DefaultChecks {
		r.shape.Measure.Checks = max(f.check, plan.MinChecks)
	}
	if f.policy >= 0 {
		r.env = map[string]string{"NCCL_CTA_POLICY": strconv.Itoa(f.policy)}
	}
	r.View = View{
		Mode: mode, Across: across(f.average), CPUTime: f.cpuTime > 0, PerIteration: f.perIter > 0, Percentiles: f.percentiles,
	}
	if r.Op == collective.Hypercube && f.aggregate > 1 {
		return r, cli.UsageError("-m %d: the steps of hypercube follow each other, so it has no group calls: want 1", f.aggregate)
	}
	if r.Model = f.model; r.Model != "" && (r.Op != collective.P2P || r.dtype == all || r.Cycles > 1 || f.launches > 0) {
		return r, cli.UsageError("--model: want one p2p: no other operation, and no -d all, -N or -G")
	}
	if r.Model != "" && (f.aggregate != 1 || f.iterations < 2 || f.warmup < 1) {
		return r, cli.UsageError("--model: -m %d, -n %d and -w %d: want the times of single messages after an untimed one: -m 1, and at least -n 2 and -w 1",
			f.aggregate, f.iterations, f.warmup)
	}
	if n := len(r.shape.Sizes); r.Model != "" && n < fit.LeastSizes {
		return r, cli.UsageError("--model: %s, want at least %d with -b, -e and -f", english.Count(n, "size", "sizes"), fit.LeastSizes)
	}
	for _, n := range r.shape.Sizes {
		if r.Model != "" && n%partBytes != 0 { // the schedules of the model would round it
			return r, cli.UsageError("--model: a size of %d bytes: choose -b, -e and -f so that all sizes are multiples of %d", n, partBytes)
		}
	}
	r.Limits, err = ParseLimits(minBusBW, f.minBusBW, f.maxTime, r.shape.Sizes)
	return r, err
}

// partBytes divides the bytes of each rank in schedules, as in nccl-tests.
const partBytes = 16

// Messages returns how the messages of the model are measured.
func (r *Request) Messages() *Messages {
	m := &Messages{DType: r.dtype, Sizes: r.shape.Sizes, Timing: r.shape.Measure, Buffers: vocab.Fresh}
	if r.shape.Buffers == vocab.FreshCold {
		m.Buffers = vocab.FreshCold
	}
	return m
}

// amounts reads how much is moved: sizes or, for an alltoallv, its traffic.
func (f *Flags) amounts(r *Request) (err error) {
	switch {
	case vocab.Op(r.Op.String()).Traffic != (f.traffic != ""):
		return cli.UsageError("alltoallv needs --traffic FILE, and no other operation takes it")
	case f.traffic == "":
		r.shape.Sizes, err = f.sizes()
		return err
	}
	for _, name := range []string{"minbytes", "maxbytes", "stepbytes", "stepfactor"} {
		if f.set(name) {
			return cli.UsageError("--%s: the size is that of the traffic", name)
		}
	}
	data, err := regular.Read(f.traffic, catalog.MaxTraffic)
	if err != nil {
		return cli.UsageError("--traffic: %w", err)
	}
	if r.traffic, err = catalog.ParseTraffic(f.traffic, data); err != nil {
		return cli.UsageError("%w", err)
	}
	r.shape.Sizes, r.shape.Traffic = []int64{plan.TrafficSize(r.traffic.Bytes)}, r.traffic.Bytes
	if r.World == 0 {
		r.World = r.traffic.Ranks()
	}
	return nil
}

func (f *Flags) sizes() ([]int64, error) {
	var parsed [3]int64
	for i, s := range []string{f.first, f.last, f.step} {
		var err error
		if parsed[i], err = ParseSize(s); err != nil {
			return nil, cli.UsageError("-%c: %w", "bei"[i], err)
		}
	}
	return Ladder(parsed[0], parsed[1], parsed[2], f.factor)
}

// Plan is the measurement with a backend on a world of ranks.
func (r *Request) Plan(be *catalog.Backend, world int) (planner.Direct, error) {
	d := planner.Direct{Suite: Name, Backend: be.Name, World: world, Repeats: r.Cycles, Env: r.env, Budget: r.Budget}
	if world < 1 {
		return d, cli.UsageError("%d ranks: -t times -g has to be at least 1", world)
	}
	if len(r.env) > 0 && be.Name == HostBackend {
		return d, cli.EnvironmentError("-x sets a policy of NCCL's kernels, and backend host has none: leave it out, or run it where there are GPUs")
	}
	if r.Op.BusFactor(world) == 0 && slices.ContainsFunc(r.Limits, func(l limit) bool { return l.flag == minBusBW }) {
		return d, cli.UsageError("--min-busbw: the busbw of %s on %d rank is 0 by its formula: use --max-time, or more ranks", r.Op, world)
	}
	if s := r.schedule; s != nil && r.program == nil {
		if why := planner.NoShape(s.Algorithm, r.Op.String(), schedule.Shape{Ranks: world, Width: s.Width, Segments: s.Segments}); why != "" {
			return d, cli.UsageError("%s", why)
		}
	}
	dtypes, redops, roots := []string{r.dtype}, []string{""}, []int{0}
	switch {
	case r.dtype == all && r.schedule != nil:
		dtypes = be.Schedule().DTypes
	case r.dtype == all:
		dtypes = be.Collective().DTypes
	}
	if r.Op.Reduces() {
		if redops = []string{r.redop}; r.redop == all {
			redops = be.Collective().RedOps
		}
	}
	if r.Op.Rooted() {
		if r.root < -1 || r.root >= world {
			return d, cli.UsageError("-r %d: ranks are 0 to %d, and -1 is all of them", r.root, world-1)
		}
		roots[0] = r.root
		if r.root < 0 {
			roots = roots[:0]
			for root := range world {
				roots = append(roots, root)
			}
		}
	}
	if r.traffic != nil && r.traffic.Ranks() != world {
		return d, cli.UsageError("%s is of %d ranks, and there are %d: -t times -g has to be as many", r.traffic.File, r.traffic.Ranks(), world)
	}
	for _, dtype := range dtypes {
		if r.traffic != nil {
			if err := r.traffic.Whole(dtype); err != nil {
				return d, cli.UsageError("%w", err)
			}
		}
		if r.program != nil {
			if err := r.divides(dtype); err != nil {
				return d, err
			}
		}
		for _, redop := range redops {
			for _, root := range roots {
				block := r.shape
				block.RedOp, block.Root = redop, root
				d.Cases = append(d.Cases, plan.Case{
					Family: r.Family(), Precision: dtype, Sampling: Name, Contract: vocab.ContractOp, Block: r.block(block),
				})
			}
		}
	}
	return d, nil
}

// lenient reports whether the element types or reductions are all that there
// are: then it is no failure that the library lacks some.
func (r *Request) lenient() bool {
	return r.dtype == all || r.redop == all && r.Op.Reduces()
}
