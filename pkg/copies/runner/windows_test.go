package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/copies"
)

// Copies that are timed as one end with the slowest of them, and begin with the first, by the clocks of the devices too.
func TestWindowsOfSeveralRanks(t *testing.T) {
	test := copies.TestOf("all_to_one_write_ce")
	tracks := []track{
		{rows: map[int]row{0: {Device: []float64{1, 5}, Opened: []span{{1000, 1000}, {20000, 20000}}, Host: []float64{9, 9}, Spans: []span{{1000, 9000}, {20000, 28000}}}}},
		{},
		{rows: map[int]row{0: {Device: []float64{2, 4}, Opened: []span{{1000, 1000}, {20000, 26000}}, Host: []float64{9, 9}, Spans: []span{{2000, 11000}, {19000, 27000}}}}},
	}
	flows := test.Flows(3, copies.Turn{One: 1})
	w, ok := windowsOf(tracks, 0, flows, test)
	require.True(t, ok)
	require.Equal(t, []float64{2, 7}, w.device(2), "another rank was 6 us late")
	require.Equal(t, []float64{5, 4.5}, w.host(2), "10 and 9 us of two copies each")
	require.Nil(t, w.covered())

	delete(tracks[2].rows, 0)
	_, ok = windowsOf(tracks, 0, flows, test)
	require.False(t, ok, "a rank lacks the row")
	tracks[2].rows[0] = row{Device: []float64{2}, Opened: []span{{1000, 1000}}, Spans: []span{{2000, 11000}}}
	w, _ = windowsOf(tracks, 0, flows, test)
	require.Empty(t, w.device(2), "a rank lacks a window")
	require.Empty(t, w.host(2))
}

// Copies to the host are covered for as long as all other ranks copied too.
func TestCovered(t *testing.T) {
	test := copies.TestOf("all_to_host_memcpy_ce")
	windows := func(spans ...span) track {
		return track{rows: map[int]row{0: {Host: make([]float64, len(spans)), Spans: spans}}}
	}
	for _, tt := range []struct {
		others [2]track
		want   float64
	}{
		{[2]track{windows(span{0, 99}), windows(span{0, 40})}, 1},
		{[2]track{windows(span{0, 19}), windows(span{11, 99})}, 0.8},
		{[2]track{windows(span{0, 12}), windows(span{15, 99})}, 0},
	} {
		w, ok := windowsOf([]track{tt.others[0], windows(span{10, 20}), tt.others[1]}, 0, test.Flows(3, copies.Turn{One: 1}), test)
		require.True(t, ok)
		require.InDelta(t, tt.want, *w.covered(), 1e-12)
	}
	w, _ := windowsOf([]track{windows(), windows(span{10, 20}), windows(span{10, 20})}, 0, test.Flows(3, copies.Turn{One: 1}), test)
	require.Nil(t, w.covered())
}
