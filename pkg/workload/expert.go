package workload

// Affine is the transform that an expert applies to a row x, column by column: y(c) =
// x·Scale + A + B·ExpertPattern(c). It differs between experts, so that a wrong route gives
// a wrong result.
type Affine struct {
	Scale, A, B float32
}

// Expert returns the transform of a global expert id. All its coefficients are exact in
// float32.
func Expert(id int32) Affine {
	e := int(id)
	return Affine{
		Scale: float32((17*e+5)%31+1) / 32,
		A:     float32((29*e+7)%37-18) / 64,
		B:     float32((43*e+11)%41-20) / 128,
	}
}

// ExpertPattern returns the column pattern p(c) that all experts share.
func ExpertPattern(c int) float32 { return float32(13*c%17-8) / 8 }
