package copies_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/plan"
)

// Who copies from where to where is as in nvbandwidth v0.8 (allHostHelper, allToOneHelper and oneToAllHelper of its
// testcase.cpp): a read has the context of its destination, a write that of its source.
func TestFlows(t *testing.T) {
	host := func(rank int) copies.Side { return copies.Side{Rank: rank, Host: true} }
	device := func(rank int) copies.Side { return copies.Side{Rank: rank} }
	for test, want := range map[string][]copies.Flow{ // of rank 1 of three
		"all_to_host_memcpy_ce": {{1, device(1), host(1), 1}, {0, device(0), host(0), 2}, {2, device(2), host(2), 2}},
		"host_to_all_memcpy_sm": {{1, host(1), device(1), 1}, {0, host(0), device(0), 2}, {2, host(2), device(2), 2}},
		"host_to_all_bidirectional_memcpy_ce": {
			{1, host(1), device(1), 1},
			{1, device(1), host(1), 2},
			{0, host(0), device(0), 2},
			{0, device(0), host(0), 2},
			{2, host(2), device(2), 2},
			{2, device(2), host(2), 2},
		},
		"all_to_one_write_ce": {{0, device(0), device(1), 1}, {2, device(2), device(1), 1}},
		"all_to_one_read_sm":  {{0, device(1), device(0), 1}, {2, device(1), device(2), 1}},
		"one_to_all_write_sm": {{1, device(1), device(0), 1}, {1, device(1), device(2), 1}},
		"one_to_all_read_ce":  {{1, device(0), device(1), 1}, {1, device(2), device(1), 1}},
	} {
		require.Equal(t, want, copies.TestOf(test).Flows(3, copies.Turn{One: 1}), test)
	}
	require.Equal(t, []copies.Flow{{1, device(0), device(1), 1}, {0, device(1), device(0), 1}},
		copies.TestOf("device_to_device_bidirectional_memcpy_read_sm").Flows(2, copies.Turn{One: 1}))
	require.Equal(t, "the copy by rank 1 from rank 1 to the host of rank 1", copies.Flow{1, device(1), host(1), 1}.String())
}

// The pairs of a matrix are in the order of their rows, whichever rank copies.
func TestPairsOfAMatrix(t *testing.T) {
	for _, test := range []string{"device_to_device_memcpy_read_ce", "device_to_device_memcpy_write_ce"} {
		c := plantest.CopyOn("ce", test, 3, func(c *plan.Case) { copies.Of(c).Sizes = []int64{8, 4096} })
		var got []string
		for _, r := range copies.Asked(&c) {
			got = append(got, r.Name())
		}
		var want []string
		for _, size := range []string{"8", "4096"} {
			for _, pair := range []string{"0 to 1", "0 to 2", "1 to 0", "1 to 2", "2 to 0", "2 to 1"} {
				want = append(want, size+" bytes on 1 stream, rank "+pair)
			}
		}
		require.Equal(t, want, got)
		require.Contains(t, c.CaseID, "each-w3")
	}
	c := plantest.CopyOn("ce", "one_to_all_write_ce", 3)
	rows := copies.Asked(&c)
	require.Len(t, rows, 3*len(copies.Of(&c).Sizes))
	require.Equal(t, "4096 bytes on 1 stream, rank 2", rows[2].Name())
	require.Equal(t, 2, rows[2].Copies)
	require.InDelta(t, 2*4096/1e3, rows[2].Rate(1), 1e-12)
}
