package simulate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/schedule"
)

// measured is a model of two ranks whose times break between 8 and 16 KiB. The way back takes
// longer.
const measured = `origin: "measured: by hand"
sharing: unloaded
engines: 1
reduce_ns_per_byte: 0.5
pairs:
    - src: 0
      dst: 1
      classes:
        - points: [{bytes: 1024, ns: 1000}, {bytes: 8192, ns: 1700}]
        - points: [{bytes: 16384, ns: 4000}, {bytes: 65536, ns: 10000}]
    - src: 1
      dst: 0
      classes:
        - points: [{bytes: 65536, ns: 20000}]
`

func readMachine(t *testing.T, text string) Machine {
	t.Helper()
	model, err := ReadModel("host.yaml", []byte(text))
	require.NoError(t, err)
	var again strings.Builder
	require.NoError(t, model.Write(&again))
	second, err := ReadModel("again.yaml", []byte(again.String()))
	require.NoError(t, err)
	require.Equal(t, model, second)
	m, err := model.Machine(Full(2))
	require.NoError(t, err)
	return m
}

// A measured model whose file was cut between any two lines is refused. A file that was written by hand
// need not say how many points it has.
func TestCutModel(t *testing.T) {
	model := together()
	model.Cached = []Class{{[]Point{{1 << 20, 3000}}}}
	var b strings.Builder
	require.NoError(t, model.Write(&b))
	lines := strings.SplitAfter(strings.TrimSuffix(b.String(), "\n"), "\n")
	require.Equal(t, "points: 22\n", lines[0])
	for n := range lines {
		_, err := ReadModel("cut.yaml", []byte(strings.Join(lines[:n], "")))
		require.Error(t, err, "%d of %d lines", n, len(lines))
	}
	_, err := ReadModel("cut.yaml", []byte(strings.Join(lines[:len(lines)-2], "")))
	require.EqualError(t, err, "cut.yaml: points: the file has 21 of 22 points, as if it was truncated: measure again, or correct the number if you removed points")
	_, err = ReadModel("hand.yaml", []byte(strings.Join(lines[1:len(lines)-2], "")))
	require.NoError(t, err)
}

// A time is on the line between two sizes of a class, never on one between classes.
func TestTable(t *testing.T) {
	pair := readMachine(t, measured).Table.alone(0, 1)
	for bytes, ns := range map[int64]Picoseconds{
		0: 1000, 1: 1000, 1024: 1000, 4608: 1350, 8192: 1700, // (1000 + 1700) / 2 in the middle
		8193: 4000, 12000: 4000, 16384: 4000, 40960: 7000, 65536: 10000,
	} {
		at, ok := pair.time(bytes)
		require.True(t, ok)
		require.Equal(t, ns*Nanosecond, at, "%d bytes", bytes)
	}
	_, ok := pair.time(65537)
	require.False(t, ok)
}

// A message holds an engine of its sender and takes the time of its pair. Sums are added to it.
func TestMeasuredMachine(t *testing.T) {
	m := readMachine(t, measured)
	gather := program(t, "rotation", schedule.AllGather, schedule.Shape{Ranks: 2})
	r, err := Run(t.Context(), gather, m, 2*8192, 1)
	require.NoError(t, err)
	require.Equal(t, []Picoseconds{20000 * Nanosecond, 20000 * Nanosecond}, r.Ends, "each rank waits for the slower way")

	reduce := program(t, "ring", schedule.AllReduce, schedule.Shape{Ranks: 2})
	traced, err := Trace(t.Context(), reduce, m, 2*8192, 1)
	require.NoError(t, err)
	path := traced.CriticalPath()
	require.Equal(t, Parts{Bytes: 40000 * Nanosecond, Reduce: 4096 * Nanosecond}, path.Parts)
	require.Equal(t, traced.Makespan, path.Total())
}

// The flight of measured messages passes while their sender sends the next one: a direct gather has
// it once, and a ring in each step.
func TestFlightOfMeasuredMessages(t *testing.T) {
	model := together()
	model.Both, model.All, model.Flight = nil, nil, 400
	m, err := model.Machine(Full(4))
	require.NoError(t, err)
	for algorithm, ns := range map[string]Picoseconds{"direct": 250 + 3*1000 + 400, "ring": 250 + 3*(1000+400)} {
		traced, err := Trace(t.Context(), program(t, algorithm, schedule.AllGather, schedule.Shape{Ranks: 4}), m, 4<<20, 1)
		require.NoError(t, err)
		require.Equal(t, ns*Nanosecond, traced.Makespan, algorithm)
		path := traced.CriticalPath()
		require.Equal(t, traced.Makespan, path.Total(), algorithm)
	}
}

// together is a model of four ranks, whose messages take longer the more of them are under way.
func together() Model {
	m := Model{Sharing: string(Unloaded), Engines: 1, Start: 250, Reduce: curve{{[]Point{{1 << 20, 300}}}}, Copy: curve{{[]Point{{1 << 20, 70}}}}}
	at := func(ns float64) []Class { return []Class{{[]Point{{1 << 20, ns}}}} }
	for src := range 4 {
		for dst := range 4 {
			if src != dst {
				m.Pairs = append(m.Pairs, Pair{src, dst, at(1000)})
			}
			if src < dst {
				m.Both = append(m.Both, Pair{src, dst, at(1600)})
			}
		}
	}
	m.All = at(4000)
	return m
}

// A message is slower with another the opposite way, and the more messages are under way. Its time
// is that of the situation throughout, or made up of those that it is in.
func TestMessagesAtOnce(t *testing.T) {
	model := together()
	m, err := model.Machine(Full(4))
	require.NoError(t, err)
	for _, tt := range []struct {
		name  string
		sends [][2]int
		ns    Picoseconds
	}{
		{"one", [][2]int{{0, 1}}, 1000},
		{"two apart", [][2]int{{0, 1}, {2, 3}}, 2000},
		{"both ways", [][2]int{{0, 1}, {1, 0}}, 2000},
		{"three", [][2]int{{0, 1}, {1, 2}, {2, 3}}, 3000},
		{"all", [][2]int{{0, 1}, {1, 2}, {2, 3}, {3, 0}}, 4000},
	} {
		p := &schedule.Program{Ranks: 4, Chunks: 4, Ops: make([][]schedule.Op, 4)}
		for i, s := range tt.sends {
			p.Ops[s[0]] = append(p.Ops[s[0]], schedule.Op{Kind: schedule.Send, Peer: int32(s[1]), Count: 1, Stream: 0, Channel: uint8(i)})
			p.Ops[s[1]] = append(p.Ops[s[1]], schedule.Op{Kind: schedule.Recv, Peer: int32(s[0]), Count: 1, Stream: 1, Channel: uint8(i)})
		}
		r, err := Run(t.Context(), p, m, 4096, 1)
		require.NoError(t, err, tt.name)
		require.Equal(t, (250+tt.ns)*Nanosecond, r.Makespan, tt.name)
	}

	// A message of half the size takes half the time, 800 ns both ways. Then half of the other one is
	// left, which takes 500 ns alone.
	model.All = nil
	model.Both[0].Classes = []Class{{[]Point{{1 << 19, 800}, {1 << 20, 1600}}}}
	for i := range model.Pairs {
		if p := &model.Pairs[i]; p.Src == 1 && p.Dst == 0 {
			p.Classes = []Class{{[]Point{{1 << 19, 500}, {1 << 20, 1000}}}}
		}
	}
	m, err = model.Machine(Full(4))
	require.NoError(t, err)
	p := &schedule.Program{Ranks: 4, Chunks: 4, Ops: [][]schedule.Op{
		{{Kind: schedule.Send, Peer: 1, Count: 2}, {Kind: schedule.Recv, Peer: 1, Count: 1, Stream: 1}},
		{{Kind: schedule.Recv, Peer: 0, Count: 2}, {Kind: schedule.Send, Peer: 0, Count: 1, Stream: 1}},
		{},
		{},
	}}
	r, err := Run(t.Context(), p, m, 2<<20, 1)
	require.NoError(t, err)
	require.Equal(t, (250+800+500)*Nanosecond, r.Makespan)
}

// The times of sums and of the start are in the makespan and on the critical path.
func TestMeasuredSums(t *testing.T) {
	model := together()
	m, err := model.Machine(Full(4))
	require.NoError(t, err)
	r, err := Trace(t.Context(), program(t, "ring", schedule.AllReduce, schedule.Shape{Ranks: 4}), m, 4096, 1)
	require.NoError(t, err)
	path := r.CriticalPath()
	require.Equal(t, Parts{Start: 250 * Nanosecond, Bytes: 6 * 1000 * Nanosecond, LinkWait: 6 * 3000 * Nanosecond, Reduce: 3 * 300 * Nanosecond}, path.Parts)
	require.Equal(t, r.Makespan, path.Total())
	require.Equal(t, 70*Nanosecond, m.onRank(schedule.Copy, 5))

	_, err = Run(t.Context(), program(t, "ring", schedule.AllReduce, schedule.Shape{Ranks: 4}), m, 8<<20, 1)
	require.ErrorContains(t, err, "2097152 bytes or more from rank 0 to rank 1")
	model.Reduce[0].Points[0].Bytes = 8
	m, err = model.Machine(Full(4))
	require.NoError(t, err)
	_, err = Run(t.Context(), program(t, "ring", schedule.AllReduce, schedule.Shape{Ranks: 4}), m, 4096, 1)
	require.EqualError(t, err, "the model has no time of adding 1024 bytes or more: measure larger sizes, or simulate smaller ones")
}

// A message that its receiver adds goes into memory that the receiver has in its caches: the first
// half of an all_reduce takes those times, and its second half those of a gather.
func TestMessagesIntoCaches(t *testing.T) {
	model := together()
	model.Cached = []Class{{[]Point{{1 << 20, 3000}}}}
	m, err := model.Machine(Full(4))
	require.NoError(t, err)
	for c, ns := range map[schedule.Collective]Picoseconds{
		schedule.AllGather: 250 + 3*4000, schedule.ReduceScatter: 250 + 3*(3000+300), schedule.AllReduce: 250 + 3*(3000+300) + 3*4000,
	} {
		r, err := Trace(t.Context(), program(t, "ring", c, schedule.Shape{Ranks: 4}), m, 4096, 1)
		require.NoError(t, err)
		require.Equal(t, ns*Nanosecond, r.Makespan, c)
		path := r.CriticalPath()
		require.Equal(t, r.Makespan, path.Total(), c)
	}

	model.Cached[0].Points[0].Bytes = 512
	m, err = model.Machine(Full(4))
	require.NoError(t, err)
	_, err = Run(t.Context(), program(t, "ring", schedule.AllReduce, schedule.Shape{Ranks: 4}), m, 4096, 1)
	require.ErrorContains(t, err, "1024 bytes or more from rank 0 to rank 1")
}

// The parts of the critical path of every schedule sum up to the makespan with measured times,
// too.
func TestMeasuredPathAddsUp(t *testing.T) {
	const ranks = 8
	model := Model{Sharing: string(Unloaded), Engines: 1, ReduceByte: 0.7}
	for src := range ranks {
		for dst := range ranks {
			if src != dst {
				least := float64(500 + 37*src + 11*dst)
				model.Pairs = append(model.Pairs, Pair{src, dst, []Class{{[]Point{{64, least}, {1 << 20, 9 * least}}}}})
				if src < dst {
					model.Both = append(model.Both, Pair{src, dst, []Class{{[]Point{{64, 1.5 * least}, {1 << 20, 11 * least}}}}})
				}
			}
		}
	}
	model.Start, model.All = 333, []Class{{[]Point{{64, 2000}, {1 << 20, 30000}}}}
	model.Cached = []Class{{[]Point{{64, 1500}, {1 << 20, 20000}}}}
	m, err := model.Machine(Full(ranks))
	require.NoError(t, err)
	for _, a := range schedule.Algorithms() {
		p := program(t, a.Name, a.Collective, schedule.Shape{Ranks: ranks, Width: 4, Segments: 3})
		r, err := Trace(t.Context(), p, m, 10007, 3)
		require.NoError(t, err, "%s %s", a.Name, a.Collective)
		path := r.CriticalPath()
		require.Equal(t, r.Makespan, path.Total(), "%s %s: %+v", a.Name, a.Collective, path)
		require.Positive(t, path.Bytes)
		require.GreaterOrEqual(t, path.LinkWait, Picoseconds(0))
	}
}

// What a model lacks for a program is said in a line.
func TestMeasuredMachineLacks(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ranks int
		bytes int64
		top   Topology
		want  string
	}{
		{"ring", 2, 1 << 20, Full(2), "no time of a message of 524288 bytes or more from rank 0 to rank 1"},
		{"ring", 3, 1 << 10, Full(3), "measured times of 2 ranks, but none from rank 1 to rank 2"},
		{"ring", 2, 1 << 10, Ring(2), "use the topology full and the sharing unloaded"},
	} {
		m := readMachine(t, measured)
		m.Topology = tt.top
		_, err := Run(t.Context(), program(t, tt.name, schedule.AllGather, schedule.Shape{Ranks: tt.ranks}), m, tt.bytes, 1)
		require.ErrorContains(t, err, tt.want)
	}
}

func TestModelMistakes(t *testing.T) {
	for _, tt := range []struct{ old, changed, want string }{
		{"sharing", "shared", `host.yaml:2:1: unknown key "shared"`},
		{"unloaded", "fifo", "host.yaml: measured pairs replace latency_ns and ns_per_byte, and need the sharing unloaded"},
		{"engines: 1", "latency_ns: 5", "host.yaml: measured pairs replace latency_ns and ns_per_byte"},
		{"bytes: 8192", "bytes: 512", "host.yaml: pair 0 to 1: 1700 ns for 512 bytes: list sizes in ascending order"},
		{"ns: 1700", "ns: .nan", `host.yaml:9:63: "ns" must be a number, not the number .nan`},
		{"ns: 1700", "ns: 1e300", "with times above 0 and up to 1e+12"},
		{"[{bytes: 65536, ns: 20000}]", "[]", `host.yaml:14:19: "points" is empty`},
		{"src: 1\n      dst: 0", "src: 0\n      dst: 1", "host.yaml: duplicate pair 0 to 1"},
		{"src: 1", "src: 0", "host.yaml: pair 0 to 0, must be two ranks from 0 to 1023"},
		{"src: 1", "src: 5000000", "must be two ranks from 0 to 1023"},
		{"pairs:", "all:\n  - points: [{bytes: 1, ns: 0}]\npairs:", "host.yaml: all: 0 ns for 1 bytes"},
		{"pairs:", "cached:\n  - points: [{bytes: 1, ns: 5}]\npairs:", "host.yaml: cached needs all: measure both of them"},
		{"pairs:", "memory_ns_per_byte: 1\npairs:", "host.yaml: measured times include memory accesses: leave memory_setup_ns and memory_ns_per_byte out"},
		{"pairs:", "memory_setup_ns: -1\npairs:", "host.yaml: memory_setup_ns: -1: want a number from 0 to 1e+12"},
		{"pairs:", "start_ns: -1\npairs:", "host.yaml: start_ns: -1: want a number from 0 to 1e+12"},
		{"pairs:", "reduce:\n  - points: [{bytes: 1, ns: 5}]\npairs:", "host.yaml: reduce has measured times of sums: leave reduce_ns_per_byte out"},
		{
			"pairs:", "both:\n  - {src: 0, dst: 1, classes: [{points: [{bytes: 1, ns: 5}]}]}\n  - {src: 1, dst: 0, classes: [{points: [{bytes: 1, ns: 5}]}]}\npairs:",
			"host.yaml: both: duplicate pair 0 to 1: give one of the two directions",
		},
		{measured, "sharing: fifo\nlatency_ns: 5\ncopy:\n  - points: [{bytes: 1, ns: 5}]\n", "host.yaml: both, all, cached, reduce, copy and flight_ns need pairs: measure all of them together"},
		{measured, "sharing: unloaded\noverhead_ns: 5\nflight_ns: 5\n", "host.yaml: both, all, cached, reduce, copy and flight_ns need pairs: measure all of them together"},
		{measured, "", "host.yaml:1:1: the file is empty"},
		{measured, "sharing: unloaded\n", "host.yaml: messages take no time: give latency_ns, ns_per_byte or overhead_ns, or measured pairs"},
		{measured, "sharing: unloaded\nengines: 1\npairs:\n", `host.yaml:3:7: "pairs" must be a list, not nothing`},
		{measured, measured + "---\nengines: 2\n", "host.yaml:15:1: a second document"},
		{measured, "sharing: fifo\nlatency_ns: -5\n", "host.yaml: latency_ns: -5: want a number from 0 to 1e+12"},
		{measured, "sharing: fifo\nns_per_byte: .inf\n", `host.yaml:2:14: "ns_per_byte" must be a number, not the number .inf`},
		{measured, "sharing: foo\nlatency_ns: 1\n", `host.yaml: sharing "foo"`},
		{measured, "engines: -1\nsharing: fair\n", "host.yaml: engines: -1: must be at least 0, which is no limit"},
		{measured, "sharing: fair\nlatency_ns: 1\nnetwork_engines: -1\n", "host.yaml: network_engines: -1: must be at least 0, which is no limit"},
		{measured, "sharing: fair\nlatency_ns: 1\nissue_ns: -1\n", "host.yaml: issue_ns: -1: want a number from 0 to 1e+12"},
		{"pairs:", "network_latency_ns: 5\npairs:", "host.yaml: measured pairs do not distinguish hosts: leave network_latency_ns and network_ns_per_byte out"},
		{"pairs:", "copy_ns_per_byte: 5\ncopy:\n  - points: [{bytes: 1, ns: 5}]\npairs:", "host.yaml: copy has measured times of copies: leave copy_ns_per_byte out"},
	} {
		require.Contains(t, measured, tt.old)
		_, err := ReadModel("host.yaml", []byte(strings.Replace(measured, tt.old, tt.changed, 1)))
		require.ErrorContains(t, err, tt.want)
		require.NotContains(t, err.Error(), "\n")
	}
}
