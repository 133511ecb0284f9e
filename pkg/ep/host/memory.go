package host

import (
	"context"
	"errors"
	"runtime"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	accelhost "github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/hostrank"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
)

// shape is the memory layout of a case, the same on all ranks. A rank has a receive area and a
// staged area, each with one part per source rank.
//
//	receive part:  header | row 0 | row 1 | …
//	header:        rows uint64, then rows per local expert, int32
//	row:           values, then scales (float32), then, in a token-rank layout,
//	               TopK expert ids (int32, −1 elsewhere) and weights (float32)
//	staged part:   rows of Hidden bf16
type shape struct {
	world, hidden, topk int
	experts, perRank    int // expert slots: of all ranks, of one rank
	tokens              int // maximum that a rank sends
	rows                int // maximum that a rank sends to another
	scalesAt, idsAt     int // offsets in a row
	rowBytes            int
	headerBytes         int
	partBytes           int
}

func newShape(c plan.Case, d runner.Description, need runner.Capacity) shape {
	s := shape{
		world: c.World, hidden: ep.Of(&c).Hidden, topk: ep.Of(&c).TopK,
		experts: need.Experts, perRank: need.Experts / c.World, tokens: need.Tokens, rows: need.Tokens,
	}
	s.scalesAt = roundUp(s.hidden*d.Codec.ValueBytes(), 4)
	s.idsAt = s.scalesAt + 4*d.Codec.Scales(s.hidden)
	s.rowBytes = roundUp(s.idsAt, lineBytes)
	if d.Receive == runner.TokenRank {
		s.rowBytes = roundUp(s.idsAt+8*s.topk, lineBytes)
	} else {
		s.rows = need.Tokens * min(s.topk, s.perRank)
	}
	s.headerBytes = roundUp(8+4*s.perRank, lineBytes)
	s.partBytes = s.headerBytes + s.rows*s.rowBytes
	return s
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// areas locates a rank's memory in this process.
type areas struct {
	control *control
	receive unsafe.Pointer
	staged  unsafe.Pointer
}

// peer is the memory of a rank, this one included.
type peer struct {
	hostrank.Peer
	areas
}

// offer locates this rank's areas for its peers, as offsets in its segment.
type offer struct {
	Control int64 `json:"control"`
	Receive int64 `json:"receive"`
	Staged  int64 `json:"staged"`
}

func (a *adapter) Prepare(ctx context.Context, s *rank.Session, c plan.Case, need runner.Capacity) (err error) {
	if a.d, err = a.Describe(c); err != nil {
		return err
	}
	if a.group == nil {
		if a.group, err = hostrank.Join(ctx, s, a.device); err != nil {
			return err
		}
		for _, p := range a.group.Peers {
			a.peers = append(a.peers, peer{Peer: p})
		}
	} else if err := s.Barrier(ctx, "ep-host-free"); err != nil {
		return err
	}
	if err := a.freeCase(); err != nil {
		return err
	}
	a.shape = newShape(c, a.d, need)
	sh := a.shape
	base := accel.Ptr(uintptr(a.device.Segment().Base()))
	var o offer
	for _, area := range []struct {
		bytes  int64
		offset *int64
	}{
		{controlBytes, &o.Control},
		{int64(sh.world) * int64(sh.partBytes), &o.Receive},
		{int64(sh.world) * int64(sh.rows) * int64(sh.hidden) * 2, &o.Staged},
	} {
		at, err := a.alloc(area.bytes)
		if err != nil {
			return err
		}
		*area.offset = int64(at - base)
	}
	if a.out, err = a.alloc(int64(sh.tokens) * int64(sh.hidden) * 2); err != nil {
		return err
	}
	if a.d.Codec.Format != nil {
		a.codes = make([]byte, sh.tokens*sh.hidden)
		a.scales = make([]float32, sh.tokens*a.d.Codec.Scales(sh.hidden))
	}
	a.layout = newLayout(sh)
	a.sums = newSums(sh, c.ScaleUpDomain)
	a.dispatched, a.combined = 0, 0
	return a.exchange(ctx, s, o)
}

// exchange gives the peers the offsets of this rank's areas. It returns after all ranks have done so.
func (a *adapter) exchange(ctx context.Context, s *rank.Session, o offer) error {
	offers, err := rank.Gather(ctx, s, "ep-host-areas", o)
	if err != nil {
		return err
	}
	for r, o := range offers {
		base := a.peers[r].Base()
		a.peers[r].areas = areas{
			control: (*control)(unsafe.Add(base, o.Control)),
			receive: unsafe.Add(base, o.Receive),
			staged:  unsafe.Add(base, o.Staged),
		}
	}
	a.own = a.peers[s.Rank].areas
	a.waiter = waiter{ctx: ctx, peers: a.peers}
	if s.World <= runtime.NumCPU() {
		a.waiter.busy = busySpins
	}
	return nil
}

func (a *adapter) alloc(bytes int64) (accel.Ptr, error) {
	at, err := a.device.Alloc(max(1, bytes))
	if err == nil {
		a.private = append(a.private, at)
	}
	return at, err
}

// freeCase frees the memory of the previous case.
func (a *adapter) freeCase() (err error) {
	for _, at := range a.private {
		err = errors.Join(err, a.device.Free(at))
	}
	a.private = nil
	return err
}

// part is the receive part for one source rank in a rank's area.
type part struct {
	s  *shape
	at unsafe.Pointer
}

func (s *shape) part(receive unsafe.Pointer, source int) part {
	return part{s, unsafe.Add(receive, source*s.partBytes)}
}

// rows points to the number of rows that the source sent.
func (p part) rows() *uint64 { return (*uint64)(p.at) }

// counts returns the rows per local expert.
func (p part) counts() []int32 { return unsafe.Slice((*int32)(unsafe.Add(p.at, 8)), p.s.perRank) }

func (p part) row(i int) unsafe.Pointer {
	return unsafe.Add(p.at, p.s.headerBytes+i*p.s.rowBytes)
}

func (p part) bf16(i int) []uint16 { return unsafe.Slice((*uint16)(p.row(i)), p.s.hidden) }

func (p part) codes(i int) []byte { return unsafe.Slice((*byte)(p.row(i)), p.s.hidden) }

func (p part) scales(i int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Add(p.row(i), p.s.scalesAt)), (p.s.idsAt-p.s.scalesAt)/4)
}

func (p part) ids(i int) []int32 {
	return unsafe.Slice((*int32)(unsafe.Add(p.row(i), p.s.idsAt)), p.s.topk)
}

func (p part) weights(i int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Add(p.row(i), p.s.idsAt+4*p.s.topk)), p.s.topk)
}

// stagedAt returns the address of row i of the rows from source in a staged area.
func (s *shape) stagedAt(staged unsafe.Pointer, source, i int) unsafe.Pointer {
	return unsafe.Add(staged, (source*s.rows+i)*s.hidden*2)
}

func (s *shape) stagedRow(staged unsafe.Pointer, source, i int) []uint16 {
	return unsafe.Slice((*uint16)(s.stagedAt(staged, source, i)), s.hidden)
}

// deviceSlice returns n values of device memory as a slice.
func deviceSlice[T any](at accel.Ptr, n int) []T {
	if n == 0 {
		return nil
	}
	var size T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(accelhost.Bytes(at, int64(n)*int64(unsafe.Sizeof(size)))))), n)
}
