package result_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/result"
)

// The first difference is of the earliest operation, and there of the lowest rank; the others are counted.
func TestDifferencesOfRanks(t *testing.T) {
	yes, no := true, false
	first := []byte{1, 2, 3, 4, 5, 6}
	found := make([]result.Repeatability, 3)
	for r, changes := range [][]struct {
		operation, at int
		to            byte
	}{{{2, 0, 2}}, {{1, 5, 2}, {2, 1, 3}}, {{1, 3, 5}}} {
		v := &found[r]
		v.Operations, v.Compared = 3, 3
		require.False(t, v.Compare(first, first, 2, 1))
		for _, c := range changes {
			other := append([]byte{}, first...)
			other[c.at] = c.to
			require.True(t, v.Compare(first, other, 2, c.operation))
		}
	}
	require.Equal(t, result.Repeatability{
		Operations: 3, Compared: 3, Elements: 2, Bits: 2, First: &result.Difference{Operation: 1, Element: 2, Bit: 10},
	}, found[1])
	found[0].AsDeclared, found[1].AsDeclared, found[2].AsDeclared = &yes, &no, &yes
	var all result.Repeatability
	for r, v := range found {
		all.Add(r, v)
	}
	require.Equal(t, result.Repeatability{
		Operations: 3, Compared: 9, Elements: 4, Bits: 5, First: &result.Difference{Operation: 1, Rank: 1, Element: 2, Bit: 10}, AsDeclared: &no,
	}, all)
}
