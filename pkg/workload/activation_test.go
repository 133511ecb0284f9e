package workload

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/numeric"
)

func activation(token uint32, seed uint64, hidden int) []float32 {
	row := make([]uint16, hidden)
	FillActivation(row, token, seed)
	values := make([]float32, hidden)
	for c, b := range row {
		values[c] = numeric.FromBF16(b)
	}
	return values
}

func TestActivationCheckValues(t *testing.T) {
	require.Equal(t, float32(-1.40625), activation(5, 67, 7168)[40])
	require.Equal(t, float32(0.265625), activation(3, 67, 7168)[7167])
	for _, token := range []uint32{0, 1, 5, 77, 1<<31 + 12345, math.MaxUint32} {
		for _, seed := range []uint64{0, 67, math.MaxUint64} {
			row := activation(token, seed, 300)
			for c := SourceColumns; c < len(row); c++ {
				seedPart := 19 * int64(seed%257)
				want := float64((131*int64(token)+17*int64(c)+seedPart)%257-128) / 64
				require.Equal(t, want, float64(row[c]), "token %d column %d", token, c)
			}
		}
	}
}

func TestSourceToken(t *testing.T) {
	row := make([]uint16, 64)
	for _, token := range []uint32{0, 1, 5, 1<<31 + 12345, math.MaxUint32} {
		for _, codec := range []*numeric.FP8{nil, numeric.E4M3FN, numeric.E4M3FNUZ} {
			FillActivation(row, token, 67)
			if codec != nil {
				for c, b := range row {
					row[c] = numeric.BF16(codec.Decode(codec.Encode(numeric.FromBF16(b))))
				}
			}
			got, err := SourceToken(row)
			require.NoError(t, err)
			require.Equal(t, token, got)
		}
	}
	for _, bad := range []float32{0, 0.2490234375, -0.2490234375, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		FillActivation(row, 5, 67)
		row[31] = numeric.BF16(bad)
		_, err := SourceToken(row)
		require.ErrorContains(t, err, "column 31")
	}
	FillActivation(row, 5, 67)
	row[31] = numeric.BF16(-0.25)
	got, err := SourceToken(row)
	require.NoError(t, err)
	require.Equal(t, uint32(5), got)
}

func TestExpertCheckValues(t *testing.T) {
	require.Equal(t, Affine{Scale: 0.1875, A: -0.171875, B: -0.0703125}, Expert(0))
	require.Equal(t, Affine{Scale: 0.875, A: -0.125, B: -0.140625}, Expert(180))
	require.Equal(t, float32(-1), ExpertPattern(0))
	require.Equal(t, float32(0.625), ExpertPattern(1))
	require.Equal(t, float32(0.25), ExpertPattern(40))
}
