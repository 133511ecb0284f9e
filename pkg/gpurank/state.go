package gpurank

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/affinity"
	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// view is a rank's view of the machine around its GPU.
type view struct {
	cpus     []int // CPUs to which this process is restricted; nil if it is not
	numaNode int   // NUMA node of these CPUs; −1 if it is unknown or there are several

	reader *inventory.Reader
	device *inventory.Device // nil if the driver does not report it
	about  result.RankDevice
	others neighbours
}

// look finds the GPU at a PCI address in the inventory, and restricts this process to the processors of its NUMA
// node. A process that its launcher has pinned keeps its affinity; see affinity.Narrow. Call look before opening
// the device: threads that libraries start later inherit the affinity, and memory in use by then belongs to other
// processes.
//
// It never fails. Information that it cannot read is missing in the document.
func look(r *inventory.Reader, address string) view {
	v := view{reader: r}
	if held, err := affinity.Narrow(r.OnlineCPUs(), r.CPUs(address)); err == nil {
		v.cpus = held
	}
	v.numaNode = r.NUMANode(v.cpus)
	device, err := r.Device(address)
	if err != nil {
		return v
	}
	v.device = device
	g := device.GPU()
	v.about = result.RankDevice{Partition: g.Partition, ECC: g.ECC}
	v.limit(result.LimitLink)(g.LinkPeak())
	v.limit(result.LimitMemory)(g.MemoryPeak())
	v.limit(result.LimitNetwork)(r.NetworkPeak())
	if s, err := device.State(); err == nil {
		v.about.MemoryInUse = s.MemoryUsedBytes
	}
	v.about.BusyPercent = busy(device)
	v.others = newNeighbours(device)
	return v
}

// limit returns a function that records a peak if it is known.
func (v *view) limit(of string) func(inventory.Peak, bool) {
	return func(p inventory.Peak, ok bool) {
		if ok {
			v.about.Limits = append(v.about.Limits, result.Limit{Of: of, GBps: p.GBps, Sum: p.Sum, Source: p.Source})
		}
	}
}

// close closes the inventory's driver.
func (v *view) close() {
	if v.device != nil {
		v.device.Close()
	}
}

// Around returns a runner that runs r and reports the state of the device before and after each case. It may be
// used until r closes the device.
//
// Each rank reads its own device, so that this works the same on one node and on several. NVML stays open until
// the device is closed, since opening takes a thousand times as long as reading. NVML starts no thread. A read
// holds the driver's lock for some hundred microseconds. It therefore happens before the first barrier of a case
// and after the rank's last check, when all ranks have finished their last window.
func (v *view) Around(r rank.Runner) rank.Runner { return runner{Runner: r, view: v} }

type runner struct {
	rank.Runner
	view *view
}

func (r runner) Run(ctx context.Context, s *rank.Session, c plan.Case) error {
	d := r.view.about
	d.Rank = s.Rank
	if s.LocalRank != 0 { // the first rank of a node reports its network
		d.Limits = slices.DeleteFunc(slices.Clone(d.Limits), func(l result.Limit) bool { return l.Of == result.LimitNetwork })
	}
	d.Before = r.view.read()
	before := r.view.fabric(s)
	if err := s.Emit(rank.KindDevice, d); err != nil {
		return err
	}
	d.Clocks = r.view.betweenWindows(s)
	err := r.Runner.Run(ctx, s, c)
	s.Between = nil
	d.TrialsRepeated, d.TrialsCapped = s.Repeated, s.StillCapped
	if d.Clocks != nil && d.Clocks.Readings == 0 {
		d.Clocks = nil
	}
	if _, known := errors.AsType[*rank.Error](err); !known {
		if _, ofDevice := errors.AsType[*gpu.Error](err); ofDevice {
			err = rank.Coded(result.ReasonDevice, err)
		}
	}
	d.After = r.view.read()
	if after := r.view.fabric(s); before != nil && after != nil {
		d.Fabric = new(after.Rise(*before))
	}
	return errors.Join(err, s.Emit(rank.KindDevice, d))
}

// clockEvery is the shortest time between two readings of the clock, so that they take less than a hundredth of
// a case. Until the next reading, the last one counts. It is shorter than the pause before trials are repeated.
const clockEvery = 20 * time.Millisecond

// betweenWindows makes the session read the clock between timed windows, until its Between is removed. It returns
// where the readings go; nil if the driver does not report the device, whose clock then counts as never capped.
func (v *view) betweenWindows(s *rank.Session) *result.ClockReadings {
	if v.device == nil {
		s.Between = func() bool { return false }
		return nil
	}
	readings, last, capped := &result.ClockReadings{}, time.Time{}, false
	s.Between = func() bool {
		if time.Since(last) < clockEvery {
			return capped
		}
		capped = false
		if c, ok := v.device.Clock(); ok {
			readings.Add(c.MHz, c.CappedBy)
			capped = len(c.CappedBy) > 0
		}
		last = time.Now()
		return capped
	}
	return readings
}

// read returns nil if the device does not respond.
func (v *view) read() *result.DeviceState {
	if v.device == nil {
		return nil
	}
	s, err := v.device.State()
	if err != nil {
		return nil
	}
	return &result.DeviceState{
		OtherProcesses: v.others.count(v.device),

		SMMHz: s.SMMHz, MemMHz: s.MemMHz, TemperatureC: s.TemperatureC, PowerW: s.PowerW, Idle: s.Idle,
		Throttle: s.Throttle, ThrottleCounters: s.ThrottleCounters,
		ECCCorrected: s.ECCCorrected, ECCUncorrected: s.ECCUncorrected,
	}
}

// fabric returns the counters of the node's RDMA ports on the first rank of the node. It returns nil on other
// ranks, and if the node has no ports.
func (v *view) fabric(s *rank.Session) *result.Fabric {
	if s.LocalRank != 0 {
		return nil
	}
	f := v.reader.Fabric()
	if f == nil {
		return nil
	}
	return &result.Fabric{
		SentBytes: f.SentBytes, ReceivedBytes: f.ReceivedBytes, WaitTicks: f.WaitTicks,
		SymbolErrors: f.SymbolErrors, LinkDowned: f.LinkDowned,
	}
}
