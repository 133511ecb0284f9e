package workload

import (
	"fmt"
	"math"

	"github.com/collectivex/collectivex/pkg/numeric"
)

// SourceColumns is the number of columns of an activation row that encode the source token.
const SourceColumns = 32

// minSourceMagnitude is the minimum magnitude of a column whose sign is read as a bit of
// the source token.
const minSourceMagnitude = 0.25

// activationValues are the values of an activation in bf16, which represents them exactly.
var activationValues = func() (v [257]uint16) {
	for i := range v {
		v[i] = numeric.BF16(float32(i-128) / 64)
	}
	return v
}()

// FillActivation writes the activation row of a token in bf16. Column c is (((131·token +
// 17·c + 19·seed) mod 257) − 128) / 64. The first 32 columns are instead +1 where that bit
// of token is set and −1 where it is not, so that a receiver can read the source token from
// the signs, even after a cast to fp8.
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

// SourceToken returns the source token of a received row in bf16. It is an error if any of
// the first 32 columns is not finite or has a magnitude below 0.25.
func SourceToken(row []uint16) (uint32, error) {
	var token uint32
	for c, b := range row[:SourceColumns] {
		v := float64(numeric.FromBF16(b))
		if math.IsNaN(v) || math.IsInf(v, 0) || math.Abs(v) < minSourceMagnitude {
			return 0, fmt.Errorf("column %d of a received row is %v, which encodes no source token", c, v)
		}
		if v >= 0 {
			token |= 1 << c
		}
	}
	return token, nil
}
