package catalog

import (
	"fmt"
	"maps"
	"slices"

	"github.com/collectivex/collectivex/pkg/vocab"
)

// EPFamily is expert parallelism: dispatch and combine.
var EPFamily = Family{
	Name:  vocab.FamilyEP,
	Suite: &EPSuite{}, Backend: &EPBackend{}, Support: &EPSupport{}, Sampling: &EPSampling{},
}

// EP returns what the backend does of the EP family, or nil.
func (b *Backend) EP() *EPBackend { return BlockOf[EPBackend](b.Blocks, vocab.FamilyEP) }

// EP returns what runs of the backend's EP, or nil.
func (s *Support) EP() *EPSupport { return BlockOf[EPSupport](s.Blocks, vocab.FamilyEP) }

// EP returns the profile's sample counts of EP cases, or nil.
func (s *Sampling) EP() *EPSampling { return BlockOf[EPSampling](s.Blocks, vocab.FamilyEP) }

// EPSuite is what a suite asks of the EP family.
type EPSuite []EPBlock

// EPBlock asks for the product of its lists.
type EPBlock struct {
	Workload   string       `yaml:"workload" in:"workload"`
	Backends   []string     `yaml:"backends" in:"backend"`
	Degrees    []int        `yaml:"degrees" min:"1"`
	Modes      []string     `yaml:"modes" in:"mode"`
	Phases     []string     `yaml:"phases" in:"phase"`
	Precisions []string     `yaml:"precisions" in:"precision"`
	Routings   []RoutingRef `yaml:"routings" in:"routing"`
	Contracts  []string     `yaml:"contracts" in:"contract" default:"[layout-and-dispatch-v1]"`
	// TimingModes say whether operations are enqueued or replayed. Graphs are of decode, and
	// of backends whose mode can be captured.
	TimingModes []string `yaml:"timing_modes" in:"EP timing mode" default:"[eager]"`
	// Layouts are those of backends that have a choice in a mode; others take no notice.
	Layouts []string `yaml:"layouts" in:"layout" default:"[expert-major]"`
	// Ladders stand in for the workload's.
	Ladders  []Ladder `yaml:"ladders,optional"`
	Sampling string   `yaml:"sampling,optional" in:"sampling"` // the suite's unless said
}

// EPBackend is what a backend does of the EP family.
type EPBackend struct {
	Precisions []string `yaml:"precisions" in:"precision"`
	// OffPath lists precisions that run only when a filter names them.
	OffPath []string `yaml:"off_path,optional" in:"precision"`
	Modes   []EPMode `yaml:"modes"`
	// Contracts lists the timing contracts it can keep.
	Contracts []string `yaml:"contracts" in:"contract" default:"[layout-and-dispatch-v1]"`
	// Unsupported says why the backend does not run where a suite asks for it.
	Unsupported []Rule `yaml:"unsupported,optional"`
}

// EPMode is one mode of an EP backend.
type EPMode struct {
	Name string `yaml:",name" in:"mode"`
	// MaxTokens caps the ladder, in tokens per rank; 0 is no cap.
	MaxTokens int `yaml:"max_tokens,optional" min:"1"`
	// Graphs says that its operations can be captured into graphs.
	Graphs bool `yaml:"graphs,optional"`
	// Layouts lists those that it has, if there is a choice; the first is that of a
	// measurement that names none.
	Layouts []string `yaml:"layouts,optional" in:"layout"`
	// Precisions lists those of the mode; the backend's unless said.
	Precisions []string `yaml:"precisions,optional" in:"precision"`
}

// Rule is the reason why a backend does not run. It covers every combination
// of platform, mode and degree that matches all it names.
type Rule struct {
	Vendors    []string `yaml:"vendors,optional" in:"vendor"`
	Transports []string `yaml:"transports,optional" in:"transport"` // of the scale-up domain
	Platforms  []string `yaml:"platforms,optional" in:"platform"`
	Scopes     []string `yaml:"scopes,optional" in:"scope"`
	Modes      []string `yaml:"modes,optional" in:"mode"`
	Degrees    []int    `yaml:"degrees,optional" min:"1"`
	Reason     string   `yaml:"reason"`
}

// EPSupport lists EP degrees by mode.
type EPSupport []Degrees

// Degrees are the EP degrees that run in one mode.
type Degrees struct {
	Mode    string `yaml:",name" in:"mode"`
	Degrees []int  `yaml:",value" min:"1"`
}

// EPSampling is the EP part of a profile; see plan.EPTiming.
type EPSampling struct {
	ItersPerTrial       int `yaml:"iters_per_trial" min:"1" max:"1000000"`
	TrialsPerPoint      int `yaml:"trials_per_point" min:"1" max:"1000000"`
	WarmupItersPerTrial int `yaml:"warmup_iters_per_trial" min:"1" max:"1000000"`
	ChainItersPerTrial  int `yaml:"chain_iters_per_trial" min:"1" max:"1000000"`
	ChainTrialsPerPoint int `yaml:"chain_trials_per_point" min:"1" max:"1000000"`
	ChainDrop           int `yaml:"chain_drop" min:"0" max:"1000000"`
}

// Workload is the shape of an EP workload.
type Workload struct {
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

// Routing names a rule by which tokens choose experts.
type Routing struct {
	Name        string `yaml:",name"`
	Description string `yaml:",value"`
}

// Degrees returns the EP degrees that run in a mode. e may be nil.
func (e *EPSupport) Degrees(mode string) []int {
	if e == nil {
		return nil
	}
	if d := find(*e, mode, func(d *Degrees) string { return d.Mode }); d != nil {
		return d.Degrees
	}
	return nil
}

// Mode returns the backend's mode of that name, or nil.
func (e *EPBackend) Mode(name string) *EPMode {
	return find(e.Modes, name, func(m *EPMode) string { return m.Name })
}

func (e *EPBackend) modeNames() []string {
	return namesOf(e.Modes, func(m *EPMode) string { return m.Name })
}

func (e *EPBackend) timingModes() []string {
	if slices.ContainsFunc(e.Modes, func(m EPMode) bool { return m.Graphs }) {
		return vocab.EPTimingModes()
	}
	return []string{vocab.Eager}
}

func (e *EPBackend) layouts() []string {
	all := []string{vocab.ExpertMajor} // which suites ask for by default
	for _, m := range e.Modes {
		all = append(all, m.Layouts...)
	}
	return all
}

// PrecisionsOf returns the precisions of a mode that the backend has.
func (e *EPBackend) PrecisionsOf(mode string) []string {
	if m := e.Mode(mode); len(m.Precisions) > 0 {
		return m.Precisions
	}
	return e.Precisions
}

// Ladder returns the tokens per rank of a phase of workload w, or nil.
func (b *EPBlock) Ladder(w *Workload, phase string) []int {
	ladders := w.Ladders
	if len(b.Ladders) > 0 {
		ladders = b.Ladders
	}
	if l := find(ladders, phase, func(l *Ladder) string { return l.Phase }); l != nil {
		return l.Tokens
	}
	return nil
}

// maxAssignments is the maximum number of (token, expert) pairs of one batch over all
// ranks. Every rank holds them all, and so does the reader of the ranks' records: at 8
// bytes each, 512 MiB.
const maxAssignments = 1 << 26

// MaxTokens is the maximum number of tokens of a rank if each token chooses topk experts
// and there are world ranks.
func MaxTokens(world, topk int) int { return maxAssignments / world / topk }

// Check implements SamplingBlock.
func (s *EPSampling) Check(c *Checker) {
	if s.ChainDrop > s.ChainItersPerTrial-2 {
		c.Diagnose(&s.ChainDrop, "chain_drop must leave at least 2 of the %d chained pairs", s.ChainItersPerTrial)
	}
}

func (w *Workload) check(c *Checker) {
	if w.TopK > w.Experts {
		c.Diagnose(&w.TopK, "topk %d exceeds the %d experts", w.TopK, w.Experts)
	}
	checkLadders(c, w.Ladders)
}

func checkLadders(c *Checker, ls []Ladder) {
	for i := range ls {
		if !slices.IsSorted(ls[i].Tokens) {
			c.Diagnose(&ls[i].Tokens, "the %s ladder must ascend", ls[i].Phase)
		}
	}
}

// kvTransfer is the suite name by which the dashboard recognises KV-cache cases,
// whose rows are others.
const kvTransfer = "kv-transfer"

// Check implements SuiteBlock.
func (e *EPSuite) Check(c *Checker, s *Suite) {
	if s.Name == kvTransfer {
		c.Diagnose(e, "the dashboard reads cases of a suite named %q as transfers of KV caches; name this EP suite otherwise", s.Name)
	}
	for i := range *e {
		(*e)[i].check(c)
	}
}

func (b *EPBlock) check(c *Checker) {
	w := c.Workload(b.Workload)
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
		if most := MaxTokens(degree, w.TopK); largest > most {
			c.Diagnose(&b.Degrees[i], "%d ranks with %d tokens each and top-k %d are too large: every rank holds the routing of all tokens, so at this degree the limit is %d tokens per rank", degree, largest, w.TopK, most)
		}
		if w.Experts%degree != 0 {
			c.Diagnose(&b.Degrees[i], "the %d experts of workload %q do not spread evenly over %d ranks", w.Experts, w.Name, degree)
		}
	}
	for _, r := range b.Routings {
		if r.Recorded != nil {
			if err := r.Recorded.Fits(largest*slices.Max(b.Degrees), w.TopK, w.Experts); err != nil {
				c.d.note(err)
			}
		}
	}
	has := Offering[EPBackend](c, vocab.FamilyEP, b.Backends)
	Offered(c, "mode", b.Modes, has, (*EPBackend).modeNames)
	Offered(c, "precision", b.Precisions, has, func(h *EPBackend) []string { return h.Precisions })
	Offered(c, "EP timing mode", b.TimingModes, has, (*EPBackend).timingModes)
	Offered(c, "layout", b.Layouts, has, (*EPBackend).layouts)
	Offered(c, "timing contract", b.Contracts, has, func(h *EPBackend) []string { return h.Contracts })
}

// Worlds implements SuiteBlock.
func (e *EPSuite) Worlds(*Catalog, *Suite) []int {
	var out []int
	for i := range *e {
		out = append(out, (*e)[i].Degrees...)
	}
	return out
}

// Check implements SupportBlock. It refuses degrees of a mode that the backend does
// not have, and ones that a rule says do not run.
func (e *EPSupport) Check(c *Checker, p *Platform, b *Backend) {
	for i := range *e {
		d := &(*e)[i]
		if b.EP().Mode(d.Mode) == nil {
			c.Diagnose(d, "backend %q has no mode %q%s", b.Name, d.Mode, Hint(d.Mode, b.EP().modeNames()))
		}
		for j, degree := range d.Degrees {
			if r := b.EP().rule(p, d.Mode, degree); r != nil {
				c.Diagnose(&d.Degrees[j], "EP%d is listed as running here, but %s says why it is unsupported: %s", degree, c.At(r), r.Reason)
			}
		}
		c.FillsNodes(p, d.Degrees)
	}
}

// Check implements BackendBlock. It refuses gaps without a reason, and reasons
// without a gap.
func (e *EPBackend) Check(c *Checker, b *Backend) {
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
	for _, name := range slices.Sorted(maps.Keys(c.views)) {
		if in := c.views[name].Backend(b.Name); in.EP() == e {
			e.checkGaps(c, name, in, used)
		}
	}
	for i := range e.Unsupported {
		if r := &e.Unsupported[i]; !used[r] {
			c.Diagnose(r, "this rule has no effect: no suite asks for a case that it covers and no earlier rule does")
		}
	}
}

// checkGaps reports what suites with the named capabilities ask for, no platform lists
// and no rule covers. It marks the rules that do cover something.
func (e *EPBackend) checkGaps(c *Checker, set string, b *Backend, used map[*Rule]bool) {
	view, who, where := c.views[set], "suites", "here"
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

// Coverage implements BackendBlock: every mode and degree that some suite asks for
// on the platform.
func (e *EPBackend) Coverage(c *Catalog, p *Platform, b *Backend) []Coverage {
	var out []Coverage
	for _, mode := range vocab.EPModes() {
		if e.Mode(mode) == nil || !slices.Contains(b.Vendors, p.Vendor) {
			continue
		}
		var runs []int
		if s := p.Support(b.Name); s != nil {
			runs = s.EP().Degrees(mode)
		}
		for _, degree := range c.askedDegrees(p, b, mode) {
			row := Coverage{SKU: p.SKU, Backend: b.Name, Mode: mode, World: degree, Runs: slices.Contains(runs, degree)}
			if r := e.rule(p, mode, degree); r != nil && !row.Runs {
				row.Reason = r.Reason
			}
			out = append(out, row)
		}
	}
	return out
}

// askedDegrees returns the degrees at which some suite asks for the backend's mode
// on the platform, ascending.
func (c *Catalog) askedDegrees(p *Platform, b *Backend, mode string) []int {
	var out []int
	for i := range c.Suites {
		s := &c.Suites[i]
		blocks := BlockOf[EPSuite](s.Blocks, vocab.FamilyEP)
		if blocks == nil || !slices.Contains(s.Platforms, p.SKU) {
			continue
		}
		for _, bl := range *blocks {
			if slices.Contains(bl.Backends, b.Name) && slices.Contains(bl.Modes, mode) {
				out = append(out, bl.Degrees...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// rule returns the first rule that covers the combination, or nil.
func (e *EPBackend) rule(p *Platform, mode string, degree int) *Rule {
	for i := range e.Unsupported {
		if r := &e.Unsupported[i]; r.covers(p, mode, degree) {
			return r
		}
	}
	return nil
}

func (r *Rule) covers(p *Platform, mode string, degree int) bool {
	return within(r.Vendors, p.Vendor) && within(r.Transports, p.ScaleUp.Transport) && within(r.Platforms, p.SKU) &&
		within(r.Scopes, p.Scope(degree)) && within(r.Modes, mode) && within(r.Degrees, degree)
}

// within reports whether a condition holds; an empty one always does.
func within[T comparable](condition []T, v T) bool {
	return len(condition) == 0 || slices.Contains(condition, v)
}

// Support implements BackendBlock: every mode, at the worlds of more than one rank.
func (e *EPBackend) Support(_ string, worlds []int) SupportBlock {
	degrees := slices.DeleteFunc(slices.Clone(worlds), func(w int) bool { return w == 1 })
	if len(degrees) == 0 {
		return nil
	}
	var out EPSupport
	for _, m := range e.Modes {
		out = append(out, Degrees{Mode: m.Name, Degrees: degrees})
	}
	return &out
}
