package simulation

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/strictyaml"
)

// SuiteBlock requests the simulated times of schedules of one collective: every combination of its lists.
type SuiteBlock struct {
	Backends   []string `yaml:"backends" in:"backend"`
	Op         string   `yaml:"op" in:"op"`
	Algorithms []string `yaml:"algorithms"`
	Ranks      []int    `yaml:"worlds" min:"2"` // of the program
	// Width is the number of ranks in a row of a grid, a torus or a mesh, or in a node of a hierarchy; default: all.
	Width int `yaml:"width,optional" min:"1"`
	// Segments is the number of pieces into which a tree pipelines each half of its vector.
	Segments   int      `yaml:"segments,optional" min:"1"`
	Topologies []string `yaml:"topologies"`
	// Models are the costs of messages and sums.
	Models []SuiteModel  `yaml:"models"`
	Sizes  catalog.Sizes `yaml:"sizes"` // of the whole vector
}

// SuiteModel is the costs of messages and sums: in a file, or inline in the same format. Measured times of messages are supported
// only in files.
type SuiteModel struct {
	Name       string     `yaml:",name"`
	File       *ModelFile `yaml:"file,optional"`
	Origin     string     `yaml:"origin,optional" in:"published text"`
	Sharing    string     `yaml:"sharing,optional"`
	Engines    int        `yaml:"engines,optional" min:"0"`
	Latency    float64    `yaml:"latency_ns,optional"`
	PerByte    float64    `yaml:"ns_per_byte,optional"`
	Overhead   float64    `yaml:"overhead_ns,optional"`
	ReduceByte float64    `yaml:"reduce_ns_per_byte,optional"`
	Start      float64    `yaml:"start_ns,optional"`

	NetworkLatency float64 `yaml:"network_latency_ns,optional"`
	NetworkByte    float64 `yaml:"network_ns_per_byte,optional"`
	NetworkEngines int     `yaml:"network_engines,optional" min:"0"`

	Issue float64 `yaml:"issue_ns,optional"`

	MemorySetup float64 `yaml:"memory_setup_ns,optional"`
	MemoryByte  float64 `yaml:"memory_ns_per_byte,optional"`
}

// Costs returns the model without its name.
func (m *SuiteModel) Costs() simulate.Model {
	if m.File != nil {
		return m.File.Model
	}
	return simulate.Model{
		Origin: m.Origin, Sharing: m.Sharing, Engines: m.Engines,
		Latency: m.Latency, PerByte: m.PerByte, Overhead: m.Overhead, ReduceByte: m.ReduceByte, Start: m.Start,
		NetworkLatency: m.NetworkLatency, NetworkByte: m.NetworkByte, NetworkEngines: m.NetworkEngines, Issue: m.Issue,
		MemorySetup: m.MemorySetup, MemoryByte: m.MemoryByte,
	}
}

// ModelFile is a model in a file below the definitions, in the format that 'cxrun bench p2p --model' writes and 'cxrun schedule
// simulate --model' reads.
type ModelFile struct{ simulate.Model }

// Source implements strictyaml.InFile.
func (*ModelFile) Source() strictyaml.Source {
	return strictyaml.Source{What: "model", Limit: strictyaml.MaxFile}
}

// Parse implements strictyaml.InFile.
func (m *ModelFile) Parse(file string, data []byte) (published string, err error) {
	m.Model, err = simulate.ReadModel(file, data)
	return m.Origin, err
}

// Backend holds a backend's capabilities for the simulation family.
type Backend struct {
	Topologies []string `yaml:"topologies"`
}

// Support is the maximum number of ranks of a program that fits into the memory of the platform's runners. The memory grows with
// the square of the ranks.
type Support struct {
	Ranks int `yaml:",value" min:"2"`
}

// Check implements catalog.BackendBlock.
func (b *Backend) Check(c *catalog.Checker, _ *catalog.Backend) {
	for i, name := range b.Topologies {
		if _, err := simulate.NewTopology(name, 1, 1); err != nil {
			c.Diagnose(&b.Topologies[i], "%v", err)
		}
	}
}

// Check implements catalog.SuiteBlock.
func (b *SuiteBlock) Check(c *catalog.Checker, _ *catalog.Suite) {
	for i, name := range b.Algorithms {
		if _, err := schedule.Find(name, schedule.Collective(b.Op)); err != nil {
			c.Diagnose(&b.Algorithms[i], "%v", err)
		}
	}
	of := schedule.Collective(b.Op)
	if err := schedule.Unused(of, b.Algorithms, schedule.Shape{Width: b.Width}); err != nil && !slices.ContainsFunc(b.Topologies, simulate.HasRows) {
		c.Diagnose(&b.Width, "%v", err)
	}
	if err := schedule.Unused(of, b.Algorithms, schedule.Shape{Segments: b.Segments}); err != nil {
		c.Diagnose(&b.Segments, "%v", err)
	}
	has := catalog.Offering[Backend](c, string(Name), b.Backends)
	catalog.Offered(c, "topology", b.Topologies, has, func(h *Backend) []string { return h.Topologies })
	for i := range b.Models {
		m := &b.Models[i]
		model := m.Costs()
		switch err := model.Check(); {
		case m.File != nil && !reflect.DeepEqual(*m, SuiteModel{Name: m.Name, File: m.File}):
			c.Diagnose(m, "model %q has costs and a file: give only one of them", m.Name)
		case err != nil:
			c.Diagnose(m, "model %q: %v", m.Name, err)
		case len(model.Pairs) > 0 && !slices.Equal(b.Topologies, []string{"full"}):
			c.Diagnose(m, "model %q has measured times between ranks, which support only the topology full", m.Name)
		case slices.Contains(b.Topologies, "hosts"):
			if _, err := model.Machine(simulate.Hosts(1, 2)); err != nil {
				c.Diagnose(m, "model %q in topology hosts: %v", m.Name, err)
			}
		}
	}
}

// Worlds implements catalog.SuiteBlock.
func (b *SuiteBlock) Worlds(*catalog.Catalog, *catalog.Suite) []int { return b.Ranks }

// Coverage implements catalog.BackendBlock: the worlds that suites request of the platform.
func (*Backend) Coverage(c *catalog.Catalog, p *catalog.Platform, b *catalog.Backend) []catalog.Coverage {
	support := catalog.SupportOf[Support](p.Support(b.Name))
	if support == nil {
		return nil
	}
	var worlds []int
	for i := range c.Suites {
		if s := &c.Suites[i]; slices.Contains(s.Platforms, p.SKU) {
			for _, b := range s.Blocks[string(Name)] {
				worlds = append(worlds, b.Worlds(c, s)...)
			}
		}
	}
	slices.Sort(worlds)
	var out []catalog.Coverage
	for _, w := range slices.Compact(worlds) {
		at := catalog.Coverage{SKU: p.SKU, Backend: b.Name, Mode: "simulations", World: w, Runs: true}
		if at.Reason = support.Lack(w); at.Reason != "" {
			at.Runs = false
		}
		out = append(out, at)
	}
	return out
}

// Lack returns why a program with this many ranks is not simulated, or "".
func (s *Support) Lack(ranks int) string {
	if ranks <= s.Ranks {
		return ""
	}
	return fmt.Sprintf("programs of at most %d ranks are simulated here", s.Ranks)
}
