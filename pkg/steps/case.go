package steps

import (
	"strconv"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Block is the block of a schedule case: one collective by the steps of a named schedule or of a plan in a file, over a
// ladder of sizes. Ranks register no buffers.
type Block struct {
	Op string `json:"op"` // the collective: all_reduce, all_gather, reduce_scatter; of plans also alltoall
	// Algorithm is the name of the schedule ('cxrun schedule list' lists them) or, for a plan, of the file.
	Algorithm string `json:"algorithm"`
	// PlanFile is the name of a file, without its directory, with the steps as a plan of MSCCL or MSCCL++, and PlanSHA256 the
	// hexadecimal digest of its content, which is sent to the ranks with the case. Both are missing for named schedules.
	PlanFile   string `json:"plan_file,omitempty"`
	PlanSHA256 string `json:"plan_sha256,omitempty"`
	// Width is the number of ranks in a row of a grid, or in a node of a hierarchy; missing if the schedule does not depend on
	// it.
	Width int `json:"width,omitempty"`
	// Segments is the number of pieces into which a tree pipelines each half of its vector; missing if the schedule does not
	// depend on it.
	Segments int `json:"segments,omitempty"`
	// RedOp is sum; empty if the collective does not reduce.
	RedOp string `json:"redop"`
	// Sizes are bytes as nccl-tests counts them (its size column), ascending.
	Sizes []int64 `json:"sizes"`
	// Placements: out_of_place, in_place.
	Placements []string `json:"placements"`
	// Modes are timing modes: pipelined, blocking, per_iteration. Each has its own fields.
	Modes []string `json:"modes"`
	// Buffers is cold, warm, shifted or fresh, as in collective cases.
	Buffers string            `json:"buffers" in:"buffers"`
	Measure collective.Counts `json:"measure"`
}

// Of returns the block of a schedule case, or nil for a case of another family.
func Of(c *plan.Case) *Block {
	b, _ := c.Block.(*Block)
	return b
}

// Factors implements plan.Block.
func (b *Block) Factors(c *plan.Case, to []string) []string {
	to = append(to, b.Op, b.Label(), b.PlanSHA256[:min(8, len(b.PlanSHA256))], c.Precision, b.RedOp, "w"+strconv.Itoa(c.World), b.Buffers)
	return append(to, b.Measured().How()...)
}

// Measured returns the block of the collective case that is measured in the same manner.
func (b *Block) Measured() *collective.Block {
	return &collective.Block{
		Op: b.Op, RedOp: b.RedOp, Sizes: b.Sizes, Placements: b.Placements, Modes: b.Modes, Buffers: b.Buffers,
		Registration: vocab.Unregistered, Measure: b.Measure,
	}
}

// Spec names the schedule.
func (b *Block) Spec() *schedule.Spec {
	return &schedule.Spec{Op: b.Op, Algorithm: b.Algorithm, Width: b.Width, Segments: b.Segments}
}

// Label returns the name of the schedule and the shape on which its program depends, as in torus_2d-x4.
func (b *Block) Label() string { return b.Spec().Label() }

// shape returns the shape of the program on a world of ranks.
func (b *Block) shape(world int) schedule.Shape {
	return schedule.Shape{Ranks: world, Width: b.Width, Segments: b.Segments}
}
