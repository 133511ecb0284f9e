package runner

import (
	"testing"

	"github.com/collectivex/collectivex/pkg/copies"

	"github.com/stretchr/testify/require"
)

// Two ranks that copy at the same time have a rate together, unless one of them was alone for long.
func TestTogether(t *testing.T) {
	r := &copies.Row{Bytes: 1000}
	windows := func(offset, length int64) (all []span) {
		for i := range int64(3) {
			all = append(all, span{1e6*i + offset, 1e6*i + offset + length})
		}
		return all
	}
	for _, tt := range []struct {
		one, other []span
		want       *copies.Both
	}{
		{windows(0, 1000), windows(0, 1000), &copies.Both{Overlap: 1, GBps: 8}},
		{windows(0, 1000), windows(20, 980), &copies.Both{Overlap: 0.98, GBps: 8}},
		{windows(0, 1000), windows(500, 1000), &copies.Both{Overlap: 500.0 / 1500}},
		{windows(0, 1000), windows(0, 500), &copies.Both{Overlap: 0.5}},
		{windows(0, 1000), windows(2000, 1000), &copies.Both{}},
		{windows(0, 1000), windows(0, 1000)[:2], nil},
		{nil, nil, nil},
	} {
		require.Equal(t, tt.want, together(r, 4, tt.one, tt.other))
	}
}
