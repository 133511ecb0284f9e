package workload

import (
	"fmt"
	"math"

	"github.com/collectivex/collectivex/pkg/numeric"
)

// SourceColumns is how many columns of an activation row carry the source id.
const SourceColumns = 32

// minSourceMagnitude is what a sign must have to be read as a bit of the id.
const minSourceMagnitude = 0.25

// activationValues are the values an activation takes, in bf16, which holds
// them exactly.
var activationValues = func() (v [257]uint16) {
	for i := range v {
		v[i] = numeric.BF16(float32(i-128) / 64)
	}
	return v
}()

// FillActivation writes the activation row of a token in bf16. Column c holds
// (((131·token + 17·c + 19·seed) mod 257) − 128) / 64; the first 32 columns
// instead hold +1 where that bit of token is set and −1 where not, so that a
// receiver reads the source from the signs, also after a cast to fp8.
func FillActivation(row []uint16, token uint32, seed uint64) {
	fillSource(row, token)
	at := (131*uint64(token) + 19*(seed%257) + 17*SourceColumns) % 257
	for c := SourceColumns; c < len(row); c++ {
		row[c] = activationValues[at]
		if at += 17; at >= 257 {
			at -= 257
		}
	}
}

// fillSource writes the bits of token into the first 32 columns.
func fillSource(row []uint16, token uint32) {
	one, minusOne := numeric.BF16(1), numeric.BF16(-1)
	for c := range min(SourceColumns, len(row)) {
		row[c] = minusOne
		if token>>c&1 == 1 {
			row[c] = one
		}
	}
}

// SourceToken reads the source id back from a received row in bf16. It refuses
// a row whose first columns are not all finite and of magnitude 0.25 at least.
func SourceToken(row []uint16) (uint32, error) {
	var token uint32
	for c, b := range row[:SourceColumns] {
		v := float64(numeric.FromBF16(b))
		if math.IsNaN(v) || math.IsInf(v, 0) || math.Abs(v) < minSourceMagnitude {
			return 0, fmt.Errorf("column %d of a received row is %v and tells no source", c, v)
		}
		if v >= 0 {
			token |= 1 << c
		}
	}
	return token, nil
}
