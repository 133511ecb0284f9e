// Package nccl is the transfer family's backend over point-to-point operations of NCCL and
// RCCL, between two devices of a host.
//
// A request is one group of operations, a send or receive for each block. Both ranks call
// them. The library's communicator is made anew for each case: what one case breaks is not
// the next one's.
package nccl

import (
	"context"
	"errors"
	"fmt"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/device"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Open returns the rank.Opener of the backend over a kind of library. A rank drives the
// device of its local rank and has locked its OS thread.
func Open(kind nccl.Kind) rank.Opener {
	return func(ctx context.Context, s *rank.Session, _ plan.Case) (rank.Runner, error) {
		library, gpu, err := gpurank.OpenNCCL(kind, s)
		if err != nil {
			return nil, err
		}
		e, err := newEngine(ctx, s, library, gpu)
		if err != nil {
			return nil, errors.Join(err, gpu.Close())
		}
		return gpu.Around(transfer.NewRunner(transfer.Parts{
			Engine: e, Facts: gpu.Facts(gpurank.LibraryOf(library)), TwoSided: true,
			Free: func() (int64, error) {
				free, _, err := gpu.Memory()
				return free, err
			},
		})), nil
	}
}

// engine is one rank's end.
type engine struct {
	gpu     *gpurank.GPU
	library *nccl.Library
	pools   *device.Pools
	stream  accel.Stream
	rank    int
	spare   []*request // released ones, with their events

	// Of a case:
	ctx   context.Context
	pool  *device.Pool
	id    nccl.ID
	comm  *nccl.Communicator
	watch *gpurank.Watch
	// broken says that an operation failed: the peer may wait for what never comes.
	broken bool
}

var _ transfer.Engine = (*engine)(nil)

func newEngine(ctx context.Context, s *rank.Session, l *nccl.Library, g *gpurank.GPU) (*engine, error) {
	if err := l.Need("ncclSend", "ncclRecv"); err != nil {
		return nil, gpurank.NCCLError(err)
	}
	reaches, err := g.CanAccessPeer(peerOf(s.LocalRank))
	if err != nil {
		return nil, rank.Coded(result.ReasonDevice, err)
	}
	if !reaches {
		return nil, rank.Refused("device %d cannot access device %d directly, as lane %s has to", s.LocalRank, peerOf(s.LocalRank), vocab.LanePeer)
	}
	pools, err := device.NewPools(ctx, g)
	if err != nil {
		return nil, err
	}
	stream, err := g.NewStream()
	if err != nil {
		return nil, errors.Join(rank.Coded(result.ReasonDevice, err), pools.Close())
	}
	return &engine{gpu: g, library: l, pools: pools, stream: stream, rank: s.Rank}, nil
}

// peerOf is the other one of two ranks, or of their devices.
func peerOf(rank int) int { return 1 - rank }

// Lane implements transfer.Engine.
func (*engine) Lane() string { return vocab.LanePeer }

// Register implements transfer.Engine. The library takes any memory of the device.
func (e *engine) Register(ctx context.Context, bytes int64) (transfer.Memory, error) {
	pool, err := e.pools.Alloc(bytes)
	if err != nil {
		return nil, err
	}
	e.ctx, e.pool = ctx, pool
	return pool, nil
}

// Metadata implements transfer.Engine: rank 0 makes the id of the communicator.
func (e *engine) Metadata() (_ []byte, err error) {
	if e.rank != 0 {
		return nil, nil
	}
	if e.id, err = e.library.NewID(); err != nil {
		return nil, gpurank.NCCLError(err)
	}
	return e.id[:], nil
}

// Connect implements transfer.Engine.
func (e *engine) Connect(metadata []byte, bytes int64) (err error) {
	if bytes != e.pool.Bytes {
		return fmt.Errorf("a pool of %d bytes here and of %d there", e.pool.Bytes, bytes)
	}
	if e.rank != 0 {
		if len(metadata) != nccl.IDBytes {
			return fmt.Errorf("unique id of %d bytes", len(metadata))
		}
		e.id = nccl.ID(metadata)
	}
	if e.comm, err = e.library.Init([]nccl.ID{e.id}, e.rank, plan.TransferRanks, nccl.Config{NVLinkCentric: true}); err != nil {
		return gpurank.NCCLError(err)
	}
	e.watch = gpurank.NewWatch(e.ctx, e.comm)
	return nil
}

// Unregister implements transfer.Engine.
func (e *engine) Unregister() (err error) {
	if e.watch != nil {
		e.watch.Stop()
		e.watch = nil
	}
	if e.comm != nil {
		end := e.comm.Close
		if e.broken || e.ctx.Err() != nil {
			end = e.comm.Abort
		}
		err = gpurank.NCCLError(end())
		e.comm, e.broken = nil, false
	}
	if e.pool != nil {
		err = errors.Join(err, e.pool.Close())
		e.pool = nil
	}
	return err
}

// Close implements transfer.Engine.
func (e *engine) Close() error {
	var err error
	for _, r := range e.spare {
		err = errors.Join(err, r.event.Close())
	}
	return errors.Join(rank.Coded(result.ReasonDevice, errors.Join(err, e.stream.Close())), e.pools.Close(), e.gpu.Close())
}

// request is the blocks of a request as this rank has them.
type request struct {
	engine *engine
	event  accel.Event // after the group
	sends  bool
	pieces []nccl.Piece
}

// Prepare implements transfer.Engine.
func (e *engine) Prepare(op string, blocks []transfer.Block) (transfer.Request, error) {
	r, err := e.request()
	if err != nil {
		return nil, err
	}
	posts := e.rank != 0
	r.sends, r.pieces = posts == (op == vocab.Push), r.pieces[:0]
	for _, b := range blocks {
		if err := b.Check(e.pool.Bytes); err != nil {
			return nil, err
		}
		at := b.Remote
		if posts {
			at = b.Local
		}
		r.pieces = append(r.pieces, nccl.Piece{At: e.pool.Base.Add(at), Bytes: b.Bytes})
	}
	return r, nil
}

// request returns a spare request or a new one.
func (e *engine) request() (*request, error) {
	if n := len(e.spare); n > 0 {
		r := e.spare[n-1]
		e.spare = e.spare[:n-1]
		return r, nil
	}
	event, err := e.gpu.NewEvent()
	if err != nil {
		return nil, rank.Coded(result.ReasonDevice, err)
	}
	return &request{engine: e, event: event}, nil
}

// Post implements transfer.Request.
func (r *request) Post() error {
	e := r.engine
	move := e.comm.Receive
	if r.sends {
		move = e.comm.Send
	}
	if err := move(e.stream, peerOf(e.rank), r.pieces); err != nil {
		e.broken = true
		return gpurank.NCCLError(err)
	}
	return e.failed(e.stream.Record(r.event))
}

// Done implements transfer.Request. What a communicator that was aborted leaves is nobody's
// result.
func (r *request) Done() (bool, error) {
	done, err := r.event.Query()
	return done, r.engine.failed(errors.Join(r.engine.watch.Err(), err))
}

// failed remembers an error.
func (e *engine) failed(err error) error {
	e.broken = e.broken || err != nil
	return err
}

// Release implements transfer.Request.
func (r *request) Release() error {
	r.engine.spare = append(r.engine.spare, r)
	return nil
}
