package bench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// pairRows is a document of p2p from rank 0 to rank 1 with the times of sizes from 1 KiB on,
// each twice the one before.
func pairRows(us ...float64) *result.CollectiveDocument {
	d := &result.CollectiveDocument{}
	d.Identity.Case.Block = &plan.Collective{Op: "p2p", Buffers: "warm"}
	d.Measurement.DType, d.Topology.DeviceProduct = "float", "two cores"
	src, dst := 0, 1
	for i, t := range us {
		d.Measurement.Rows = append(d.Measurement.Rows, result.CollectiveRow{
			Bytes: 1024 << i, Src: &src, Dst: &dst, Check: result.Check{Passed: true},
			Pipelined: &result.Timing{Percentiles: result.Percentiles{P50: t}},
		})
	}
	return d
}

// Sizes on the two sides of a break are in classes of their own.
func TestMachineModel(t *testing.T) {
	var us []float64
	for i := range 5 { // 1 µs and 1 GB/s
		us = append(us, 1+1.024*float64(int(1)<<i))
	}
	for i := 5; i < 10; i++ { // 100 µs and 0.25 GB/s
		us = append(us, 100+4.096*float64(int(1)<<i))
	}
	m, err := MachineModel("host", pairRows(us...))
	require.NoError(t, err)
	require.Equal(t, "measured: p2p of float between single pairs, buffers warm, backend host, two cores", m.Origin)
	require.Len(t, m.Pairs, 1)
	classes := m.Pairs[0].Classes
	require.Len(t, classes, 2)
	require.Equal(t, int64(16<<10), classes[0].Points[4].Bytes)
	require.Equal(t, int64(32<<10), classes[1].Points[0].Bytes)
	require.InDelta(t, 1000*us[5], classes[1].Points[0].Nanoseconds, 1e-6)

	_, err = MachineModel("host", pairRows(1, 2, 3))
	require.EqualError(t, err, "rank 0 to rank 1: 3 sizes: a fit needs 4")
	wrong := pairRows(us...)
	wrong.Measurement.Rows[3].Check.Passed = false
	_, err = MachineModel("host", wrong)
	require.EqualError(t, err, "row of 8192 bytes without a pair, a time or a passed check")
}
