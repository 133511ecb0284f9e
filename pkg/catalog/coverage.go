package catalog

import (
	"slices"

	"github.com/collectivex/collectivex/pkg/vocab"
)

// Coverage is one combination that a suite asks for and how it stands.
type Coverage struct {
	SKU     string
	Backend string
	Mode    string // of an EP backend; empty for collectives
	World   int    // EP degree or world size
	Runs    bool
	Reason  string // why not; empty where it runs
}

// Coverage lists every combination of platform, backend of its vendor, mode and
// degree that some suite asks for: by platform, then in the order of backends,
// modes and degrees. Of collective backends it lists the worlds that run.
func (c *Catalog) Coverage() []Coverage {
	var out []Coverage
	for i := range c.Platforms {
		p := &c.Platforms[i]
		for j := range c.Backends {
			out = append(out, c.epCoverage(p, &c.Backends[j])...)
		}
		for j := range c.Backends {
			b := &c.Backends[j]
			if sup := p.Support(b.Name); sup != nil {
				for _, w := range sup.Collective {
					out = append(out, Coverage{SKU: p.SKU, Backend: b.Name, World: w, Runs: true})
				}
			}
		}
	}
	return out
}

func (c *Catalog) epCoverage(p *Platform, b *Backend) []Coverage {
	if b.EP == nil || !slices.Contains(b.Vendors, p.Vendor) {
		return nil
	}
	var out []Coverage
	for _, mode := range vocab.EPModes() {
		if b.EP.Mode(mode) == nil {
			continue
		}
		for _, degree := range c.asked(p, b, mode) {
			row := Coverage{SKU: p.SKU, Backend: b.Name, Mode: mode, World: degree}
			sup := p.Support(b.Name)
			if sup != nil && slices.Contains(sup.Degrees(mode), degree) {
				row.Runs = true
			} else if r := b.EP.rule(p, mode, degree); r != nil {
				row.Reason = r.Reason
			}
			out = append(out, row)
		}
	}
	return out
}

// asked returns the degrees at which some suite asks for the backend's mode on
// the platform, ascending.
func (c *Catalog) asked(p *Platform, b *Backend, mode string) []int {
	var out []int
	for i := range c.Suites {
		s := &c.Suites[i]
		if !slices.Contains(s.Platforms, p.SKU) {
			continue
		}
		for j := range s.EP {
			if bl := &s.EP[j]; slices.Contains(bl.Backends, b.Name) && slices.Contains(bl.Modes, mode) {
				out = append(out, bl.Degrees...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// rule returns the first rule that covers the combination, or nil.
func (b *EPBackend) rule(p *Platform, mode string, degree int) *Rule {
	for i := range b.Unsupported {
		if r := &b.Unsupported[i]; r.covers(p, mode, degree) {
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

// checkRules refuses gaps without a reason, and reasons without a gap.
func (l *loader) checkRules() {
	used := map[*Rule]bool{}
	for i := range l.cat.Platforms {
		p := &l.cat.Platforms[i]
		for j := range l.cat.Backends {
			l.checkGaps(p, &l.cat.Backends[j], used)
		}
	}
	for i := range l.cat.Backends {
		if b := &l.cat.Backends[i]; b.EP != nil {
			for j := range b.EP.Unsupported {
				if r := &b.EP.Unsupported[j]; !used[r] {
					l.fault(l.pos[r], "no suite asks for anything that this rule is the first to cover")
				}
			}
		}
	}
}

// checkGaps finds the rule of each combination of one platform and backend that
// is asked for and does not run.
func (l *loader) checkGaps(p *Platform, b *Backend, used map[*Rule]bool) {
	for _, row := range l.cat.epCoverage(p, b) {
		if row.Runs {
			continue
		}
		if r := b.EP.rule(p, row.Mode, row.World); r != nil {
			used[r] = true
			continue
		}
		l.fault(l.pos[&p.Backends], "suites ask for %s %s at EP%d; list it here, or say in %s why it does not run",
			b.Name, row.Mode, row.World, backendsFile)
	}
}
