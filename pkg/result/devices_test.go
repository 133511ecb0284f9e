package result_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/result"
)

// rankDevice is a device that is well, changed by change.
func rankDevice(rank int, change func(*result.RankDevice)) result.RankDevice {
	d := result.RankDevice{
		Rank: rank, Partition: "no-mig", ECC: "on", MemoryInUse: 600 << 20,
		Before: &result.DeviceState{SMMHz: 345, Idle: true, ThrottleCounters: map[string]uint64{"sw-power-cap": 5, "hw-thermal-slowdown": 7}, ECCCorrected: 3},
		After:  &result.DeviceState{SMMHz: 1980, ThrottleCounters: map[string]uint64{"sw-power-cap": 5, "hw-thermal-slowdown": 7}, ECCCorrected: 3},
	}
	change(&d)
	return d
}

func TestDevicesWarn(t *testing.T) {
	well := func(*result.RankDevice) {}
	for _, tt := range []struct {
		name      string
		change    func(*result.RankDevice) // of rank 1 of 2
		throttled []result.Throttle
		warning   string // empty: none
	}{
		{"well", well, nil, ""},
		{"at its power limit", func(d *result.RankDevice) { d.After.ThrottleCounters["sw-power-cap"] = 6 }, []result.Throttle{{"sw-power-cap", []int{1}}}, ""},
		{
			"hot in between", func(d *result.RankDevice) { d.After.ThrottleCounters["hw-thermal-slowdown"] = 8 },
			[]result.Throttle{{"hw-thermal-slowdown", []int{1}}},
			"clocks held down by hw-thermal-slowdown: rank 1",
		},
		{
			"braked at the end", func(d *result.RankDevice) { d.After.Throttle = []string{"hw-power-brake-slowdown"} },
			[]result.Throttle{{"hw-power-brake-slowdown", []int{1}}},
			"clocks held down by hw-power-brake-slowdown: rank 1",
		},
		{
			"slow before", func(d *result.RankDevice) { d.Before.Throttle = []string{"hw-slowdown"} },
			[]result.Throttle{{"hw-slowdown", []int{1}}},
			"clocks held down by hw-slowdown: rank 1",
		},
		{"counter that only one reading has", func(d *result.RankDevice) { d.After.ThrottleCounters["prochot"] = 8 }, nil, ""},
		{"driver restarted", func(d *result.RankDevice) {
			d.After.ThrottleCounters["hw-thermal-slowdown"] = 0
			d.After.ECCCorrected = 0
		}, nil, ""},
		{"uncorrected errors", func(d *result.RankDevice) { d.After.ECCUncorrected = 2 }, nil, "uncorrected memory errors came up, 2 in all: rank 1"},
		{"slower than the other", func(d *result.RankDevice) { d.After.SMMHz = 1700 }, nil, "clocks of the devices differ at the end: 1700 to 1980 MHz"},
		{"hardly slower", func(d *result.RankDevice) { d.After.SMMHz = 1830 }, nil, ""},
		{"asleep again", func(d *result.RankDevice) { d.After.SMMHz = 345; d.After.Idle = true }, nil, ""},
		{"clock unknown", func(d *result.RankDevice) { d.After.SMMHz = 0 }, nil, ""},
		{"MIG", func(d *result.RankDevice) { d.Partition = "mig" }, nil, "MIG is on: rank 1"},
		{"shared", func(d *result.RankDevice) { d.MemoryInUse = 20 << 30 }, nil, "more than 1024 MiB of device memory in use before the rank opened it: rank 1"},
		{"neighbour before", func(d *result.RankDevice) { d.Before.OtherProcesses = new(1) }, nil, "processes of others used the device before or after the case: rank 1"},
		{"neighbour after", func(d *result.RankDevice) { d.Before.OtherProcesses, d.After.OtherProcesses = new(0), new(2) }, nil, "processes of others used the device before or after the case: rank 1"},
		{"no neighbour", func(d *result.RankDevice) { d.Before.OtherProcesses, d.BusyPercent = new(0), new(4) }, nil, ""},
		{"busy", func(d *result.RankDevice) { d.BusyPercent = new(5) }, nil, "the device computed, at least 5 % of the time, before the rank opened it: rank 1"},
		{"fabric at work", func(d *result.RankDevice) { d.Fabric = &result.Fabric{SentBytes: 1, ReceivedBytes: 1, WaitTicks: 1} }, nil, ""},
		{"fabric errs", func(d *result.RankDevice) { d.Fabric = &result.Fabric{LinkDowned: 1} }, nil, "RDMA ports of the node counted symbol errors or lost links: rank 1"},
		{"not read at the end", func(d *result.RankDevice) { d.After = nil }, nil, "state of the device not read before and after: rank 1"},
		{"never read", func(d *result.RankDevice) { *d = result.RankDevice{Rank: 1} }, nil, "state of the device not read before and after: rank 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := result.NewDevices([]result.RankDevice{rankDevice(0, well), rankDevice(1, tt.change)})
			require.Equal(t, append([]result.Throttle{}, tt.throttled...), d.Throttled)
			require.Equal(t, strings.Contains(tt.warning, "the device before") || strings.Contains(tt.warning, "before the rank opened"), d.Neighbours())
			if tt.warning == "" {
				require.Equal(t, []string{}, d.Warnings)
			} else {
				require.Equal(t, []string{tt.warning}, d.Warnings)
			}
		})
	}
	require.Nil(t, result.NewDevices(nil), "a host has none")
	both := result.NewDevices([]result.RankDevice{
		rankDevice(0, func(d *result.RankDevice) { d.After.ECCUncorrected, d.After.ECCCorrected = 1, 5 }),
		rankDevice(1, func(d *result.RankDevice) { d.After.ECCUncorrected, d.After.ECCCorrected = 2, 6 }),
	})
	require.EqualValues(t, 3, both.ECCUncorrected)
	require.EqualValues(t, 5, both.ECCCorrected)
	require.Equal(t, []string{"uncorrected memory errors came up, 3 in all: ranks 0, 1"}, both.Warnings)
}

// A document cannot be quieter than its devices.
func TestValidateRefusesDevicesThatSayLess(t *testing.T) {
	d := resulttest.Collective(resulttest.CollectiveCase(), resulttest.Attempt())
	hot := rankDevice(0, func(d *result.RankDevice) { d.After.Throttle = []string{"hw-slowdown"} })
	d.Devices = result.NewDevices([]result.RankDevice{hot})
	require.NoError(t, result.Validate(d))
	raw, err := result.Encode(d)
	require.NoError(t, err)
	again, err := result.Decode(raw)
	require.NoError(t, err)
	require.NoError(t, result.Validate(again), "as it is read back")
	d.Devices.Warnings = []string{}
	require.ErrorContains(t, result.Validate(d), "devices: the summary does not follow")
}

func TestFabricRise(t *testing.T) {
	before := result.Fabric{SentBytes: 10, ReceivedBytes: 20, WaitTicks: 3, SymbolErrors: 4, LinkDowned: 5}
	after := result.Fabric{SentBytes: 17, ReceivedBytes: 21, WaitTicks: 3, SymbolErrors: 1, LinkDowned: 6}
	require.Equal(t, result.Fabric{SentBytes: 7, ReceivedBytes: 1, SymbolErrors: 1, LinkDowned: 1}, after.Rise(before))
}
