package result

// Arithmetic is the verdict of an untimed pass with inputs that the timed
// windows leave out: sums that are not exact, and values of IEEE 754 that are
// not ordinary numbers.
type Arithmetic struct {
	Passed bool `json:"passed"`
	// Accumulation is the accumulation as declared. For collectives it is the type
	// that every partial result may be rounded to, in any order; for expert-parallel
	// rows it is the combine reduction (domain-fp32, topk-slot-tree) or
	// weighted-kernel-sum, which name the order too.
	Accumulation string `json:"accumulation"`
	Checked      int64  `json:"checked_elements"` // summed over ranks
	Wrong        int64  `json:"wrong_elements"`
	// MaxError and Bound: for collectives they are of the element whose error is the
	// largest part of its bound, relative to the sum of the magnitudes of what was
	// added, or to the product; for expert-parallel rows they are units in the last
	// place of bf16. They are null where no element has a bound, or where the result
	// of one was not finite.
	MaxError *float64 `json:"max_error"`
	Bound    *float64 `json:"bound"`
	// Reasons name what was wrong, from the closed list.
	Reasons Reasons `json:"reasons,omitempty"`
}
