// Package watch is what a rank does around the GPU that it drives: it runs
// beside it, and tells in what state it is.
package watch

import (
	"context"
	"errors"
	"slices"

	"github.com/collectivex/collectivex/pkg/affinity"
	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Watch is one rank's view of its GPU.
type Watch struct {
	// CPUs are the processors that this process is held to; none where it is not.
	CPUs []int
	// NUMANode is theirs; −1 where they are of several, or it is unknown.
	NUMANode int

	reader *inventory.Reader
	device *inventory.Device // nil where the driver does not tell of it
	about  result.RankDevice
}

// Start starts the watch of the GPU at a PCI address of this machine.
//
// It holds this process to the processors of the GPU's NUMA node, and finds the
// GPU in the inventory. It is called before the device is opened: libraries start
// threads then, which inherit the processors, and what memory is in use before is
// not ours. A process that its launcher pinned stays
// where it is; see affinity.Narrow.
//
// Nothing in it fails the rank: what cannot be done or read is missing in what
// the document says.
func Start(address string) *Watch { return start(inventory.New(), address) }

func start(r *inventory.Reader, address string) *Watch {
	w := &Watch{reader: r}
	if held, err := affinity.Narrow(r.OnlineCPUs(), r.CPUs(address)); err == nil {
		w.CPUs = held
	}
	w.NUMANode = r.NUMANode(w.CPUs)
	device, err := r.Device(address)
	if err != nil {
		return w
	}
	w.device = device
	g := device.GPU()
	w.about = result.RankDevice{Partition: g.Partition, ECC: g.ECC}
	w.limit(result.LimitLink)(g.LinkPeak())
	w.limit(result.LimitMemory)(g.MemoryPeak())
	w.limit(result.LimitNetwork)(r.NetworkPeak())
	if s, err := device.State(); err == nil {
		w.about.MemoryInUse = s.MemoryUsedBytes
	}
	return w
}

// limit returns a function that notes a peak, if it is known.
func (w *Watch) limit(of string) func(inventory.Peak, bool) {
	return func(p inventory.Peak, ok bool) {
		if ok {
			w.about.Limits = append(w.about.Limits, result.Limit{Of: of, GBps: p.GBps, Sum: p.Sum, Source: p.Source})
		}
	}
}

// Close lets go of the driver.
func (w *Watch) Close() {
	if w.device != nil {
		w.device.Close()
	}
}

// Around returns a runner that tells the state of the device before and after
// each case of r, and closes w with it.
//
// The rank reads its own device itself, so that it is the same on one node and on
// many. Where NVML answers, it is open as long as the rank, since opening costs a
// thousand times what reading does, and starts no thread. A read takes the
// driver's lock for some hundred microseconds: it comes before the ranks first
// meet in a case, and after this rank's last check, when the others are past
// their last window too.
func (w *Watch) Around(r rank.Runner) rank.Runner { return runner{Runner: r, watch: w} }

type runner struct {
	rank.Runner
	watch *Watch
}

// Run implements rank.Runner.
func (r runner) Run(ctx context.Context, s *rank.Session, c plan.Case) error {
	d := r.watch.about
	d.Rank = s.Rank
	if s.LocalRank != 0 { // the first rank of a node tells its network
		d.Limits = slices.DeleteFunc(slices.Clone(d.Limits), func(l result.Limit) bool { return l.Of == result.LimitNetwork })
	}
	d.Before = r.watch.read()
	before := r.watch.fabric(s)
	if err := s.Emit(rank.KindDevice, d); err != nil {
		return err
	}
	err := r.Runner.Run(ctx, s, c)
	d.After = r.watch.read()
	if after := r.watch.fabric(s); before != nil && after != nil {
		rise := after.Rise(*before)
		d.Fabric = &rise
	}
	return errors.Join(err, s.Emit(rank.KindDevice, d))
}

// Close implements rank.Runner.
func (r runner) Close() error {
	defer r.watch.Close()
	return r.Runner.Close()
}

// read returns nil where the device does not answer.
func (w *Watch) read() *result.DeviceState {
	if w.device == nil {
		return nil
	}
	s, err := w.device.State()
	if err != nil {
		return nil
	}
	return &result.DeviceState{
		SMMHz: s.SMMHz, MemMHz: s.MemMHz, TemperatureC: s.TemperatureC, PowerW: s.PowerW, Idle: s.Idle,
		Throttle: s.Throttle, ThrottleCounters: s.ThrottleCounters,
		ECCCorrected: s.ECCCorrected, ECCUncorrected: s.ECCUncorrected,
	}
}

// fabric returns the counters of the node's RDMA ports to the first rank of the
// node alone, and only if there are any.
func (w *Watch) fabric(s *rank.Session) *result.Fabric {
	if s.LocalRank != 0 {
		return nil
	}
	f := w.reader.Fabric()
	if f == nil {
		return nil
	}
	return &result.Fabric{
		SentBytes: f.SentBytes, ReceivedBytes: f.ReceivedBytes, WaitTicks: f.WaitTicks,
		SymbolErrors: f.SymbolErrors, LinkDowned: f.LinkDowned,
	}
}
