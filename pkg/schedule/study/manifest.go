// Package study simulates and measures the cases of a manifest and renders them: rows as NDJSON
// and CSV, and figures from the rows alone. Equal manifests and measurements give equal bytes.
package study

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/collectivex/collectivex/pkg/overlap"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/schedule/strictyaml"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Manifest says what a study consists of.
type Manifest struct {
	Title        string           `yaml:"title"`
	ElementBytes int64            `yaml:"element_bytes"`
	Elements     []int64          `yaml:"elements"` // of the whole vector
	Models       map[string]Model `yaml:"models"`
	Cases        []Case           `yaml:"cases"`
	Overlaps     []Overlap        `yaml:"overlaps"`
	References   []Reference      `yaml:"references"`
	Figures      []Figure         `yaml:"figures"`
}

// Model is a model of the manifest, or the name of a file that has it, or how it is measured.
type Model struct {
	simulate.Model `yaml:",inline"`
	File           string `yaml:"file"`
	Measure        *Pairs `yaml:"measure"`
}

// Pairs is a measurement of messages between any two ranks: of sizes from First bytes on, each
// twice the one before, up to Last.
type Pairs struct {
	Backend string `yaml:"backend"`
	Ranks   int    `yaml:"ranks"`
	First   int64  `yaml:"first_bytes"`
	Last    int64  `yaml:"last_bytes"`
	Buffers string `yaml:"buffers"` // as of a Case
}

// Sizes lists the sizes in bytes, ascending.
func (p *Pairs) Sizes() (sizes []int64) {
	for n := p.First; n <= p.Last; n *= 2 {
		sizes = append(sizes, n)
	}
	return sizes
}

// Head is the first line of the file of a model that was measured so, a comment.
func (p *Pairs) Head() string {
	return fmt.Sprintf("# measured: {backend: %s, ranks: %d, first_bytes: %d, last_bytes: %d, buffers: %s}\n", p.Backend, p.Ranks, p.First, p.Last, p.Buffers)
}

// most limits the sizes and ranks of a manifest to what no machine exceeds.
const (
	mostBytes = 1 << 40
	mostRanks = 1024
)

// Times of references are those that whole picoseconds can hold.
const (
	leastNanoseconds = 0.001
	mostNanoseconds  = 1e12
)

func (p *Pairs) check() error {
	if p.Backend == "" || p.Ranks < 2 || p.Ranks > mostRanks || min(p.First, p.Last) < 1 || max(p.First, p.Last) > mostBytes {
		return fmt.Errorf("measure: needs a backend, from 2 to %d ranks, and first_bytes and last_bytes from 1 to 2⁴⁰", mostRanks)
	}
	if p.First > p.Last {
		return fmt.Errorf("measure: first_bytes %d is above last_bytes %d: give the smaller size first", p.First, p.Last)
	}
	return checkBuffers(p.Buffers)
}

func checkBuffers(state string) error {
	if !vocab.InputWritten(state) {
		return fmt.Errorf("buffers %q, must be %s or %s", state, vocab.Fresh, vocab.FreshCold)
	}
	return nil
}

// Case is a schedule on a topology, simulated with each of its models at each size. A series
// of a case with a model has the name "CASE MODEL".
type Case struct {
	Name       string   `yaml:"name"`
	Collective string   `yaml:"collective"`
	Algorithm  string   `yaml:"algorithm"`
	Ranks      int      `yaml:"ranks"`
	Width      int      `yaml:"width"`    // as simulate.NewTopology and schedule.Shape.WithDefaults take it
	Segments   int      `yaml:"segments"` // as schedule.Shape.WithDefaults takes it
	Topology   string   `yaml:"topology"`
	Models     []string `yaml:"models"`
	// Backend, if it is given, measures the case, too. The series has the name "CASE on BACKEND".
	Backend string `yaml:"backend"`
	// Buffers is the state of the buffers that are measured: vocab.Fresh, which is the default, or
	// vocab.FreshCold.
	Buffers string `yaml:"buffers"`
}

// Reference is a published series, in nanoseconds by bytes.
type Reference struct {
	Name   string            `yaml:"name"`
	Source string            `yaml:"source"`
	Date   string            `yaml:"date"` // of its publication: YYYY, YYYY-MM or YYYY-MM-DD
	Points map[int64]float64 `yaml:"points"`
}

// Figure draws series and references over bytes, the topology of a case, or the bars of an
// overlap.
type Figure struct {
	Name     string   `yaml:"name"` // of its file, without .svg
	Title    string   `yaml:"title"`
	Series   []string `yaml:"series"`
	Topology string   `yaml:"topology"` // the name of a case
	Overlap  string   `yaml:"overlap"`
}

// Read reads a manifest. read returns the content of a file that it names. An error begins
// with the name of the manifest and, unless it is of the whole of it, the line.
func Read(name string, data []byte, read func(file string) ([]byte, error)) (*Manifest, error) {
	var m Manifest
	if err := strictyaml.Decode(data, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m.setDefaults()
	var at place
	err := m.readModels(read, &at)
	if err == nil {
		err = m.check(&at)
	}
	if err != nil {
		if line := strictyaml.Line(data, at...); line > 0 {
			err = fmt.Errorf("line %d: %w", line, err)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &m, nil
}

// place is the path to the part of a manifest that is being checked, as strictyaml.Line takes it.
type place []any

func (m *Manifest) setDefaults() {
	for _, model := range m.Models {
		if p := model.Measure; p != nil {
			p.Buffers = cmp.Or(p.Buffers, vocab.Fresh)
		}
	}
	for i := range m.Cases {
		m.Cases[i].Buffers = cmp.Or(m.Cases[i].Buffers, vocab.Fresh)
	}
}

// readModels reads the models that are in files. An error is of the part at.
func (m *Manifest) readModels(read func(file string) ([]byte, error), at *place) error {
	for _, name := range slices.Sorted(maps.Keys(m.Models)) {
		*at = place{"models", name}
		model := m.Models[name]
		if model.File == "" && model.Measure == nil {
			if err := model.Check(); err != nil {
				return fmt.Errorf("model %q: %w", name, err)
			}
			continue
		}
		if model.File != "" && model.Measure != nil || !reflect.DeepEqual(model.Model, simulate.Model{}) {
			return fmt.Errorf("model %q: give one of a file, a measurement and constants", name)
		}
		if model.Measure != nil {
			if err := model.Measure.check(); err != nil {
				return fmt.Errorf("model %q: %w", name, err)
			}
			continue
		}
		data, err := read(model.File)
		if err == nil {
			model.Model, err = simulate.ReadModel(model.File, data)
		}
		if err != nil {
			return fmt.Errorf("model %q: %w", name, err)
		}
		m.Models[name] = model
	}
	return nil
}

// Measured lists the models that are measured, by name.
func (m *Manifest) Measured() map[string]Pairs {
	measured := map[string]Pairs{}
	for name, model := range m.Models {
		if model.Measure != nil {
			measured[name] = *model.Measure
		}
	}
	return measured
}

// SetModel sets what a model that is measured has come to.
func (m *Manifest) SetModel(name string, to simulate.Model) {
	model := m.Models[name]
	model.Model = to
	m.Models[name] = model
}

// ModelFile is the file of a study with a model that was measured.
func ModelFile(model string) string { return model + ".model.yaml" }

// MeasuredModel returns the content of that file.
func (m *Manifest) MeasuredModel(name string) ([]byte, error) {
	model := m.Models[name]
	b := bytes.NewBufferString(model.Measure.Head())
	err := model.Write(b)
	return b.Bytes(), err
}

// check returns the first thing that is wrong with the manifest, in the part at.
func (m *Manifest) check(at *place) error {
	*at = nil
	if m.Title == "" || len(m.Cases)+len(m.Overlaps) == 0 {
		return errors.New("needs a title, and cases or overlaps")
	}
	if len(m.Cases) > 0 && (m.ElementBytes < 1 || len(m.Elements) == 0) {
		return errors.New("cases need element_bytes and elements")
	}
	for i, n := range m.Elements {
		*at = place{"elements", i}
		if n < 1 || i > 0 && n <= m.Elements[i-1] {
			return fmt.Errorf("elements: %d: list numbers from 1 on, in ascending order", n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Models)) {
		*at = place{"models", name}
		if err := fileName("model", name); err != nil {
			return err
		}
	}
	series, cases := map[string]bool{}, map[string]bool{}
	add := func(name string) error {
		if name == "" || series[name] {
			return fmt.Errorf("series %q: give each case, overlap and reference a name of its own", name)
		}
		series[name] = true
		return nil
	}
	for i := range m.Cases {
		c := &m.Cases[i]
		*at = place{"cases", i}
		if _, err := c.program(); err != nil {
			return fmt.Errorf("case %q: %w", c.Name, err)
		}
		if len(c.Models) == 0 && c.Backend == "" {
			return fmt.Errorf("case %q: name at least one model or a backend", c.Name)
		}
		if err := checkBuffers(c.Buffers); err != nil {
			return fmt.Errorf("case %q: %w", c.Name, err)
		}
		if cases[c.Name] = true; c.Backend != "" {
			if m.ElementBytes != measuredBytes {
				return fmt.Errorf("case %q: is measured with elements of %d bytes, and element_bytes is %d: change it, or leave the backend out", c.Name, measuredBytes, m.ElementBytes)
			}
			if err := add(c.Name + " on " + c.Backend); err != nil {
				return err
			}
		}
		for _, name := range c.Models {
			model, ok := m.Models[name]
			if !ok {
				return fmt.Errorf("case %q: unknown model %q, must be one of %s", c.Name, name, strings.Join(slices.Sorted(maps.Keys(m.Models)), ", "))
			}
			if p := model.Measure; p != nil && p.Ranks != c.Ranks {
				return fmt.Errorf("case %q: has %d ranks, and its model %q is measured with %d: give both the same", c.Name, c.Ranks, name, p.Ranks)
			}
			if p := model.Measure; p != nil && c.Backend != "" && p.Buffers != c.Buffers {
				return fmt.Errorf("case %q: is measured with %s buffers, and its model %q with %s ones: give both the same", c.Name, c.Buffers, name, p.Buffers)
			}
			if _, err := c.machine(model); err != nil {
				return fmt.Errorf("case %q: %w", c.Name, err)
			}
			if err := add(c.Name + " " + name); err != nil {
				return err
			}
		}
	}
	overlaps := map[string]bool{}
	for i := range m.Overlaps {
		o := &m.Overlaps[i]
		*at = place{"overlaps", i}
		if err := o.check(); err != nil {
			return fmt.Errorf("overlap %q: %w", o.Name, err)
		}
		overlaps[o.Name] = true
		for _, contender := range overlap.Contenders(o.Form) {
			if err := add(o.series(contender)); err != nil {
				return err
			}
		}
	}
	for i := range m.References {
		r := &m.References[i]
		*at = place{"references", i}
		if strings.TrimSpace(r.Source) == "" || r.Date == "" || len(r.Points) == 0 {
			return fmt.Errorf("reference %q: needs a source, a date and points", r.Name)
		}
		if strings.ContainsFunc(r.Source, unicode.IsControl) {
			return fmt.Errorf("reference %q: source %q: name it in one line", r.Name, r.Source)
		}
		if !isDate(r.Date) {
			return fmt.Errorf("reference %q: date %q: write when it was published as YYYY, YYYY-MM or YYYY-MM-DD, such as 2026-03", r.Name, r.Date)
		}
		for bytes, ns := range r.Points {
			if bytes < 1 || !(ns >= leastNanoseconds) || ns > mostNanoseconds {
				return fmt.Errorf("reference %q: point %d: %v: must be at least 1 byte, and a time from %v to %.0e ns", r.Name, bytes, ns, leastNanoseconds, mostNanoseconds)
			}
		}
		if err := add(r.Name); err != nil {
			return err
		}
	}
	names := map[string]bool{}
	for i, f := range m.Figures {
		*at = place{"figures", i}
		if err := fileName("figure", f.Name); err != nil || names[f.Name] {
			return cmp.Or(err, fmt.Errorf("figure %q: duplicate name", f.Name))
		}
		drawn := 0
		for _, what := range []bool{len(f.Series) > 0, f.Topology != "", f.Overlap != ""} {
			if what {
				drawn++
			}
		}
		if drawn != 1 {
			return fmt.Errorf("figure %q: needs one of series, the topology of a case, and an overlap", f.Name)
		}
		for _, of := range []struct {
			what, name string
			all        map[string]bool
		}{{"case", f.Topology, cases}, {"overlap", f.Overlap, overlaps}} {
			if of.name != "" && !of.all[of.name] {
				return fmt.Errorf("figure %q: unknown %s %q, must be one of %s", f.Name, of.what, of.name, strings.Join(slices.Sorted(maps.Keys(of.all)), ", "))
			}
		}
		names[f.Name] = true
		for _, name := range f.Series {
			if !series[name] {
				return fmt.Errorf("figure %q: unknown series %q, must be one of %s", f.Name, name, strings.Join(slices.Sorted(maps.Keys(series)), ", "))
			}
		}
	}
	return nil
}

// isDate reports whether a text is a year, or a month or a day of one, as ISO 8601 writes them.
func isDate(text string) bool {
	return slices.ContainsFunc([]string{"2006", "2006-01", time.DateOnly}, func(layout string) bool {
		_, err := time.Parse(layout, text)
		return err == nil
	})
}

// fileName returns an error if no file can have the name.
func fileName(what, name string) error {
	if name == "" || strings.ContainsAny(name, `/\.`) {
		return fmt.Errorf("%s %q: needs a name without dots and slashes", what, name)
	}
	return nil
}

// measuredBytes is the size of the elements of measured cases, which are floats.
const measuredBytes = 4

// program generates the program of a case.
func (c *Case) program() (*schedule.Program, error) {
	s := schedule.Shape{Ranks: c.Ranks, Width: c.Width, Segments: c.Segments}
	given := s
	if simulate.HasRows(c.Topology) {
		given.Width = 0
	}
	if err := schedule.Unused(schedule.Collective(c.Collective), []string{c.Algorithm}, given); err != nil {
		return nil, err
	}
	return schedule.Generate(c.Algorithm, schedule.Collective(c.Collective), s.WithDefaults())
}

// machine is the topology of a case with the constants of a model.
func (c *Case) machine(m Model) (simulate.Machine, error) {
	t, err := simulate.NewTopology(c.Topology, c.Ranks, c.Width)
	if err != nil {
		return simulate.Machine{}, err
	}
	return m.Machine(t)
}
