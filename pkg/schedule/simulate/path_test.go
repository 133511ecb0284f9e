package simulate

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/schedule"
	"github.com/collectivex/collectivex/pkg/schedule/planfile"
)

// TestCriticalPathAddsUp: the parts of the critical path of every schedule, in every form and
// on machines with every cost, sum up to the makespan, and none is negative. A trace has the
// makespan of a run without.
func TestCriticalPathAddsUp(t *testing.T) {
	need.Full(t)
	const ranks, width = 8, 4
	costs := Machine{Latency: 700, PerByte: 3.7, Network: Link{1900, 11.3}, NetworkEngines: 1, Issue: 110, Overhead: 230, ReduceByte: 1.3, CopyByte: 0.9, Memory: Memory{50, 0.7}}
	free := Machine{Latency: 700, PerByte: 3.7}
	programs := 0
	for _, a := range schedule.Algorithms() {
		p, err := a.Generate(schedule.Shape{Ranks: ranks, Width: width, Segments: 3})
		require.NoError(t, err)
		buffered, err := planfile.ForMSCCL(p)
		require.NoError(t, err)
		oneSided, err := planfile.ForMSCCLPP(p)
		require.NoError(t, err)
		for _, p := range []*schedule.Program{p, buffered, oneSided} {
			programs++
			for _, topology := range []Topology{Full(ranks), Switch(ranks), Ring(ranks), Mesh(width, ranks/width), Hosts(width, ranks/width)} {
				for _, sharing := range []Sharing{Unloaded, FIFO, Fair} {
					for engines := range 3 {
						for _, m := range []Machine{costs, free} {
							m.Topology, m.Sharing, m.Engines = topology, sharing, engines
							traced, err := Trace(t.Context(), p, m, 10007, 3)
							require.NoError(t, err)
							plain := run3(t, p, m)
							require.Equal(t, plain, traced.Result)
							path := traced.CriticalPath()
							require.Equal(t, plain.Makespan, path.Total(), "%s %s, %s, %s: %+v", p.Name, p.Collective, topology.Name, sharing, path)
							for _, part := range []Picoseconds{path.Issue, path.Overhead, path.Memory, path.Latency, path.Bytes, path.Reduce, path.Copy, path.EngineWait, path.LinkWait, path.BufferWait} {
								require.GreaterOrEqual(t, part, Picoseconds(0), "%s %s, %s, %s: %+v", p.Name, p.Collective, topology.Name, sharing, path)
							}
						}
					}
				}
			}
		}
	}
	require.Greater(t, programs, 90)
}

// TestFlushAndGet: a flush takes no time after its puts have left, and a get is refused.
func TestFlushAndGet(t *testing.T) {
	p := &schedule.Program{Name: "two", Collective: schedule.AllGather, Ranks: 2, Chunks: 2, Ops: make([][]schedule.Op, 2)}
	for r := range 2 {
		p.Append(r, schedule.Op{Kind: schedule.Put, Src: schedule.Slot(r), Dst: schedule.Slot(r), Count: 1, Peer: int32(1 - r), Async: true})
		p.Append(r, schedule.Op{Kind: schedule.Flush, Peer: int32(1 - r)})
		p.Append(r, schedule.Op{Kind: schedule.Signal, Peer: int32(1 - r)})
		p.Append(r, schedule.Op{Kind: schedule.Wait, Peer: int32(1 - r)})
	}
	m := Machine{Topology: Full(2), Sharing: Unloaded, Latency: 700, PerByte: 3.7, Issue: 110}
	traced, err := Trace(t.Context(), p, m, 2000, 1)
	require.NoError(t, err)
	require.Equal(t, Picoseconds(3*110+3700+700), traced.Makespan)
	path := traced.CriticalPath()
	require.Equal(t, traced.Makespan, path.Total())

	p.Append(1, schedule.Op{Kind: schedule.Get, Count: 1, Peer: 0})
	_, err = Run(t.Context(), p, m, 2000, 1)
	require.EqualError(t, err, "program two has a get (op 4 of rank 1): the simulator does not model reads of another rank's memory")
}

func run3(t *testing.T, p *schedule.Program, m Machine) Result {
	r, err := Run(t.Context(), p, m, 10007, 3)
	require.NoError(t, err)
	return *r
}

// TestCriticalPathOfFormulas compares the parts with those of the closed forms.
func TestCriticalPathOfFormulas(t *testing.T) {
	const n, size = 8, 1 << 20
	trace := func(name string, c schedule.Collective, m Machine) Path {
		r, err := Trace(t.Context(), program(t, name, c, schedule.Shape{Ranks: n}), m, size, 1)
		require.NoError(t, err)
		return r.CriticalPath()
	}
	// 2(n−1)(α+cβ)+(n−1)cγ
	ring := trace("ring", schedule.AllReduce, reference(Full(n)))
	require.Equal(t, Parts{Latency: 14 * Microsecond, Bytes: 14 * size / n * 20, Reduce: 7 * size / n}, ring.Parts)
	require.Len(t, ring.Steps, 14)

	// In the first half a step reads at the sender, and reads and writes the sum at the receiver;
	// in the second half it reads and writes.
	m := reference(Full(n))
	m.Memory = Memory{Setup: 100, PerByte: 5}
	ring = trace("ring", schedule.AllReduce, m)
	require.Equal(t, Parts{Latency: 14 * Microsecond, Bytes: 14 * size / n * 20, Reduce: 7 * size / n, Memory: 7 * (3 + 2) * (100 + 5*size/n)}, ring.Parts)

	// Direct sends leave one engine one after the other; with an engine for each, none waits.
	direct := trace("direct", schedule.AllGather, reference(Full(n)))
	require.Equal(t, Parts{Latency: Microsecond, Bytes: size / n * 20, EngineWait: 6 * size / n * 20}, direct.Parts)
	m = reference(Full(n))
	m.Engines = 0
	direct = trace("direct", schedule.AllGather, m)
	require.Equal(t, Parts{Latency: Microsecond, Bytes: size / n * 20}, direct.Parts)

	// Behind a switch they wait for its links instead.
	m.Topology, m.Sharing = Switch(n), FIFO
	direct = trace("direct", schedule.AllGather, m)
	require.Positive(t, direct.LinkWait)
	require.Zero(t, direct.EngineWait)
}

func TestTraceEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Trace(ctx, program(t, "ring", schedule.AllReduce, schedule.Shape{Ranks: 4}), reference(Full(4)), 8, 1)
	require.ErrorIs(t, err, context.Canceled)
}
