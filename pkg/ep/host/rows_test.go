package host

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/numeric"
)

// everyRow are rows with every bf16 value, and with ordinary ones, of lengths
// around those of vectors and blocks.
func everyRow() (rows [][]uint16) {
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	rows = append(rows, all)
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 7, 64, 127, 128, 129, 300, 7168} {
		row := make([]uint16, n)
		for i := range row {
			row[i] = numeric.BF16(float32(r.NormFloat64()) * float32(math.Exp2(float64(r.IntN(20)-10))))
		}
		rows = append(rows, row)
	}
	return append(rows, make([]uint16, 256))
}

// The compiled quantiser is bit-identical to its plain form.
func TestCompiledCodec(t *testing.T) {
	for _, codec := range []runner.Codec{{Format: numeric.E4M3FN}, {Format: numeric.E4M3FN, Block: true}} {
		for _, row := range everyRow() {
			if codec.Block && len(row) == 1<<16 {
				row = finiteOnly(row) // no kernel defines the scale of a block with a NaN
			}
			n := len(row)
			wantCodes, gotCodes := make([]byte, n), make([]byte, n)
			wantScales, gotScales := make([]float32, codec.Scales(n)), make([]float32, codec.Scales(n))
			codec.Encode(wantCodes, wantScales, row)
			encodeRow(codec, gotCodes, gotScales, row)
			require.Equal(t, wantCodes, gotCodes)
			require.Equal(t, wantScales, gotScales)

			for i := range gotCodes { // every code too, NaN and negative zero among them
				gotCodes[i] = byte(i)
			}
			want, got := make([]uint16, n), make([]uint16, n)
			codec.Decode(want, gotCodes, gotScales)
			decodeRow(codec, got, gotCodes, gotScales)
			require.Equal(t, want, got)
		}
	}
}

func finiteOnly(row []uint16) (finite []uint16) {
	for _, b := range row {
		if b&0x7f80 != 0x7f80 {
			finite = append(finite, b)
		}
	}
	return finite
}

func TestCompiledSums(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, row := range everyRow() {
		row = finiteOnly(row)
		n := len(row)
		start, part := make([]float32, n), make([]float32, n)
		for i := range start {
			start[i], part[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
		}
		w := float32(r.Float64())
		sum := func(f func(sum []float32), want func(i int) float32) {
			t.Helper()
			got := append([]float32(nil), start...)
			f(got)
			for i, v := range got {
				if math.Float32bits(v) != math.Float32bits(want(i)) {
					require.Equal(t, want(i), v, "column %d of %d", i, n)
				}
			}
		}
		round := func(v float32) float32 { return numeric.FromBF16(numeric.BF16(v)) }
		sum(func(s []float32) { addRow(s, row) }, func(i int) float32 { return start[i] + numeric.FromBF16(row[i]) })
		sum(func(s []float32) { addWeightedRow(s, row, w) }, func(i int) float32 { return start[i] + float32(numeric.FromBF16(row[i])*w) })
		sum(func(s []float32) { addRoundedRow(s, part) }, func(i int) float32 { return round(start[i] + part[i]) })
		sum(func(s []float32) { flushRow(s, append([]float32(nil), part...)) }, func(i int) float32 { return start[i] + round(part[i]) })
		flushed := append([]float32(nil), part...)
		flushRow(append([]float32(nil), start...), flushed)
		require.Equal(t, make([]float32, n), flushed)
		got := make([]uint16, n)
		roundRow(got, part)
		for i, v := range part {
			require.Equal(t, numeric.BF16(v), got[i])
		}
	}
}
