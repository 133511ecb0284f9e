package overlap

import (
	"strconv"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/schedule"
)

// Block is the block of an overlap case: matrix products and communication of one form, over a ladder of
// communication sizes. The case's precision is the element type of both.
//
// The matrices of form beside are square, with Hidden rows and columns. A linear layer multiplies X [t, h] by the
// transpose of W [4h/d, h], for d ranks and h = Hidden; the size is all of X and determines t.
type Block struct {
	Form string `json:"form" in:"overlap form"`
	// Op is the collective of form beside; a linear layer gathers (all_gather).
	Op string `json:"op" in:"op"`
	// RedOp is sum; empty if the collective does not reduce.
	RedOp string `json:"redop"`
	// Algorithm is the schedule whose steps perform the collective of form beside, with a shape as in schedule cases;
	// missing if the library performs it.
	Algorithm string `json:"algorithm,omitempty"`
	Width     int    `json:"width,omitempty"`
	Segments  int    `json:"segments,omitempty"`
	Hidden    int64  `json:"hidden"`
	// Products and Collectives are the number of each in a window of form beside; missing for linear layers, which have
	// one piece per rank.
	Products    int `json:"products,omitempty"`
	Collectives int `json:"collectives,omitempty"`
	// Sizes are bytes as nccl-tests counts them (its size column), ascending.
	Sizes []int64 `json:"sizes"`
	// Compute names what computes the products.
	Compute string `json:"compute" in:"compute"`
	Timing  Timing `json:"timing"`
}

// Timing is how often each contender of a row runs.
type Timing struct {
	Warmup     int `json:"warmup"` // untimed, before the first iteration
	Iterations int `json:"iterations"`
}

// Of returns the block of an overlap case, or nil for a case of another family.
func Of(c *plan.Case) *Block {
	b, _ := c.Block.(*Block)
	return b
}

// Factors implements plan.Block.
func (b *Block) Factors(c *plan.Case, to []string) []string {
	op, counts := "", ""
	if b.Form == Beside {
		op, counts = b.Communication(), strconv.Itoa(b.Products)+"x"+strconv.Itoa(b.Collectives)
	}
	return append(to, b.Form, op, c.Precision, b.RedOp, "h"+strconv.FormatInt(b.Hidden, 10), counts, b.Compute, "w"+strconv.Itoa(c.World))
}

// Communication names the collective of form beside, with its schedule if any: all_gather, or all_gather-rotation.
func (b *Block) Communication() string {
	if b.Algorithm == "" {
		return b.Op
	}
	return b.Op + "-" + schedule.Label(b.Algorithm, schedule.Shape{Width: b.Width, Segments: b.Segments})
}

// widening is the ratio of the width of a linear layer, over all ranks, to the width of its input.
const widening = 4

// Product is the shape of a matrix product: C [M, N] = A [M, K] times the transpose of B [N, K].
type Product struct{ M, N, K int64 }

// Product returns the shape of the products of a window at one size (for form beside each of them, for a linear layer the
// whole one), with elements of element bytes on world ranks. It returns false if the size does not divide into rows of
// the layer, the same number for each rank, or the layer into columns.
func (b *Block) Product(size, element int64, world int) (Product, bool) {
	d := int64(world)
	if b.Form == Beside {
		return Product{b.Hidden, b.Hidden, b.Hidden}, true
	}
	p := Product{size / (b.Hidden * element), widening * b.Hidden / d, b.Hidden}
	return p, p.M > 0 && size%(b.Hidden*element) == 0 && p.M%d == 0 && widening*b.Hidden%d == 0
}
