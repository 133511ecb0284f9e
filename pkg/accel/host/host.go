// Package host implements an accelerator on a machine without one. Device memory is host
// memory that the ranks of the machine share, streams run inline, and events read the
// monotonic clock. The device index is the local rank.
package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/affinity"
	"github.com/collectivex/collectivex/pkg/sysfs"
)

// maxHeap limits the address space, in bytes, that a device and each of its peers reserve.
const maxHeap = 64 << 30

// Device is one rank's share of the host.
type Device struct {
	machine machine
	info    accel.Info
	segment *Segment
	heap    heap
	cpus    []int
	pinned  bool
	numa    int
	hosted  map[unsafe.Pointer]int64 // AllocHost
}

var _ accel.Device = (*Device)(nil)

// Open returns the device of rank localRank of the localWorld ranks on this host. If there
// is a processor for every rank, the calling OS thread, which the caller must have locked,
// is pinned to the processor of localRank.
func Open(localRank, localWorld int) (*Device, error) {
	d, err := open(machine{sysfs.Here()}, localRank, localWorld)
	if err != nil {
		return nil, fmt.Errorf("host device %d: %w", localRank, err)
	}
	return d, nil
}

func open(m machine, localRank, localWorld int) (*Device, error) {
	if localRank < 0 || localRank >= localWorld {
		return nil, fmt.Errorf("local rank %d is out of range: want 0 to %d", localRank, localWorld-1)
	}
	cpus, err := affinity.Allowed()
	if err != nil {
		return nil, err
	}
	d := &Device{machine: m, cpus: cpus, numa: -1, hosted: map[unsafe.Pointer]int64{}}
	if localWorld <= len(cpus) {
		d.cpus = cpus[localRank : localRank+1]
		if err := pin(d.cpus[0]); err != nil {
			return nil, err
		}
		d.pinned = true
		d.numa = m.NUMANode(d.cpus[0])
	}
	_, total, err := m.AvailableMemory()
	if err != nil {
		return nil, err
	}
	d.info = accel.Info{
		Vendor: "host", Product: m.product(), Arch: arch(), Runtime: m.kernel(),
		L2Bytes: m.lastLevelCache(d.cpus[0]), TotalBytes: total, SharedHostMem: true,
	}
	space, err := addressSpace()
	if err != nil {
		return nil, err
	}
	// A rank maps the heaps of all ranks; half of its address space is left for everything else.
	bytes := min(total, maxHeap, space/int64(2*localWorld))
	d.heap = heap{bytes: bytes &^ (largeAlign - 1), used: map[int64]int64{}}
	if d.segment, err = NewSegment("cxrun-heap", d.heap.bytes); err != nil {
		return nil, err
	}
	return d, nil
}

// addressSpace returns the limit of this process's address space in bytes, as ulimit -v sets it.
func addressSpace() (int64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &limit); err != nil {
		return 0, fmt.Errorf("read the limit of the address space: %w", err)
	}
	return int64(min(limit.Cur, math.MaxInt64)), nil
}

// CPUs returns the processors that this rank may run on. pinned reports whether it is the
// only rank on its processor.
func (d *Device) CPUs() (cpus []int, pinned bool) { return d.cpus, d.pinned }

// NUMANode returns the NUMA node of a pinned rank, and −1 for other ranks.
func (d *Device) NUMANode() int { return d.numa }

// Segment returns the memory from which Alloc allocates.
func (d *Device) Segment() *Segment { return d.segment }

// Info implements accel.Device.
func (d *Device) Info() accel.Info { return d.info }

// Memory implements accel.Device. All ranks of the host share the free memory.
func (d *Device) Memory() (free, total int64, err error) {
	free, total, err = d.machine.AvailableMemory()
	return min(free, d.heap.bytes), total, err
}

// Alloc implements accel.Device. The memory is zeroed, and accesses cause no page faults.
func (d *Device) Alloc(bytes int64) (accel.Ptr, error) {
	if bytes <= 0 {
		return 0, fmt.Errorf("allocate %d bytes: a size must be positive", bytes)
	}
	at, err := d.heap.take(bytes)
	if err != nil {
		return 0, err
	}
	if err := d.segment.Populate(at, bytes); err != nil {
		_, _ = d.heap.drop(at)
		return 0, err
	}
	return d.base().Add(at), nil
}

func (d *Device) base() accel.Ptr { return accel.Ptr(uintptr(d.segment.base)) }

// Free implements accel.Device.
func (d *Device) Free(p accel.Ptr) error {
	at := int64(p - d.base())
	bytes, err := d.heap.drop(at)
	if err != nil {
		return fmt.Errorf("free device memory: %w", err)
	}
	return d.segment.release(at, roundUp(bytes, pageBytes))
}

// AllocHost implements accel.Device.
func (d *Device) AllocHost(bytes int64) (unsafe.Pointer, error) {
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes of host memory: %w", bytes, err)
	}
	d.hosted[p] = bytes
	return p, nil
}

// FreeHost implements accel.Device.
func (d *Device) FreeHost(p unsafe.Pointer) error {
	bytes, ok := d.hosted[p]
	if !ok {
		return errors.New("free host memory: this device did not allocate it")
	}
	delete(d.hosted, p)
	return unix.MunmapPtr(p, uintptr(bytes))
}

// Bytes returns device memory as a slice, which is valid until the memory is freed.
func Bytes(p accel.Ptr, bytes int64) []byte {
	return unsafe.Slice((*byte)(p.Pointer()), bytes)
}

// CopyIn implements accel.Device.
func (d *Device) CopyIn(_ accel.Stream, dst accel.Ptr, src unsafe.Pointer, bytes int64) error {
	copy(Bytes(dst, bytes), unsafe.Slice((*byte)(src), bytes))
	return nil
}

// CopyOut implements accel.Device.
func (d *Device) CopyOut(_ accel.Stream, dst unsafe.Pointer, src accel.Ptr, bytes int64) error {
	copy(unsafe.Slice((*byte)(dst), bytes), Bytes(src, bytes))
	return nil
}

// Copy implements accel.Device.
func (d *Device) Copy(_ accel.Stream, dst, src accel.Ptr, bytes int64) error {
	copy(Bytes(dst, bytes), Bytes(src, bytes))
	return nil
}

// Set implements accel.Device.
func (d *Device) Set(_ accel.Stream, dst accel.Ptr, value byte, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	buf := Bytes(dst, bytes)
	buf[0] = value
	for done := int64(1); done < bytes; {
		const step = 1 << 15 // fits into the first-level cache
		done += int64(copy(buf[done:], buf[:min(done, step)]))
	}
	return nil
}

// NewStream implements accel.Device.
func (d *Device) NewStream() (accel.Stream, error) { return stream{}, nil }

// NewEvent implements accel.Device.
func (d *Device) NewEvent() (accel.Event, error) { return &event{}, nil }

// Elapsed implements accel.Device.
func (d *Device) Elapsed(start, end accel.Event) (float64, error) {
	from, to := start.(*event).at, end.(*event).at
	if from == 0 || to == 0 {
		return 0, errors.New("elapsed time between events: an event was not recorded")
	}
	return float64(to-from) / float64(time.Microsecond), nil
}

// Synchronize implements accel.Device.
func (d *Device) Synchronize() error { return nil }

// Compile implements accel.Device. It always fails, since the host runs no kernels.
func (d *Device) Compile(context.Context, string, string) (accel.Module, error) {
	return nil, fmt.Errorf("kernels on the host: %w", accel.ErrUnsupported)
}

// Close implements accel.Device. It frees memory that is still allocated.
func (d *Device) Close() error {
	err := d.segment.Close()
	for p, bytes := range d.hosted {
		err = errors.Join(err, unix.MunmapPtr(p, uintptr(bytes)))
	}
	clear(d.hosted)
	return err
}

// stream runs its work inline, so it is always done.
type stream struct{}

func (stream) Handle() uintptr { return 0 }

func (stream) Record(e accel.Event) error {
	e.(*event).at = time.Since(epoch)
	return nil
}

func (stream) Wait(accel.Event) error { return nil }

func (stream) Synchronize() error   { return nil }
func (stream) Query() (bool, error) { return true, nil }

func (stream) BeginCapture() error {
	return fmt.Errorf("host graphs: %w", accel.ErrUnsupported)
}

func (stream) EndCapture() (accel.Graph, error) {
	return nil, fmt.Errorf("host graphs: %w", accel.ErrUnsupported)
}

func (stream) RecordExternal(accel.Event) error {
	return fmt.Errorf("host graphs: %w", accel.ErrUnsupported)
}

func (stream) Close() error { return nil }

// epoch is the zero of all events. time.Since(epoch) reads only the monotonic clock, which is cheaper
// than time.Now.
var epoch = time.Now()

// event is the time since epoch, 0 before it is recorded.
type event struct{ at time.Duration }

func (*event) Handle() uintptr      { return 0 }
func (*event) Query() (bool, error) { return true, nil }
func (*event) Close() error         { return nil }
