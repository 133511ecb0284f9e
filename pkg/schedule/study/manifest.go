// Package study simulates the cases of a manifest and renders them: rows as NDJSON and CSV,
// and figures from the rows alone. Equal manifests give equal bytes.
package study

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
)

// Manifest says what a study consists of.
type Manifest struct {
	Title        string           `yaml:"title"`
	ElementBytes int64            `yaml:"element_bytes"`
	Elements     []int64          `yaml:"elements"` // of the whole vector
	Models       map[string]Model `yaml:"models"`
	Cases        []Case           `yaml:"cases"`
	References   []Reference      `yaml:"references"`
	Figures      []Figure         `yaml:"figures"`
}

// Model is a model of the manifest, or the name of a file that has it.
type Model struct {
	simulate.Model `yaml:",inline"`
	File           string `yaml:"file"`
}

// Case is a schedule on a topology, simulated with each of its models at each size. A series
// is a case with a model, and has the name "CASE MODEL".
type Case struct {
	Name       string   `yaml:"name"`
	Collective string   `yaml:"collective"`
	Algorithm  string   `yaml:"algorithm"`
	Ranks      int      `yaml:"ranks"`
	Width      int      `yaml:"width"`    // as simulate.NewTopology and schedule.Shape take it; 0 is all ranks
	Segments   int      `yaml:"segments"` // as schedule.Shape takes it
	Topology   string   `yaml:"topology"`
	Models     []string `yaml:"models"`
}

// Reference is a published series, in nanoseconds by bytes.
type Reference struct {
	Name   string            `yaml:"name"`
	Source string            `yaml:"source"`
	Date   string            `yaml:"date"`
	Points map[int64]float64 `yaml:"points"`
}

// Figure draws series and references over bytes.
type Figure struct {
	Name   string   `yaml:"name"` // of its file, without .svg
	Title  string   `yaml:"title"`
	Series []string `yaml:"series"`
}

// Read reads a manifest. read returns the content of a file that it names. An error begins
// with the name of the manifest.
func Read(name string, data []byte, read func(file string) ([]byte, error)) (*Manifest, error) {
	var m Manifest
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("%s: %s", name, strings.Join(strings.Fields(err.Error()), " "))
	}
	err := m.readModels(read)
	if err == nil {
		err = m.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &m, nil
}

// readModels reads the models that are in files.
func (m *Manifest) readModels(read func(file string) ([]byte, error)) error {
	for _, name := range slices.Sorted(maps.Keys(m.Models)) {
		model := m.Models[name]
		if model.File == "" {
			continue
		}
		if !reflect.DeepEqual(model, Model{File: model.File}) {
			return fmt.Errorf("model %q: has a file and constants: leave out one of them", name)
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

// check returns the first thing that is wrong with the manifest.
func (m *Manifest) check() error {
	if m.Title == "" || m.ElementBytes < 1 || len(m.Elements) == 0 || len(m.Cases) == 0 {
		return errors.New("needs a title, element_bytes, elements and cases")
	}
	for i, n := range m.Elements {
		if n < 1 || i > 0 && n <= m.Elements[i-1] {
			return fmt.Errorf("elements: %d: list numbers from 1 on, in ascending order", n)
		}
	}
	series := map[string]bool{}
	add := func(name string) error {
		if name == "" || series[name] {
			return fmt.Errorf("series %q: give each case and reference a name of its own", name)
		}
		series[name] = true
		return nil
	}
	for i := range m.Cases {
		c := &m.Cases[i]
		if _, err := c.program(); err != nil {
			return fmt.Errorf("case %q: %w", c.Name, err)
		}
		if len(c.Models) == 0 {
			return fmt.Errorf("case %q: name at least one model", c.Name)
		}
		for _, name := range c.Models {
			model, ok := m.Models[name]
			if !ok {
				return fmt.Errorf("case %q: unknown model %q, must be one of %s", c.Name, name, strings.Join(slices.Sorted(maps.Keys(m.Models)), ", "))
			}
			if _, err := c.machine(model); err != nil {
				return fmt.Errorf("case %q: %w", c.Name, err)
			}
			if err := add(c.Name + " " + name); err != nil {
				return err
			}
		}
	}
	for i := range m.References {
		r := &m.References[i]
		if r.Source == "" || r.Date == "" || len(r.Points) == 0 {
			return fmt.Errorf("reference %q: needs a source, a date and points", r.Name)
		}
		for bytes, ns := range r.Points {
			if bytes < 1 || !(ns > 0) {
				return fmt.Errorf("reference %q: point %d: %v: must be above 0", r.Name, bytes, ns)
			}
		}
		if err := add(r.Name); err != nil {
			return err
		}
	}
	names := map[string]bool{}
	for _, f := range m.Figures {
		if f.Name == "" || names[f.Name] || strings.ContainsAny(f.Name, `/\.`) || len(f.Series) == 0 {
			return fmt.Errorf("figure %q: needs a name of its own without / \\ or . and series", f.Name)
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

// program generates the program of a case.
func (c *Case) program() (*schedule.Program, error) {
	a, err := schedule.Find(c.Algorithm, schedule.Collective(c.Collective))
	if err != nil {
		return nil, err
	}
	s := schedule.Shape{Ranks: c.Ranks, Width: c.Width, Segments: max(1, c.Segments)}
	if s.Width == 0 {
		s.Width = c.Ranks
	}
	return a.Generate(s)
}

// machine is the topology of a case with the constants of a model.
func (c *Case) machine(m Model) (simulate.Machine, error) {
	t, err := simulate.NewTopology(c.Topology, c.Ranks, c.Width)
	if err != nil {
		return simulate.Machine{}, err
	}
	return m.Machine(t)
}
