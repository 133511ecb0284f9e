package sdma

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/hsa"
)

// device is a device whose streams are chains of copies of the HSA runtime. Everything else uses HIP.
type device struct {
	accel.Device
	runtime *hsa.Runtime
	own     hsa.Agent
	owners  []region
	engines map[direction][]uint32 // of copies that this device makes
	free    []hsa.Signal           // unused
	made    int                    // number of created signals
	streams int
}

// region is memory, and the agent that owns it.
type region struct {
	at, from, to uintptr
	owner        hsa.Agent
}

// direction is the agents of the destination and source of a copy.
type direction struct{ dst, src hsa.Agent }

// maxSignals is the maximum number of copies in flight. The runtime has some thousand signals that do not poll.
const maxSignals = 4096

// newDevice returns the device of d, whose agent it finds by memory of d.
func newDevice(r *hsa.Runtime, d accel.Device) (*device, error) {
	const bytes = 4096
	p, err := d.Alloc(bytes)
	if err != nil {
		return nil, err
	}
	m, err := r.Locate(uintptr(p))
	if err = errors.Join(err, d.Free(p)); err != nil {
		return nil, err
	}
	gpu, err := r.IsGPU(m.Owner)
	if err == nil && !gpu {
		err = errors.New("memory of the device belongs to an agent other than a GPU")
	}
	return &device{Device: d, runtime: r, own: m.Owner, engines: map[direction][]uint32{}}, err
}

// close destroys the signals of closed streams.
func (d *device) close() (err error) {
	for _, s := range d.free {
		err = errors.Join(err, d.runtime.Destroy(s))
	}
	d.free = nil
	return err
}

// adopt records which agent owns memory, makes it accessible to the device, and finds the engines for copies from and to
// it. No copy of this rank may use them yet.
func (d *device) adopt(at uintptr) error {
	m, err := d.runtime.Locate(at)
	if err == nil {
		err = d.runtime.Allow(d.own, at, m)
	}
	if err == nil && m.Owner != d.own {
		err = d.find(m.Owner)
	}
	if err == nil {
		d.owners = append(d.owners, region{at, m.Base, m.Base + uintptr(m.Bytes), m.Owner})
	}
	return err
}

// find finds the engines of this device for copies between its memory and an agent's memory. Copies from another GPU
// use the engines of that GPU.
func (d *device) find(owner hsa.Agent) error {
	gpu, err := d.runtime.IsGPU(owner)
	if err != nil {
		return err
	}
	directions := []direction{{owner, d.own}}
	if !gpu {
		directions = append(directions, direction{d.own, owner})
	}
	for _, of := range directions {
		if d.engines[of] != nil {
			continue
		}
		if d.engines[of], err = d.runtime.Engines(of.dst, of.src); err != nil {
			return err
		}
	}
	return nil
}

// numbers returns the numbers of the engines that streams use in rotation.
func (d *device) numbers() (all []int) {
	for _, engines := range d.engines {
		for _, engine := range engines {
			all = append(all, bits.TrailingZeros32(engine))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// forget must be called before adopted memory is freed.
func (d *device) forget(at uintptr) {
	d.owners = slices.DeleteFunc(d.owners, func(r region) bool { return r.at == at })
}

// end returns an address with the agent that owns it.
func (d *device) end(at uintptr, bytes int64) (hsa.End, error) {
	for _, r := range d.owners {
		if at >= r.from && at+uintptr(bytes) <= r.to {
			return hsa.End{At: at, Agent: r.owner}, nil
		}
	}
	return hsa.End{}, fmt.Errorf("copy of %d bytes outside the memory of this case", bytes)
}

// signal returns a signal of value 1.
func (d *device) signal() (hsa.Signal, error) {
	if n := len(d.free); n > 0 {
		s := d.free[n-1]
		d.free = d.free[:n-1]
		d.runtime.Store(s, 1)
		return s, nil
	}
	if d.made == maxSignals {
		return 0, fmt.Errorf("%w: more than %d copies in flight: choose fewer streams, copies of a window or pages", accel.ErrUnsupported, maxSignals)
	}
	s, err := d.runtime.NewSignal(1)
	if err == nil {
		d.made++
	}
	return s, err
}

func (d *device) CopyIn(s accel.Stream, dst accel.Ptr, src unsafe.Pointer, bytes int64) error {
	return s.(*stream).copy(uintptr(dst), uintptr(src), bytes)
}

func (d *device) CopyOut(s accel.Stream, dst unsafe.Pointer, src accel.Ptr, bytes int64) error {
	return s.(*stream).copy(uintptr(dst), uintptr(src), bytes)
}

func (d *device) Copy(s accel.Stream, dst, src accel.Ptr, bytes int64) error {
	return s.(*stream).copy(uintptr(dst), uintptr(src), bytes)
}

// NewStream implements accel.Device. Streams use the engines of a direction in rotation.
func (d *device) NewStream() (accel.Stream, error) {
	d.streams++
	return &stream{device: d, number: d.streams - 1}, nil
}

func (*device) NewEvent() (accel.Event, error) { return &event{}, nil }

// Elapsed implements accel.Device. Only copies have times. It returns the time from the earliest start of the copies
// right after start, on any stream, to the latest end of the copies right before end.
func (d *device) Elapsed(start, end accel.Event) (float64, error) {
	followed, before := start.(*event).followed, end.(*event).after
	if len(followed) == 0 || len(before) == 0 {
		return 0, errors.New("no copy between two events")
	}
	var first, last float64
	for i, s := range followed {
		began, _, err := d.runtime.Times(s)
		if err != nil {
			return 0, err
		}
		if i == 0 || began < first {
			first = began
		}
	}
	for _, s := range before {
		_, ended, err := d.runtime.Times(s)
		if err != nil {
			return 0, err
		}
		last = max(last, ended)
	}
	return last - first, nil
}
