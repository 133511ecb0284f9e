package workload

import (
	"math"

	"github.com/collectivex/collectivex/pkg/numeric"
)

// maxScaleExponent limits the powers of two by which blocks are scaled.
const maxScaleExponent = 6

// SplitMix returns output n of the SplitMix64 generator with this key. It is used where
// data must not repeat.
func SplitMix(key, n uint64) uint64 {
	x := key + (n+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// FillScaled writes the other activation row of a token in bf16. As in FillActivation, the
// first 32 columns encode the token, but the values do not repeat. Each block of columns is
// scaled by its own power of two, 2^-6 to 2^6, and has the same largest magnitude, 2 before
// scaling, in a column of its own. The scale of a block codec therefore varies only by
// powers of two. A block with source columns has a power of 2^0 to 2^6, so that these stay
// smaller than its largest magnitude.
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
