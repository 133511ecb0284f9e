package ep

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/planner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// filters select by factors that only EP cases have.
var filters = []planner.Filter{
	{Name: filterEP, Numbers: planner.WorldsOf(Name), Usage: "only these EP sizes", Input: "EP: size", What: "EP size"},
	{Name: "mode", Kind: "mode", Asked: true, Usage: "only these EP modes: normal, low-latency", Input: "EP: kernel mode"},
	{Name: "phase", Kind: "phase", Asked: true, Usage: "only these EP phases: decode, prefill", Input: "EP: phase"},
	{
		Name: filterPrecision, Kind: "precision", Asked: true, Input: "EP: dispatch precision",
		Usage: "only these EP dispatch precisions: bf16, fp8; naming one also plans backends that have it off the main path",
	},
}

const (
	filterEP        = "ep"
	filterPrecision = "precision"
)

// cases requests the cases of a block: by degree, phase, backend, mode, routing,
// precision, timing contract, layout and timing mode.
func cases(r *planner.Resolver, block catalog.SuiteBlock) {
	b := block.(*SuiteBlock)
	for _, degree := range r.Worlds(b.Degrees) {
		if !r.Keeps(filterEP, strconv.Itoa(degree)) {
			continue
		}
		for _, phase := range r.Pick("phase", Phases(), b.Phases) {
			for _, be := range r.Backends(b.Backends) {
				casesOf(r, b, be, degree, phase)
			}
		}
	}
}

// casesOf requests the cases of one backend, degree and phase. It requests none if the platform does
// not list the backend. If the platform lists the backend without the degree, it requests one
// unsupported case, regardless of the mode and precision filters.
func casesOf(r *planner.Resolver, b *SuiteBlock, be *catalog.Backend, degree int, phase string) {
	support, has := catalog.SupportOf[Support](r.Platform.Support(be.Name)), catalog.BackendOf[Backend](be)
	if support == nil {
		return
	}
	c := r.NewCase(Name, b.Contracts[0], b.Sampling, be, degree)
	w := ShapeOf(r.Catalog, b.Workload)
	shape := Block{
		EPSize: degree, Workload: w.Name, Phase: phase,
		Hidden: w.Hidden, TopK: w.TopK, Experts: w.Experts, Seed: w.Seed,
		Ladder: b.Ladder(w, phase), Timing: Timing(*catalog.SamplingOf[Sampling](r.SamplingProfile(c.Sampling))),
	}
	with := func(mode string, routing RoutingRef, precision, layout, timing string, tuning *Tuning) *plan.Case {
		block := shape
		block.Mode, block.Routing, block.Layout, block.LadderCap = mode, routing.Name, layout, ladderCap(has, mode)
		block.Tuning = tuning
		if routing.Recorded != nil {
			block.Record(routing.Recorded.Experts)
		}
		if timing != Eager {
			block.TimingMode = timing
		}
		c.Precision, c.Block = precision, &block
		return &c
	}
	if !slices.Contains(support.Degrees(ModeNormal), degree) {
		r.Unsupported(with(ModeNormal, b.Routings[0], slices.Min(has.Precisions), "", b.TimingModes[0], nil), "")
		return
	}
	for _, mode := range r.Pick("mode", Modes(), b.Modes) {
		if !slices.Contains(support.Degrees(mode), degree) || mode == ModeLowLatency && phase != PhaseDecode {
			continue
		}
		for _, routing := range b.Routings {
			for _, precision := range r.Pick(filterPrecision, Precisions(), planner.Ordered(has.PrecisionsOf(mode), b.Precisions)) {
				if slices.Contains(has.OffPath, precision) && !r.Named(filterPrecision) {
					continue
				}
				for _, c.Contract = range planner.Ordered(has.Contracts, b.Contracts) {
					for _, layout := range layouts(has.Mode(mode), b.Layouts) {
						for _, timing := range planner.Ordered(TimingModes(), b.TimingModes) {
							if timing != Eager && !(has.Mode(mode).Graphs && phase == PhaseDecode) {
								continue
							}
							for _, tuning := range tunings(has.Mode(mode), b.Tunings) {
								r.Runnable(be, with(mode, routing, precision, layout, timing, tuning))
							}
						}
					}
				}
			}
		}
	}
}

// layouts returns the requested layouts that a mode has, or one empty layout if it has no choice.
func layouts(has *Mode, asked []string) []string {
	if len(has.Layouts) == 0 {
		return []string{""}
	}
	return planner.Ordered(has.Layouts, asked)
}

// tunings returns the requested tunings, nil where none is set, or one nil if the mode cannot be tuned.
func tunings(has *Mode, asked []Tuning) []*Tuning {
	if len(asked) == 0 || !has.Tunable {
		return []*Tuning{nil}
	}
	var out []*Tuning
	for i := range asked {
		if asked[i] == (Tuning{}) {
			out = append(out, nil)
		} else {
			out = append(out, &asked[i])
		}
	}
	return out
}

// ladderCap returns the maximum tokens per rank of the backend's mode, or nil without a cap.
func ladderCap(has *Backend, mode string) *int {
	if m := has.Mode(mode); m != nil && m.MaxTokens > 0 {
		return &m.MaxTokens
	}
	return nil
}

func lacks(be *catalog.Backend, c *plan.Case) string {
	has, block := catalog.BackendOf[Backend](be), *Of(c)
	switch {
	case has == nil:
		return fmt.Sprintf("backend %s has no dispatch and combine", be.Name)
	case has.Mode(block.Mode) == nil:
		return fmt.Sprintf("backend %s has no mode %s", be.Name, block.Mode)
	case !slices.Contains(has.PrecisionsOf(block.Mode), c.Precision):
		return fmt.Sprintf("backend %s has no precision %s in %s mode", be.Name, c.Precision, block.Mode)
	case !slices.Contains(has.Contracts, c.Contract):
		return fmt.Sprintf("backend %s has no timing contract %s", be.Name, c.Contract)
	case block.TimingMode == vocab.Graph && !has.Mode(block.Mode).Graphs:
		return fmt.Sprintf("backend %s cannot be captured into graphs in mode %s", be.Name, block.Mode)
	case block.Tuning != nil && !has.Mode(block.Mode).Tunable:
		return fmt.Sprintf("backend %s cannot be tuned (%s) in mode %s", be.Name, strings.Join(block.Tuning.Words(), ", "), block.Mode)
	case block.Layout != "" && !slices.Contains(has.Mode(block.Mode).Layouts, block.Layout):
		return fmt.Sprintf("backend %s has no layout %s in mode %s", be.Name, block.Layout, block.Mode)
	}
	if of := has.Mode(block.Mode).Layouts; block.Layout == "" && len(of) > 0 {
		block.Layout = of[0]
	}
	block.LadderCap = ladderCap(has, block.Mode)
	c.Block = &block
	return ""
}

// key puts each mode and precision in its own cells. Ids omit normal mode and abbreviate low
// latency.
func key(c *plan.Case) planner.Key {
	mode := Of(c).Mode
	k := planner.Key{Mode: mode, Precision: c.Precision, Label: mode + "-" + c.Precision}
	switch mode {
	case ModeNormal:
		k.Label = c.Precision
	case ModeLowLatency:
		k.Label = "ll-" + c.Precision
	}
	return k
}

// judgedRoundtrips is the number of untimed roundtrips of a rung: eight for conditioning, and those
// that the oracle judges before the timing, after each window, after the chains and at the end.
const judgedRoundtrips = 24

// seconds estimates a case from its roundtrips: three fresh-entry components, two chains each with
// a final and a draining pair, three alternating passes, their warm-ups, the judged
// roundtrips and the repeated ones. A rank moves each token to at most topk ranks and back, two bytes an element.
func seconds(c *plan.Case, pace catalog.Pace) float64 {
	b, t := Of(c), Of(c).Timing
	timed := 3*t.TrialsPerPoint*(t.WarmupItersPerTrial+t.ItersPerTrial) +
		t.ChainTrialsPerPoint*(t.WarmupItersPerTrial+2*t.ChainItersPerTrial+2)
	var micros float64
	for _, tokens := range b.Ladder {
		if b.LadderCap != nil && tokens > *b.LadderCap {
			continue
		}
		bytes := float64(tokens) * float64(min(b.TopK, b.EPSize)) * float64(b.Hidden) * 4
		alternating := 3 * (t.WarmupItersPerTrial + b.AlternatingCalls(tokens))
		roundtrips := float64(timed + alternating + judgedRoundtrips + b.Repeatable)
		micros += roundtrips * (2*pace.Micros + bytes/(pace.GBps*1e3))
	}
	return micros / 1e6
}
