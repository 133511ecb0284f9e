package ep

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Kinds of data faults that can be injected into a rank of an EP case. All but
// the last corrupt what the rank's library is given to send; everything after
// that is real.
const (
	FaultFlipBit     = "flip-bit"     // one bit of one activation
	FaultSwapTokens  = "swap-tokens"  // the rows of two tokens
	FaultDropToken   = "drop-token"   // a token is sent nowhere
	FaultDoubleToken = "double-token" // a token is sent twice, in the place of another
	FaultWrongWeight = "wrong-weight" // one routing weight
	FaultWrongExpert = "wrong-expert" // one expert of a token
	FaultStale       = "stale"        // combine returns the output of the pair before
)

// FaultKinds lists them.
func FaultKinds() []string {
	return []string{FaultFlipBit, FaultSwapTokens, FaultDropToken, FaultDoubleToken, FaultWrongWeight, FaultWrongExpert, FaultStale}
}

// faultKinds lists them.
var faultKinds = []string{
	FaultFlipBit, FaultSwapTokens, FaultDropToken, FaultDoubleToken,
	FaultWrongWeight, FaultWrongExpert, FaultStale,
}

// Points at which data faults begin, besides rank.FaultAtStart.
const (
	faultAtTimed = "timed" // after the first oracle, to the end
	faultAtChain = "chain" // in the chains alone
)

// faulty is an adapter with an injected fault.
type faulty struct {
	Adapter
	m      *run
	kind   string
	at     string
	active bool
	bound  *disguise
	copies map[*Problem]*disguise
}

// disguise is a problem of the adapter with buffers of its own, which the
// fault changes.
type disguise struct {
	honest, given Problem
	x             []byte
	experts       []int64
	weights       []byte
	previous      []byte // last output, for FaultStale
}

// injected returns the case's adapter with the fault that the session names
// for this rank, or nil.
func injected(m *run) (*faulty, error) {
	for _, kind := range faultKinds {
		at, ok := m.Fault(kind)
		if !ok {
			continue
		}
		if !slices.Contains([]string{rank.FaultAtStart, faultAtTimed, faultAtChain}, at) {
			return nil, refused("fault %s cannot begin at %q", kind, at)
		}
		return &faulty{Adapter: m.adapter, m: m, kind: kind, at: at, copies: map[*Problem]*disguise{}}, nil
	}
	return nil, nil
}

// enter begins the fault if point is its; without a fault it does nothing.
func (f *faulty) enter(point string) error {
	if f == nil || f.at != point {
		return nil
	}
	f.active = true
	return f.give()
}

// leave ends the fault if point is its.
func (f *faulty) leave(point string) error {
	if f == nil || f.at != point {
		return nil
	}
	f.active = false
	return f.give()
}

// Bind implements Adapter: the library gets the disguised problem.
func (f *faulty) Bind(p *Problem) error {
	d, ok := f.copies[p]
	if !ok {
		var err error
		if d, err = f.disguise(p); err != nil {
			return err
		}
		f.copies[p] = d
	}
	f.bound = d
	if err := f.give(); err != nil {
		return err
	}
	return f.Adapter.Bind(&d.given)
}

// DispatchCached implements CachedDispatcher.
func (f *faulty) DispatchCached(h Handle) (Handle, error) {
	return f.Adapter.(CachedDispatcher).DispatchCached(h)
}

// Combine implements Adapter. With FaultStale it returns the previous output.
func (f *faulty) Combine(h Handle, s Staged) (accel.Ptr, error) {
	out, err := f.Adapter.Combine(h, s)
	if err != nil || f.kind != FaultStale {
		return out, err
	}
	p := f.bound.given
	now, err := f.m.download(out, 2*p.Tokens*p.Hidden)
	if err != nil {
		return 0, err
	}
	before := f.bound.previous
	f.bound.previous = now
	if !f.active || len(before) == 0 {
		return out, nil
	}
	return out, f.write(out, before)
}

// disguise copies the buffers of p.
func (f *faulty) disguise(p *Problem) (*disguise, error) {
	d := &disguise{honest: *p, given: *p}
	size := f.m.d.IndexType.Size()
	var err error
	if d.x, err = f.m.download(p.X, 2*p.Tokens*p.Hidden); err != nil {
		return nil, err
	}
	experts, err := f.m.download(p.Expert, size*p.Tokens*p.TopK)
	if err != nil {
		return nil, err
	}
	for at := 0; at < len(experts); at += size {
		if f.m.d.IndexType == numeric.Int32 {
			d.experts = append(d.experts, int64(int32(binary.NativeEndian.Uint32(experts[at:]))))
		} else {
			d.experts = append(d.experts, int64(binary.NativeEndian.Uint64(experts[at:])))
		}
	}
	if d.weights, err = f.m.download(p.Weight, 4*p.Tokens*p.TopK); err != nil {
		return nil, err
	}
	if d.given.X, err = f.m.upload(d.x); err != nil {
		return nil, err
	}
	if d.given.Expert, err = f.m.upload(experts); err != nil {
		return nil, err
	}
	d.given.Weight, err = f.m.upload(d.weights)
	return d, err
}

// give writes the buffers that the library reads: honest ones, or corrupt ones
// while the fault is active.
func (f *faulty) give() error {
	d := f.bound
	if d == nil {
		return nil
	}
	x, experts, weights := slices.Clone(d.x), slices.Clone(d.experts), slices.Clone(d.weights)
	if f.active {
		f.corrupt(x, experts, weights)
	}
	var ids []byte
	for _, e := range experts {
		if f.m.d.IndexType == numeric.Int32 {
			ids = binary.NativeEndian.AppendUint32(ids, uint32(int32(e)))
		} else {
			ids = binary.NativeEndian.AppendUint64(ids, uint64(e))
		}
	}
	for _, b := range []struct {
		at   accel.Ptr
		data []byte
	}{{d.given.X, x}, {d.given.Expert, ids}, {d.given.Weight, weights}} {
		if err := f.write(b.at, b.data); err != nil {
			return err
		}
	}
	return nil
}

func (f *faulty) write(at accel.Ptr, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if err := f.m.device.CopyIn(f.m.stream, at, unsafe.Pointer(&data[0]), int64(len(data))); err != nil {
		return err
	}
	return f.m.stream.Synchronize()
}

// corrupt changes the inputs of the first token, and of the second where the
// fault takes two. A rank with fewer tokens sends the truth.
func (f *faulty) corrupt(x []byte, experts []int64, weights []byte) {
	p := f.bound.given
	row, k := 2*p.Hidden, p.TopK
	if p.Tokens < 1 {
		return
	}
	switch f.kind {
	case FaultFlipBit:
		flipSign(x[:row])
	case FaultDropToken:
		for slot := range k {
			experts[slot] = -1
		}
	case FaultWrongWeight:
		w := math.Float32frombits(binary.NativeEndian.Uint32(weights))
		binary.NativeEndian.PutUint32(weights, math.Float32bits(w+0.5))
	case FaultWrongExpert:
		e := experts[0]
		for slices.Contains(experts[:k], e) && k < p.Experts {
			e = (e + 1) % int64(p.Experts)
		}
		experts[0] = e
	}
	if p.Tokens < 2 {
		return
	}
	switch f.kind {
	case FaultSwapTokens:
		first := slices.Clone(x[:row])
		copy(x, x[row:2*row])
		copy(x[row:], first)
	case FaultDoubleToken:
		copy(x[row:2*row], x[:row])
		copy(experts[k:2*k], experts[:k])
		copy(weights[4*k:8*k], weights[:4*k])
	}
}

// flipSign flips the sign of the largest value of a row of bf16, behind the
// columns that carry the source.
func flipSign(row []byte) {
	largest, at := uint16(0), 0
	for i := 2 * workload.SourceColumns; i < len(row); i += 2 {
		if v := binary.NativeEndian.Uint16(row[i:]) & 0x7fff; v >= largest {
			largest, at = v, i
		}
	}
	binary.NativeEndian.PutUint16(row[at:], binary.NativeEndian.Uint16(row[at:])^0x8000)
}
