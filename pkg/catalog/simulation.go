package catalog

import (
	"fmt"
	"reflect"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// SimulationFamily is schedules whose time a model predicts. It needs no sample counts.
var SimulationFamily = Family{
	Name:  vocab.FamilySimulation,
	Suite: &SimulationSuite{}, Backend: &SimulationBackend{}, Support: &SimulationSupport{},
}

// Simulation returns what the backend does of the simulation family, or nil.
func (b *Backend) Simulation() *SimulationBackend {
	return BlockOf[SimulationBackend](b.Blocks, vocab.FamilySimulation)
}

// Simulation returns what runs of the backend's simulations, or nil.
func (s *Support) Simulation() *SimulationSupport {
	return BlockOf[SimulationSupport](s.Blocks, vocab.FamilySimulation)
}

// SimulationSuite is what a suite asks of the simulation family.
type SimulationSuite []SimulationBlock

// SimulationBlock asks for the simulated time of the schedules of one collective: the product
// of its lists.
type SimulationBlock struct {
	Backends   []string `yaml:"backends" in:"backend"`
	Op         string   `yaml:"op" in:"op"`
	Algorithms []string `yaml:"algorithms"`
	Worlds     []int    `yaml:"worlds" min:"2"` // ranks of the program
	// Width is the ranks in a row of a grid, a torus or a mesh, or in a node of a hierarchy;
	// all unless said.
	Width int `yaml:"width,optional" min:"1"`
	// Segments is into how many pieces a tree pipelines each half of its vector.
	Segments   int      `yaml:"segments,optional" min:"1"`
	Topologies []string `yaml:"topologies"`
	// Models are the costs of messages and sums.
	Models []SimulationModel `yaml:"models"`
	Sizes  Sizes             `yaml:"sizes"` // of the whole vector
}

// SimulationModel is the costs of messages and sums: in a file, or here as in such a file.
// Measured times of messages are in files alone.
type SimulationModel struct {
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
func (m *SimulationModel) Costs() simulate.Model {
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

// ModelFile is a model that a file below the definitions has, in the form that 'cxrun bench
// p2p --model' writes and 'cxrun schedule simulate --model' reads.
type ModelFile struct{ simulate.Model }

// decode implements custom: the value is the file, below the definitions.
func (m *ModelFile) decode(d *decoder, n *yaml.Node, f field) {
	var file string
	if !d.scalar(n, reflect.ValueOf(&file).Elem(), f) {
		return
	}
	data, ok := d.content(n, "model", file, maxFile)
	if !ok {
		return
	}
	read, err := simulate.ReadModel(file, data)
	if err != nil {
		d.diagnose(d.at(n), "%v", err)
		return
	}
	if read.Origin != "" {
		d.word(d.at(n), read.Origin, publishedText)
	}
	m.Model = read
}

// SimulationBackend is what a backend does of the simulation family.
type SimulationBackend struct {
	Topologies []string `yaml:"topologies"`
}

// SimulationSupport is the maximum number of ranks of a program for which the platform's runners
// have memory. The memory grows with the square of the ranks.
type SimulationSupport struct {
	Ranks int `yaml:",value" min:"2"`
}

// Check implements BackendBlock.
func (b *SimulationBackend) Check(c *Checker, _ *Backend) {
	for i, name := range b.Topologies {
		if _, err := simulate.NewTopology(name, 1, 1); err != nil {
			c.Diagnose(&b.Topologies[i], "%v", err)
		}
	}
}

// Check implements SupportBlock: any number will do.
func (*SimulationSupport) Check(*Checker, *Platform, *Backend) {}

// Check implements SuiteBlock.
func (e *SimulationSuite) Check(c *Checker, _ *Suite) {
	for i := range *e {
		(*e)[i].check(c)
	}
}

func (b *SimulationBlock) check(c *Checker) {
	if b.Sizes.From > b.Sizes.To {
		c.Diagnose(&b.Sizes.From, "\"from\" must not be larger than \"to\"")
	}
	for i, name := range b.Algorithms {
		if _, err := schedule.Find(name, schedule.Collective(b.Op)); err != nil {
			c.Diagnose(&b.Algorithms[i], "%v", err)
		}
	}
	width := &b.Width
	if slices.ContainsFunc(b.Topologies, simulate.HasRows) {
		width = nil
	}
	unusedShape(c, b.Op, b.Algorithms, width, &b.Segments)
	has := Offering[SimulationBackend](c, vocab.FamilySimulation, b.Backends)
	Offered(c, "topology", b.Topologies, has, func(h *SimulationBackend) []string { return h.Topologies })
	for i := range b.Models {
		m := &b.Models[i]
		model := m.Costs()
		switch err := model.Check(); {
		case m.File != nil && !reflect.DeepEqual(*m, SimulationModel{Name: m.Name, File: m.File}):
			c.Diagnose(m, "model %q has costs beside its file: give one of them", m.Name)
		case err != nil:
			c.Diagnose(m, "model %q: %v", m.Name, err)
		case len(model.Pairs) > 0 && !slices.Equal(b.Topologies, []string{"full"}):
			c.Diagnose(m, "model %q has measured times between ranks, which need the topology full alone", m.Name)
		case slices.Contains(b.Topologies, "hosts"):
			if _, err := model.Machine(simulate.Hosts(1, 2)); err != nil {
				c.Diagnose(m, "model %q in topology hosts: %v", m.Name, err)
			}
		}
	}
}

// Worlds implements SuiteBlock.
func (e *SimulationSuite) Worlds(*Catalog, *Suite) []int {
	var out []int
	for i := range *e {
		out = append(out, (*e)[i].Worlds...)
	}
	return out
}

// Coverage implements BackendBlock: the worlds that suites ask of the platform.
func (*SimulationBackend) Coverage(c *Catalog, p *Platform, b *Backend) []Coverage {
	support := p.Support(b.Name)
	if support == nil || support.Simulation() == nil {
		return nil
	}
	var worlds []int
	for i := range c.Suites {
		suite, _ := c.Suites[i].Blocks[vocab.FamilySimulation].(*SimulationSuite)
		if suite != nil && slices.Contains(c.Suites[i].Platforms, p.SKU) {
			worlds = append(worlds, suite.Worlds(c, &c.Suites[i])...)
		}
	}
	slices.Sort(worlds)
	var out []Coverage
	for _, w := range slices.Compact(worlds) {
		at := Coverage{SKU: p.SKU, Backend: b.Name, Mode: "simulations", World: w, Runs: true}
		if at.Reason = support.Simulation().Lack(w); at.Reason != "" {
			at.Runs = false
		}
		out = append(out, at)
	}
	return out
}

// Lack returns why a program of so many ranks is not simulated, or an empty string.
func (s *SimulationSupport) Lack(ranks int) string {
	if ranks <= s.Ranks {
		return ""
	}
	return fmt.Sprintf("programs of at most %d ranks are simulated here", s.Ranks)
}

// Support implements BackendBlock: no GPU takes part.
func (*SimulationBackend) Support(string, []int) SupportBlock { return nil }
