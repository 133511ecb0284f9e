package runner

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/plantest"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// withVictim returns the document of a case with a victim whose rank measured a row. edit may
// change what it says of the victim.
func withVictim(t *testing.T, edit func(v *beside)) *copies.Document {
	t.Helper()
	return withRow(t, func(r *row) { edit(r.Victim) }, nil)
}

// withRow is the same, and edit may change the row. repeats are those of rank.Stream.
func withRow(t *testing.T, edit func(r *row), repeats map[string]map[int]int) *copies.Document {
	t.Helper()
	c, r := oneRow(edit)
	return assembled(t, c, repeats, r)
}

// oneRow returns a case of one row with a victim, and what its rank measured.
func oneRow(edit func(r *row)) (plan.Case, row) {
	c := plantest.Copy("ce", "device_local_copy", func(c *plan.Case) { copies.Of(c).Victim, copies.Of(c).Sizes = true, []int64{1 << 20} })
	windows := func(us float64) []float64 { return slices.Repeat([]float64{us}, copies.Of(&c).Timing.Trials) }
	r := row{Device: windows(100), Host: windows(110), Victim: &beside{
		Units: 4096, Alone: windows(1600), Slowed: windows(1632), Covered: windows(1), Copy: windows(105), CopyCovered: windows(0.97),
	}}
	edit(&r)
	return c, r
}

// assembled returns the document of a case of one row, which each rank measured in one way. The link of each device has
// a peak of 450 GB/s.
func assembled(t *testing.T, c plan.Case, repeats map[string]map[int]int, ranks ...row) *copies.Document {
	t.Helper()
	d := resulttest.New(c, resulttest.Attempt()).(*copies.Document)
	require.NoError(t, Assemble(d, streamsOf(t, repeats, result.Wrong{}, ranks...)))
	d.Topology.DeviceProduct = "NVIDIA H200"
	require.NoError(t, result.Validate(d))
	return d
}

// streamsOf are the records of ranks, each of whose checks found these words wrong.
func streamsOf(t *testing.T, repeats map[string]map[int]int, wrong result.Wrong, ranks ...row) (streams []rank.Stream) {
	t.Helper()
	for of, r := range ranks {
		s := rank.Stream{Rank: of, Done: true, Repeats: repeats, Facts: &rank.Facts{DeviceProduct: "NVIDIA H200"}}
		s.Device = &result.RankDevice{Rank: of, Limits: []result.Limit{{Of: result.LimitLink, GBps: 450}}}
		put := func(kind string, v any) {
			data, err := json.Marshal(v)
			require.NoError(t, err)
			s.Records = append(s.Records, rank.Record{Kind: kind, Data: data})
		}
		put(kindSetup, setup{Checked: "device"})
		for window := range r.windows() {
			for _, destination := range []bool{true, false} {
				put(kindCheck, check{Window: window, Way: of, Destination: destination, Finding: pool.Finding{Checked: 512, Wrong: wrong}})
			}
		}
		put(kindRow, r)
		streams = append(streams, s)
	}
	return streams
}

// A slowdown is the time beside the other one by that alone, and there is none if the other one
// ran for less than 0.95 of it.
func TestSlowdowns(t *testing.T) {
	d := withVictim(t, func(*beside) {})
	require.Equal(t, result.Success, d.Outcome.Status, d.Outcome.Reasons)
	v := d.Measurement.Rows[0].Victim
	require.Equal(t, int64(4096), v.Units)
	require.InDelta(t, 1.02, *v.Slowdown, 1e-9)
	require.InDelta(t, 1.05, *v.CopySlowdown, 1e-9)

	v = withVictim(t, func(b *beside) { b.Covered[0], b.Covered[1] = 0.94, 0.94 }).Measurement.Rows[0].Victim
	require.Nil(t, v.Slowdown)
	require.NotNil(t, v.CopySlowdown)
	v = withVictim(t, func(b *beside) { b.CopyCovered[0], b.CopyCovered[1] = 0.2, 0.2 }).Measurement.Rows[0].Victim
	require.NotNil(t, v.Slowdown)
	require.Nil(t, v.CopySlowdown)
}

// A victim that did not do its work is no measurement, nor one that takes no time or that lacks
// a window.
func TestVictimsThatDoNotCount(t *testing.T) {
	for want, edit := range map[string]func(b *beside){
		"check-failed: the victim took 5 units":                                      func(b *beside) { b.Wrong = "the victim took 5 units" },
		"implausible: victim alone of 1048576 bytes on 1 stream takes 0 us":          func(b *beside) { b.Alone[1] = 0 },
		"check-failed: 5 units, beside an impossible time":                           func(b *beside) { b.Wrong, b.Alone[1] = "5 units, beside an impossible time", 0 },
		"implausible: victim beside copies of 1048576 bytes on 1 stream takes 0 us":  func(b *beside) { b.Slowed[0] = 0 },
		"implausible: copy beside a victim of 1048576 bytes on 1 stream takes -2 us": func(b *beside) { b.Copy[0] = -2 },
		"check-did-not-run": func(b *beside) {
			b.Alone, b.Slowed, b.Covered, b.Copy, b.CopyCovered = b.Alone[:1], b.Slowed[:1], b.Covered[:1], b.Copy[:1], b.CopyCovered[:1]
		},
	} {
		d := withVictim(t, edit)
		require.Equal(t, result.Invalid, d.Outcome.Status)
		require.Equal(t, want, d.Outcome.Reasons.String())
	}
}

// A clock that says that a copy takes no time makes a case implausible, and leaves no figure of the
// clock.
func TestTimesThatCannotBe(t *testing.T) {
	d := withRow(t, func(r *row) { r.Device[1] = 0 }, nil)
	require.Equal(t, result.Invalid, d.Outcome.Status)
	require.Equal(t, "implausible: copy of 1048576 bytes on 1 stream by the clock of the device takes 0 us", d.Outcome.Reasons.String())
	require.Nil(t, d.Measurement.Rows[0].Device)
	require.False(t, d.Measurement.Rows[0].Complete)

	d = withRow(t, func(r *row) { r.Host[0] = -1 }, nil)
	require.Equal(t, "implausible: copy of 1048576 bytes on 1 stream by the clock of the host takes -1 us", d.Outcome.Reasons.String())
	require.Empty(t, d.Measurement.Rows)

	// Nor does it hide wrong data.
	of, r := oneRow(func(r *row) { r.Host[0] = -1 })
	d = resulttest.New(of, resulttest.Attempt()).(*copies.Document)
	require.NoError(t, Assemble(d, streamsOf(t, nil, result.Wrong{Torn: 1}, r)))
	require.Empty(t, d.Measurement.Rows)
	require.Equal(t, result.ReasonCheck, d.Outcome.Code(), d.Outcome.Reasons)

	c, bad := (&assembly{document: d}).clock("device", &copies.Row{Bytes: 8, Streams: 1}, []float64{1}, []float64{0, 1})
	require.Nil(t, c, "the opposite direction")
	require.Equal(t, "implausible: copy of 8 bytes on 1 stream by the clock of the device takes 0 us", bad.String())
}

// Nothing is faster than its link, in either direction and by either clock: not even one window that leaves out what
// later copies of it overwrite, a sixteenth of each.
func TestNothingIsFasterThanItsLink(t *testing.T) {
	c := plantest.Copy("ce", "device_to_device_bidirectional_memcpy_read_ce", func(c *plan.Case) { copies.Of(c).Sizes = []int64{1 << 20} })
	timing := copies.Of(&c).Timing
	const us = (1 << 20) / 400e3 // at 400 GB/s
	windows := func() (r row) {
		for i := range int64(timing.Trials) {
			r.Device, r.Host = append(r.Device, us), append(r.Host, us)
			r.Spans = append(r.Spans, span{1e6 * i, 1e6*i + int64(1e3*us*float64(timing.Reps))})
		}
		return r
	}
	d := assembled(t, c, nil, windows(), windows())
	require.Equal(t, result.Success, d.Outcome.Status, d.Outcome.Reasons)
	require.InDelta(t, 400, d.Measurement.Rows[0].Device.OppositeGBps, 1)
	require.InDelta(t, 800, d.Measurement.Rows[0].Both.GBps, 1)
	for rank, what := range []string{"opposite copy", "copy"} {
		for _, clock := range []string{"device", "host"} {
			ranks := []row{windows(), windows()}
			if clock == "device" {
				ranks[rank].Device[1] /= 16
			} else {
				ranks[rank].Host[1] /= 16
			}
			d := assembled(t, c, nil, ranks...)
			require.Equal(t, result.Invalid, d.Outcome.Status)
			require.Equal(t, "implausible: "+what+" by "+clock+" clock of 0.16384 us for 1048576 bytes or more by link, 6400 of at most 450 GBps", d.Outcome.Reasons.String())
			require.Len(t, d.Measurement.Rows, 1, "the figure stands beside the reason")
			require.False(t, d.Measurement.Rows[0].Verify.Passed)
		}
	}
}

// A swap that takes no time is implausible, and leaves no row. The percentiles of the others are of the nearest rank.
func TestTimesOfSwaps(t *testing.T) {
	d := swaps(t, func(us []float64) {})
	require.Equal(t, result.Success, d.Outcome.Status, d.Outcome.Reasons)
	l := d.Measurement.Rows[0].Latency
	require.Equal(t, 20, l.SampleCount)
	require.Equal(t, *result.PercentilesOf(10, 18, 19, 20), l.Micros)
	require.InDelta(t, 129.0/20/1e3, *l.GBps.P99, 1e-9)

	d = swaps(t, func(us []float64) { us[3] = 0 })
	require.Equal(t, "implausible: swap of 1 block of 129 bytes takes 0 us", d.Outcome.Reasons.String())
	require.Empty(t, d.Measurement.Rows)
}

// swaps returns the document of a swap of one block, which takes 1 to 20 µs; edit may change the times.
func swaps(t *testing.T, edit func(us []float64)) *copies.Document {
	t.Helper()
	c := plantest.Copy("ce", "swap_blocks_d2d", func(c *plan.Case) { copies.Of(c).BlockBytes, copies.Of(c).NumBlocks = []int64{129}, []int{1} })
	us := make([]float64, 20)
	for i := range us {
		us[i] = float64(20 - i)
	}
	edit(us)
	return assembled(t, c, nil, row{Each: [][]float64{us}})
}

func TestShare(t *testing.T) {
	require.InDelta(t, 0.25, share(1, 4), 0)
	require.InDelta(t, 1, share(5, 4), 0)
	require.Zero(t, share(-1, 4), "they did not meet")
	require.Zero(t, share(1, 0))
}

// What was found wrong is said with its side and its first byte.
func TestVerdictOfWrongWords(t *testing.T) {
	found := pool.Finding{Checked: 512, Wrong: result.Wrong{Torn: 4}, Class: "torn", At: 64}
	v := verdict([]track{{checks: []check{{Destination: true, Finding: found}}}}, 0, copies.TestOf("device_local_copy").Flows(1, copies.Turn{}), false, 1)
	require.False(t, v.Passed)
	require.Equal(t, "torn: 4 of 512 words wrong, the first at byte 64 of the destination", v.Detail)
}

// The windows of a trial in which a clock was capped give way to those of its repetition. All are checked.
func TestCappedTrialsAreReplaced(t *testing.T) {
	trials := []rank.Trial{{Number: 0}, {Number: 1}, {Number: 0, Repeat: 1}, {Number: 0, Repeat: 2}}
	d := withRow(t, func(r *row) {
		r.Trials = trials
		for _, list := range []*[]float64{&r.Device, &r.Host, &r.Victim.Alone, &r.Victim.Slowed, &r.Victim.Covered, &r.Victim.Copy, &r.Victim.CopyCovered} {
			v := (*list)[0]
			*list = []float64{v / 2, v, v / 2, v}
		}
	}, map[string]map[int]int{trialsOf(0): {0: 2}})
	require.Equal(t, result.Success, d.Outcome.Status, d.Outcome.Reasons)
	row := d.Measurement.Rows[0]
	require.Equal(t, result.Burst{P50: 100, P95: 100, Min: 100, Max: 100, N: 2}, row.Device.Micros)
	require.Equal(t, result.Burst{P50: 110, P95: 110, Min: 110, Max: 110, N: 2}, row.Host.Micros)
	require.Equal(t, 1632.0, row.Victim.Beside.Min)
	require.Equal(t, 2*4*len(trials), row.Verify.Checks)
}
