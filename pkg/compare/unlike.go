package compare

import (
	"maps"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/result"
)

// passedCases returns the cases that runs passed, under any key.
func passedCases(runs []*run) map[string]bool {
	ids := map[string]bool{}
	for _, r := range runs {
		ids[r.id] = ids[r.id] || r.success
	}
	return ids
}

// unmeasured returns a case that one of the sides never passed under this key. passed are the cases that NEW passed.
func unmeasured(key string, a, b []*run, passed map[string]bool) Case {
	c := caseOf(b[0])
	c.Key = key
	switch {
	case anySuccess(a) && passed[b[0].id]:
		c.Status, c.Why = NotMeasured, "both sides passed it, NEW under another key; NEW: "+b[0].why
	case anySuccess(a):
		c.Status, c.Lost, c.Why = NotMeasured, true, "OLD passed it; NEW: "+b[0].why
	case anySuccess(b):
		c.Status, c.Why = New, "OLD: "+a[0].why
	default:
		c.Status, c.Why = NotMeasured, "neither side passed it; NEW: "+b[0].why
	}
	return c
}

func caseOf(r *run) Case {
	return Case{CaseID: r.id, Key: r.key, SKU: r.c.SKU, Suite: r.c.Suite}
}

// half is a case under a key that one side lacks.
type half struct {
	runs []*run
	used bool
}

// loneCases returns a case for each key that one side lacks. If that side has the same case under another key,
// it names the factors that differ; otherwise the case is new or gone. A failed run may have another key than a
// successful one, as it lacks what ranks report: a case that NEW has under any key and passed under none is lost.
func loneCases(lone, olds map[string][]*run, news []*run, passed map[string]bool) []Case {
	runs := map[string][]*run{} // of NEW, by case
	for _, r := range news {
		runs[r.id] = append(runs[r.id], r)
	}
	lost := func(h *half) bool {
		id := h.runs[0].id
		return anySuccess(h.runs) && !passed[id] && len(runs[id]) > 0
	}
	var was, is []*half
	for _, success := range []bool{true, false} { // successes pair first
		for _, key := range slices.Sorted(maps.Keys(lone)) {
			h := &half{runs: lone[key]}
			switch {
			case anySuccess(h.runs) != success:
			case len(olds[key]) > 0:
				was = append(was, h)
			default:
				is = append(is, h)
			}
		}
	}
	var out []Case
	for i, like := range []func(*run) string{
		func(r *run) string { return r.id },
		func(r *run) string { c := r.c; c.Repeat, c.SKU = 1, ""; return c.ID() },
		func(r *run) string { c := r.c; c.Repeat, c.SKU, c.Backend = 1, "", ""; return c.ID() },
	} {
		for _, a := range was {
			for _, b := range is {
				if a.used || b.used || like(a.runs[0]) != like(b.runs[0]) || i > 0 && lost(a) {
					continue
				}
				a.used, b.used = true, true
				c := caseOf(b.runs[0])
				c.Status, c.Key = Incomparable, ""
				if i == 0 && (!anySuccess(a.runs) || lost(a)) {
					c = unmeasured("", a.runs, b.runs, passed)
				}
				c.Differs = factors(a.runs[0], b.runs[0])
				out = append(out, c)
			}
		}
	}
	for _, group := range []struct {
		halves []*half
		status string
	}{{was, Gone}, {is, New}} {
		for _, h := range group.halves {
			if h.used {
				continue
			}
			c := caseOf(h.runs[0])
			c.Status = group.status
			if !anySuccess(h.runs) {
				c.Status, c.Why = NotMeasured, h.runs[0].why
			} else if group.status == Gone && lost(h) {
				c = unmeasured("", h.runs, runs[h.runs[0].id], passed)
			}
			out = append(out, c)
		}
	}
	return out
}

// factors returns the factors of the comparison key that differ between two cases.
func factors(a, b *run) []Difference {
	x, errX := result.ComparisonFactors(a.c, a.env)
	y, errY := result.ComparisonFactors(b.c, b.env)
	if errX != nil || errY != nil {
		return nil
	}
	var out []Difference
	for _, name := range keysOf(x, y) {
		if x[name] != y[name] {
			out = append(out, Difference{name, one(x[name]), one(y[name])})
		}
	}
	return out
}

func one(s string) []string {
	if s == "" {
		return []string{}
	}
	return []string{strings.Trim(s, `"`)}
}

// unlike returns the factors outside the key that differ between the sides, or disturbed both.
func unlike(a, b []*run) []Difference {
	collect := func(runs []*run) map[string]map[string]bool {
		m := map[string]map[string]bool{}
		for _, r := range runs {
			for name, value := range r.beside {
				if m[name] == nil {
					m[name] = map[string]bool{}
				}
				if value != "" {
					m[name][value] = true
				}
			}
		}
		return m
	}
	x, y := collect(a), collect(b)
	out := []Difference{}
	for _, name := range keysOf(x, y) {
		if name == neighbours || !maps.Equal(x[name], y[name]) {
			out = append(out, Difference{name, sorted(x[name]), sorted(y[name])})
		}
	}
	return out
}

func sorted(set map[string]bool) []string {
	return append([]string{}, slices.Sorted(maps.Keys(set))...)
}
