package study

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/strictyaml"
)

// checker reports mistakes in a manifest. The maps have the names of the series, cases and overlaps checked so
// far.
type checker struct {
	*Manifest
	*strictyaml.Decoder
	series, cases, overlaps map[string]bool
}

// wrong reports a diagnostic. at is the address of a value in the manifest, whose position the diagnostic has.
func (c *checker) wrong(at any, format string, args ...any) { c.Diagnose(c.Pos(at), format, args...) }

// add records the name of a series, or reports it at an address as a duplicate.
func (c *checker) add(at any, series string) {
	if c.series[series] {
		c.wrong(at, "series %q is a duplicate: give each case, overlap and reference a different name", series)
	}
	c.series[series] = true
}

// check checks the whole manifest. It calls read for the content of each file that a model names.
func (c *checker) check(read func(file string) ([]byte, error)) {
	if len(c.Cases)+len(c.Overlaps) == 0 {
		c.wrong(c.Manifest, "the study needs cases or overlaps")
	}
	if len(c.Cases) > 0 && (c.ElementBytes == 0 || len(c.Elements) == 0) {
		c.wrong(c.Manifest, "cases need element_bytes and elements")
	}
	c.ascending(c.Elements)
	for name, model := range c.Models {
		c.fileName(model, "model", name)
		c.model(name, model, read)
	}
	for i := range c.Manifest.Cases {
		c.oneCase(&c.Manifest.Cases[i])
	}
	for i := range c.Manifest.Overlaps {
		c.overlap(&c.Manifest.Overlaps[i])
	}
	for i := range c.References {
		r := &c.References[i]
		for bytes := range r.Points {
			if bytes < 1 {
				c.wrong(&r.Points, "reference %q: a point of %d bytes: must be at least 1", r.Name, bytes)
			}
		}
		c.add(r, r.Name)
	}
	for i := range c.Figures {
		c.figure(&c.Figures[i], c.Figures[:i])
	}
}

// ascending reports numbers that are not in ascending order.
func (c *checker) ascending(list []int64) {
	for i := range list {
		if i > 0 && list[i] <= list[i-1] {
			c.wrong(&list[i], "%d: list numbers in ascending order", list[i])
		}
	}
}

// fileName reports a name that is invalid as the name of a file without extension. what is the kind of name.
func (c *checker) fileName(at any, what, name string) {
	if strings.ContainsAny(name, `/\.`) {
		c.wrong(at, "%s %q: the name must not contain dots and slashes", what, name)
	}
}

// model checks a model, after reading it if it is in a file.
func (c *checker) model(name string, m *Model, read func(file string) ([]byte, error)) {
	given := !reflect.DeepEqual(m.Model, simulate.Model{})
	var err error
	switch {
	case m.File != "" && (m.Measure != nil || given), m.Measure != nil && given:
		c.wrong(m, "model %q: give only one of a file, a measurement and constants", name)
	case m.File != "":
		var data []byte
		if data, err = read(m.File); err == nil {
			m.Model, err = simulate.ReadModel(m.File, data)
		}
	case m.Measure == nil:
		err = m.Check()
	}
	if err != nil {
		c.wrong(m, "model %q: %v", name, err)
	}
}

// oneCase checks a case with each of its models.
func (c *checker) oneCase(of *Case) {
	c.cases[of.Name] = true
	if _, err := of.program(); err != nil {
		c.wrong(of, "case %q: %v", of.Name, err)
	}
	if len(of.Models) == 0 && of.Backend == "" {
		c.wrong(of, "case %q: name at least one model or a backend", of.Name)
	}
	if of.Backend != "" {
		if c.ElementBytes != measuredBytes {
			c.wrong(of, "case %q is measured with elements of %d bytes, but element_bytes is %d: change it, or leave the backend out", of.Name, measuredBytes, c.ElementBytes)
		}
		c.add(of, of.Name+" on "+of.Backend)
	}
	for _, name := range of.Models {
		model, ok := c.Models[name]
		if !ok {
			c.wrong(of, "case %q: unknown model %q, must be one of %s", of.Name, name, listed(c.Models))
			continue
		}
		if p := model.Measure; p != nil && p.Ranks != of.Ranks {
			c.wrong(of, "case %q has %d ranks, but its model %q is measured with %d: give both the same number", of.Name, of.Ranks, name, p.Ranks)
		}
		if p := model.Measure; p != nil && of.Backend != "" && p.Buffers != of.Buffers {
			c.wrong(of, "case %q is measured with %s buffers, but its model %q with %s buffers: give both the same", of.Name, of.Buffers, name, p.Buffers)
		}
		if _, err := of.machine(model); err != nil {
			c.wrong(of, "case %q: %v", of.Name, err)
		}
		c.add(of, of.Name+" "+name)
	}
}

// overlap checks an overlap.
func (c *checker) overlap(o *Overlap) {
	c.overlaps[o.Name] = true
	c.ascending(o.Bytes)
	for _, contender := range overlap.Contenders(o.Form) {
		c.add(o, o.series(contender))
	}
}

// figure checks a figure. others are the figures before it.
func (c *checker) figure(f *Figure, others []Figure) {
	c.fileName(f, "figure", f.Name)
	if slices.ContainsFunc(others, func(other Figure) bool { return other.Name == f.Name }) {
		c.wrong(f, "figure %q: duplicate name", f.Name)
	}
	drawn := 0
	for _, of := range []struct {
		what  string
		names []string
		all   map[string]bool
	}{{"series", f.Series, c.series}, {"case", []string{f.Topology}, c.cases}, {"overlap", []string{f.Overlap}, c.overlaps}} {
		names := slices.DeleteFunc(slices.Clone(of.names), func(name string) bool { return name == "" })
		drawn += min(1, len(names))
		for _, name := range names {
			if !of.all[name] {
				c.wrong(f, "figure %q: unknown %s %q, must be one of %s", f.Name, of.what, name, listed(of.all))
			}
		}
	}
	if drawn != 1 {
		c.wrong(f, "figure %q: give exactly one of series, the topology of a case, and an overlap", f.Name)
	}
}

// listed returns the keys of a map, sorted and separated by commas.
func listed[V any](all map[string]V) string { return strings.Join(slices.Sorted(maps.Keys(all)), ", ") }
