package result

// Arithmetic is the verdict of an untimed pass with inputs that the timed windows do not use: sums that are
// not exact, and values of IEEE 754 that are not ordinary numbers.
type Arithmetic struct {
	Passed bool `json:"passed"`
	// Accumulation is the declared accumulation. For collectives it is the type to which every partial result
	// may be rounded, in any order; for expert-parallel rows it is the combine reduction (domain-fp32,
	// topk-slot-tree) or weighted-kernel-sum, which determine the order too.
	Accumulation string `json:"accumulation"`
	Checked      int64  `json:"checked_elements"` // summed over ranks
	Wrong        int64  `json:"wrong_elements"`
	// MaxError and Bound: for collectives, the values of the element with the largest ratio of error to bound,
	// relative to the sum of the magnitudes of the terms, or to the product; for expert-parallel rows, units
	// in the last place of bf16. They are null if no element has a bound, or if the result of one was not
	// finite.
	MaxError *float64 `json:"max_error"`
	Bound    *float64 `json:"bound"`
	// Reasons name the failures, from the closed list.
	Reasons Reasons `json:"reasons,omitempty"`
}
