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

// A time is on the line between two sizes of a class, never on one between classes.
func TestTable(t *testing.T) {
	table := readMachine(t, measured).Table
	for bytes, ns := range map[int64]Picoseconds{
		0: 1000, 1: 1000, 1024: 1000, 4608: 1350, 8192: 1700, // (1000 + 1700) / 2 in the middle
		8193: 4000, 12000: 4000, 16384: 4000, 40960: 7000, 65536: 10000,
	} {
		at, ok := table.time(0, 1, bytes)
		require.True(t, ok)
		require.Equal(t, ns*Nanosecond, at, "%d bytes", bytes)
	}
	_, ok := table.time(0, 1, 65537)
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
			}
		}
	}
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
		{"ring", 2, 1 << 20, Full(2), "no time of a message of 524288 bytes from rank 0 to rank 1, or of a larger one"},
		{"ring", 3, 1 << 10, Full(3), "measured times of 2 ranks, and none from rank 1 to rank 2"},
		{"ring", 2, 1 << 10, Ring(2), "take the topology full and the sharing unloaded"},
	} {
		m := readMachine(t, measured)
		m.Topology = tt.top
		_, err := Run(t.Context(), program(t, tt.name, schedule.AllGather, schedule.Shape{Ranks: tt.ranks}), m, tt.bytes, 1)
		require.ErrorContains(t, err, tt.want)
	}
}

func TestModelMistakes(t *testing.T) {
	for _, tt := range []struct{ old, changed, want string }{
		{"sharing", "shared", `host.yaml: line 2: unknown key "shared"`},
		{"unloaded", "fifo", "host.yaml: measured pairs replace latency_ns and ns_per_byte, and need the sharing unloaded"},
		{"engines: 1", "latency_ns: 5", "host.yaml: measured pairs replace latency_ns and ns_per_byte"},
		{"bytes: 8192", "bytes: 512", "host.yaml: pair 0 to 1: 1700 ns for 512 bytes: list sizes in ascending order"},
		{"ns: 1700", "ns: .nan", "host.yaml: pair 0 to 1: NaN ns for 8192 bytes"},
		{"ns: 1700", "ns: 1e300", "with times above 0 and up to 1e+12"},
		{"[{bytes: 65536, ns: 20000}]", "[]", "host.yaml: pair 1 to 0 has no points"},
		{"src: 1\n      dst: 0", "src: 0\n      dst: 1", "host.yaml: pair 0 to 1 is there twice"},
		{"src: 1", "src: 0", "host.yaml: pair 0 to 0, must be two ranks from 0 to 1023"},
		{"src: 1", "src: 5000000", "must be two ranks from 0 to 1023"},
		{measured, "", "host.yaml: the file is empty"},
		{measured, "sharing: unloaded\n", "host.yaml: messages take no time: give latency_ns, ns_per_byte or overhead_ns, or measured pairs"},
		{measured, "sharing: unloaded\nengines: 1\npairs:\n", "host.yaml: messages take no time"},
		{measured, measured + "---\nengines: 2\n", "host.yaml: the file has more than one YAML document: keep one"},
		{measured, "sharing: fifo\nlatency_ns: -5\n", "host.yaml: latency_ns: -5: want a number from 0 to 1e+12"},
		{measured, "sharing: fifo\nns_per_byte: .inf\n", "host.yaml: ns_per_byte: +Inf: want a number"},
		{measured, "sharing: foo\nlatency_ns: 1\n", `host.yaml: sharing "foo", must be unloaded, fifo or fair`},
		{measured, "engines: -1\nsharing: fair\n", "host.yaml: engines: -1: want a number from 0 on"},
	} {
		require.Contains(t, measured, tt.old)
		_, err := ReadModel("host.yaml", []byte(strings.Replace(measured, tt.old, tt.changed, 1)))
		require.ErrorContains(t, err, tt.want)
		require.NotContains(t, err.Error(), "\n")
	}
}
