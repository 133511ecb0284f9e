package plan

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
)

// ReasonPlatform is the reason of a case that its platform or backend does not run.
const ReasonPlatform = "backend-platform-unsupported"

// Resolve makes the plan: every case that the definitions ask for and the
// filters keep, and the cells that run them. It is a pure function of its
// arguments. The matrix has no generator yet; see Write.
func Resolve(cat *catalog.Catalog, f Filters, m Machine) (*Matrix, error) {
	cat = m.in(cat)
	var suites []*catalog.Suite
	for i := range cat.Suites {
		if keeps(f.Suites, cat.Suites[i].Name) {
			suites = append(suites, &cat.Suites[i])
		}
	}
	if err := f.check(cat, suites); err != nil {
		return nil, err
	}
	r := resolver{cat: cat, filters: f, seen: map[string]*Case{}}
	for i := range cat.Platforms {
		p := &cat.Platforms[i]
		if !f.wantSKU(p.SKU) {
			continue
		}
		for _, s := range suites {
			if slices.Contains(s.Platforms, p.SKU) {
				r.suite(p, s)
			}
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	include, err := cells(cat, r.requested, f.MaxCases)
	if err != nil {
		return nil, err
	}
	out := &Matrix{Version: MatrixVersion, RequestedCases: []Requested{}, RequestedOther: []Requested{}, Include: include}
	for _, q := range r.requested {
		if q.Case.Family == FamilyEP {
			out.RequestedCases = append(out.RequestedCases, q)
		} else {
			out.RequestedOther = append(out.RequestedOther, q)
		}
	}
	return out, nil
}

// resolver gathers cases in plan order.
type resolver struct {
	cat       *catalog.Catalog
	filters   Filters
	requested []Requested
	seen      map[string]*Case
	err       error // the first
}

func (r *resolver) suite(p *catalog.Platform, s *catalog.Suite) {
	if r.filters.wantEP() {
		for i := range s.EP {
			r.ep(p, s, &s.EP[i])
		}
	}
	if r.filters.wantCollective() {
		for i := range s.Collective {
			r.collective(p, s, &s.Collective[i])
		}
	}
}

// add requests a case in each of its repeats. Repeats after the first have
// their number in the id, so that ids stay unique.
func (r *resolver) add(c Case, repeats int, disposition, reason, detail string) {
	id := c.CaseID
	for n := 1; n <= repeats; n++ {
		c.Repeat, c.CaseID = n, id
		if n > 1 {
			c.CaseID = slug(id, "r"+strconv.Itoa(n))
		}
		if old := r.seen[c.CaseID]; old != nil {
			r.conflict(*old, c)
			continue
		}
		q := Requested{SKU: c.SKU, Disposition: disposition, Case: c}
		if disposition == Runnable {
			q.BudgetSeconds = budgetSeconds(r.cat, &c)
		}
		if reason != "" {
			q.Reason = &reason
		}
		if detail != "" {
			q.Detail = &detail
		}
		r.seen[c.CaseID] = &q.Case
		r.requested = append(r.requested, q)
	}
}

// conflict lets two suites ask for the same case, and refuses two cases that
// differ in something their id does not say.
func (r *resolver) conflict(a, b Case) {
	first := a.Suite
	a.Suite = b.Suite
	if r.err == nil && !reflect.DeepEqual(a, b) {
		r.err = fmt.Errorf("suites %q and %q ask for different cases of the same id %s; plan them apart", first, b.Suite, a.CaseID)
	}
}

// ordered returns the elements of all that want has, in the order of all.
func ordered(all, want []string) []string {
	var out []string
	for _, a := range all {
		if slices.Contains(want, a) {
			out = append(out, a)
		}
	}
	return out
}

func (r *resolver) ep(p *catalog.Platform, s *catalog.Suite, b *catalog.EPBlock) {
	degrees := slices.Sorted(slices.Values(b.Degrees))
	for _, ep := range degrees {
		if !keeps(r.filters.EP, ep) || !keeps(r.filters.Worlds, ep) {
			continue
		}
		for _, phase := range ordered(catalog.Phases(), b.Phases) {
			if !keeps(r.filters.Phases, phase) {
				continue
			}
			for i := range r.cat.Backends {
				be := &r.cat.Backends[i]
				if slices.Contains(b.Backends, be.Name) && keeps(r.filters.Backends, be.Name) {
					r.epBackend(p, s, b, be, ep, phase)
				}
			}
		}
	}
}

// epBackend adds the cases of one backend, degree and phase. A backend that the
// platform does not list gives none; one that it lists without the degree gives
// one unsupported case, whatever the mode and precision filters say.
func (r *resolver) epBackend(p *catalog.Platform, s *catalog.Suite, b *catalog.EPBlock, be *catalog.Backend, ep int, phase string) {
	support := p.Support(be.Name)
	if support == nil || len(support.EP) == 0 {
		return
	}
	if !slices.Contains(support.Degrees(catalog.ModeNormal), ep) {
		c := r.epCase(p, s, b, be, ep, phase, catalog.ModeNormal, b.Routings[0], slices.Min(be.EP.Precisions))
		r.add(c, 1, Unsupported, ReasonPlatform, "")
		return
	}
	for _, mode := range ordered(catalog.EPModes(), b.Modes) {
		switch {
		case !keeps(r.filters.Modes, mode):
		case !slices.Contains(support.Degrees(mode), ep):
		case mode == catalog.ModeLowLatency && phase != catalog.PhaseDecode:
		default:
			for _, routing := range b.Routings {
				for _, precision := range ordered(catalog.Precisions(), b.Precisions) {
					if r.wantPrecision(be.EP, precision) {
						r.add(r.epCase(p, s, b, be, ep, phase, mode, routing, precision), s.Repeats, Runnable, "", "")
					}
				}
			}
		}
	}
}

func (r *resolver) wantPrecision(be *catalog.EPBackend, precision string) bool {
	if !slices.Contains(be.Precisions, precision) || !keeps(r.filters.Precisions, precision) {
		return false
	}
	return len(r.filters.Precisions) > 0 || !slices.Contains(be.OffPath, precision)
}

func (r *resolver) epCase(p *catalog.Platform, s *catalog.Suite, b *catalog.EPBlock, be *catalog.Backend,
	ep int, phase, mode, routing, precision string,
) Case {
	w := r.cat.Workload(b.Workload)
	t := r.cat.SamplingProfile(s.Sampling).EP
	c := Case{
		Family: FamilyEP, Suite: s.Name, Backend: be.Name, Precision: precision,
		Repeat: 1, Sampling: s.Sampling, Contract: ContractLayout,
		EP: &EP{
			EPSize: ep, Workload: w.Name, Mode: mode, Phase: phase, Routing: routing,
			Hidden: w.Hidden, TopK: w.TopK, Experts: w.Experts, Seed: w.Seed,
			Ladder: words(b.Ladder(w, phase)), LadderCap: ladderCap(be.EP, mode), Timing: EPTiming(t),
		},
	}
	c.place(p, ep)
	c.Env = environment(p, be, c.Scope)
	c.CaseID = slug(p.SKU, be.Name, w.Name, mode, phase, "ep"+strconv.Itoa(ep), routing, precision)
	return c
}

// environment merges what the definitions give the ranks, the more particular
// over the more general: platform, scale-out fabric, backend, backend on platform.
func environment(p *catalog.Platform, be *catalog.Backend, scope string) map[string]string {
	layers := [][]catalog.Var{p.Env, be.Env}
	if scope == catalog.ScopeOut && p.ScaleOut != nil {
		layers = slices.Insert(layers, 1, p.ScaleOut.Env)
	}
	if sup := p.Support(be.Name); sup != nil {
		layers = append(layers, sup.Env)
	}
	var env map[string]string
	for _, layer := range layers {
		for _, v := range layer {
			if env == nil {
				env = map[string]string{}
			}
			env[v.Name] = v.Value
		}
	}
	return env
}

func ladderCap(be *catalog.EPBackend, mode string) *int {
	if m := be.Mode(mode); m != nil && m.MaxTokens > 0 {
		return &m.MaxTokens
	}
	return nil
}

func words(ns []int) string {
	out := make([]string, len(ns))
	for i, n := range ns {
		out[i] = strconv.Itoa(n)
	}
	return strings.Join(out, " ")
}

// collective adds the cases of one block: each at every world size that the
// platform has for the backend. What the backend cannot do is unsupported.
func (r *resolver) collective(p *catalog.Platform, s *catalog.Suite, b *catalog.CollectiveBlock) {
	var worlds []int
	for _, name := range b.Backends {
		if sup := p.Support(name); sup != nil {
			worlds = append(worlds, sup.Collective...)
		}
	}
	slices.Sort(worlds)
	for _, world := range slices.Compact(worlds) {
		if !keeps(r.filters.Worlds, world) {
			continue
		}
		for i := range r.cat.Backends {
			be := &r.cat.Backends[i]
			if !slices.Contains(b.Backends, be.Name) || !keeps(r.filters.Backends, be.Name) {
				continue
			}
			if sup := p.Support(be.Name); sup != nil && slices.Contains(sup.Collective, world) {
				r.collectiveBackend(p, s, b, be, world)
			}
		}
	}
}

func (r *resolver) collectiveBackend(p *catalog.Platform, s *catalog.Suite, b *catalog.CollectiveBlock, be *catalog.Backend, world int) {
	for _, op := range ordered(catalog.Ops(), b.Ops) {
		redops := []string{""}
		if catalog.Reduces(op) {
			redops = ordered(catalog.RedOps(), b.RedOps)
		}
		for _, dtype := range ordered(catalog.DTypes(), b.DTypes) {
			for _, redop := range redops {
				if !keeps(r.filters.Ops, op) || !keeps(r.filters.DTypes, dtype) || !keeps(r.filters.RedOps, redop) {
					continue
				}
				for _, registration := range b.Registrations {
					for _, buffers := range b.Buffers {
						c := r.collectiveCase(p, s, b, be, world, op, dtype, redop, registration, buffers)
						if lack := lacks(be, c.Collective, dtype); lack != "" {
							r.add(c, 1, Unsupported, ReasonPlatform, lack)
						} else {
							r.add(c, s.Repeats, Runnable, "", "")
						}
					}
				}
			}
		}
	}
}

// lacks names what of the case the backend does not have, or is empty.
func lacks(be *catalog.Backend, c *Collective, dtype string) string {
	if len(c.Placements) == 0 {
		return fmt.Sprintf("operation %s has no in-place form", c.Op)
	}
	if len(c.Modes) == 0 {
		return fmt.Sprintf("backend %s has none of the timing modes", be.Name)
	}
	has := func(list []string, v, what string) string {
		if v == "" || slices.Contains(list, v) {
			return ""
		}
		return fmt.Sprintf("backend %s has no %s %s", be.Name, what, v)
	}
	for _, lack := range []string{
		has(be.Collective.Ops, c.Op, "operation"),
		has(be.Collective.DTypes, dtype, "element type"),
		has(be.Collective.RedOps, c.RedOp, "reduction"),
		has(be.Collective.Registrations, c.Registration, "registration"),
	} {
		if lack != "" {
			return lack
		}
	}
	return ""
}

// placements leaves in_place out where the operation has no such form.
func placements(op string, want []string) []string {
	if catalog.HasInPlace(op) {
		return want
	}
	return slices.DeleteFunc(slices.Clone(want), func(p string) bool { return p == catalog.InPlace })
}

func (r *resolver) collectiveCase(p *catalog.Platform, s *catalog.Suite, b *catalog.CollectiveBlock, be *catalog.Backend,
	world int, op, dtype, redop, registration, buffers string,
) Case {
	t := r.cat.SamplingProfile(s.Sampling).Collective
	c := Case{
		Family: FamilyCollective, Suite: s.Name, Backend: be.Name, Precision: dtype,
		Repeat: 1, Sampling: s.Sampling, Contract: ContractOp,
		Collective: &Collective{
			Op: op, RedOp: redop, Sizes: b.Sizes.List(),
			Placements: placements(op, b.Placements), Modes: ordered(be.Collective.Modes, b.Modes),
			Buffers: buffers, Registration: registration, Measure: CollectiveTiming(t),
		},
	}
	c.place(p, world)
	c.Env = environment(p, be, c.Scope)
	factors := []string{p.SKU, be.Name, op, dtype, redop, "w" + strconv.Itoa(world), buffers}
	if registration != "none" {
		factors = append(factors, "reg", registration)
	}
	c.CaseID = slug(factors...)
	return c
}
