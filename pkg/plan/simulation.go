package plan

import (
	"strconv"

	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// FamilySimulation is the family of simulated schedules. Its cases need no ranks and no
// devices; World is the ranks of the program.
const FamilySimulation Family = vocab.FamilySimulation

// Simulation is the block of a simulation case: the time of one collective by the steps of a
// named schedule, as a model of a machine predicts it, over a ladder of sizes.
type Simulation struct {
	// Origin is simulated: no time of the case is measured.
	Origin    string `json:"origin" in:"simulated origin"`
	Op        string `json:"op"`        // the collective: all_reduce, all_gather, reduce_scatter
	Algorithm string `json:"algorithm"` // the name of the schedule; see Schedule
	// Width is the ranks in a row of a grid, a torus or a mesh, or in a node of a hierarchy;
	// missing where neither the schedule nor the topology depends on it.
	Width int `json:"width,omitempty"`
	// Segments is into how many pieces a tree pipelines each half of its vector; missing
	// where the schedule does not depend on it.
	Segments int             `json:"segments,omitempty"`
	Topology string          `json:"topology"` // of the links: full, switch, ring, torus, mesh, hosts
	Model    SimulationModel `json:"model"`
	Sizes    []int64         `json:"sizes"` // bytes of the whole vector, ascending
}

// SimulationModel is the costs of messages and sums, under a name.
type SimulationModel struct {
	Name string `json:"name"`
	simulate.Model
}

// Simulation returns the block of a simulation case, nil of any other.
func (c *Case) Simulation() *Simulation {
	b, _ := c.Block.(*Simulation)
	return b
}

// Factors implements Block.
func (b *Simulation) Factors(c *Case, to []string) []string {
	return append(to, b.Op, b.Label(), b.Links(), b.Model.Name, "w"+strconv.Itoa(c.World))
}

// Label names the schedule with what its program depends on, as Schedule.Label does. A width
// that the topology has too stands there.
func (b *Simulation) Label() string {
	s := Schedule{Algorithm: b.Algorithm, Width: b.Width, Segments: b.Segments}
	if simulate.HasRows(b.Topology) {
		s.Width = 0
	}
	return s.Label()
}

// Links names the topology with the width of its rows, as in torus-x3.
func (b *Simulation) Links() string {
	if !simulate.HasRows(b.Topology) {
		return b.Topology
	}
	return b.Topology + "-x" + strconv.Itoa(b.Width)
}
