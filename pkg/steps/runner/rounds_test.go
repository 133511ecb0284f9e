package runner

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/planfile"
	"github.com/collectivex/collectivex/pkg/steps"
)

// Every schedule computes the same in rounds, with the same messages, on one stream.
func TestRounds(t *testing.T) {
	for _, world := range []int{2, 3, 4, 6, 8} {
		for _, c := range plantest.Schedules(world, world/max(1, world%2+world/4)) {
			b := steps.Of(&c)
			p, err := schedule.Generate(b.Algorithm, schedule.Collective(b.Op), schedule.Shape{Ranks: world, Width: b.Width, Segments: b.Segments})
			require.NoError(t, err, c.CaseID)
			q := rounds(p, false)
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

// Plans of MSCCL, whose sends wait for nobody, and of MSCCL++, which puts, compute the same in
// rounds as the schedules that they were made from.
func TestRoundsOfPlans(t *testing.T) {
	kinds := map[schedule.Kind]bool{}
	staged, late := 0, 0
	for _, world := range []int{2, 3, 4, 8} {
		for _, c := range plantest.Schedules(world, world/max(1, world%2+world/4)) {
			b := steps.Of(&c)
			p, err := schedule.Generate(b.Algorithm, schedule.Collective(b.Op), schedule.Shape{Ranks: world, Width: b.Width, Segments: b.Segments})
			require.NoError(t, err, c.CaseID)
			for _, format := range []string{planfile.MSCCL, planfile.MSCCLPP} {
				var text bytes.Buffer
				if err := planfile.Write(&text, p, format); err != nil {
					continue // more ops than the format has room for
				}
				read, err := planfile.Read("plan", text.Bytes())
				require.NoError(t, err, c.CaseID)
				require.False(t, ordered(read.Program))
				q, err := inRounds(t.Context(), read.Program)
				require.NoError(t, err, "%s as %s", c.CaseID, format)
				require.True(t, ordered(q))
				if format == planfile.MSCCLPP || b.Algorithm == "ring" {
					require.Len(t, groups(q), len(groups(rounds(p, false))), "%s as %s takes more rounds", c.CaseID, format)
				}
				if b.Algorithm == "ring" {
					require.Equal(t, read.Program.Scratch, q.Scratch, "messages of a ring need no buffers")
				}
				if _, err := schedule.Verified(t.Context(), rounds(read.Program, true)); err != nil {
					late++
				}
				want, _ := p.SentBytes(1024, 4)
				got, _ := q.SentBytes(1024, 4)
				if p.Scratch == 0 {
					require.Equal(t, want, got, c.CaseID)
				}
				staged += q.Scratch - read.Program.Scratch
				for _, o := range read.Program.Ops[0] {
					kinds[o.Kind] = true
				}
			}
		}
	}
	require.Positive(t, staged)
	require.Positive(t, late, "plans whose sends cannot end early")
	require.Len(t, kinds, 7, "every kind of op but a copy")
}

// reaching is an all_reduce of two ranks that read and write each other's memory.
func reaching() *schedule.Program {
	p := &schedule.Program{Name: "reaching", Collective: schedule.AllReduce, Ranks: 2, Chunks: 2, Ops: make([][]schedule.Op, 2)}
	for r := range 2 {
		mine, other := schedule.Slot(r), int32(1-r)
		meet := func() {
			p.Append(r, schedule.Op{Kind: schedule.Signal, Peer: other, Channel: 1})
			p.Append(r, schedule.Op{Kind: schedule.Wait, Peer: other, Channel: 1})
		}
		meet()
		p.Append(r, schedule.Op{Kind: schedule.GetReduce, Src: mine, Dst: mine, Count: 1, Peer: other})
		p.Append(r, schedule.Op{Kind: schedule.Put, Src: mine, Dst: mine, Count: 1, Peer: other, Channel: 1, Async: true})
		p.Append(r, schedule.Op{Kind: schedule.Flush, Peer: other, Channel: 1})
		meet()
		p.Append(r, schedule.Op{Kind: schedule.Get, Src: 1 - mine, Dst: 1 - mine, Count: 1, Peer: other})
	}
	return p
}

// A get is a message whose sender is in the round, and a flush is none.
func TestRoundsOfGets(t *testing.T) {
	p := reaching()
	_, err := schedule.Verified(t.Context(), p)
	require.NoError(t, err)
	require.False(t, ordered(p))
	q, err := inRounds(t.Context(), p)
	require.NoError(t, err)
	require.True(t, ordered(q))
	require.Len(t, groups(q), 3)
	want, messages := p.SentBytes(1024, 4)
	got, same := q.SentBytes(1024, 4)
	require.Equal(t, want, got)
	require.Equal(t, messages, same)
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
		require.Len(t, groups(rounds(p, false)), tt.rounds, fmt.Sprint(tt.op, tt.name))
	}
}

// groups are the rounds in which rank 0 has messages.
func groups(p *schedule.Program) map[int32]bool {
	all := map[int32]bool{}
	for _, o := range p.Ops[0] {
		if o.Group != 0 {
			all[o.Group] = true
		}
	}
	return all
}
