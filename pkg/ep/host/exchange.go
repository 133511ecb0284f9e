package host

import (
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/ep/runner"
)

// Locations of staged rows.
const (
	inReceive = iota // where they arrived
	inStaged
)

// handle identifies a dispatch. A rank has at most one at a time.
type handle struct{ n uint64 }

// staged is the input of a combine: the region of its rows.
type staged struct{ region uint64 }

var (
	received = &staged{inReceive}
	own      = &staged{inStaged}
)

// Dispatch implements runner.Adapter: it computes the layout, casts, and writes every row into the
// memory of its destination. A source overwrites its part of a destination only after the
// destination has finished reading the previous dispatch.
func (a *adapter) Dispatch() (runner.Handle, error) {
	a.layOut()
	return a.dispatch(true)
}

func (a *adapter) DispatchCached(runner.Handle) (runner.Handle, error) { return a.dispatch(false) }

func (a *adapter) dispatch(notify bool) (runner.Handle, error) {
	a.dispatched++
	n := a.dispatched
	a.own.control.released.Store(n - 1)
	a.encode()
	me := a.place.Rank
	for i := range a.shape.world {
		to := (me + i) % a.shape.world
		if err := a.wait(to, &a.peers[to].control.released, n-1); err != nil {
			return nil, err
		}
		a.send(to, notify)
		a.peers[to].control.arrived[me].Store(n)
	}
	for from := range a.shape.world {
		if err := a.wait(from, &a.own.control.arrived[from], n); err != nil {
			return nil, err
		}
	}
	a.handle.n = n
	return &a.handle, nil
}

// encode casts this rank's tokens, once for all their destinations.
func (a *adapter) encode() {
	if a.d.Codec.Format == nil {
		return
	}
	h, scales := a.shape.hidden, a.d.Codec.Scales(a.shape.hidden)
	x := deviceSlice[uint16](a.p.X, a.p.Tokens*h)
	for t := range a.p.Tokens {
		encodeRow(a.d.Codec, a.codes[t*h:(t+1)*h], a.scales[t*scales:(t+1)*scales], x[t*h:(t+1)*h])
	}
	if a.fault != "" {
		a.spoilScales()
	}
}

// send writes this rank's part of the receive area of a destination.
func (a *adapter) send(to int, notify bool) {
	s, l := &a.shape, &a.layout
	p := s.part(a.peers[to].receive, a.place.Rank)
	if notify {
		*p.rows() = uint64(len(l.sends[to]))
		copy(p.counts(), l.counts[to*s.perRank:(to+1)*s.perRank])
	}
	h, scales := s.hidden, a.d.Codec.Scales(s.hidden)
	x := deviceSlice[uint16](a.p.X, a.p.Tokens*h)
	experts := deviceSlice[int64](a.p.Expert, a.p.Tokens*s.topk)
	weights := deviceSlice[float32](a.p.Weight, a.p.Tokens*s.topk)
	for row, token := range l.sends[to] {
		t := int(token)
		if a.d.Codec.Format == nil {
			copy(p.bf16(row), x[t*h:(t+1)*h])
		} else {
			copy(p.codes(row), a.codes[t*h:(t+1)*h])
			copy(p.scales(row), a.scales[t*scales:(t+1)*scales])
		}
		if a.d.Receive == runner.TokenExpert {
			continue
		}
		ids, parts := p.ids(row), p.weights(row)
		for slot := range s.topk {
			ids[slot], parts[slot] = -1, 0
			if e := experts[t*s.topk+slot]; e >= 0 && int(e)/s.perRank == to {
				ids[slot], parts[slot] = int32(e), weights[t*s.topk+slot]
			}
		}
	}
}

// decode converts a received row to bf16, as an expert sees it.
func (a *adapter) decode(dst []uint16, p part, row int) {
	if a.d.Codec.Format == nil {
		copy(dst, p.bf16(row))
		return
	}
	decodeRow(a.d.Codec, dst, p.codes(row), p.scales(row))
}

// Stage implements runner.Adapter: bf16 rows stay where they arrived, fp8 rows are
// converted.
func (a *adapter) Stage(runner.Handle) (runner.Staged, error) {
	if a.d.Codec.Format == nil {
		return received, nil
	}
	if err := a.stagedFree(); err != nil {
		return nil, err
	}
	for source := range a.shape.world {
		p := a.shape.part(a.own.receive, source)
		for row := range int(*p.rows()) {
			a.decode(a.shape.stagedRow(a.own.staged, source, row), p, row)
		}
	}
	return own, nil
}

func (a *adapter) StageRows(_ runner.Handle, fill func(to []runner.Rows) error) (runner.Staged, error) {
	if err := a.stagedFree(); err != nil {
		return nil, err
	}
	to := make([]runner.Rows, a.shape.world)
	for source := range to {
		to[source] = runner.Rows{
			Count: int(*a.shape.part(a.own.receive, source).rows()), Stride: int64(2 * a.shape.hidden),
			Values: address(a.shape.stagedAt(a.own.staged, source, 0)),
		}
	}
	return own, fill(to)
}

// address returns memory of this process as device memory.
func address(p unsafe.Pointer) accel.Ptr { return accel.Ptr(uintptr(p)) }

// wait waits for a counter that rank raises. If the wait fails, this rank gives up too, which ends
// the waits of its peers.
func (a *adapter) wait(rank int, n *counter, least uint64) error {
	err := a.waiter.wait(rank, n, least)
	if err != nil {
		a.own.control.gone.Store(1)
	}
	return err
}

// stagedFree waits until no rank reads the staged area any more.
func (a *adapter) stagedFree() error {
	for r := range a.peers {
		if err := a.wait(r, &a.peers[r].control.pulled, a.combined); err != nil {
			return err
		}
	}
	return nil
}

// Combine implements runner.Adapter: each rank reads the rows of its tokens back
// and reduces them.
func (a *adapter) Combine(h runner.Handle, s runner.Staged) (accel.Ptr, error) {
	if err := a.stagedFree(); err != nil { // peers may still read the region of the previous combine
		return 0, err
	}
	a.combined++
	c := a.own.control
	c.region.Store(s.(*staged).region)
	c.released.Store(h.(*handle).n)
	c.ready.Store(a.combined)
	for r := range a.peers {
		if err := a.wait(r, &a.peers[r].control.ready, a.combined); err != nil {
			return 0, err
		}
	}
	a.reduce()
	c.pulled.Store(a.combined)
	return a.out, nil
}

func (a *adapter) Inspect(runner.Handle) (*runner.Received, error) {
	s := &a.shape
	rx := &runner.Received{Codec: a.d.Codec, Counts: make([]int32, s.perRank)}
	for source := range s.world {
		p := s.part(a.own.receive, source)
		rows := int(*p.rows())
		rx.Payload = append(rx.Payload, runner.Rows{
			Count: rows, Values: address(p.row(0)), Stride: int64(s.rowBytes),
			Scales: address(unsafe.Add(p.row(0), s.scalesAt)), ScaleStride: int64(s.rowBytes),
		})
		expert, left := 0, int32(0)
		for i, n := range p.counts() {
			rx.Counts[i] += n
		}
		for i := range rows {
			if a.d.Receive == runner.TokenRank {
				rx.Expert = append(rx.Expert, p.ids(i)...)
				rx.Weight = append(rx.Weight, p.weights(i)...)
				continue
			}
			for left == 0 { // rows are grouped by expert
				left = p.counts()[expert]
				expert++
			}
			left--
			rx.Expert = append(rx.Expert, int32(a.place.Rank*s.perRank+expert-1))
		}
	}
	return rx, nil
}
