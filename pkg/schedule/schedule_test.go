package schedule

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
)

// shapes lists the shapes of n ranks that an algorithm is tried with.
func shapes(a *Algorithm, n int) (all []Shape) {
	for width := 1; width <= n; width++ {
		s := Shape{Ranks: n, Width: width, Segments: 1 + width%3}
		if a.refuse != nil && a.refuse(s) != "" {
			continue
		}
		all = append(all, s)
		// Only grids and hierarchies depend on the width.
		if a.refuse == nil || a.refuse(Shape{Ranks: n, Segments: 1}) == "" {
			break
		}
	}
	return all
}

// eachProgram calls f with every program of every algorithm for some numbers of ranks.
func eachProgram(t *testing.T, ranks []int, f func(t *testing.T, a *Algorithm, s Shape, p *Program)) {
	for i := range algorithms {
		a := &algorithms[i]
		t.Run(string(a.Collective)+"/"+a.Name, func(t *testing.T) {
			tried := 0
			for _, n := range ranks {
				for _, s := range shapes(a, n) {
					p, err := a.Generate(s)
					require.NoError(t, err)
					f(t, a, s, p)
					tried++
				}
			}
			require.NotZero(t, tried)
		})
	}
}

// upTo returns the numbers of ranks up to n.
func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

func TestEveryScheduleVerifies(t *testing.T) {
	everyScheduleVerifies(t, append(upTo(20), 32, 64))
}

func TestEveryScheduleOfMoreRanksVerifies(t *testing.T) {
	need.Full(t)
	everyScheduleVerifies(t, upTo(64)[20:])
}

func everyScheduleVerifies(t *testing.T, ranks []int) {
	eachProgram(t, ranks, func(t *testing.T, a *Algorithm, s Shape, p *Program) {
		report := verified(t, p)
		require.NoError(t, report.Err(), "%+v", s)
		// The order of the sums is the same on all ranks but where each adds whole vectors
		// in an order of its own.
		different := s.Ranks > 2 && (a.Name == "direct_one_phase" || a.Name == "ring_full") ||
			a.Name == "torus_full" && (s.Width > 2 || s.height() > 2)
		require.Equal(t, !different, report.Uniform, "%+v", s)
	})
}

// TestBytes compares what each rank sends with the formulas of the literature, in chunks of
// which a rank's share of the vector has n.
func TestBytes(t *testing.T) {
	// Of n ranks, or of w×h; 0: see the case.
	share := func(s Shape) int { return s.Ranks - 1 }
	twice := func(s Shape) int { return 2 * (s.Ranks - 1) }
	formulas := map[string]func(s Shape) int{
		"all_gather/bidirectional": share, "all_gather/bruck": share, "all_gather/direct": share, "all_gather/pat": share,
		"all_gather/recursive_doubling": share, "all_gather/ring": share, "all_gather/rotation": share,
		"all_gather/stream_broadcast": share,
		"all_gather/hierarchical_sliced": func(s Shape) int {
			return s.height() - 1 + s.height()*(s.Width-1)
		},
		"all_gather/hierarchical_banded": func(s Shape) int { return s.height() - 1 + s.height()*(s.Width-1) },
		"all_gather/hierarchical_staged": func(s Shape) int { return s.Width - 1 + (s.height()-1)*s.Width },
		"reduce_scatter/bruck":           share, "reduce_scatter/direct": share, "reduce_scatter/pat": share,
		"reduce_scatter/recursive_halving": share, "reduce_scatter/ring": share,
		"all_reduce/bidirectional": twice, "all_reduce/direct": twice, "all_reduce/mesh_ring": twice, "all_reduce/ring": twice,
		"all_reduce/swing": twice, "all_reduce/torus_2d": twice, "all_reduce/torus_2d_halves": twice,
		"all_reduce/direct_one_phase": func(s Shape) int { return (s.Ranks - 1) * s.Ranks },
		"all_reduce/ring_full":        func(s Shape) int { return (s.Ranks - 1) * s.Ranks },
		"all_reduce/torus_full":       func(s Shape) int { return (s.Width + s.height() - 2) * s.Ranks },
	}
	eachProgram(t, upTo(64), func(t *testing.T, a *Algorithm, s Shape, p *Program) {
		const each = 12 // elements of a rank's share
		elements := int64(2 * each * s.Ranks)
		bytes, _ := p.SentBytes(elements, 1)
		// Whatever the schedule, every rank lacks the data of all others, once or, of an all_reduce, twice.
		sum, least := int64(0), 2*each*int64(share(s))
		if a.Collective == AllReduce {
			least *= 2
		}
		for _, b := range bytes {
			sum += b
		}
		require.GreaterOrEqual(t, sum, least*int64(s.Ranks), "%+v", s)
		want, ok := formulas[string(a.Collective)+"/"+a.Name]
		switch {
		case ok:
			for r, b := range bytes {
				require.EqualValues(t, 2*each*want(s), b, "rank %d of %+v", r, s)
			}
		case a.Name == "doubling", a.Name == "rabenseifner": // folded, the ranks differ
			require.LessOrEqual(t, slices.Max(bytes), elements*int64(log2(s.Ranks)+1))
		case a.Name == "double_tree", a.Name == "line": // at their ends less is sent
			require.LessOrEqual(t, slices.Max(bytes), 2*elements)
		default: // the same, in both dimensions
			require.LessOrEqual(t, slices.Max(bytes), 4*elements)
		}
	})
}

// TestPlantedFaults damages programs and expects each damage to be named by its class.
func TestPlantedFaults(t *testing.T) {
	planted, kinds := 0, map[string]int{}
	for i := range algorithms {
		a := &algorithms[i]
		for _, n := range []int{4, 8} {
			for _, s := range shapes(a, n) {
				for seed := range 4 {
					for _, fault := range faults {
						p, err := a.Generate(s)
						require.NoError(t, err)
						want := fault.plant(p, seed)
						if want == nil {
							continue
						}
						report := verified(t, p)
						named := false
						for _, f := range report.Findings {
							is := slices.Contains(want.named, f.Class)
							require.True(t, is || slices.Contains(want.follows, f.Class), "%s of %s %s %+v, seed %d: %s", fault.name, a.Name, a.Collective, s, seed, f)
							named = named || is
						}
						require.True(t, named, "%s of %s %s %+v, seed %d: %v", fault.name, a.Name, a.Collective, s, seed, report.Findings)
						planted++
						kinds[fault.name]++
					}
				}
			}
		}
	}
	t.Logf("%d faults: %v", planted, kinds)
	require.Greater(t, planted, 2500)
	require.Len(t, kinds, len(faults))
}

// pick returns the seed-th op of a kind, counted round the ranks; ok is false if there is
// none.
func pick(p *Program, seed int, is func(o *Op) bool) (r, i int, ok bool) {
	return pickOf(p, seed, func(_ int, o *Op) bool { return is(o) })
}

// pickOf is pick by rank and op.
func pickOf(p *Program, seed int, is func(r int, o *Op) bool) (r, i int, ok bool) {
	var all [][2]int
	for r := range p.Ops {
		for i := range p.Ops[r] {
			if is(r, &p.Ops[r][i]) {
				all = append(all, [2]int{r, i})
			}
		}
	}
	if len(all) == 0 {
		return 0, 0, false
	}
	at := all[(seed*len(all)/4+seed)%len(all)]
	return at[0], at[1], true
}

// without drops op i of rank r; dependencies move with their ops.
func without(p *Program, r, i int) {
	p.Ops[r] = slices.Delete(p.Ops[r], i, i+1)
	for k := range p.Ops[r] {
		o := &p.Ops[r][k]
		var deps []int32
		for _, d := range p.Deps(o) {
			if int(d) > i {
				d--
			} else if int(d) == i {
				continue
			}
			deps = append(deps, d)
		}
		if o.deps != 0 {
			p.deps = append(p.deps, deps)
			o.deps = int32(len(p.deps))
		}
	}
}

// damage is the classes of findings in a damaged program: one of named, which the damage is itself, and
// any of follows.
type damage struct{ named, follows []Class }

// faults damage a program. They return nil where they do not apply.
var faults = []struct {
	name  string
	plant func(p *Program, seed int) *damage
}{
	{"drop a receive", func(p *Program, seed int) *damage {
		r, i, ok := pick(p, seed, (*Op).receives)
		if !ok {
			return nil
		}
		without(p, r, i)
		return &damage{[]Class{Unmatched}, []Class{Undefined, Mismatch, Misplaced, Doubled, Race}}
	}},
	{"drop a message", func(p *Program, seed int) *damage {
		r, i, ok := pick(p, seed, (*Op).sends)
		if !ok {
			return nil
		}
		peer, nth := int(p.Ops[r][i].Peer), 0
		ch := p.Ops[r][i].channel(r)
		for k := range i {
			if o := &p.Ops[r][k]; o.sends() && o.channel(r) == ch {
				nth++
			}
		}
		without(p, r, i)
		for k := range p.Ops[peer] {
			if o := &p.Ops[peer][k]; o.receives() && o.channel(peer) == ch {
				if nth == 0 {
					without(p, peer, k)
					break
				}
				nth--
			}
		}
		return &damage{named: []Class{Undefined, Lost, Doubled, Race}}
	}},
	{"wrong peer", func(p *Program, seed int) *damage {
		r, i, ok := pick(p, seed, (*Op).sends)
		if !ok || p.Ranks < 3 {
			return nil
		}
		o := &p.Ops[r][i]
		for o.Peer = (o.Peer + 1) % int32(p.Ranks); int(o.Peer) == r; {
			o.Peer = (o.Peer + 1) % int32(p.Ranks)
		}
		return &damage{[]Class{Unmatched}, []Class{Mismatch, Misplaced, Undefined, Doubled}}
	}},
	{"wrong chunk", func(p *Program, seed int) *damage {
		r, i, ok := pick(p, seed, func(o *Op) bool { return o.sends() && o.Src >= 0 && int(o.Src)+int(o.Count) < p.Chunks })
		if !ok {
			return nil
		}
		p.Ops[r][i].Src++
		return &damage{named: []Class{Undefined, Misplaced, Race}}
	}},
	{"add instead of replace", func(p *Program, seed int) *damage {
		if p.Collective == AllGather {
			return nil
		}
		r, i, ok := pick(p, seed, func(o *Op) bool { return o.Kind == Recv && o.Dst >= 0 })
		if !ok {
			return nil
		}
		p.Ops[r][i].Kind = RecvReduce
		return &damage{named: []Class{Doubled}}
	}},
	{"replace instead of add", func(p *Program, seed int) *damage {
		r, i, ok := pick(p, seed, func(o *Op) bool { return o.Kind == RecvReduce })
		if !ok {
			return nil
		}
		p.Ops[r][i].Kind = Recv
		return &damage{named: []Class{Lost}}
	}},
	{"add twice", func(p *Program, seed int) *damage {
		r, i, ok := pick(p, seed, func(o *Op) bool { return o.Kind == Reduce })
		if !ok {
			return nil
		}
		p.Ops[r] = slices.Insert(p.Ops[r], i, p.Ops[r][i])
		return &damage{named: []Class{Doubled}}
	}},
	{"swap two sends", func(p *Program, seed int) *damage {
		r, i, ok := pick(p, seed, (*Op).sends)
		if !ok {
			return nil
		}
		a := &p.Ops[r][i]
		for k := range p.Ops[r] {
			b := &p.Ops[r][k]
			if !b.sends() || b.channel(r) != a.channel(r) || b.Src == a.Src {
				continue
			}
			a.Src, b.Src, a.Count, b.Count = b.Src, a.Src, b.Count, a.Count
			if p.Collective == AllGather {
				return &damage{named: []Class{Misplaced, Undefined, Race}}
			}
			return &damage{[]Class{Misplaced, Doubled, Race}, []Class{Undefined, Mismatch}}
		}
		return nil
	}},
	{"send before it is received", func(p *Program, seed int) *damage {
		type pair struct{ rank, receive, send int }
		var all []pair
		for r, ops := range p.Ops {
			for i := range ops {
				k := slices.IndexFunc(ops[i+1:], func(o Op) bool {
					return o.Stream == ops[i].Stream && (o.Group == 0 || o.Group != ops[i].Group) && o.sends() && o.Src == ops[i].Dst
				})
				if ops[i].receives() && k >= 0 {
					all = append(all, pair{r, i, i + 1 + k})
				}
			}
		}
		if len(all) == 0 {
			return nil
		}
		x := all[(seed*len(all)/4+seed)%len(all)]
		a, b := &p.Ops[x.rank][x.receive], &p.Ops[x.rank][x.send]
		adds := a.Kind == RecvReduce
		*a, *b = *b, *a
		a.Group, b.Group, a.deps, b.deps = b.Group, a.Group, b.deps, a.deps
		switch {
		case p.Collective == AllGather:
			return &damage{[]Class{Undefined}, []Class{Mismatch, Race}}
		case adds:
			return &damage{[]Class{Lost, Misplaced, Race, Deadlock}, []Class{Mismatch}}
		}
		return &damage{[]Class{Lost, Misplaced, Doubled, Deadlock}, []Class{Undefined}}
	}},
	{"missing dependency", func(p *Program, seed int) *damage {
		// A send of what another stream has received: nothing but the dependency orders the two.
		r, i, ok := pickOf(p, seed, func(r int, o *Op) bool {
			return o.sends() && slices.ContainsFunc(p.Deps(o), func(d int32) bool {
				before := &p.Ops[r][d]
				return before.receives() && before.Stream != o.Stream && before.Dst == o.Src
			})
		})
		if !ok {
			return nil
		}
		p.Ops[r][i].deps = 0
		if g := p.Ops[r][i].Group; g != 0 {
			for k := range p.Ops[r] {
				if p.Ops[r][k].Group == g {
					p.Ops[r][k].deps = 0
				}
			}
		}
		return &damage{[]Class{Race}, []Class{Undefined}}
	}},
	{"early reuse", func(p *Program, seed int) *damage {
		r, i, ok := pick(p, seed, func(o *Op) bool { return o.Group != 0 && o.sends() && o.Src >= 0 })
		if !ok {
			return nil
		}
		for k := range p.Ops[r] {
			if o := &p.Ops[r][k]; o.Group == p.Ops[r][i].Group && o.receives() && o.Dst >= 0 && int(p.Ops[r][i].Src)+int(o.Count) <= p.Chunks {
				o.Dst = p.Ops[r][i].Src
				return &damage{[]Class{Race}, []Class{Undefined, Misplaced}}
			}
		}
		return nil
	}},
	{"waits in a cycle", func(p *Program, seed int) *damage {
		if p.Name != "ring" {
			return nil
		}
		for r := range p.Ops { // sends that wait for their receives, on every rank
			for i := range p.Ops[r] {
				p.Ops[r][i].Group = 0
			}
		}
		return &damage{named: []Class{Deadlock}}
	}},
}

func TestFindingsSayWhere(t *testing.T) {
	a, err := Find("ring", AllGather)
	require.NoError(t, err)
	p, err := a.Generate(Shape{Ranks: 4})
	require.NoError(t, err)
	p.Ops[2][0].Src = 0
	require.Equal(t, "undefined: rank 2, op 0, chunk 0: sends uninitialized memory", verified(t, p).Findings[0].String())

	p, err = a.Generate(Shape{Ranks: 4})
	require.NoError(t, err)
	p.Ops[1][0].Peer = 9
	require.EqualError(t, verified(t, p).Err(), "form: rank 1, op 0: send with peer 9, must be another of the 4 ranks")

	_, err = Find("rung", AllGather)
	require.ErrorContains(t, err, `no schedule "rung" for all_gather: choose one of bidirectional, bruck, `)
	_, err = a.Generate(Shape{Ranks: 1 << 20})
	require.EqualError(t, err, "ring all_gather: 1048576 ranks, must be from 1 to 2048")
	swing, err := Find("swing", AllReduce)
	require.NoError(t, err)
	_, err = swing.Generate(Shape{Ranks: 6})
	require.EqualError(t, err, "swing all_reduce: 6 ranks, must be a power of two")
}

// program returns a program of all_reduce without ops.
func program(ranks, chunks, scratch int) *Program {
	p, _ := newProgram("mine", AllReduce, ranks, chunks, scratch)
	return p
}

// TestFindingsNameSlots: scratch memory and the input out of place have names of their own, and an
// undefined read names what it reads.
func TestFindingsNameSlots(t *testing.T) {
	p := program(1, 2, 5)
	p.Input = 2
	p.Append(0, Op{Kind: Copy, Src: Scratch(4), Dst: 0, Count: 1})
	p.Append(0, Op{Kind: Copy, Src: Scratch(0), Dst: Scratch(2), Count: 1})
	p.Append(0, Op{Kind: Copy, Src: Scratch(2), Dst: Scratch(3), Count: 1, Stream: 1}, 0)
	p.Append(0, Op{Kind: Copy, Src: Scratch(0), Dst: Scratch(1), Count: 1, Stream: 2})
	p.Append(0, Op{Kind: Copy, Src: Scratch(1), Dst: 1, Count: 1})
	p.Append(0, Op{Kind: Reduce, Src: Scratch(0), Dst: Scratch(4), Count: 1, Stream: 3})
	found := verified(t, p).Err().Error()
	for _, want := range []string{
		"undefined: rank 0, op 0, scratch 2: reads uninitialized memory",
		"race: rank 0, op 2, scratch 0: is not ordered with op 1 (copy), and one of them writes there",
		", input chunk 1: is not ordered with op ",
		"undefined: rank 0, op 5, scratch 2: adds to uninitialized memory",
	} {
		require.Contains(t, found, want)
	}
	require.NotContains(t, found, "chunk 2")
}

// TestEveryFormFinding: each mistake of form is a finding with its op, and those above 20 are counted.
func TestEveryFormFinding(t *testing.T) {
	p := program(2, 1, 0)
	p.Append(0, Op{Kind: Send, Peer: 1, Count: 1})
	p.Append(0, Op{Kind: Send, Peer: 1, Count: 1, Stream: 1})
	p.Append(1, Op{Kind: Copy, Src: Scratch(0), Dst: 0, Count: 1})
	for range 20 {
		p.Append(1, Op{Kind: Signal, Peer: 0, Count: 1})
	}
	report := verified(t, p)
	require.Equal(t, Finding{Form, 0, 1, "", "send on channel 0 with rank 1, which stream 0 uses too: all ops of a channel must be on one stream"}, report.Findings[0])
	require.Equal(t, Finding{Form, 1, 0, "", "copy of 1 chunks from scratch 0 on, but there are only 0"}, report.Findings[1])
	require.Len(t, report.Findings, 20)
	require.Equal(t, 2, report.More)
	require.Regexp(t, `\nform: rank 1, op 18: signal of 1 chunks, must have none\nand 2 more$`, report.Err().Error())
	require.EqualError(t, p.Check(), report.Err().Error())
}

// TestDeadlockPrintsTheCycle: ranks 2 and 3 wait for each other, through a dependency and the order
// of a stream. Ranks 0 and 1 wait for rank 2 on one stream and for each other on another: that is
// no cycle.
func TestDeadlockPrintsTheCycle(t *testing.T) {
	p := program(4, 1, 1)
	send := func(peer int, stream uint8) Op {
		return Op{Kind: Send, Peer: int32(peer), Src: Scratch(0), Count: 1, Stream: stream, Channel: stream}
	}
	recv := func(peer int, stream uint8) Op {
		return Op{Kind: Recv, Peer: int32(peer), Dst: Scratch(0), Count: 1, Stream: stream, Channel: stream}
	}
	for r := range 2 {
		p.Append(r, recv(1-r, 0))
		p.Append(r, recv(2, 1))
		from := send(1-r, 1)
		from.Channel = 0
		p.Append(r, from)
	}
	p.Append(2, recv(3, 0))
	for q := range 2 {
		to := send(q, uint8(1+q))
		to.Channel = 1
		p.Append(2, to, 0)
	}
	to := send(3, 3)
	to.Channel = 0
	p.Append(2, to, 0)
	p.Append(3, recv(2, 0))
	p.Append(3, send(2, 0))
	require.EqualError(t, verified(t, p).Err(), "deadlock: rank 2, op 0: a cycle: op 0 (recv) of rank 2 waits for op 1 (send) of rank 3, "+
		"which comes after op 0 (recv) of rank 3, which waits for op 3 (send) of rank 2, which depends on op 0 (recv) of rank 2")

	// A send does not start, since another op of its group does not.
	p = program(2, 1, 1)
	for r := range 2 {
		first := recv(1-r, 0)
		first.Group = 1
		p.Append(r, first)
		second := send(1-r, 1)
		second.Channel = 0
		p.Append(r, Op{Kind: Copy, Src: 0, Dst: Scratch(0), Count: 1, Stream: 1, Group: 2}, 0)
		second.Group = 2
		p.Append(r, second)
	}
	require.EqualError(t, verified(t, p).Err(), "deadlock: rank 0, op 0: a cycle: op 0 (recv) of rank 0 waits for op 2 (send) of rank 1, "+
		"which starts and ends with op 1 (copy) of rank 1, which depends on op 0 (recv) of rank 1, which waits for op 2 (send) of rank 0, "+
		"which starts and ends with op 1 (copy) of rank 0, which depends on op 0 (recv) of rank 0")
}

func TestChunks(t *testing.T) {
	for _, q := range []int{1, 3, 7} {
		next := int64(0)
		for k := range q {
			first, count := Chunk(10, q, k)
			require.Equal(t, next, first)
			next += count
		}
		require.EqualValues(t, 10, next)
	}
	p, _ := newProgram("", AllReduce, 3, 3, 6)
	require.EqualValues(t, 4*2, p.Bytes(0, 1, 10, 2))
	require.EqualValues(t, 10*2, p.Bytes(0, 3, 10, 2))
	require.EqualValues(t, 3*2, p.Bytes(Scratch(4), 1, 10, 2))
	require.EqualValues(t, 6*2, p.Bytes(Scratch(4), 2, 10, 2))
}

// ending is a context that ends after it has been asked a number of times.
type ending struct {
	context.Context
	asked, after int
}

func (e *ending) Err() error {
	if e.asked++; e.asked > e.after {
		return context.Canceled
	}
	return nil
}

// TestVerifyEndsWithItsContext: a verification looks at its context every 1,024 nodes, and
// ends.
func TestVerifyEndsWithItsContext(t *testing.T) {
	a, err := Find("ring", AllReduce)
	require.NoError(t, err)
	p, err := a.Generate(Shape{Ranks: 64}) // 8,064 nodes
	require.NoError(t, err)
	whole := &ending{t.Context(), 0, 1 << 20}
	_, err = Verify(whole, p)
	require.NoError(t, err)
	cut := &ending{t.Context(), 0, 2}
	report, err := Verify(cut, p)
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, report)
	require.Equal(t, 7+2, whole.asked)
	require.Equal(t, 3+2, cut.asked)
}

// TestStreamsThatNeverMeet: streams that nothing orders share no clocks, so that many of them can be
// verified. Too many that wait for each other are refused before memory is allocated.
func TestStreamsThatNeverMeet(t *testing.T) {
	const n = 64
	a, err := Find("stream_broadcast", AllGather)
	require.NoError(t, err)
	p, err := a.Generate(Shape{Ranks: n})
	require.NoError(t, err)
	require.NoError(t, verified(t, p).Err())
	c, err := newClocks(NewFlow(p))
	require.NoError(t, err)
	require.Len(t, c.known, n*n)
	for _, k := range c.known {
		require.Len(t, k, n)
	}

	p = program(128, 1, 1)
	for r := range p.Ops {
		p.Append(r, Op{Kind: Signal, Peer: int32((r + 1) % p.Ranks)})
		p.Append(r, Op{Kind: Wait, Peer: int32((r + p.Ranks - 1) % p.Ranks)})
		for s := 1; s < 200; s++ {
			p.Append(r, Op{Kind: Copy, Dst: Scratch(0), Count: 1, Stream: uint8(s)}, 1)
		}
	}
	_, err = Verify(t.Context(), p)
	require.EqualError(t, err, "mine all_reduce: 25600 streams that wait for each other need 4.9 GiB of memory to verify, must be at most 4 GiB: use fewer ranks")
}

// BenchmarkVerify verifies a ring all_reduce of 1,024 ranks.
func BenchmarkVerify(b *testing.B) {
	a, err := Find("ring", AllReduce)
	require.NoError(b, err)
	p, err := a.Generate(Shape{Ranks: 1024})
	require.NoError(b, err)
	for b.Loop() {
		require.NoError(b, verified(b, p).Err())
	}
	b.ReportMetric(float64(2*2*1023*1024), "ops")
}

func ExampleVerify() {
	a, _ := Find("ring", AllGather)
	p, _ := a.Generate(Shape{Ranks: 3})
	p.Ops[0] = p.Ops[0][:2] // rank 0 leaves after the first step
	report, _ := Verify(context.Background(), p)
	fmt.Println(report.Err())
	// Output:
	// unmatched: rank 1, op 3: waits for a send of rank 0, which has no send left for it
	// unmatched: rank 2, op 2: waits for a receive of rank 0, which has no receive left for it
}

func verified(t testing.TB, p *Program) *Report {
	t.Helper()
	report, err := Verify(t.Context(), p)
	require.NoError(t, err)
	return report
}

// A name of another system leads to the name here.
func TestNamesFromElsewhere(t *testing.T) {
	for name, here := range foreignNames {
		found := false
		for _, c := range []Collective{AllGather, AllReduce, ReduceScatter} {
			_, err := Find(name, c)
			require.Error(t, err)
			if _, known := Find(here, c); known == nil {
				found = true
				require.EqualError(t, err, fmt.Sprintf("no schedule %q for %s: it is called %s here", name, c, here))
			}
		}
		require.True(t, found, here)
	}
	_, err := Find("pipe_band", AllReduce)
	require.ErrorContains(t, err, "choose one of bidirectional, ")
}

// Sums name every rank once, and stand apart exactly where verification says that orders differ.
func TestSums(t *testing.T) {
	eachProgram(t, []int{1, 2, 3, 4, 6, 8, 13, 16}, func(t *testing.T, a *Algorithm, s Shape, p *Program) {
		sums, err := Sums(t.Context(), p)
		if a.Collective == AllGather {
			require.EqualError(t, err, "all_gather adds nothing")
			return
		}
		require.NoError(t, err)
		require.Len(t, sums, p.Chunks)
		alike := true
		for _, line := range sums {
			_, rest, _ := strings.Cut(line, ", ")
			for of := range strings.SplitSeq(rest, "; ") {
				_, sum, ok := strings.Cut(of, ": ")
				require.True(t, ok, line)
				names := strings.FieldsFunc(sum, func(c rune) bool { return c < '0' || c > '9' })
				slices.Sort(names)
				require.Len(t, slices.Compact(names), s.Ranks, line)
				require.Equal(t, s.Ranks-1, strings.Count(sum, "+"), line)
			}
			alike = alike && !strings.Contains(line, "; ")
		}
		require.Equal(t, verified(t, p).Uniform, alike, "%+v", s)
	})
	ring, err := Generate("ring", AllReduce, Shape{Ranks: 65, Width: 65, Segments: 1})
	require.NoError(t, err)
	_, err = Sums(t.Context(), ring)
	require.EqualError(t, err, "65 ranks: sums are written out for at most 64")
}
