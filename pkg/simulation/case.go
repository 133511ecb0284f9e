package simulation

import (
	"strconv"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Block is the block of a simulation case: the time of one collective by the steps of a named schedule, predicted by a model of a
// machine, over a ladder of sizes.
type Block struct {
	// Origin is simulated: no time of the case is measured.
	Origin    string `json:"origin" in:"simulated origin"`
	Op        string `json:"op"`        // the collective: all_reduce, all_gather, reduce_scatter
	Algorithm string `json:"algorithm"` // the name of the schedule; see Schedule
	// Width is the number of ranks in a row of a grid, a torus or a mesh, or in a node of a hierarchy; missing if neither the schedule
	// nor the topology depends on it.
	Width int `json:"width,omitempty"`
	// Segments is the number of pieces into which a tree pipelines each half of its vector; missing if the schedule does not depend on
	// it.
	Segments int     `json:"segments,omitempty"`
	Topology string  `json:"topology"` // of the links: full, switch, ring, torus, mesh, hosts
	Model    Model   `json:"model"`
	Sizes    []int64 `json:"sizes"` // bytes of the whole vector, ascending
}

// Model is the named costs of messages and sums.
type Model struct {
	Name string `json:"name"`
	simulate.Model
}

// Of returns the block of a simulation case, or nil for a case of another family.
func Of(c *plan.Case) *Block {
	b, _ := c.Block.(*Block)
	return b
}

// Factors implements plan.Block.
func (b *Block) Factors(c *plan.Case, to []string) []string {
	return append(to, b.Op, b.Label(), b.Links(), b.Model.Name, "w"+strconv.Itoa(c.World))
}

// Label returns the schedule's label, as schedule.Label does, without a width that the topology has too.
func (b *Block) Label() string {
	s := schedule.Shape{Width: b.Width, Segments: b.Segments}
	if simulate.HasRows(b.Topology) {
		s.Width = 0
	}
	return schedule.Label(b.Algorithm, s)
}

// Links returns the topology with the width of its rows, as in torus-x3.
func (b *Block) Links() string {
	if !simulate.HasRows(b.Topology) {
		return b.Topology
	}
	return b.Topology + "-x" + strconv.Itoa(b.Width)
}

// Simulated is the origin of a time computed from a model: nothing was measured.
const Simulated = "simulated"

// Symbolic is the verification of a program by following its data through its steps, without computing elements.
const Symbolic = "symbolic"

func init() {
	vocab.Register("simulated origin", Simulated)
	vocab.Register("verification", Symbolic)
}
