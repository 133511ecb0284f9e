package runner

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/numeric"
)

// No row of one side of an alternating pass passes for the same row of the other:
// an operation that leaves a single row as it was is found.
func TestSidesDifferInEveryRow(t *testing.T) {
	const hidden = 1024
	trace := deepseek(t, 8, 16)
	other := activations{67, true}
	for layout, d := range layouts {
		for _, codec := range []Codec{{}, {Format: numeric.E4M3FN}, {Format: numeric.E4M3FN, Block: true}} {
			d.Codec = codec
			of := newArithmetic(d, trace, contract, hidden, 8)
			changed := of.of(trace.RotateWeights(), other)
			row, changedRow := make([]uint16, hidden), make([]uint16, hidden)
			asReceived := of.asReceived()
			for token := range trace.Tokens() {
				of.source(row, token)
				changed.source(changedRow, token)
				require.False(t, slices.Equal(row, changedRow), "%s, token %d", layout, token)

				want := of.combined(token, asReceived)
				for _, stale := range [][]float32{
					changed.combined(token, changed.asReceived()), of.combined(token, of.messages(transformed)),
				} {
					worst, back := 0.0, 0.0
					for c := range want {
						worst = worse(worst, numeric.BF16(stale[c]), want[c])
						back = worse(back, numeric.BF16(want[c]), stale[c])
					}
					require.False(t, within(worst), "%s, token %d", layout, token)
					require.False(t, within(back), "%s, token %d", layout, token)
				}
			}
		}
	}
}
