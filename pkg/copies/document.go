package copies

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/plural"
	"github.com/collectivex/collectivex/pkg/result"
)

// Document answers a copy case.
type Document struct {
	result.Envelope
	Measurement Measurement `json:"measurement"`
}

// Measurement is the measured part of a copy document. Rates are GB/s = 1e9 bytes per
// second, of the payload: a copy within a device counts once.
type Measurement struct {
	PayloadUnit string `json:"payload_unit" in:"payload of copies"`
	// CheckedBy is where the memory of devices was checked: device, or host for copies of it. The host checks blocks of
	// sizes that are no multiple of 8 bytes.
	CheckedBy string `json:"checked_by"`
	// Engines are the numbers of the copy engines that streams use in rotation, if the program chooses them and
	// not the driver.
	Engines  []int        `json:"engines,omitempty"`
	Sampling SampleCounts `json:"sampling"`
	Rows     []Row        `json:"rows"`
	// Excluded are the points of a swap's grid that were not measured.
	Excluded []Excluded `json:"excluded,omitempty"`
}

// Excluded is a point of a swap's grid that was not measured.
type Excluded struct {
	BlockBytes int64  `json:"block_bytes"`
	NumBlocks  int    `json:"num_blocks"`
	Reason     string `json:"reason" in:"exclusion of a point"`
}

// exceedsPayload is the reason of a point whose payload exceeds the maximum of its case.
const exceedsPayload = "exceeds-max-payload-bytes"

// SampleCounts holds the sample counts that the case requests.
type SampleCounts struct {
	Warmup  int `json:"warmup_per_row"`
	Copies  int `json:"copies_per_window"`
	Windows int `json:"windows"`
}

// Row is one size on a number of streams and, where a case has several, one device or pair; or one point of a swap's grid.
type Row struct {
	// Src and Dst are the ranks of a pair, from whose device data move to that of the other: in a case of each pair.
	Src *int `json:"src,omitempty"`
	Dst *int `json:"dst,omitempty"`
	// Target is the rank whose device is measured: in a case of each device, and in tests of all devices.
	Target  *int  `json:"target,omitempty"`
	Bytes   int64 `json:"bytes"`   // of a copy, on all streams
	Streams int   `json:"streams"` // that share a copy
	Pieces  int   `json:"pieces"`  // of a copy, on all streams; of a swap, its blocks
	// BlockBytes is the size of the blocks of a swap; missing for other copies.
	BlockBytes int64 `json:"block_bytes,omitempty"`
	// Copies is the number of copies of these bytes that are timed as one, from the start to the end of the last of
	// them: one for each other device, in a test of what all of them move together. Missing: 1.
	Copies int `json:"copies,omitempty"`
	// Accesses is the number of reads of a copy that reads one word of 8 bytes after another, 128 bytes apart. The address
	// of each follows from the word before it. Missing in other tests.
	Accesses int `json:"accesses,omitempty"`
	// Device is by events of the device, of several devices from the start of the first. The work of a window was
	// enqueued before any of it began. Missing if calls wait for the copy, if a window has more pieces than a device
	// queues, or if the kernel that holds the device cannot be compiled.
	Device *Clock `json:"device,omitempty"`
	// Host is by the clock of the host, from the first call to the end of the last copy.
	Host *Clock `json:"host,omitempty"`
	// Latency has the time of each swap of blocks, instead of a clock.
	Latency *Latency `json:"latency,omitempty"`
	// Both is the combined result of both directions, for a test between two devices.
	Both *Both `json:"both,omitempty"`
	// Covered is the fraction of the time of the copies in which all other devices copied too, by the clock of their
	// host: the median of the windows. Of tests in which other devices copy to or from the host, untimed.
	Covered *float64 `json:"covered,omitempty"`
	// Victim is measured next to a computing kernel, for a case that requests it.
	Victim   *Victim       `json:"victim,omitempty"`
	Complete bool          `json:"complete"` // false: the case ended before all samples were taken
	Verify   result.Verify `json:"verify"`
}

// Clock holds the results of one clock for a row.
type Clock struct {
	// Micros is the time of a copy: the time of a window divided by the number of its copies.
	Micros result.Burst `json:"us_per_copy"`
	// GBps is the bytes of a copy, times the row's copies, divided by the median; of accesses, their words. For a test
	// in both directions it is the direction in the test's name.
	GBps float64 `json:"gbps"`
	// OppositeGBps is the other direction, for a test between two devices in both directions. On one device the
	// other direction is a disturbance that outlasts the window.
	OppositeGBps float64 `json:"opposite_gbps,omitempty"`
	// Nanos is the time of one read, for a row with accesses: the median divided by their number.
	Nanos float64 `json:"ns_per_access,omitempty"`
}

// Latency describes the times of swaps, each by the clock of the host from before its first call until the device
// has made its last copy.
type Latency struct {
	SampleCount int                `json:"sample_count"`
	Micros      result.Percentiles `json:"percentiles_us"`
	// GBps is the bytes of a swap divided by each percentile: p99 is the rate of a slow swap.
	GBps result.Percentiles `json:"payload_gbps_at_latency_percentile"`
}

// NewLatency returns the latency of swaps of bytes with the given percentiles of samples.
func NewLatency(bytes int64, samples int, us result.Percentiles) *Latency {
	return &Latency{samples, us, us.Map(func(us float64) float64 { return float64(bytes) / us / 1e3 })}
}

// Both describes two ranks that copy at the same time, by the clock of their host.
type Both struct {
	// Overlap is the fraction of the time from the first call of either rank to the end of the last copy in which
	// both copied: the median of the windows.
	Overlap float64 `json:"overlap"`
	// GBps is the bytes of both directions divided by that time, the median of the windows. It is missing if the
	// overlap is below 0.95, since one direction then ran alone for a part of the time.
	GBps float64 `json:"gbps,omitempty"`
}

// Victim is the mutual slowdown of copies and a computing kernel, by events of the device. The kernel, the
// victim, multiplies and adds in registers on all multiprocessors of the copying device.
type Victim struct {
	// Units is the work of the victim, chosen so that alone it takes about as long as a window of copies. All of
	// its results were compared after each window.
	Units int64 `json:"units"`
	// Alone is the victim without copies, and Beside next to at least twice the copies of a window, enough to
	// outlast it if the device queues them. Coverage is the fraction of Beside in which copies ran: the median of
	// the windows.
	Alone    result.Burst `json:"alone_us"`
	Beside   result.Burst `json:"beside_us"`
	Coverage float64      `json:"coverage"`
	// CopyBeside is a copy next to twice the work of the victim, which outlasts the copies, and CopyCoverage the
	// fraction of their time in which the victim ran.
	CopyBeside   result.Burst `json:"copy_beside_us"`
	CopyCoverage float64      `json:"copy_coverage"`
	VictimFigures
}

// VictimFigures are derived from the medians of a row.
type VictimFigures struct {
	// Slowdown is beside / alone, if the coverage is at least 0.95: 1 if copies use none of the multiprocessors'
	// arithmetic.
	Slowdown *float64 `json:"slowdown,omitempty"`
	// CopySlowdown is copy_beside / device.us_per_copy, if copy_coverage is at least 0.95.
	CopySlowdown *float64 `json:"copy_slowdown,omitempty"`
}

// Figures returns the figures derived from the medians of the victim and of a copy alone.
func (v *Victim) Figures(alone *Clock) (f VictimFigures) {
	if v.Coverage >= result.MinCoverage && v.Alone.P50 > 0 {
		f.Slowdown = result.Ratio(v.Beside.P50, v.Alone.P50)
	}
	if v.CopyCoverage >= result.MinCoverage && alone != nil && alone.Micros.P50 > 0 {
		f.CopySlowdown = result.Ratio(v.CopyBeside.P50, alone.Micros.P50)
	}
	return f
}

// Good reports whether the row is complete and passed its checks.
func (r *Row) Good() bool { return r.Complete && r.Verify.Passed }

// Name describes the row, such as 1048576 bytes on 2 streams, or 16 blocks of 4096 bytes.
func (r *Row) Name() string {
	if r.BlockBytes > 0 {
		return fmt.Sprintf("%s of %d bytes", plural.Count(r.Pieces, "block", "blocks"), r.BlockBytes)
	}
	name := fmt.Sprintf("%d bytes on %s", r.Bytes, plural.Count(r.Streams, "stream", "streams"))
	if place := r.Place(); place != "" {
		name += ", " + place
	}
	return name
}

// Place names the device or pair of the row, such as rank 0 to 1; empty if the case has one.
func (r *Row) Place() string {
	switch {
	case r.Src != nil && r.Dst != nil:
		return fmt.Sprintf("rank %d to %d", *r.Src, *r.Dst)
	case r.Target != nil:
		return fmt.Sprintf("rank %d", *r.Target)
	}
	return ""
}

// is reports whether a row of the same name has the same measurement. It is false for nil.
func (r *Row) is(o *Row) bool {
	return r != nil && r.Bytes == o.Bytes && r.Streams == o.Streams && r.Pieces == o.Pieces && r.Copies == o.Copies && r.Accesses == o.Accesses
}

// moved returns the bytes that the row times as one.
func (r *Row) moved() float64 {
	if r.Accesses > 0 {
		const word = 8
		return word * float64(r.Accesses)
	}
	return float64(r.Bytes) * float64(max(1, r.Copies))
}

// PerAccess returns the nanoseconds of a read, for copies that take us microseconds each; 0 for a row without accesses.
func (r *Row) PerAccess(us float64) float64 {
	if r.Accesses == 0 {
		return 0
	}
	return 1e3 * us / float64(r.Accesses)
}

// Rate returns the GB/s of copies that take us microseconds each.
func (r *Row) Rate(us float64) float64 { return r.moved() / us / 1e3 }

// Clock returns the results by the clock of the device or, without it, of the host.
func (r *Row) Clock() *Clock {
	if r.Device != nil {
		return r.Device
	}
	return r.Host
}
