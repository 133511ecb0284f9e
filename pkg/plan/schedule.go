package plan

import (
	"strconv"

	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// FamilySchedule is the family of collectives as explicit steps.
const FamilySchedule Family = vocab.FamilySchedule

// Schedule is the block of a schedule case: one collective by the steps of a named
// schedule or of a plan in a file, over a ladder of sizes. Ranks register no buffers.
type Schedule struct {
	Op string `json:"op"` // the collective: all_reduce, all_gather, reduce_scatter
	// Algorithm is the name of the schedule; 'cxrun schedule list' lists them. Of a plan it is
	// the name of the file.
	Algorithm string `json:"algorithm"`
	// PlanFile is the name of a file, without its directory, that has the steps as a plan of
	// MSCCL or MSCCL++, and PlanSHA256 the hexadecimal digest of its content, which travels to
	// the ranks beside the case. Both are missing where a name stands for the steps.
	PlanFile   string `json:"plan_file,omitempty"`
	PlanSHA256 string `json:"plan_sha256,omitempty"`
	// Width is the ranks in a row of a grid, or in a node of a hierarchy; missing where
	// the schedule does not depend on it.
	Width int `json:"width,omitempty"`
	// Segments is into how many pieces a tree pipelines each half of its vector; missing
	// where the schedule does not depend on it.
	Segments int `json:"segments,omitempty"`
	// RedOp is sum; empty where the collective does not reduce.
	RedOp string `json:"redop"`
	// Sizes are bytes as nccl-tests counts them (its size column), ascending.
	Sizes []int64 `json:"sizes"`
	// Placements: out_of_place, in_place.
	Placements []string `json:"placements"`
	// Modes are timing modes: pipelined, blocking, per_iteration. Each has its own fields.
	Modes []string `json:"modes"`
	// Buffers is cold, warm, shifted or fresh, as in collective cases.
	Buffers string           `json:"buffers" in:"buffers"`
	Measure CollectiveTiming `json:"measure"`
}

// Schedule returns the block of a schedule case, nil of any other.
func (c *Case) Schedule() *Schedule {
	b, _ := c.Block.(*Schedule)
	return b
}

// Factors implements Block.
func (b *Schedule) Factors(c *Case, to []string) []string {
	return append(to, b.Op, b.Label(), b.PlanSHA256[:min(8, len(b.PlanSHA256))], c.Precision, b.RedOp, "w"+strconv.Itoa(c.World), b.Buffers)
}

// Measured returns the block of the collective case that is measured in the same way.
func (b *Schedule) Measured() *Collective {
	return &Collective{
		Op: b.Op, RedOp: b.RedOp, Sizes: b.Sizes, Placements: b.Placements, Modes: b.Modes, Buffers: b.Buffers,
		Registration: vocab.Unregistered, Measure: b.Measure,
	}
}

// Label names the schedule with what its program depends on, as in torus_2d-x4.
func (b *Schedule) Label() string {
	return schedule.Label(b.Algorithm, schedule.Shape{Width: b.Width, Segments: b.Segments})
}
