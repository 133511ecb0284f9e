package a2a

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// sizes are those of a case, the same on all ranks.
type sizes struct {
	world, hidden, topk int
	perRank             int // experts
	domain              int // ranks of a scale-up domain
	tokens              int // most that any rank sends
	valueBytes          int // of a dispatched row
	scaleBytes          int // of a dispatched row
}

func sizesOf(c plan.Case, d ep.Description, need ep.Capacity) sizes {
	b := c.EP()
	return sizes{
		world: c.World, hidden: b.Hidden, topk: b.TopK, perRank: need.Experts / c.World, domain: max(1, c.ScaleUpDomain),
		tokens: need.Tokens, valueBytes: b.Hidden * d.Codec.ValueBytes(), scaleBytes: 4 * d.Codec.Scales(b.Hidden),
	}
}

// bf16Bytes is the size of a row in bf16.
func (s sizes) bf16Bytes() int { return 2 * s.hidden }

// rows is where rows stand: their values, and what belongs to them. The kernels take it
// as it is.
type rows struct{ values, beside accel.Ptr }

// memory is what a case has allocated.
type memory struct {
	device  []accel.Ptr
	host    unsafe.Pointer
	closers []func() error // of streams and events
}

// part is device memory to allocate.
type part struct {
	at    *accel.Ptr
	bytes int
}

func (m *memory) alloc(d accel.Device, parts ...part) error {
	for _, p := range parts {
		at, err := d.Alloc(max(1, int64(p.bytes)))
		if err != nil {
			return memoryError(p.bytes, err)
		}
		*p.at = at
		m.device = append(m.device, at)
	}
	return nil
}

// allocHost allocates page-locked words.
func (m *memory) allocHost(d accel.Device, n int) ([]int32, error) {
	host, err := d.AllocHost(int64(4 * n))
	if err != nil {
		return nil, memoryError(4*n, err)
	}
	m.host = host
	return unsafe.Slice((*int32)(host), n), nil
}

func memoryError(bytes int, err error) error {
	if errors.Is(err, accel.ErrOutOfMemory) {
		return &rank.Error{Reason: result.ReasonMemory.With("%d bytes", bytes), Err: fmt.Errorf("allocate %d bytes: %w", bytes, err)}
	}
	return rank.Coded(result.ReasonDevice, err)
}

func (m *memory) free(d accel.Device) (err error) {
	for _, closes := range m.closers {
		err = errors.Join(err, closes())
	}
	for _, at := range m.device {
		err = errors.Join(err, d.Free(at))
	}
	if m.host != nil {
		err = errors.Join(err, d.FreeHost(m.host))
	}
	*m = memory{}
	return err
}

// read copies device memory to the host and waits for it.
func (e *end) read(at accel.Ptr, bytes int) ([]byte, error) {
	data := make([]byte, bytes)
	if bytes == 0 {
		return data, nil
	}
	if err := e.device.CopyOut(e.stream, unsafe.Pointer(&data[0]), at, int64(bytes)); err != nil {
		return nil, err
	}
	return data, e.stream.Synchronize()
}

// decode reads n rows as experts see them: bf16 values as they are, fp8 codes with the
// scales that begin their part of beside.
func (e *end) decode(s sizes, from rows, n, besideBytes int) (payload []uint16, beside []byte, err error) {
	values, err := e.read(from.values, n*s.valueBytes)
	if err != nil {
		return nil, nil, err
	}
	if beside, err = e.read(from.beside, n*besideBytes); err != nil {
		return nil, nil, err
	}
	payload = make([]uint16, n*s.hidden)
	if e.d.Codec.Format == nil {
		for i := range payload {
			payload[i] = binary.NativeEndian.Uint16(values[2*i:])
		}
		return payload, beside, nil
	}
	scales := make([]float32, s.scaleBytes/4)
	for i := range n {
		copy(scales, float32s(beside[i*besideBytes:][:s.scaleBytes]))
		e.d.Codec.Decode(payload[i*s.hidden:(i+1)*s.hidden], values[i*s.valueBytes:(i+1)*s.valueBytes], scales)
	}
	return payload, beside, nil
}

func int32s(data []byte) []int32 {
	out := make([]int32, len(data)/4)
	for i := range out {
		out[i] = int32(binary.NativeEndian.Uint32(data[4*i:]))
	}
	return out
}

func float32s(data []byte) []float32 {
	out := make([]float32, len(data)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.NativeEndian.Uint32(data[4*i:]))
	}
	return out
}
