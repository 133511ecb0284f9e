package simulate

import (
	"fmt"
	"hash/fnv"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// reference is the machine of the published formulas: 1,000 ns a message, 0.02 ns a byte,
// 0.001 ns to add one, and one message at a time.
func reference(t Topology) Machine {
	return Machine{Topology: t, Sharing: Unloaded, Latency: Microsecond, PerByte: 20, ReduceByte: 1, Engines: 1}
}

func program(t testing.TB, name string, c schedule.Collective, s schedule.Shape) *schedule.Program {
	t.Helper()
	a, err := schedule.Find(name, c)
	require.NoError(t, err)
	p, err := a.Generate(s)
	require.NoError(t, err)
	return p
}

func run(t testing.TB, p *schedule.Program, m Machine, bytes int64) *Result {
	t.Helper()
	r, err := Run(t.Context(), p, m, bytes, 1)
	require.NoError(t, err)
	return r
}

// TestClosedForms compares with the formulas 2(n−1)(α+cβ)+(n−1)cγ and its like.
func TestClosedForms(t *testing.T) {
	for _, tt := range []struct {
		name  string
		shape schedule.Shape
		bytes int64
		ns    float64
	}{
		{"ring", schedule.Shape{Ranks: 8}, 1 << 20, 51617.664},
		{"rabenseifner", schedule.Shape{Ranks: 8}, 1 << 20, 43617.664},
		{"doubling", schedule.Shape{Ranks: 8}, 1 << 20, 69060.288},
		{"ring", schedule.Shape{Ranks: 6}, 98304, 13358.72},
		{"torus_2d", schedule.Shape{Ranks: 6, Width: 3}, 98304, 9358.72},
		{"ring_full", schedule.Shape{Ranks: 6}, 98304, 15321.92},
		{"torus_full", schedule.Shape{Ranks: 6, Width: 3}, 98304, 9193.152},
		{"mesh_chain", schedule.Shape{Ranks: 6, Width: 3}, 98304, 18091.392},
	} {
		p := program(t, tt.name, schedule.AllReduce, tt.shape)
		require.InDelta(t, tt.ns, run(t, p, reference(Full(tt.shape.Ranks)), tt.bytes).Makespan.Nanoseconds(), 1e-9, tt.name)
	}
	for _, tt := range []struct {
		name    string
		engines int
		ns      float64
	}{
		{"ring", 1, 7 * (1000 + 131072*.02)},
		{"direct", 1, 1000 + 7*131072*.02},
		{"direct", 7, 1000 + 131072*.02},
		{"bruck", 1, 3*1000 + 7*131072*.02},
		{"pat", 1, 3*1000 + 7*131072*.02},
		{"recursive_doubling", 1, 3*1000 + 7*131072*.02},
		{"bidirectional", 2, 4 * (1000 + 131072*.02)},
	} {
		m := reference(Full(8))
		m.Engines = tt.engines
		r := run(t, program(t, tt.name, schedule.AllGather, schedule.Shape{Ranks: 8}), m, 1<<20)
		require.InDelta(t, tt.ns, r.Makespan.Nanoseconds(), 1e-9, "%s, %d engines", tt.name, tt.engines)
	}
}

// TestBesideClosedForms compares where a program does not do what its formula counts: the steps of swing
// and of the pat reduce_scatter are several messages, of which one is added while the next one is under
// way, and the last step of a bidirectional all_gather of an even number of ranks goes one way.
func TestBesideClosedForms(t *testing.T) {
	for _, tt := range []struct {
		name        string
		collective  schedule.Collective
		engines     int
		ns, formula float64
	}{
		{"swing", schedule.AllReduce, 1, 43224.448, 2*3*1000 + 2*7*131072*.02 + 7*131072*.001},
		{"pat", schedule.ReduceScatter, 1, 21743.296, 3*1000 + 7*131072*.02 + 7*131072*.001},
		{"bidirectional", schedule.AllGather, 2, 14485.76, 7. / 2 * (1000 + 131072*.02)},
	} {
		m := reference(Full(8))
		m.Engines = tt.engines
		took := run(t, program(t, tt.name, tt.collective, schedule.Shape{Ranks: 8}), m, 1<<20).Makespan.Nanoseconds()
		require.InDelta(t, tt.ns, took, 1e-9, tt.name)
		require.Greater(t, math.Abs(took-tt.formula), 300., tt.name)
	}
}

// TestHosts compares with the formulas of hierarchical all_gathers of N hosts with G ranks each: sliced
// (N−1)(α+cβ) + N·g and staged g + (N−1)(α+G·cβ), where α and β are of the network, of which a message
// takes two links, and g is what a rank needs to send a slice to the others of its host.
func TestHosts(t *testing.T) {
	const hosts, mates, slice = 3, 4, 1 << 20
	p := func(name string) *schedule.Program {
		return program(t, name, schedule.AllGather, schedule.Shape{Ranks: hosts * mates, Width: mates})
	}
	m := Machine{
		Topology: Hosts(mates, hosts), Sharing: Unloaded, Latency: Microsecond, PerByte: 2.5, Engines: 1,
		Network: Link{2500 * Nanosecond, 20}, NetworkEngines: 1,
	}
	group := 1000 + (mates-1)*slice*.0025
	sliced := (hosts-1)*(5000+slice*.02) + hosts*group
	staged := group + (hosts-1)*(5000+mates*slice*.02)
	bytes := int64(hosts * mates * slice)
	require.InDelta(t, sliced, run(t, p("hierarchical_sliced"), m, bytes).Makespan.Nanoseconds(), 1e-9)
	require.InDelta(t, staged, run(t, p("hierarchical_staged"), m, bytes).Makespan.Nanoseconds(), 1e-9)
	// Half of each slice goes round the hosts while the other half, which has been there, spreads in a host.
	banded := run(t, p("hierarchical_banded"), m, bytes).Makespan.Nanoseconds()
	require.Less(t, banded, sliced)
	require.GreaterOrEqual(t, banded, (hosts-1)*(5000+slice*.02))

	// The links of an adapter are shared by all messages of its rank: under fifo they forward whole
	// messages, under fair the messages to a rank have its rate together.
	direct := program(t, "direct", schedule.AllGather, schedule.Shape{Ranks: hosts, Width: 1})
	m.Topology, m.NetworkEngines = Hosts(1, hosts), 0
	for sharing, ns := range map[Sharing]float64{
		Unloaded: 5000 + slice*.02, FIFO: 5000 + 3*slice*.02, Fair: 5000 + 2*slice*.02,
	} {
		m.Sharing = sharing
		require.InDelta(t, ns, run(t, direct, m, hosts*slice).Makespan.Nanoseconds(), .002, sharing)
	}

	require.Equal(t, "network of 1 host with 8 ranks each", Hosts(8, 1).Name)
	require.Equal(t, "network of 8 hosts with 1 rank each", Hosts(1, 8).Name)

	// Engines for the network are not those for the host.
	m.Topology, m.Sharing, m.NetworkEngines = Hosts(2, 2), Unloaded, 1
	all := program(t, "direct", schedule.AllGather, schedule.Shape{Ranks: 4})
	require.InDelta(t, 5000+2*slice*.02, run(t, all, m, 4*slice).Makespan.Nanoseconds(), 1e-9)
}

// TestSteps counts the steps that follow each other: with a latency alone, each costs it
// once.
func TestSteps(t *testing.T) {
	for _, a := range schedule.Algorithms() {
		if a.Name == "double_tree" { // up and down, by the depth of the deeper tree
			continue
		}
		for _, n := range []int{2, 3, 4, 5, 6, 8, 9, 13, 16} {
			s := schedule.Shape{Ranks: n, Width: 2 - n%2, Segments: 1}
			p, err := a.Generate(s)
			if err != nil {
				continue
			}
			m := Machine{Topology: Full(n), Sharing: Unloaded, Latency: Nanosecond}
			steps := int(run(t, p, m, 1<<20).Makespan / Nanosecond)
			require.Equal(t, wantSteps(string(a.Collective)+"/"+a.Name, s), steps, "%s %s of %+v", a.Name, a.Collective, s)
		}
	}
}

// TestBounds compares with what no schedule can beat: with a latency alone, the diameter of the topology,
// and ⌈log₂n⌉ where ranks send one message at a time that each takes long; with bytes alone, what each rank
// has to send over its one engine, and what has to cross the middle of a ring.
func TestBounds(t *testing.T) {
	const share = 1 << 10 // bytes of a rank
	programs := 0
	for _, a := range schedule.Algorithms() {
		for _, n := range []int{2, 3, 4, 6, 8, 12, 16, 32, 64} {
			w := 2 - n%2
			p, err := a.Generate(schedule.Shape{Ranks: n, Width: w, Segments: 2})
			if err != nil {
				continue
			}
			programs++
			in := func(m Machine) float64 { return float64(run(t, p, m, share*int64(n)).Makespan) }
			latency := func(topology Topology) float64 {
				return in(Machine{Topology: topology, Sharing: Unloaded, Latency: Nanosecond}) / float64(Nanosecond)
			}
			require.GreaterOrEqual(t, latency(Ring(n)), float64(n/2), "%s %s of %d", a.Name, a.Collective, n)
			require.GreaterOrEqual(t, latency(Torus(w, n/w)), float64(w/2+n/w/2), "%s %s of %d", a.Name, a.Collective, n)
			require.GreaterOrEqual(t, latency(Mesh(w, n/w)), float64(w+n/w-2), "%s %s of %d", a.Name, a.Collective, n)
			one := Machine{Topology: Full(n), Sharing: Unloaded, Overhead: Nanosecond, Engines: 1}
			require.GreaterOrEqual(t, in(one)/float64(Nanosecond), math.Ceil(math.Log2(float64(n))), "%s %s of %d", a.Name, a.Collective, n)

			sent, cross := float64(n-1)*share, float64(n/2)*share
			if a.Collective == schedule.AllReduce {
				sent, cross = 2*sent, float64(n)*share
			}
			full := Machine{Topology: Full(n), Sharing: Unloaded, PerByte: 10, Engines: 1}
			require.GreaterOrEqual(t, in(full), 10*sent, "%s %s of %d", a.Name, a.Collective, n)
			if n > 2 { // two links each way
				ring := Machine{Topology: Ring(n), Sharing: FIFO, PerByte: 10}
				require.GreaterOrEqual(t, in(ring), 10*cross/2, "%s %s of %d", a.Name, a.Collective, n)
			}
		}
	}
	require.Greater(t, programs, 200)
}

func wantSteps(name string, s schedule.Shape) int {
	n, w, h := s.Ranks, s.Width, s.Ranks/s.Width
	log, floor := 0, 0
	for 1<<log < n {
		log++
	}
	for 2<<floor <= n {
		floor++
	}
	folded := 0
	if n != 1<<floor {
		folded = 2
	}
	one := func(k int) int { return min(1, k) }
	switch name {
	case "all_gather/bidirectional":
		return n / 2
	case "all_gather/bruck", "all_gather/pat", "all_gather/recursive_doubling", "reduce_scatter/bruck", "reduce_scatter/pat", "reduce_scatter/recursive_halving":
		return log
	case "all_gather/direct", "all_gather/stream_broadcast", "reduce_scatter/direct", "all_reduce/direct_one_phase":
		return 1
	case "all_reduce/direct":
		return 2
	case "all_gather/hierarchical_sliced":
		return h - 1 + h*one(w-1)
	case "all_gather/hierarchical_staged":
		return one(w-1) + h - 1
	case "all_gather/hierarchical_banded":
		return 2 * (h - 1 + one(w-1)) // pushes one after the other, the rings beside them
	case "all_gather/line", "all_gather/ring", "all_gather/rotation", "reduce_scatter/ring", "all_reduce/ring_full":
		return n - 1
	case "all_reduce/ring", "all_reduce/bidirectional", "all_reduce/mesh_ring":
		return 2 * (n - 1)
	case "all_reduce/rabenseifner":
		return 2*floor + folded
	case "all_reduce/doubling":
		return floor + folded
	case "all_reduce/swing":
		return 2 * log
	case "all_reduce/torus_2d", "all_reduce/torus_2d_halves", "all_reduce/mesh_chain":
		return 2 * (w + h - 2)
	case "all_reduce/torus_full":
		return w + h - 2
	}
	return -1
}

// messageBetween is a program of one message.
func messageBetween(n, from, to int) *schedule.Program {
	p := &schedule.Program{Name: "message", Collective: schedule.AllReduce, Ranks: n, Chunks: 1, Ops: make([][]schedule.Op, n)}
	p.Ops[from] = []schedule.Op{{Kind: schedule.Send, Peer: int32(to), Count: 1}}
	p.Ops[to] = []schedule.Op{{Kind: schedule.Recv, Peer: int32(from), Count: 1}}
	return p
}

// TestAstra reproduces the numbers of astra-sim's analytical tests: 1 MiB at 50 GiB/s and
// 500 ns a hop, times on links truncated to nanoseconds.
func TestAstra(t *testing.T) {
	machine := func(t Topology, s Sharing) Machine {
		return Machine{Topology: t, Sharing: s, Latency: 500 * Nanosecond, PerByte: 1e12 / (50 << 30), Quantum: Nanosecond}
	}
	for _, tt := range []struct {
		topology Topology
		sharing  Sharing
		to       int
		ns       float64
	}{
		{Full(16), FIFO, 1, 20031},
		{Switch(16), FIFO, 1, 40062},
		{Ring(16), FIFO, 3, 60093},
		{Full(16), Unloaded, 1, 20031},
		{Ring(16), Unloaded, 2, 20531},
		{Ring(16), Unloaded, 3, 21031},
	} {
		r := run(t, messageBetween(16, 0, tt.to), machine(tt.topology, tt.sharing), 1<<20)
		require.Equal(t, tt.ns, r.Makespan.Nanoseconds(), "%s, %s", tt.topology.Name, tt.sharing)
	}
	all := run(t, program(t, "direct", schedule.AllGather, schedule.Shape{Ranks: 16}), machine(Ring(16), FIFO), 16<<20)
	require.Equal(t, 704116.0, all.Makespan.Nanoseconds())
}

// TestFair compares with rates worked out by hand: two messages of a switch that leave one
// rank share its link; when the shorter ends, the other has the link alone.
func TestFair(t *testing.T) {
	p := &schedule.Program{Name: "two", Collective: schedule.AllReduce, Ranks: 3, Chunks: 3, Ops: [][]schedule.Op{
		{{Kind: schedule.Send, Peer: 1, Count: 1, Group: 1}, {Kind: schedule.Send, Peer: 2, Count: 2, Group: 1}},
		{{Kind: schedule.Recv, Peer: 0, Count: 1}},
		{{Kind: schedule.Recv, Peer: 0, Count: 2}},
	}}
	m := Machine{Topology: Switch(3), Sharing: Fair, Latency: Nanosecond, PerByte: 10}
	r := run(t, p, m, 300)
	require.Equal(t, []Picoseconds{3000, 2000 + 2*1000, 3000 + 2*1000}, r.Ends)

	// On a ring every link of an all-to-all is loaded alike: the bytes of 36 messages.
	m = Machine{Topology: Ring(16), Sharing: Fair, PerByte: 10}
	r = run(t, program(t, "direct", schedule.AllGather, schedule.Shape{Ranks: 16}), m, 16*1000)
	require.InDelta(t, 36*10000, float64(r.Makespan), 36*10000/1e6)
}

func TestCostsOfSteps(t *testing.T) {
	m := Machine{Topology: Full(2), Sharing: Unloaded, Latency: 5, PerByte: 2, Issue: 100, Overhead: 30}
	r := run(t, messageBetween(2, 0, 1), m, 10)
	require.EqualValues(t, 100+30+20, r.Ends[0])
	require.EqualValues(t, 100+30+20+5+30, r.Ends[1])
}

func TestRefused(t *testing.T) {
	p := program(t, "ring", schedule.AllGather, schedule.Shape{Ranks: 4})
	_, err := Run(t.Context(), p, reference(Full(5)), 8, 1)
	require.EqualError(t, err, "full mesh has 5 ranks, the program has 4")
	m := reference(Full(4))
	m.Sharing = "even"
	_, err = Run(t.Context(), p, m, 8, 1)
	require.EqualError(t, err, `sharing "even", must be unloaded, fifo or fair`)
	m = reference(Full(4))
	m.PerByte = 1e16
	_, err = Run(t.Context(), p, m, 8, 1)
	require.EqualError(t, err, "a step can take more than 1,000 s: use fewer bytes, a higher bandwidth or a lower latency")
	p.Ops[3] = p.Ops[3][:2]
	_, err = Run(t.Context(), p, reference(Full(4)), 8, 1)
	require.EqualError(t, err, "the program never ends: its ops wait for each other; verify it for details")
}

// Messages that are ready at the same time take the engine of their rank in the order of its ops. On a
// ring, direct then sends over the same distance everywhere: no link has more messages than another.
func TestEnginesInOrder(t *testing.T) {
	const ranks = 16
	p := program(t, "direct", schedule.AllGather, schedule.Shape{Ranks: ranks})
	m := reference(Ring(ranks))
	m.Sharing = Fair
	r, err := Trace(t.Context(), p, m, 1<<20, 1)
	require.NoError(t, err)
	for rank, ops := range p.Ops {
		last := Picoseconds(-1)
		for i := range ops {
			if ops[i].Kind == schedule.Send {
				require.Greater(t, r.Ops[rank][i].Granted, last, "rank %d, op %d", rank, i)
				last = r.Ops[rank][i].Granted
			}
		}
	}
	// A step over a distance of d hops has d messages on each link, and 1 + … + 8 + 7 + … + 1 is 64.
	require.InDelta(t, 1000+64*(1<<16)*0.02, r.Makespan.Nanoseconds(), 0.1)
}

// TestLinksInOrder sends directly over a switch without a limit of engines: the messages of a rank take
// its link in the order of its ops, so that those of different ranks never meet behind the switch.
func TestLinksInOrder(t *testing.T) {
	const ranks = 7
	m := reference(Switch(ranks))
	m.Sharing, m.Engines = FIFO, 0
	r := run(t, program(t, "direct", schedule.AllGather, schedule.Shape{Ranks: ranks}), m, ranks*4000)
	require.InDelta(t, 2*1000+ranks*4000*0.02, r.Makespan.Nanoseconds(), 1e-6)
}

// BenchmarkRing simulates a ring all_reduce of 1 GiB among 1,024 ranks.
func BenchmarkRing(b *testing.B) {
	p := program(b, "ring", schedule.AllReduce, schedule.Shape{Ranks: 1024})
	for b.Loop() {
		r := run(b, p, reference(Full(1024)), 1<<30)
		require.Equal(b, 2095104, r.Messages)
		require.InDelta(b, 46026423.168, r.Makespan.Nanoseconds(), 1e-6)
	}
}

// BenchmarkDirect simulates a direct all_gather among 1,024 ranks of a switch.
func BenchmarkDirect(b *testing.B) {
	p := program(b, "direct", schedule.AllGather, schedule.Shape{Ranks: 1024})
	for _, sharing := range []Sharing{FIFO, Fair} {
		b.Run(string(sharing), func(b *testing.B) {
			m := reference(Switch(1024))
			m.Sharing, m.Engines = sharing, 0
			messages := 0
			for b.Loop() {
				messages += run(b, p, m, 1<<30).Messages
			}
			b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// A message that follows another on its stream gets its rate at once, before the first one arrives.
func TestFairMessagesFollow(t *testing.T) {
	p := &schedule.Program{Ranks: 2, Chunks: 2, Ops: [][]schedule.Op{
		{{Kind: schedule.Send, Peer: 1, Count: 1}, {Kind: schedule.Send, Peer: 1, Src: 1, Count: 1, Channel: 1}},
		{{Kind: schedule.Recv, Peer: 0, Count: 1}, {Kind: schedule.Recv, Peer: 0, Dst: 1, Count: 1, Stream: 1, Channel: 1}},
	}}
	m := Machine{Topology: Full(2), Sharing: Fair, Latency: 700, PerByte: 1}
	r, err := Run(t.Context(), p, m, 2000, 1)
	require.NoError(t, err)
	require.Equal(t, Picoseconds(1000+1000+700), r.Makespan)
}

// A sum of times that no number of picoseconds holds is an error, whichever way links are shared.
func TestTimesThatAreTooLong(t *testing.T) {
	const messages = 10_000
	p := &schedule.Program{Name: "chain", Collective: schedule.AllReduce, Ranks: 2, Chunks: 1, Ops: make([][]schedule.Op, 2)}
	for range messages {
		p.Ops[0] = append(p.Ops[0], schedule.Op{Kind: schedule.Send, Peer: 1, Count: 1})
		p.Ops[1] = append(p.Ops[1], schedule.Op{Kind: schedule.Recv, Peer: 0, Count: 1})
	}
	for _, sharing := range []Sharing{Unloaded, FIFO, Fair} {
		m := Machine{Topology: Full(2), Sharing: sharing, PerByte: 1e12}
		_, err := Run(t.Context(), p, m, 100, 1)
		require.NoError(t, err)
		_, err = Run(t.Context(), p, m, 1000, 1) // 10,000 times 1,000 s
		require.ErrorContains(t, err, "more than 106 days", sharing)
	}
}

// TestVersion fails where figures have changed: raise Version, and put the new digest here.
func TestVersion(t *testing.T) {
	require.Equal(t, 1, Version)
	h := fnv.New64a()
	costs := Machine{Latency: 700, PerByte: 3.7, Network: Link{1900, 11.3}, NetworkEngines: 1, Issue: 110, Overhead: 230, ReduceByte: 1.3, CopyByte: 0.9, Memory: Memory{50, 0.7}}
	for _, a := range schedule.Algorithms() {
		p, err := a.Generate(schedule.Shape{Ranks: 8, Width: 4, Segments: 3})
		require.NoError(t, err)
		for _, topology := range []Topology{Full(8), Switch(8), Ring(8), Mesh(4, 2), Torus(4, 2), Hosts(4, 2)} {
			for _, sharing := range []Sharing{Unloaded, FIFO, Fair} {
				for engines := range 3 {
					m := costs
					m.Topology, m.Sharing, m.Engines = topology, sharing, engines
					fmt.Fprintln(h, run(t, p, m, 100003).Makespan/Nanosecond) // processors round rates differently
				}
			}
		}
		if measuredBy := readMachine(t, measured); a.Allows(schedule.Shape{Ranks: 2, Width: 2, Segments: 3}) == nil {
			p, err := a.Generate(schedule.Shape{Ranks: 2, Width: 2, Segments: 3})
			require.NoError(t, err)
			fmt.Fprintln(h, run(t, p, measuredBy, 10007).Makespan/Nanosecond)
		}
	}
	require.Equal(t, uint64(0xec4b46beeb71ef1f), h.Sum64())
}
