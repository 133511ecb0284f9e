package steps

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/schedule"
)

// Every schedule computes the same in rounds, with the same messages, on one stream.
func TestRounds(t *testing.T) {
	for _, world := range []int{2, 3, 4, 6, 8} {
		for _, c := range plantest.Schedules(world, world/max(1, world%2+world/4)) {
			b := c.Schedule()
			p, err := schedule.Generate(b.Algorithm, schedule.Collective(b.Op), schedule.Shape{Ranks: world, Width: b.Width, Segments: b.Segments})
			require.NoError(t, err, c.CaseID)
			q := rounds(p)
			about, err := schedule.Verified(t.Context(), q)
			require.NoError(t, err, c.CaseID)
			require.LessOrEqual(t, about.Streams, 1)
			want, messages := p.SentBytes(1000, 4)
			got, same := q.SentBytes(1000, 4)
			require.Equal(t, want, got, c.CaseID)
			require.Equal(t, messages, same, c.CaseID)
		}
	}
}

// Messages that nothing orders are in one round, so that streams still overlap.
func TestNumberOfRounds(t *testing.T) {
	for _, tt := range []struct {
		op     schedule.Collective
		name   string
		world  int
		rounds int
	}{
		{schedule.AllReduce, "ring", 4, 6},          // 2(n−1)
		{schedule.AllReduce, "bidirectional", 4, 6}, // both halves at once
		{schedule.AllGather, "rotation", 4, 3},      // n−1
		{schedule.AllGather, "direct", 4, 1},
		{schedule.AllGather, "stream_broadcast", 4, 1}, // a stream for each root
		{schedule.AllReduce, "torus_2d_halves", 4, 4},  // 2(w+h−2), both halves at once
	} {
		a, err := schedule.Find(tt.name, tt.op)
		require.NoError(t, err)
		p, err := a.Generate(schedule.Shape{Ranks: tt.world, Width: 2, Segments: 8})
		require.NoError(t, err)
		groups := map[int32]bool{}
		for _, o := range rounds(p).Ops[0] {
			if o.Group != 0 {
				groups[o.Group] = true
			}
		}
		require.Len(t, groups, tt.rounds, fmt.Sprint(tt.op, tt.name))
	}
}
