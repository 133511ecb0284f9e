package result

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Devices describes the state of the ranks' devices before the first and after the last timed window of an
// attempt. All other fields are derived from Ranks; see NewDevices.
type Devices struct {
	// Throttled lists why clocks were reduced during the attempt, in the vendor's terms. An idle device is
	// not throttled.
	Throttled []Throttle `json:"throttled"`
	// The memory errors of the attempt, over all devices.
	ECCCorrected   uint64 `json:"ecc_corrected"`
	ECCUncorrected uint64 `json:"ecc_uncorrected"`
	// Warnings describe, one line each, problems that affect the figures or could not be observed.
	Warnings []string `json:"warnings"`
	// Ranks has one entry for each rank that reported its device, in rank order.
	Ranks []RankDevice `json:"ranks"`
}

// Throttle is one reason for lower clocks and the ranks whose devices had it: at a reading before, between or
// after the windows, or at any time if the driver counts.
type Throttle struct {
	Reason string `json:"reason"`
	Ranks  []int  `json:"ranks"`
}

// RankDevice is the device of one rank.
type RankDevice struct {
	Rank      int    `json:"rank"`
	Partition string `json:"partition,omitempty"` // mig, no-mig; SPX/NPS1
	ECC       string `json:"ecc,omitempty"`       // on or off; empty where unknown
	// MemoryInUse is the device memory, in bytes, that the driver and other processes used before the rank
	// opened the device.
	MemoryInUse int64 `json:"memory_in_use_bytes"`
	// BusyPercent is the percentage of the last second in which the device computed, before the rank opened it;
	// missing if it is unknown.
	BusyPercent *int `json:"busy_percent,omitempty"`
	// Limits are the known peaks of the device and, for the first rank of a node, of the node's network.
	Limits []Limit `json:"limits,omitempty"`
	// Clocks counts the readings of the clock between the windows; missing if there are none.
	Clocks *ClockReadings `json:"clocks,omitempty"`
	// TrialsRepeated counts repetitions of trials in which the clock of a rank was capped. They replace these
	// trials in the figures, except TrialsCapped ones, which were capped in three repetitions too. Both are the
	// same on all ranks.
	TrialsRepeated int `json:"trials_repeated,omitempty"`
	TrialsCapped   int `json:"trials_capped,omitempty"`
	// The states are null if they could not be read.
	Before *DeviceState `json:"state_before"`
	After  *DeviceState `json:"state_after"`
	// Fabric is what the RDMA ports of the rank's node counted between the two readings, over all ports.
	// The first rank of a node with such ports reports it.
	Fabric *Fabric `json:"fabric,omitempty"`
}

// ClockReadings counts readings of the SM clock between timed windows, while the device was busy.
type ClockReadings struct {
	Readings int `json:"readings"`
	// Capped counts the readings below 98.5 % of the maximum for which the driver had a reason other than a setting.
	Capped    int      `json:"capped"`
	CappedBy  []string `json:"capped_by,omitempty"` // sorted
	LowestMHz int      `json:"lowest_mhz"`
}

// Add counts a reading, which is capped if it has reasons.
func (c *ClockReadings) Add(mhz int, cappedBy []string) {
	if c.Readings++; c.Readings == 1 || mhz < c.LowestMHz {
		c.LowestMHz = mhz
	}
	if len(cappedBy) == 0 {
		return
	}
	c.Capped++
	c.CappedBy = append(c.CappedBy, cappedBy...)
	slices.Sort(c.CappedBy)
	c.CappedBy = slices.Compact(c.CappedBy)
}

// Fabric holds counters of RDMA ports.
type Fabric struct {
	SentBytes     uint64 `json:"sent_bytes"`
	ReceivedBytes uint64 `json:"received_bytes"`
	// WaitTicks counts ticks in which a port had data and no credit to send it.
	WaitTicks    uint64 `json:"wait_ticks"`
	SymbolErrors uint64 `json:"symbol_errors"`
	LinkDowned   uint64 `json:"link_downed"`
}

// Rise returns the increase from before to f. A counter that was reset starts from 0.
func (f Fabric) Rise(before Fabric) Fabric {
	return Fabric{
		SentBytes:     rise(before.SentBytes, f.SentBytes),
		ReceivedBytes: rise(before.ReceivedBytes, f.ReceivedBytes),
		WaitTicks:     rise(before.WaitTicks, f.WaitTicks),
		SymbolErrors:  rise(before.SymbolErrors, f.SymbolErrors),
		LinkDowned:    rise(before.LinkDowned, f.LinkDowned),
	}
}

// DeviceState is the variable state of a device. Zero clocks, temperature and power are unknown.
type DeviceState struct {
	// OtherProcesses counts processes of others that use the device; missing if the driver does not list the
	// rank's own process.
	OtherProcesses *int `json:"other_processes,omitempty"`
	SMMHz          int  `json:"sm_mhz"`
	MemMHz         int  `json:"mem_mhz"`
	TemperatureC   int  `json:"temperature_c"`
	PowerW         int  `json:"power_w"`
	Idle           bool `json:"idle"` // clocks are low because nothing runs
	// Throttle lists why clocks are currently reduced.
	Throttle []string `json:"throttle,omitempty"`
	// ThrottleCounters grow while a reason reduces clocks: nanoseconds on NVIDIA, cycles of the power
	// firmware on AMD. Counters that the driver lacks are missing.
	ThrottleCounters map[string]uint64 `json:"throttle_counters,omitempty"`
	// ECC errors since the driver started.
	ECCCorrected   uint64 `json:"ecc_corrected"`
	ECCUncorrected uint64 `json:"ecc_uncorrected"`
}

// NewDevices summarizes the ranks' devices; nil without any.
func NewDevices(ranks []RankDevice) *Devices {
	if len(ranks) == 0 {
		return nil
	}
	d := &Devices{Throttled: []Throttle{}, Warnings: []string{}, Ranks: ranks}
	reasons := map[string][]int{}
	var unread, mig, shared, occupied, busy, uncorrected, fabric []int
	for _, r := range ranks {
		for _, reason := range r.throttled() {
			reasons[reason] = append(reasons[reason], r.Rank)
		}
		if r.Before == nil || r.After == nil {
			unread = append(unread, r.Rank)
		} else {
			d.ECCCorrected += rise(r.Before.ECCCorrected, r.After.ECCCorrected)
			if n := rise(r.Before.ECCUncorrected, r.After.ECCUncorrected); n > 0 {
				d.ECCUncorrected += n
				uncorrected = append(uncorrected, r.Rank)
			}
		}
		if r.Partition == partitionMIG {
			mig = append(mig, r.Rank)
		}
		if r.MemoryInUse > memoryOfNobody {
			shared = append(shared, r.Rank)
		}
		if r.occupied() {
			occupied = append(occupied, r.Rank)
		}
		if r.busy() {
			busy = append(busy, r.Rank)
		}
		if f := r.Fabric; f != nil && f.SymbolErrors+f.LinkDowned > 0 {
			fabric = append(fabric, r.Rank)
		}
	}
	warn := func(ranks []int, format string, args ...any) {
		if len(ranks) > 0 {
			d.Warnings = append(d.Warnings, fmt.Sprintf(format, args...)+": "+names(ranks))
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		d.Throttled = append(d.Throttled, Throttle{Reason: reason, Ranks: reasons[reason]})
		if !slices.Contains(harmless, reason) {
			warn(reasons[reason], "clocks held down by %s", reason)
		}
	}
	warn(uncorrected, "uncorrected memory errors came up, %d in all", d.ECCUncorrected)
	if low, high := clocks(ranks); float64(high) > clockSpread*float64(low) {
		d.Warnings = append(d.Warnings, fmt.Sprintf("clocks of the devices differ at the end: %d to %d MHz", low, high))
	}
	warn(fabric, "RDMA ports of the node counted symbol errors or lost links")
	warn(mig, "MIG is on")
	warn(shared, "more than %d MiB of device memory in use before the rank opened it", memoryOfNobody>>20)
	warn(occupied, "processes of others used the device before or after the case")
	warn(busy, "the device computed, at least %d %% of the time, before the rank opened it", BusyFrom)
	warn(unread, StateUnread)
	return d
}

// Capped reports whether the clock of a device was capped at one of the readings between windows.
func (d *Devices) Capped() bool {
	return slices.ContainsFunc(d.Ranks, func(r RankDevice) bool { return r.Clocks != nil && r.Clocks.Capped > 0 })
}

// Neighbours reports whether processes outside of the run seem to have used the devices.
func (d *Devices) Neighbours() bool {
	return slices.ContainsFunc(d.Ranks, func(r RankDevice) bool { return r.MemoryInUse > memoryOfNobody || r.occupied() || r.busy() })
}

func (r RankDevice) busy() bool { return r.BusyPercent != nil && *r.BusyPercent >= BusyFrom }

// occupied reports whether processes of others used the device at one of the readings.
func (r RankDevice) occupied() bool {
	return slices.ContainsFunc([]*DeviceState{r.Before, r.After}, func(s *DeviceState) bool {
		return s != nil && s.OtherProcesses != nil && *s.OtherProcesses > 0
	})
}

// StateUnread begins the warning that names ranks whose states are missing, such as ranks that did not
// complete their case.
const StateUnread = "state of the device not read before and after"

const (
	partitionMIG = "mig"
	// memoryOfNobody exceeds what drivers use themselves. More means that another process uses the
	// device.
	memoryOfNobody = 1 << 30
	// BusyFrom is the minimum utilisation, in percent, of a device that is in use.
	BusyFrom = 5
	// clockSpread is the accepted ratio of the fastest device's clock to the slowest's.
	clockSpread = 1.1
)

// harmless reasons are settings, or the limit at which a busy device works.
var harmless = []string{"sw-power-cap", "current-limit", "applications-clocks-setting", "display-clock-setting", "sync-boost"}

// throttled lists the reasons that were observed, or counted between the readings.
func (r RankDevice) throttled() []string {
	seen := map[string]bool{}
	for _, s := range []*DeviceState{r.Before, r.After} {
		if s != nil {
			for _, reason := range s.Throttle {
				seen[reason] = true
			}
		}
	}
	if r.Clocks != nil {
		for _, reason := range r.Clocks.CappedBy {
			seen[reason] = true
		}
	}
	if r.Before != nil && r.After != nil {
		for reason, n := range r.After.ThrottleCounters {
			if before, counted := r.Before.ThrottleCounters[reason]; counted && n > before {
				seen[reason] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// rise returns the increase of a counter, which starts from 0 if the driver was restarted.
func rise(before, after uint64) uint64 {
	if after < before {
		return after
	}
	return after - before
}

// clocks returns the lowest and the highest clock at the end, without idle devices.
func clocks(ranks []RankDevice) (low, high int) {
	for _, r := range ranks {
		if r.After == nil || r.After.Idle || r.After.SMMHz == 0 {
			continue
		}
		if mhz := r.After.SMMHz; low == 0 || mhz < low {
			low = mhz
		}
		high = max(high, r.After.SMMHz)
	}
	return low, high
}

// names formats ranks.
func names(ranks []int) string {
	words := make([]string, len(ranks))
	for i, r := range ranks {
		words[i] = fmt.Sprint(r)
	}
	if len(words) == 1 {
		return "rank " + words[0]
	}
	return "ranks " + strings.Join(words, ", ")
}
