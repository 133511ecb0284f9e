package workload

import (
	"math"

	"github.com/collectivex/collectivex/pkg/numeric"
)

// maxScaleExponent bounds the powers of two that scale blocks.
const maxScaleExponent = 6

// SplitMix returns the n-th output of the SplitMix64 generator that begins with
// key. It is the source of data without a period.
func SplitMix(key, n uint64) uint64 {
	x := key + (n+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// FillScaled writes another activation row of a token in bf16: like
// FillActivation it tells the token in its first 32 columns, but no value of it
// has a period. Each block of columns is scaled by a power of two of its own,
// 2^-6 … 2^6, and holds the same largest magnitude, 2 before scaling, in a column
// of its own: the scale of a block codec therefore varies by powers of two alone.
// Where a block carries source columns its power is 2^0 … 2^6, so that these stay
// the smaller ones.
func FillScaled(row []uint16, token uint32, seed uint64, block int) {
	key := SplitMix(seed, uint64(token))
	for at := 0; at < len(row); at += block {
		end := min(at+block, len(row))
		h := SplitMix(key, uint64(at))
		exponent := int(h%(2*maxScaleExponent+1)) - maxScaleExponent
		if at < SourceColumns {
			exponent = max(exponent, -exponent)
		}
		scale := float32(math.Ldexp(1.0/64, exponent))
		first := max(at, min(SourceColumns, end))
		for c := first; c < end; c++ {
			row[c] = numeric.BF16(float32(int(SplitMix(^key, uint64(c))%255)-127) * scale)
		}
		if first < end {
			largest := first + int(h>>32)%(end-first)
			sign := float32(1 - 2*int(h>>31&1))
			row[largest] = numeric.BF16(sign * 128 * scale)
		}
	}
	fillSource(row, token)
}
