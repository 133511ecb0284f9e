package runner

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/planfile"
)

// FuzzPlan runs whatever plan verifies in rounds: they verify too, and no step of a rank leaves
// the buffers of a call.
func FuzzPlan(f *testing.F) {
	for _, a := range schedule.Algorithms() {
		p, err := a.Generate(schedule.Shape{Ranks: 4, Width: 2, Segments: 2})
		require.NoError(f, err)
		for _, format := range []string{planfile.MSCCL, planfile.MSCCLPP} {
			var text bytes.Buffer
			if planfile.Write(&text, p, format) == nil {
				f.Add(text.Bytes())
			}
		}
	}
	f.Add([]byte(outOfPlace))
	var text bytes.Buffer
	require.NoError(f, planfile.Write(&text, reaching(), planfile.MSCCLPP))
	f.Add(text.Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		read, err := planfile.Read("plan", text)
		if err != nil || read.Program.Ranks > 8 || read.Program.Chunks+read.Program.Scratch > 1<<10 {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := schedule.Verified(ctx, read.Program); err != nil {
			return
		}
		q, err := inRounds(ctx, read.Program)
		require.NoError(t, err)
		op, err := runner.ParseOp(string(q.Collective))
		require.NoError(t, err)
		form := runner.Form{Op: op, Type: numeric.Float, World: q.Ranks}
		for _, bytes := range []int64{int64(q.Ranks) * 16, 1004, int64(q.Chunks) * int64(q.Ranks) * 16} {
			e := form.Extent(bytes)
			for r := range q.Ranks {
				for _, inPlace := range []bool{false, true}[:2-min(1, q.Input)] {
					l, err := lower(program{q, true}, form, r, extent{e.Count, inPlace}, func(int) bool { return r%2 == 0 })
					require.NoError(t, err)
					requireInside(t, l, e)
				}
			}
		}
	})
}

// outOfPlace is an all_reduce of two ranks that adds to its input.
const outOfPlace = `<algo name="p" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allreduce" inplace="0" outofplace="1" minBytes="0" maxBytes="0">
<gpu id="0" i_chunks="2" o_chunks="2" s_chunks="2"><tb id="0" send="1" recv="1" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
<step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
<step s="2" type="re" srcbuf="s" srcoff="0" dstbuf="i" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
<step s="3" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/></tb></gpu>
<gpu id="1" i_chunks="2" o_chunks="2" s_chunks="2"><tb id="0" send="0" recv="0" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
<step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
<step s="2" type="re" srcbuf="s" srcoff="0" dstbuf="i" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
<step s="3" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/></tb></gpu></algo>`

// requireInside requires that every step reads and writes elements that are there.
func requireInside(t *testing.T, l *Lowered, e runner.Extent) {
	t.Helper()
	room := map[Buffer]int64{SendBuffer: e.Send, RecvBuffer: e.Recv, Scratch: l.Scratch}
	all := slices.Concat(l.Before, l.After)
	for _, nodes := range l.Streams {
		for _, n := range nodes {
			all = append(all, n.Steps...)
		}
	}
	for _, s := range all {
		require.Positive(t, s.Count)
		if s.Kind == Copy || s.Kind == Add || s.Kind == Send {
			require.True(t, s.From.Element >= 0 && s.From.Element+s.Count <= room[s.From.Buffer], "%+v of %v", s, room)
		}
		if s.Kind != Send {
			require.True(t, s.To.Element >= 0 && s.To.Element+s.Count <= room[s.To.Buffer], "%+v of %v", s, room)
		}
	}
}
