package planner

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// epBlock adds the cases of one block on one platform: by degree, phase, backend,
// mode, routing, precision and timing contract.
func (r *resolver) epBlock(p *catalog.Platform, s *catalog.Suite, b *catalog.EPBlock) {
	for _, degree := range slices.Sorted(slices.Values(b.Degrees)) {
		if !keeps(r.filters.EP, degree) || !keeps(r.filters.Worlds, degree) {
			continue
		}
		for _, phase := range ordered(vocab.Phases(), b.Phases) {
			if !keeps(r.filters.Phases, phase) {
				continue
			}
			for i := range r.cat.Backends {
				be := &r.cat.Backends[i]
				if slices.Contains(b.Backends, be.Name) && keeps(r.filters.Backends, be.Name) {
					r.epBackend(p, s, b, be, degree, phase)
				}
			}
		}
	}
}

// epBackend adds the cases of one backend, degree and phase. A backend that the
// platform does not list gives none; one that it lists without the degree gives
// one unsupported case, whatever the mode and precision filters say.
func (r *resolver) epBackend(p *catalog.Platform, s *catalog.Suite, b *catalog.EPBlock, be *catalog.Backend, degree int, phase string) {
	support := p.Support(be.Name)
	if support == nil || support.EP() == nil {
		return
	}
	c := r.common(p, s, be, degree)
	c.Family, c.Sampling, c.Contract = plan.FamilyEP, cmp.Or(b.Sampling, s.Sampling), b.Contracts[0]
	w := r.cat.Workload(b.Workload)
	shape := plan.EP{
		EPSize: degree, Workload: w.Name, Phase: phase,
		Hidden: w.Hidden, TopK: w.TopK, Experts: w.Experts, Seed: w.Seed,
		Ladder: words(b.Ladder(w, phase)), Timing: plan.EPTiming(*r.cat.SamplingProfile(c.Sampling).EP()),
	}
	if !slices.Contains(support.EP().Degrees(vocab.ModeNormal), degree) {
		r.unsupported(epCase(c, shape, be, vocab.ModeNormal, b.Routings[0], slices.Min(be.EP().Precisions)), "")
		return
	}
	for _, mode := range ordered(vocab.EPModes(), b.Modes) {
		if !keeps(r.filters.Modes, mode) || !slices.Contains(support.EP().Degrees(mode), degree) ||
			mode == vocab.ModeLowLatency && phase != vocab.PhaseDecode {
			continue
		}
		for _, routing := range b.Routings {
			for _, precision := range ordered(vocab.Precisions(), b.Precisions) {
				if !r.wantPrecision(be.EP(), precision) {
					continue
				}
				for _, c.Contract = range ordered(be.EP().Contracts, b.Contracts) {
					r.runnable(p, be, epCase(c, shape, be, mode, routing, precision), s.Repeats)
				}
			}
		}
	}
}

// wantPrecision: a precision off the backend's main path must be asked for by name.
func (r *resolver) wantPrecision(be *catalog.EPBackend, precision string) bool {
	if !slices.Contains(be.Precisions, precision) || !keeps(r.filters.Precisions, precision) {
		return false
	}
	return len(r.filters.Precisions) > 0 || !slices.Contains(be.OffPath, precision)
}

// epCase completes c and its block.
func epCase(c plan.Case, shape plan.EP, be *catalog.Backend, mode, routing, precision string) plan.Case {
	shape.Mode, shape.Routing = mode, routing
	if m := be.EP().Mode(mode); m != nil && m.MaxTokens > 0 {
		shape.LadderCap = &m.MaxTokens
	}
	c.Precision, c.Block = precision, &shape
	c.CaseID = c.ID()
	return c
}

// words writes a ladder as cases carry it.
func words(ns []int) string {
	out := make([]string, len(ns))
	for i, n := range ns {
		out[i] = strconv.Itoa(n)
	}
	return strings.Join(out, " ")
}
