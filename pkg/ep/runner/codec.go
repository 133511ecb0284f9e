package runner

import "github.com/collectivex/collectivex/pkg/numeric"

// BlockColumns is the number of columns that share a scale in a block codec.
const BlockColumns = 128

// MinBlockMax keeps the scale of a block of zeros away from zero.
const MinBlockMax = 1e-4

// Codec is the encoding of dispatched rows: none (bf16), a plain cast to fp8, or a cast with one
// float32 scale for each block of 128 columns. The zero Codec is bf16.
type Codec struct {
	Format *numeric.FP8 // nil: bf16
	Block  bool
}

// ValueBytes returns the size of one transmitted value.
func (c Codec) ValueBytes() int {
	if c.Format == nil {
		return 2
	}
	return 1
}

// Scales returns the number of scales of a row.
func (c Codec) Scales(hidden int) int {
	if !c.Block {
		return 0
	}
	return (hidden + BlockColumns - 1) / BlockColumns
}

// Encode casts a bf16 row to codes and scales. In a block codec amax is the
// largest magnitude of the block, at least 1e-4; a value is multiplied by
// max/amax and cast, and the scale is amax/max, all in float32.
func (c Codec) Encode(codes []byte, scales []float32, row []uint16) {
	if !c.Block {
		for i, b := range row {
			codes[i] = c.Format.Encode(numeric.FromBF16(b))
		}
		return
	}
	for at := 0; at < len(row); at += BlockColumns {
		block := row[at:min(at+BlockColumns, len(row))]
		amax := float32(MinBlockMax)
		for _, b := range block {
			amax = max(amax, numeric.FromBF16(b&0x7fff))
		}
		factor := c.Format.Max / amax
		for i, b := range block {
			codes[at+i] = c.Format.Encode(numeric.FromBF16(b) * factor)
		}
		scales[at/BlockColumns] = amax / c.Format.Max
	}
}

// Decode turns codes and scales back into a bf16 row: code·scale, rounded.
func (c Codec) Decode(row []uint16, codes []byte, scales []float32) {
	scale := float32(1)
	for i, code := range codes {
		if c.Block && i%BlockColumns == 0 {
			scale = scales[i/BlockColumns]
		}
		row[i] = numeric.BF16(c.Format.Decode(code) * scale)
	}
}

// roundTrip encodes and decodes a row.
func (c Codec) roundTrip(row []uint16) {
	if c.Format == nil {
		return
	}
	codes, scales := make([]byte, len(row)), make([]float32, c.Scales(len(row)))
	c.Encode(codes, scales, row)
	c.Decode(row, codes, scales)
}
