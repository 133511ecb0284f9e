package bench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer/copies"
)

// The reason is that of the case with the most buffers in the host's memory.
func TestCopiesThatDoNotFit(t *testing.T) {
	const gib = 1 << 30
	cases := func(largest int64, tests ...string) (out []plan.Case) {
		for _, name := range tests {
			out = append(out, plan.Case{Family: plan.FamilyCopy, Block: &plan.Copy{Test: name, Sizes: []int64{8, largest}}})
		}
		return out
	}
	const free = 10 * gib // 8 GiB may be used
	for _, fits := range []string{
		tooLarge(cases(100*gib, "device_local_copy", "device_to_device_memcpy_read_ce"), false, free),
		tooLarge(cases(7*gib, "host_to_device_memcpy_ce"), false, free),
		tooLarge(cases(copies.Largest(free, 2), "device_local_copy"), true, free),
		tooLarge(cases(copies.Largest(free, 4), "device_to_device_bidirectional_memcpy_read_ce"), true, free),
	} {
		require.Empty(t, fits)
	}
	require.Equal(t, "copies of 8G by host_to_device_memcpy_ce do not fit into the host's memory: choose sizes of at most 8189M",
		tooLarge(cases(8*gib, "device_local_copy", "host_to_device_memcpy_ce"), false, free))
	require.Equal(t, "copies of 8G by host_to_device_bidirectional_memcpy_ce do not fit into the host's memory: choose sizes of at most 4093M",
		tooLarge(cases(8*gib, "host_to_device_memcpy_ce", "host_to_device_bidirectional_memcpy_ce", "device_to_host_memcpy_ce"), false, free))
	require.Contains(t, tooLarge(cases(8*gib, "device_local_copy"), true, 1<<20), "choose sizes of at most 0")
}

// A slowdown that was not measured misses its limit, too.
func TestSlowdownLimit(t *testing.T) {
	p := &CopyReport{maxSlowdown: 1.02}
	slow, fine := 1.5, 1.01
	require.Equal(t, "the slowdown of the victim could not be measured, and --max-slowdown asks for it", p.slowdown(&result.CopyRow{}))
	require.Equal(t, "the victim is slowed down 1.5000 times, and --max-slowdown is 1.02", p.slowdown(&result.CopyRow{Victim: &result.CopyVictim{CopyVictimFigures: result.CopyVictimFigures{Slowdown: &slow}}}))
	require.Empty(t, p.slowdown(&result.CopyRow{Victim: &result.CopyVictim{CopyVictimFigures: result.CopyVictimFigures{Slowdown: &fine}}}))
	require.Empty(t, (&CopyReport{}).slowdown(&result.CopyRow{}))
}
