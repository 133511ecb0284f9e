package overlap

import (
	"strconv"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/schedule"
)

// Block is the block of an overlap case: matrix products and communication of one form, over
// a ladder of sizes of the communication. Element types of both are the case's precision.
//
// The matrices of form beside are square, of Hidden rows and columns. A linear layer
// multiplies X [t, h] by the transpose of W [4h/d, h], for d ranks and h = Hidden: t follows
// from the size, which is all of X.
type Block struct {
	Form string `json:"form" in:"overlap form"`
	// Op is the collective of form beside; a linear layer gathers (all_gather).
	Op string `json:"op" in:"op"`
	// RedOp is sum; empty where the collective does not reduce.
	RedOp string `json:"redop"`
	// Algorithm is the schedule whose steps do the collective of form beside, of a shape as in
	// schedule cases; missing where the library does it.
	Algorithm string `json:"algorithm,omitempty"`
	Width     int    `json:"width,omitempty"`
	Segments  int    `json:"segments,omitempty"`
	Hidden    int64  `json:"hidden"`
	// Products and Collectives are how many of each a window of form beside has; missing in
	// linear layers, whose pieces are their ranks'.
	Products    int `json:"products,omitempty"`
	Collectives int `json:"collectives,omitempty"`
	// Sizes are bytes as nccl-tests counts them (its size column), ascending.
	Sizes []int64 `json:"sizes"`
	// Compute is what computes the products.
	Compute string `json:"compute" in:"compute"`
	Timing  Timing `json:"timing"`
}

// Timing is how often each contender of a row runs.
type Timing struct {
	Warmup     int `json:"warmup"` // untimed, before the first iteration
	Iterations int `json:"iterations"`
}

// Of returns the block of an overlap case, nil of any other.
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

// Communication names the collective of form beside, with the schedule that does it: all_gather,
// or all_gather-rotation.
func (b *Block) Communication() string {
	if b.Algorithm == "" {
		return b.Op
	}
	return b.Op + "-" + schedule.Label(b.Algorithm, schedule.Shape{Width: b.Width, Segments: b.Segments})
}

// widening is how many times as wide as its input a linear layer is on all ranks together.
const widening = 4

// Product is the shape of a matrix product: C [M, N] = A [M, K] times the transpose of B [N, K].
type Product struct{ M, N, K int64 }

// Product returns the shape of the products of a window at one size: of form beside each of
// them, of a linear layer the whole one, with elements of so many bytes on a world of ranks.
// It is false if the size does not divide into rows of the layer, the same number for each
// rank, or the layer into columns.
func (b *Block) Product(size, element int64, world int) (Product, bool) {
	d := int64(world)
	if b.Form == Beside {
		return Product{b.Hidden, b.Hidden, b.Hidden}, true
	}
	p := Product{size / (b.Hidden * element), widening * b.Hidden / d, b.Hidden}
	return p, p.M > 0 && size%(b.Hidden*element) == 0 && p.M%d == 0 && widening*b.Hidden%d == 0
}
