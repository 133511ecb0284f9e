package bench

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/cli"
	"github.com/collectivex/collectivex/pkg/cli/bench"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/fit"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/safefile"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// all is the value of -o and -d that selects all reductions or types that the backend supports.
const all = catalog.All

// Request is a valid collective measurement. The backend or the machine may still not support it.
type Request struct {
	Op runner.Op
	// World is the number of ranks; 0 means one per device.
	World  int
	Cycles int // 0: until the user ends them
	// Budget is the maximum duration of a case in seconds; 0 derives it from the sizes.
	Budget int
	View   View
	Limits bench.Limits
	// Model is the file to which a model of the machine is written; empty for none.
	Model string
	// Files maps the names of files in the request's cases to their contents; see shard.Shard.
	Files map[string][]byte

	// By describes the family that performs the operation; nil for the library.
	By *By
	// Shape is the block of each case, without its reduction and root.
	Shape collective.Block

	DType string // or all

	redop   string
	root    int                 // -1 for all
	traffic *collective.Traffic // of an alltoallv
	env     map[string]string
	perCall bool     // the library takes an algorithm for each call; otherwise the environment of new ranks has it
	layout  string   // of the file of results
	given   [3]int64 // -b, -e and -i in bytes
	factor  int64    // -f
	forgets bool     // nothing but the table has the results of a measurement without end
	algo    []string // names of algorithms or their beginnings, beside the library's own choice
	ctas    []int    // numbers of CTAs, likewise
	device  string   // the algorithm of -D, alone
	blocks  int      // of its kernel; 0: the default
}

// By describes another family that performs an operation instead of the library and is measured like a
// collective.
type By struct {
	Family plan.Family
	Label  string // suffix to the name of the operation
	// Fits returns an error if the family does not support the operation on world ranks.
	Fits func(op runner.Op, world int) error
	// DTypes lists the element types that a backend supports.
	DTypes func(be *catalog.Backend) []string
	// Takes returns an error if the family does not support the sizes of an operation with an element
	// type.
	Takes func(f runner.Form, sizes []int64) error
	// Block converts the block of a collective case to one of the family.
	Block func(c collective.Block) plan.Block
	// Ran converts a document to one of the collective family. It also returns the program that all
	// ranks ran and the digest of its file, if any.
	Ran func(d result.Document) (of *collective.Document, program *result.Program, digest string)
	// File is the name of the plan file; empty if there is none.
	File string
}

// Buffers lists the values of --buffers.
func Buffers() []string {
	return []string{vocab.Shifted, vocab.Warm, vocab.Cold, vocab.Fresh, vocab.FreshCold}
}

// Request returns the measurement that the flags request for an operation. Errors have exit code
// cli.ExitUsage.
func (f *Flags) Request(op string) (Request, error) {
	r := Request{Cycles: f.cycles, Budget: f.Timeout, redop: f.redop, DType: f.dtype, root: f.root, algo: f.algo, ctas: f.ctas}
	var err error
	if err = bench.Known("operation", op, vocab.Ops()); err != nil {
		return r, err
	}
	if r.Op, err = runner.ParseOp(op); err != nil {
		return r, cli.UsageError("%w", err)
	}
	if err = f.refuse(); err != nil {
		return r, err
	}
	if r.layout, err = f.layout(); err != nil {
		return r, err
	}
	if r.device, err = f.device(op); err != nil {
		return r, err
	}
	if f.deviceCTAs != defaultCTAs {
		r.blocks = f.deviceCTAs
	}
	r.forgets = f.cycles == 0 && !f.JSON && f.File == ""
	if f.Set("nthreads") || f.Set("ngpus") {
		r.World = f.threads * f.gpus
	}
	if err := bench.AllKnown(
		bench.Word{What: "reduction", Got: f.redop, Names: append(vocab.RedOps(), all)},
		bench.Word{What: "element type", Got: f.dtype, Names: append(vocab.DTypes(), all)},
		bench.Word{What: "kind of buffers", Got: f.buffers, Names: Buffers()},
	); err != nil {
		return r, err
	}
	if err = f.amounts(&r); err != nil {
		return r, err
	}
	mode := vocab.Pipelined
	switch {
	case f.launches > 0:
		mode = vocab.Graph
	case f.blocking == 3:
		mode = vocab.Blocking
	}
	r.Shape.Op, r.Shape.Buffers, r.Shape.Unalign = op, f.buffers, f.unalign
	r.Shape.Registration = vocab.Registrations()[f.registration]
	r.Shape.Modes = []string{mode}
	if f.perIter > 0 {
		r.Shape.Modes = append(r.Shape.Modes, vocab.PerIteration)
	}
	if f.outOfPlace > 0 {
		r.Shape.Placements = []string{vocab.OutOfPlace}
	}
	if r.Op.InPlace() {
		r.Shape.Placements = append(r.Shape.Placements, vocab.InPlace)
	}
	if len(r.Shape.Placements) == 0 {
		return r, cli.UsageError("-O 0: %s has no in-place form: leave -O out", op)
	}
	r.Shape.Measure = collective.Counts{
		Warmup: f.warmup, Iterations: f.iterations, Trials: f.trials, Aggregate: f.aggregate, Launches: max(1, f.launches),
	}
	r.Shape.NullStream = f.nullStream > 0
	r.Shape.Measure.Skip, r.Shape.Measure.Wait = f.skip, []string{"", vocab.WaitBarrier, vocab.WaitOperation, ""}[f.blocking]
	if f.Set("check") {
		r.Shape.Measure.Checks = max(f.check, collective.MinChecks)
	}
	if r.Shape.Measure.Repeatable = f.repeatable; f.repeatable > 0 && !r.Op.Reduces() {
		return r, cli.UsageError("--repeatable: %s adds nothing, and all of its results are checked bit for bit anyway", op)
	}
	if f.Set("cta_policy") {
		r.env = map[string]string{"NCCL_CTA_POLICY": strconv.Itoa(f.policy)}
	}
	r.View = View{
		Mode: mode, Across: across(f.average), CPUTime: f.cpuTime > 0, PerIteration: f.perIter > 0, Percentiles: f.percentiles,
		Timestamps: f.timestamps > 0, Memory: f.mem > 0,
	}
	if r.device != "" && r.Op.Pairwise() {
		r.View.Messages = map[runner.Op]int{runner.P2P: 1, runner.P2PBidir: 2}[r.Op]
	}
	if why := collective.Ungrouped(op, f.aggregate); why != "" {
		return r, cli.UsageError("-m %d: %s: want 1", f.aggregate, why)
	}
	if why := collective.Unwaited(r.Shape.Measure.Wait, f.aggregate); why != "" {
		return r, cli.UsageError("-z %d -m %d: %s: want -m 1, or -z 3", f.blocking, f.aggregate, why)
	}
	if why := collective.TooEarly(f.buffers, r.Shape.Modes...); why != "" {
		return r, cli.UsageError("--buffers: %s: add -z 3, and leave -I out", why)
	}
	if r.Model = f.model; r.Model != "" && (r.Op != runner.P2P || r.DType == all || r.Cycles != 1 || f.launches > 0) {
		return r, cli.UsageError("--model: want one p2p: no other operation, and no -d all, -N or -G")
	}
	if r.Model != "" && (f.aggregate != 1 || f.iterations < 2 || f.warmup < 1) {
		return r, cli.UsageError("--model: -m %d, -n %d and -w %d: want the times of single messages after an untimed one: -m 1, and at least -n 2 and -w 1",
			f.aggregate, f.iterations, f.warmup)
	}
	if n := len(r.Shape.Sizes); r.Model != "" && n < fit.LeastSizes {
		return r, cli.UsageError("--model: %s, want at least %d with -b, -e and -f", plural.Count(n, "size", "sizes"), fit.LeastSizes)
	}
	for _, n := range r.Shape.Sizes {
		if r.Model != "" && (n == 0 || n%partBytes != 0) { // the schedules of the model would round it
			return r, cli.UsageError("--model: a size of %d bytes: choose -b, -e and -f so that all sizes are multiples of %d", n, partBytes)
		}
	}
	r.Limits, err = bench.ParseLimits(bench.MinBusBW, f.minBusBW, f.maxTime, r.Shape.Sizes)
	return r, err
}

// device returns the algorithm that -D selects, or "".
func (f *Flags) device(op string) (string, error) {
	names := collective.DeviceAlgorithms(op)
	switch {
	case f.deviceImpl == 0:
		return "", nil
	case f.deviceImpl > len(names):
		return "", cli.UsageError("-D %d: %s has %s over NCCL's device interface; kernels with multimem or GIN are not supported",
			f.deviceImpl, op, plural.Count(len(names), "kernel", "kernels"))
	}
	return names[f.deviceImpl-1], nil
}

// partBytes must divide the bytes of each rank in schedules, as in nccl-tests.
const partBytes = 16

// amounts reads the sizes or, for an alltoallv, its traffic.
func (f *Flags) amounts(r *Request) (err error) {
	switch {
	case vocab.Op(r.Op.String()).Traffic != (f.traffic != ""):
		return cli.UsageError("--traffic FILE is required for alltoallv and not supported for other operations")
	case f.traffic == "":
		f.Zero, r.factor = true, f.Factor
		r.given, r.Shape.Sizes, err = f.Given()
		return err
	}
	for _, name := range []string{"minbytes", "maxbytes", "stepbytes", "stepfactor"} {
		if f.Set(name) {
			return cli.UsageError("--%s: not supported with --traffic, which determines the size", name)
		}
	}
	data, err := safefile.Read(f.traffic, collective.MaxTraffic)
	if err != nil {
		return cli.UsageError("--traffic: %w", err)
	}
	if r.traffic, err = collective.ParseTraffic(f.traffic, data); err != nil {
		return cli.UsageError("%w", err)
	}
	size := collective.TrafficSize(r.traffic.Bytes)
	r.Shape.Sizes, r.Shape.Traffic, r.given = []int64{size}, r.traffic.Bytes, [3]int64{size, size, 1}
	if r.World == 0 {
		r.World = r.traffic.Ranks()
	}
	return nil
}

// Plan returns the cases of the request for a backend and world ranks.
func (r *Request) Plan(be *catalog.Backend, world int) (planner.Direct, error) {
	d := planner.Direct{Suite: bench.Name, Backend: be.Name, World: world, Repeats: max(1, r.Cycles), Budget: r.Budget}
	if world < 1 {
		return d, cli.UsageError("%d ranks: -t times -g must be at least 1", world)
	}
	if len(r.env) > 0 && be.Name == bench.HostBackend {
		return d, cli.EnvironmentError("-x sets a policy of NCCL's kernels, which backend host does not use: omit it, or run on a machine with GPUs")
	}
	if be.Name == bench.HostBackend && (r.View.Memory || r.Shape.NullStream) {
		return d, cli.EnvironmentError("-M and -y are about the memory and the streams of a device, which backend host does not have: omit them, or run on a machine with GPUs")
	}
	if r.By != nil && r.Shape.Sizes[0] == 0 {
		return d, cli.UsageError("-b 0: a schedule has no steps for 0 bytes: want at least one byte")
	}
	if err := r.inGroups(world); err != nil {
		return d, err
	}
	width := r.Shape.Width(world)
	if r.Op.BusFactor(width) == 0 && slices.ContainsFunc(r.Limits, func(l bench.Limit) bool { return l.Flag == bench.MinBusBW }) {
		return d, cli.UsageError("--min-busbw: the busbw of %s on %d rank is 0 by its formula: use --max-time, or more ranks", r.Op, width)
	}
	if r.By != nil {
		if err := r.By.Fits(r.Op, world); err != nil {
			return d, err
		}
	}
	dtypes, redops, roots := []string{r.DType}, []string{""}, []int{0}
	switch {
	case r.DType == all && r.By != nil:
		dtypes = r.By.DTypes(be)
	case r.DType == all:
		dtypes = catalog.BackendOf[collective.Backend](be).DTypes
	}
	if r.Op.Reduces() {
		if redops = []string{r.redop}; r.redop == all {
			redops = catalog.BackendOf[collective.Backend](be).RedOps
		}
	}
	if r.Op.Rooted() {
		if r.root < -1 || r.root >= width {
			return d, cli.UsageError("-r %d: ranks are 0 to %d, and -1 is all of them", r.root, width-1)
		}
		roots[0] = r.root
		if r.root < 0 {
			roots = roots[:0]
			for root := range width {
				roots = append(roots, root)
			}
		}
	}
	if r.traffic != nil && r.traffic.Ranks() != world {
		return d, cli.UsageError("%s has %d ranks, but %d ranks are requested: -t times -g must be equal to the ranks of the file", r.traffic.File, r.traffic.Ranks(), world)
	}
	algorithms, err := r.algorithms(be)
	if err != nil {
		return d, err
	}
	for _, dtype := range dtypes {
		if r.traffic != nil {
			if err := r.traffic.Whole(dtype); err != nil {
				return d, cli.UsageError("%w", err)
			}
		}
		if r.By != nil {
			if err := r.takes(dtype); err != nil {
				return d, err
			}
		}
		for _, redop := range redops {
			for _, root := range roots {
				for _, algorithm := range algorithms {
					for _, ctas := range append([]int{r.blocks}, r.ctas...) {
						d.Cases = append(d.Cases, r.asCase(dtype, redop, root, algorithm, ctas))
					}
				}
			}
		}
	}
	return d, nil
}

// asCase returns a case of the request.
func (r *Request) asCase(dtype, redop string, root int, algorithm string, ctas int) plan.Case {
	block := r.Shape
	block.RedOp, block.Root, block.Algorithm, block.CTAs = redop, root, algorithm, ctas
	c := plan.Case{
		Family: r.family(), Precision: dtype, Sampling: bench.Name, Contract: collective.Contract, Block: r.block(block),
		Env: r.env,
	}
	if !r.perCall {
		c.Env = planner.With(r.env, block.Selecting())
	}
	return c
}

// lenient reports whether the request is for all element types or all reductions, or for variants. What the library
// does not support is then not a failure.
func (r *Request) lenient() bool {
	return r.DType == all || r.redop == all && r.Op.Reduces() || r.variants() != ""
}

// variants returns the flag that asks for more than the library's own choice, or "".
func (r *Request) variants() string {
	switch {
	case len(r.algo) > 0:
		return "--algo"
	case len(r.ctas) > 0:
		return "--ctas"
	}
	return ""
}

// algorithms returns the algorithms of the cases, "" first: the library's own choice.
func (r *Request) algorithms(be *catalog.Backend) ([]string, error) {
	out := []string{r.device}
	if r.device != "" && r.By != nil {
		return nil, cli.UsageError("-D: %s is not performed by a library: leave -D out", r.Name())
	}
	flag := r.variants()
	if flag == "" {
		return out, nil
	}
	if r.Op.Pairwise() {
		return nil, cli.UsageError("%s: %s is measured on pairs of ranks, which the comparison lacks: choose one kernel with -D", flag, r.Op)
	}
	if name := collective.Selected(len(r.ctas) > 0); name != "" {
		return nil, cli.UsageError("%s: %s is set, so the library would not choose by itself: unset it", flag, name)
	}
	if os.Getenv("NCCL_DEBUG") != "" {
		return nil, cli.UsageError("%s: NCCL_DEBUG is set, so the log that names the algorithm in use is not read: unset it", flag)
	}
	var has []string
	if of := catalog.BackendOf[collective.Backend](be); of != nil && r.By == nil {
		has = collective.AlgorithmsOf(r.Shape.Op, r.Shape.Registration, of.Algorithms)
	}
	if len(has) == 0 {
		return nil, cli.UsageError("%s: backend %s has no algorithms to choose from for %s", flag, be.Name, r.Name())
	}
	for _, want := range r.algo {
		if !slices.ContainsFunc(has, func(name string) bool { return begins(name, want) }) {
			return nil, cli.UsageError("--algo: unknown algorithm %q of %s%s", want, r.Shape.Op, vocab.Hint(want, append(has, all)))
		}
	}
	return append(out, slices.DeleteFunc(has, func(name string) bool {
		return !slices.ContainsFunc(r.algo, func(want string) bool { return begins(name, want) })
	})...), nil
}

// begins reports whether an algorithm is among those that the user wants: whole words at its beginning, or all.
func begins(name, want string) bool {
	return want == all || strings.HasPrefix(name+"_", strings.ToLower(want)+"_")
}

// takes returns an error if By does not support the request's sizes with an element type.
func (r *Request) takes(dtype string) error {
	t, err := numeric.ParseType(dtype)
	if err != nil {
		return err
	}
	return r.By.Takes(runner.Form{Op: r.Op, Type: t, World: r.World}, r.Shape.Sizes)
}

// Name returns the name of the measured operation, with the label of another family.
func (r *Request) Name() string {
	if r.By == nil {
		return r.Shape.Op
	}
	return r.Shape.Op + "/" + r.By.Label
}

// family returns the family of the request's cases.
func (r *Request) family() plan.Family {
	if r.By == nil {
		return collective.Name
	}
	return r.By.Family
}

// block returns the block of a case, of the request's family.
func (r *Request) block(c collective.Block) plan.Block {
	if r.By == nil {
		return &c
	}
	return r.By.Block(c)
}
