// Package study simulates and measures the cases of a manifest and renders them: rows as NDJSON
// and CSV, and figures that depend only on the rows. Equal manifests and measurements give equal bytes.
package study

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/strictyaml"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Manifest is the definition of a study.
type Manifest struct {
	Title        string            `yaml:"title"`
	ElementBytes int64             `yaml:"element_bytes,optional" min:"1"`
	Elements     []int64           `yaml:"elements,optional" min:"1"` // of the whole vector
	Models       map[string]*Model `yaml:"models,optional"`
	Cases        []Case            `yaml:"cases,optional"`
	Overlaps     []Overlap         `yaml:"overlaps,optional"`
	References   []Reference       `yaml:"references,optional"`
	Figures      []Figure          `yaml:"figures,optional"`
}

// Model is a model of a machine, given by its constants, by a file, or by a measurement.
type Model struct {
	simulate.Model `yaml:",inline"`
	File           string `yaml:"file,optional"`
	Measure        *Pairs `yaml:"measure,optional"`
}

// Pairs is a measurement of messages between any two ranks. The sizes double from First bytes on, up to
// Last.
type Pairs struct {
	Backend string `yaml:"backend"`
	Ranks   int    `yaml:"ranks" min:"2" max:"1024"`
	First   int64  `yaml:"first_bytes" min:"1"`
	Last    int64  `yaml:"last_bytes" max:"1099511627776"`
	Buffers string `yaml:"buffers" default:"fresh"` // as Case.Buffers
}

// CheckYAML implements strictyaml.Checked.
func (p *Pairs) CheckYAML() (at any, why string) {
	if p.First > p.Last {
		return &p.First, fmt.Sprintf("first_bytes %d is above last_bytes %d: give the smaller size first", p.First, p.Last)
	}
	return &p.Buffers, refuseBuffers(p.Buffers)
}

// refuseBuffers returns why a state of buffers is not supported, or "".
func refuseBuffers(state string) string {
	if !vocab.InputWritten(state) {
		return fmt.Sprintf("buffers %q, must be %s or %s", state, vocab.Fresh, vocab.FreshCold)
	}
	return ""
}

// Sizes returns the sizes in bytes, in ascending order.
func (p *Pairs) Sizes() (sizes []int64) {
	for n := p.First; n <= p.Last; n *= 2 {
		sizes = append(sizes, n)
	}
	return sizes
}

// Head returns the first line of the file of a model measured this way. It is a YAML comment.
func (p *Pairs) Head() string {
	return fmt.Sprintf("# measured: {backend: %s, ranks: %d, first_bytes: %d, last_bytes: %d, buffers: %s}\n", p.Backend, p.Ranks, p.First, p.Last, p.Buffers)
}

// Case is a schedule on a topology, simulated with each of its models at each size. The series of a case with
// a model is named "CASE MODEL".
type Case struct {
	Name       string   `yaml:"name"`
	Collective string   `yaml:"collective"`
	Algorithm  string   `yaml:"algorithm"`
	Ranks      int      `yaml:"ranks"`
	Width      int      `yaml:"width,optional"`    // see simulate.NewTopology and schedule.Shape.WithDefaults
	Segments   int      `yaml:"segments,optional"` // see schedule.Shape.WithDefaults
	Topology   string   `yaml:"topology"`
	Models     []string `yaml:"models,optional"`
	// Backend, if set, is the backend on which the case is measured as well. That series is named "CASE on
	// BACKEND".
	Backend string `yaml:"backend,optional"`
	// Buffers is the state of the buffers before each measured call: vocab.Fresh or vocab.FreshCold.
	Buffers string `yaml:"buffers" default:"fresh"`
}

// CheckYAML implements strictyaml.Checked.
func (c *Case) CheckYAML() (at any, why string) { return &c.Buffers, refuseBuffers(c.Buffers) }

// Reference is a published series. Points maps bytes to nanoseconds.
type Reference struct {
	Name   string            `yaml:"name"`
	Source string            `yaml:"source"`
	Date   Date              `yaml:"date"`                          // of its publication
	Points map[int64]float64 `yaml:"points" min:"0.001" max:"1e12"` // the range of times in whole picoseconds
}

// CheckYAML implements strictyaml.Checked.
func (r *Reference) CheckYAML() (at any, why string) {
	if strings.ContainsFunc(r.Source, unicode.IsControl) {
		return &r.Source, fmt.Sprintf("source %q: name it in one line", r.Source)
	}
	return &r.Date, ""
}

// Date is a year, month or day in ISO 8601 form: YYYY, YYYY-MM or YYYY-MM-DD.
type Date string

// DecodeYAML implements strictyaml.Custom.
func (d *Date) DecodeYAML(n strictyaml.Node) {
	if !slices.ContainsFunc([]string{"2006", "2006-01", time.DateOnly}, func(layout string) bool {
		_, err := time.Parse(layout, n.Value)
		return err == nil
	}) {
		n.MustBe("YYYY, YYYY-MM or YYYY-MM-DD, such as 2026-03")
	}
	*d = Date(n.Value)
}

// Figure is one of three drawings: series over bytes, the topology of a case, or the bars of an overlap.
type Figure struct {
	Name     string   `yaml:"name"` // the name of its file without .svg
	Title    string   `yaml:"title,optional"`
	Series   []string `yaml:"series,optional"`
	Topology string   `yaml:"topology,optional"` // the name of a case
	Overlap  string   `yaml:"overlap,optional"`
}

// Read parses and checks a manifest. It calls read for the content of each file that the manifest names. The
// error describes the first mistake, with its position in the manifest.
func Read(name string, data []byte, read func(file string) ([]byte, error)) (*Manifest, error) {
	var m Manifest
	c := checker{&m, strictyaml.New(), map[string]bool{}, map[string]bool{}, map[string]bool{}}
	if c.Read(name, data, &m) {
		c.check(read)
	}
	if err := c.First(); err != nil {
		return nil, err
	}
	return &m, nil
}

// Measured returns the measurements of the measured models, by the names of the models.
func (m *Manifest) Measured() map[string]Pairs {
	measured := map[string]Pairs{}
	for name, model := range m.Models {
		if model.Measure != nil {
			measured[name] = *model.Measure
		}
	}
	return measured
}

// SetModel sets the result of a measured model.
func (m *Manifest) SetModel(name string, to simulate.Model) { m.Models[name].Model = to }

// ModelFile returns the name of the file of a measured model.
func ModelFile(model string) string { return model + ".model.yaml" }

// MeasuredModel returns the content of a measured model's file; see ModelFile.
func (m *Manifest) MeasuredModel(name string) ([]byte, error) {
	model := m.Models[name]
	b := bytes.NewBufferString(model.Measure.Head())
	err := model.Write(b)
	return b.Bytes(), err
}

// measuredBytes is the size of the elements of measured cases, which are of type float.
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

// machine returns the machine of a case with a model.
func (c *Case) machine(m *Model) (simulate.Machine, error) {
	t, err := simulate.NewTopology(c.Topology, c.Ranks, c.Width)
	if err != nil {
		return simulate.Machine{}, err
	}
	return m.Machine(t)
}
