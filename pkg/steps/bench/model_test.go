package bench

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/schedule/simulate"
	"github.com/collectivex/collectivex/pkg/steps"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// What an operation of the measured documents takes longer alone than back to back; emptyUs where
// caches were emptied before.
const (
	startUs = 0.5
	emptyUs = 0.9
)

// documentOf is the document of a case, whose rows take the times that us gives.
func documentOf(c plan.Case, world int, us func(r *collective.Row) float64) *collective.Document {
	d := &collective.Document{}
	c.World = world
	d.Identity.Case, d.Topology.DeviceProduct, d.Measurement.DType = c, "two cores", c.Precision
	block := c.Block
	if s, ok := block.(*steps.Block); ok {
		block = s.Measured()
	}
	b := block.(*collective.Block)
	d.Measurement.Op, d.Measurement.Buffers = b.Op, b.Buffers
	op, _ := runner.ParseOp(b.Op)
	start := startUs
	if vocab.CachesEmptied(b.Buffers) {
		start = emptyUs
	}
	for _, n := range b.Sizes {
		for _, placement := range b.Placements {
			for _, pair := range op.Pairs(world) {
				r := collective.Row{Bytes: n, Placement: placement, Check: collective.Check{Passed: true}}
				if op.Pairwise() {
					r.Src, r.Dst = &pair.Src, &pair.Dst
				}
				t := us(&r)
				r.Blocking = &collective.Timing{Percentiles: result.Percentiles{P50: start + t}}
				if b.Buffers == vocab.Warm {
					r.Pipelined = &collective.Timing{Percentiles: result.Percentiles{P50: t}}
				}
				d.Measurement.Rows = append(d.Measurement.Rows, r)
			}
		}
	}
	return d
}

// A message of n bytes takes 1 µs and 1 GB/s alone, and from 32 KiB on 100 µs and 0.25 GB/s; twice
// that both ways, three times on all ranks, and only twice there into memory in caches, as that of a
// sum is. A sum adds 1 µs to each step, a copy 2 µs.
func messageUs(n int64) float64 {
	if n >= 32<<10 {
		return 100 + 4e-3*float64(n)
	}
	return 1 + 1e-3*float64(n)
}

func measuredBy(world int) []*collective.Document {
	m := Messages{DType: "float", Timing: collective.Counts{Iterations: 2, Trials: 1}, Buffers: vocab.FreshCold}
	for i := range 10 {
		m.Sizes = append(m.Sizes, 1024<<i)
	}
	var out []*collective.Document
	for _, c := range m.Operations(world) {
		factor := map[string]float64{"p2p": 1, "p2p_bidir": 2, "sendrecv": 3, "hypercube": 3}[collective.Of(&c).Op]
		if factor == 3 && collective.Of(&c).Buffers == vocab.Fresh {
			factor = 2
		}
		out = append(out, documentOf(c, world, func(r *collective.Row) float64 {
			if collective.Of(&c).Op != "hypercube" {
				return factor * messageUs(r.Bytes)
			}
			t := 0.0
			for n := int64(1); n < int64(world); n *= 2 {
				t += factor * messageUs(r.Bytes/int64(world)*n)
			}
			return t
		}))
	}
	for _, c := range m.Schedules(world) {
		n := float64(world - 1)
		out = append(out, documentOf(c, world, func(r *collective.Row) float64 {
			t := 3 * n * messageUs(r.Bytes/int64(world))
			switch {
			case steps.Of(&c).Op == "reduce_scatter" && world > 2:
				t = n * (2*messageUs(r.Bytes/int64(world)) + 1)
			case steps.Of(&c).Op == "reduce_scatter":
				t += n
			case r.Placement == vocab.OutOfPlace:
				t += 2
			}
			return t
		}))
	}
	return out
}

// The model has the times of messages in each situation, of sums and of copies, without the start.
// Sizes on the two sides of a break are in classes of their own.
func TestMachineModel(t *testing.T) {
	m, err := MachineModel("host", measuredBy(4))
	require.NoError(t, err)
	require.Equal(t, "measured: messages of float alone, both ways and on all of 4 ranks at once, sums and copies, fresh-cold buffers, backend host, two cores", m.Origin)
	require.InDelta(t, 1000*emptyUs, m.Start, 0.001, "as the messages of a hypercube say")
	require.InDelta(t, 1000*3*messageUs(1024)/2, m.Flight, 0.001, "at most half of the shortest message")
	require.InDelta(t, 1000*(startUs+messageUs(1024))/10, m.Pairs[11].Classes[0].Points[0].Nanoseconds, 0.001, "a tenth of what is shorter than start and flight")
	require.Len(t, m.Pairs, 12)
	require.Len(t, m.Both, 6)
	for _, c := range []struct {
		classes       []simulate.Class
		factor        float64
		measured, off float64 // the start that is in the times, and the one taken off
	}{
		{m.Pairs[11].Classes, 1, startUs, emptyUs},
		{m.Both[5].Classes, 2, startUs, emptyUs},
		{m.All, 3, emptyUs, emptyUs},
		{m.Cached, 2, startUs, startUs},
	} {
		require.Len(t, c.classes, 2)
		require.Equal(t, int64(16<<10), c.classes[0].Points[4].Bytes)
		require.Equal(t, int64(32<<10), c.classes[1].Points[0].Bytes)
		require.InDelta(t, 1000*(c.factor*messageUs(32<<10)+c.measured-c.off), c.classes[1].Points[0].Nanoseconds+m.Flight, 0.001)
	}
	for _, class := range m.Reduce {
		for _, p := range class.Points {
			require.InDelta(t, 1000, p.Nanoseconds, 0.01, "%d bytes", p.Bytes)
		}
	}
	require.Equal(t, int64(1024), m.Copy[0].Points[0].Bytes)
	require.InDelta(t, 2000, m.Copy[0].Points[0].Nanoseconds, 0.01)

	pair, err := MachineModel("host", measuredBy(2))
	require.NoError(t, err)
	require.Empty(t, pair.All, "two ranks at once are both ways")
	require.Equal(t, "measured: messages of float alone and both ways between 2 ranks, sums and copies, fresh-cold buffers, backend host, two cores", pair.Origin)
	require.InDelta(t, 1000*startUs, pair.Start, 0.001, "as the same messages back to back say")

	wrong := measuredBy(4)
	wrong[1].Measurement.Rows[3].Check.Passed = false
	_, err = MachineModel("host", wrong)
	require.EqualError(t, err, "p2p_bidir: the row of 1024 bytes has no time or did not pass its check")
	short := measuredBy(4)
	short[0].Measurement.Rows = short[0].Measurement.Rows[:30]
	_, err = MachineModel("host", short)
	require.EqualError(t, err, "rank 0 to rank 1: 3 sizes: a fit needs 4")
}

// What long messages are wrong by hardly changes the start, and a slow smallest message back to back
// is not the flight.
func TestStartAndFlightAreOfShortMessages(t *testing.T) {
	noisy := measuredBy(4)
	for _, d := range noisy {
		rows := d.Measurement.Rows
		switch {
		case d.Measurement.Op == "hypercube":
			for i := len(rows) - 3; i < len(rows); i++ {
				rows[i].Blocking.Percentiles.P50 *= 1.01
			}
		case d.Measurement.Buffers == vocab.Warm:
			for i := range rows {
				rows[i].Pipelined.Percentiles.P50 = 0.9
			}
			rows[0].Pipelined.Percentiles.P50 = 10
		}
	}
	m, err := MachineModel("host", noisy)
	require.NoError(t, err)
	require.InEpsilon(t, 1000*emptyUs, m.Start, 0.1, "a median would be half as long")
	require.InDelta(t, 900, m.Flight, 0.001)
}

// Several runs give the median of their times. Sizes whose times fall have their mean, and a message
// of a sum has no more than its step.
func TestMachineModelOfRuns(t *testing.T) {
	at := func(m *simulate.Model, i int) float64 {
		var points []simulate.Point
		for _, c := range m.All {
			points = append(points, c.Points...)
		}
		return points[i].Nanoseconds + m.Flight + m.Start
	}
	all := func(documents []*collective.Document) []collective.Row {
		i := slices.IndexFunc(documents, func(d *collective.Document) bool {
			return d.Measurement.Op == "sendrecv" && d.Measurement.Buffers == vocab.FreshCold
		})
		return documents[i].Measurement.Rows
	}
	runs := measuredBy(4)
	for _, slower := range []float64{1, 100} {
		again := measuredBy(4)
		for i := range all(again) {
			all(again)[i].Blocking.Percentiles.P50 += slower
		}
		runs = append(again, runs...)
	}
	m, err := MachineModel("host", runs)
	require.NoError(t, err)
	require.InDelta(t, 1000*(emptyUs+3*messageUs(8<<10)+1), at(m, 3), 0.01)

	// A message of a sum takes no longer than the step of the reduce_scatter that it is in.
	quick := measuredBy(4)
	scatter := quick[len(quick)-1].Measurement.Rows
	scatter[3].Blocking.Percentiles.P50 = emptyUs + 3*9
	m, err = MachineModel("host", quick)
	require.NoError(t, err)
	require.InDelta(t, 9000, m.Cached[0].Points[3].Nanoseconds+m.Flight, 0.01)
	require.InDelta(t, 0.001, m.Reduce[0].Points[3].Nanoseconds, 0.001)

	falls := measuredBy(4)
	all(falls)[2].Blocking.Percentiles.P50 += 30
	m, err = MachineModel("host", falls)
	require.NoError(t, err)
	mean := emptyUs + (3*messageUs(4<<10)+30+3*messageUs(8<<10))/2
	for i := 2; i < 4; i++ {
		require.InDelta(t, 1000*mean, at(m, i), 0.01)
	}
}
