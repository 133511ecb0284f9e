package ep

import (
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// SuiteBlock requests the product of its lists.
type SuiteBlock struct {
	Workload   string       `yaml:"workload" in:"workload"`
	Backends   []string     `yaml:"backends" in:"backend"`
	Degrees    []int        `yaml:"degrees" min:"1"`
	Modes      []string     `yaml:"modes" in:"mode"`
	Phases     []string     `yaml:"phases" in:"phase"`
	Precisions []string     `yaml:"precisions" in:"precision"`
	Routings   []RoutingRef `yaml:"routings" in:"routing"`
	Contracts  []string     `yaml:"contracts" in:"contract" default:"[layout-and-dispatch-v1]"`
	// TimingModes selects whether operations are enqueued or replayed. Graphs apply to decode, on
	// backends whose mode can be captured.
	TimingModes []string `yaml:"timing_modes" in:"EP timing mode" default:"[eager]"`
	// Layouts apply to backends with a choice in a mode; others ignore them.
	Layouts []string `yaml:"layouts" in:"layout" default:"[expert-major]"`
	// Tunings apply to backends that can be tuned in a mode; others run once, untuned. {} is untuned.
	Tunings []Tuning `yaml:"tunings,optional"`
	// Ladders replace the workload's.
	Ladders  []Ladder `yaml:"ladders,optional"`
	Sampling string   `yaml:"sampling,optional" in:"sampling"` // default: the suite's
}

// Backend holds a backend's EP capabilities.
type Backend struct {
	Precisions []string `yaml:"precisions" in:"precision"`
	// OffPath lists precisions that run only if a filter names them.
	OffPath []string `yaml:"off_path,optional" in:"precision"`
	Modes   []Mode   `yaml:"modes"`
	// Contracts lists the timing contracts that it supports.
	Contracts []string `yaml:"contracts" in:"contract" default:"[layout-and-dispatch-v1]"`
	// Unsupported gives the reasons for combinations that suites request and the backend does not run.
	Unsupported []Rule `yaml:"unsupported,optional"`
}

// Mode is one mode of an EP backend.
type Mode struct {
	Name string `yaml:",name" in:"mode"`
	// MaxTokens caps the ladder, in tokens per rank; 0 means no cap.
	MaxTokens int `yaml:"max_tokens,optional" min:"1"`
	// Graphs reports whether its operations can be captured into graphs.
	Graphs bool `yaml:"graphs,optional"`
	// Layouts lists the layouts of a mode with a choice; the first is the default of a
	// measurement.
	Layouts []string `yaml:"layouts,optional" in:"layout"`
	// Tunable reports whether cases may set a Tuning.
	Tunable bool `yaml:"tunable,optional"`
	// Precisions replaces the backend's precisions in this mode.
	Precisions []string `yaml:"precisions,optional" in:"precision"`
}

// Rule declares combinations of platform, mode and degree that a backend does not support, and why.
// It covers a combination that matches all of its conditions.
type Rule struct {
	Vendors    []string `yaml:"vendors,optional" in:"vendor"`
	Transports []string `yaml:"transports,optional" in:"transport"` // of the scale-up domain
	Platforms  []string `yaml:"platforms,optional" in:"platform"`
	Scopes     []string `yaml:"scopes,optional" in:"scope"`
	Modes      []string `yaml:"modes,optional" in:"mode"`
	Degrees    []int    `yaml:"degrees,optional" min:"1"`
	Reason     string   `yaml:"reason"`
}

// Support lists the supported EP degrees by mode.
type Support []Degrees

// Degrees lists the supported EP degrees of one mode.
type Degrees struct {
	Mode    string `yaml:",name" in:"mode"`
	Degrees []int  `yaml:",value" min:"1"`
}

// Sampling holds the EP sample counts of a profile; see Timing.
type Sampling struct {
	ItersPerTrial       int `yaml:"iters_per_trial" min:"1" max:"1000000"`
	TrialsPerPoint      int `yaml:"trials_per_point" min:"1" max:"1000000"`
	WarmupItersPerTrial int `yaml:"warmup_iters_per_trial" min:"1" max:"1000000"`
	ChainItersPerTrial  int `yaml:"chain_iters_per_trial" min:"1" max:"1000000"`
	ChainTrialsPerPoint int `yaml:"chain_trials_per_point" min:"1" max:"1000000"`
	ChainDrop           int `yaml:"chain_drop" min:"0" max:"1000000"`
}

// Degrees returns the EP degrees supported in a mode. e may be nil.
func (e *Support) Degrees(mode string) []int {
	if e == nil {
		return nil
	}
	for _, d := range *e {
		if d.Mode == mode {
			return d.Degrees
		}
	}
	return nil
}

// Mode returns the backend's mode of that name, or nil.
func (e *Backend) Mode(name string) *Mode {
	for i := range e.Modes {
		if e.Modes[i].Name == name {
			return &e.Modes[i]
		}
	}
	return nil
}

func (e *Backend) modeNames() []string {
	names := make([]string, len(e.Modes))
	for i := range e.Modes {
		names[i] = e.Modes[i].Name
	}
	return names
}

func (e *Backend) timingModes() []string {
	if slices.ContainsFunc(e.Modes, func(m Mode) bool { return m.Graphs }) {
		return TimingModes()
	}
	return []string{Eager}
}

func (e *Backend) layouts() []string {
	all := []string{ExpertMajor} // the default request of suites
	for _, m := range e.Modes {
		all = append(all, m.Layouts...)
	}
	return all
}

// PrecisionsOf returns the precisions supported in a mode.
func (e *Backend) PrecisionsOf(mode string) []string {
	if m := e.Mode(mode); len(m.Precisions) > 0 {
		return m.Precisions
	}
	return e.Precisions
}

// Ladder returns the tokens per rank for a phase of workload w, or nil.
func (b *SuiteBlock) Ladder(w *Shape, phase string) []int {
	ladders := w.Ladders
	if len(b.Ladders) > 0 {
		ladders = b.Ladders
	}
	for _, l := range ladders {
		if l.Phase == phase {
			return l.Tokens
		}
	}
	return nil
}

// maxAssignments is the maximum number of (token, expert) pairs of one batch over all ranks.
// Every rank and the reader of the ranks' records hold all of them: 8 bytes each, 512 MiB.
const maxAssignments = 1 << 26

// MaxTokens is the maximum number of tokens of a rank for top-k topk and world ranks.
func MaxTokens(world, topk int) int { return maxAssignments / world / topk }

// Check implements catalog.SamplingBlock.
func (s *Sampling) Check(c *catalog.Checker) {
	if err := Timing(*s).Check(); err != nil {
		c.Diagnose(&s.ChainDrop, "%v", err)
	}
}

// kvTransfer is the suite name by which the dashboard recognises KV-cache cases, whose rows have
// another format.
const kvTransfer = "kv-transfer"

// Check implements catalog.SuiteBlock.
func (b *SuiteBlock) Check(c *catalog.Checker, s *catalog.Suite) {
	if s.Name == kvTransfer {
		c.Diagnose(&s.Blocks[string(Name)][0], "the dashboard reads cases of a suite named %q as transfers of KV caches; name this EP suite otherwise", s.Name)
	}
	w := ShapeOf(c.Catalog, b.Workload)
	checkLadders(c, b.Ladders)
	largest := 0
	for i, phase := range b.Phases {
		tokens := b.Ladder(w, phase)
		if len(tokens) == 0 {
			c.Diagnose(&b.Phases[i], "no %s ladder: define one here or in workload %q", phase, w.Name)
			continue
		}
		largest = max(largest, slices.Max(tokens))
	}
	for i, degree := range b.Degrees {
		if limit := MaxTokens(degree, w.TopK); largest > limit {
			c.Diagnose(&b.Degrees[i], "%d ranks with %d tokens each and top-k %d are too large: every rank holds the routing of all tokens, so at this degree the limit is %d tokens per rank", degree, largest, w.TopK, limit)
		}
		if w.Experts%degree != 0 {
			c.Diagnose(&b.Degrees[i], "the %d experts of workload %q do not spread evenly over %d ranks", w.Experts, w.Name, degree)
		}
	}
	for _, r := range b.Routings {
		if r.Recorded != nil {
			c.Note(r.Recorded.Fits(largest*slices.Max(b.Degrees), w.TopK, w.Experts))
		}
	}
	has := catalog.Offering[Backend](c, string(Name), b.Backends)
	catalog.Offered(c, "mode", b.Modes, has, (*Backend).modeNames)
	catalog.Offered(c, "precision", b.Precisions, has, func(h *Backend) []string { return h.Precisions })
	catalog.Offered(c, "EP timing mode", b.TimingModes, has, (*Backend).timingModes)
	catalog.Offered(c, "layout", b.Layouts, has, (*Backend).layouts)
	catalog.Offered(c, "timing contract", b.Contracts, has, func(h *Backend) []string { return h.Contracts })
}

// Worlds implements catalog.SuiteBlock.
func (b *SuiteBlock) Worlds(*catalog.Catalog, *catalog.Suite) []int { return b.Degrees }

// Check implements catalog.SupportBlock. It refuses modes that the backend does not have and
// degrees that a rule excludes.
func (e *Support) Check(c *catalog.Checker, p *catalog.Platform, b *catalog.Backend) {
	for i := range *e {
		d := &(*e)[i]
		if catalog.BackendOf[Backend](b).Mode(d.Mode) == nil {
			c.Diagnose(d, "backend %q has no mode %q%s", b.Name, d.Mode, vocab.Hint(d.Mode, catalog.BackendOf[Backend](b).modeNames()))
		}
		for j, degree := range d.Degrees {
			if r := catalog.BackendOf[Backend](b).rule(p, d.Mode, degree); r != nil {
				c.Diagnose(&d.Degrees[j], "EP%d is listed as running here, but %s says why it is unsupported: %s", degree, c.At(r), r.Reason)
			}
		}
		c.FillsNodes(p, d.Degrees)
	}
}

// Check implements catalog.BackendBlock. It refuses requested combinations that no platform lists
// and no rule covers, and rules without effect.
func (e *Backend) Check(c *catalog.Checker, b *catalog.Backend) {
	for i, p := range e.OffPath {
		if !slices.Contains(e.Precisions, p) {
			c.Diagnose(&e.OffPath[i], "off_path precision %q is not among the backend's precisions", p)
		}
	}
	for i := range e.Modes {
		for j, p := range e.Modes[i].Precisions {
			if !slices.Contains(e.Precisions, p) {
				c.Diagnose(&e.Modes[i].Precisions[j], "%s precision %q is not among the backend's precisions", e.Modes[i].Name, p)
			}
		}
	}
	used := map[*Rule]bool{}
	for _, name := range c.Sets() {
		if in := c.View(name).Backend(b.Name); catalog.BackendOf[Backend](in) == e {
			e.checkGaps(c, name, in, used)
		}
	}
	for i := range e.Unsupported {
		if r := &e.Unsupported[i]; !used[r] {
			c.Diagnose(r, "this rule has no effect: no suite asks for a case that it covers and no earlier rule does")
		}
	}
}

// checkGaps reports combinations that suites with the named capabilities request, that no
// platform lists and no rule covers. It marks the rules that cover something.
func (e *Backend) checkGaps(c *catalog.Checker, set string, b *catalog.Backend, used map[*Rule]bool) {
	view, who, where := c.View(set), "suites", "here"
	if set != "" {
		who, where = fmt.Sprintf("suites with the capabilities %q", set), "there"
	}
	for i := range view.Platforms {
		p := &view.Platforms[i]
		for _, row := range e.Coverage(view, p, b) {
			if r := e.rule(p, row.Mode, row.World); r != nil && !row.Runs {
				used[r] = true
			} else if !row.Runs {
				c.Diagnose(&c.Platform(p.SKU).Backends, "%s ask for %s %s at EP%d; list it %s, or give the reason in %s why it is unsupported",
					who, b.Name, row.Mode, row.World, where, c.At(e).File)
			}
		}
	}
}

// Coverage implements catalog.BackendBlock: every mode and degree that a suite requests on the
// platform.
func (e *Backend) Coverage(c *catalog.Catalog, p *catalog.Platform, b *catalog.Backend) []catalog.Coverage {
	var out []catalog.Coverage
	for _, mode := range Modes() {
		if e.Mode(mode) == nil || !slices.Contains(b.Vendors, p.Vendor) {
			continue
		}
		runs := catalog.SupportOf[Support](p.Support(b.Name)).Degrees(mode)
		for _, degree := range askedDegrees(c, p, b, mode) {
			row := catalog.Coverage{SKU: p.SKU, Backend: b.Name, Mode: mode, World: degree, Runs: slices.Contains(runs, degree)}
			if r := e.rule(p, mode, degree); r != nil && !row.Runs {
				row.Reason = r.Reason
			}
			out = append(out, row)
		}
	}
	return out
}

// askedDegrees returns the degrees, ascending, at which suites request the backend's mode on the
// platform.
func askedDegrees(c *catalog.Catalog, p *catalog.Platform, b *catalog.Backend, mode string) []int {
	var out []int
	for i := range c.Suites {
		if !slices.Contains(c.Suites[i].Platforms, p.SKU) {
			continue
		}
		for _, block := range c.Suites[i].Blocks[string(Name)] {
			if asks := block.(*SuiteBlock); slices.Contains(asks.Backends, b.Name) && slices.Contains(asks.Modes, mode) {
				out = append(out, asks.Degrees...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// rule returns the first rule that covers the combination, or nil.
func (e *Backend) rule(p *catalog.Platform, mode string, degree int) *Rule {
	for i := range e.Unsupported {
		if r := &e.Unsupported[i]; r.covers(p, mode, degree) {
			return r
		}
	}
	return nil
}

func (r *Rule) covers(p *catalog.Platform, mode string, degree int) bool {
	return within(r.Vendors, p.Vendor) && within(r.Transports, p.ScaleUp.Transport) && within(r.Platforms, p.SKU) &&
		within(r.Scopes, p.Scope(degree)) && within(r.Modes, mode) && within(r.Degrees, degree)
}

// within reports whether v is in condition; an empty condition matches everything.
func within[T comparable](condition []T, v T) bool {
	return len(condition) == 0 || slices.Contains(condition, v)
}

// Support implements catalog.BackendBlock: every mode, at the worlds with more than one rank.
func (e *Backend) Support(_ string, worlds []int) catalog.SupportBlock {
	degrees := slices.DeleteFunc(slices.Clone(worlds), func(w int) bool { return w == 1 })
	if len(degrees) == 0 {
		return nil
	}
	var out Support
	for _, m := range e.Modes {
		out = append(out, Degrees{Mode: m.Name, Degrees: degrees})
	}
	return &out
}

// Shape is a workload of the definitions.
type Shape struct {
	Name    string   `yaml:",name"`
	Hidden  int      `yaml:"hidden" min:"32" max:"1048576"`
	TopK    int      `yaml:"topk" min:"1"`
	Experts int      `yaml:"experts" min:"1" max:"1048576"`
	Seed    uint64   `yaml:"seed"`
	Ladders []Ladder `yaml:"ladders"`
}

// Ladder lists tokens per rank of one phase, ascending.
type Ladder struct {
	Phase  string `yaml:",name" in:"phase"`
	Tokens []int  `yaml:",value" min:"1"`
}

// RoutingRule names a rule by which tokens choose experts.
type RoutingRule struct {
	Name        string `yaml:",name"`
	Description string `yaml:",value"`
}

// ShapeOf returns the workload of that name, or nil.
func ShapeOf(c *catalog.Catalog, name string) *Shape { return catalog.Find[Shape](c, name) }

// Check refuses a shape that contradicts itself.
func (w *Shape) Check(c *catalog.Checker) {
	if w.TopK > w.Experts {
		c.Diagnose(&w.TopK, "topk %d exceeds the %d experts", w.TopK, w.Experts)
	}
	checkLadders(c, w.Ladders)
}

// checkLadders reports ladders that do not ascend.
func checkLadders(c *catalog.Checker, ls []Ladder) {
	for i := range ls {
		if !slices.IsSorted(ls[i].Tokens) {
			c.Diagnose(&ls[i].Tokens, "the %s ladder must ascend", ls[i].Phase)
		}
	}
}
