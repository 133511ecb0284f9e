// Package nccl is the transfer family's backend over point-to-point operations of NCCL and RCCL,
// between two devices of a host.
//
// A request is one group of operations, a send or receive for each block. Both ranks call them. Each
// case gets a new communicator, so that a failed case does not affect the next.
package nccl

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/memlog"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/device"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// The backends over these libraries.
var (
	NCCL = backendOf(nccl.NCCL)
	RCCL = backendOf(nccl.RCCL)
)

func backendOf(kind nccl.Kind) backend.Backend {
	return backend.Backend{
		Name: string(kind) + "-kv", Open: map[plan.Family]rank.Opener{transfer.Name: Open(kind)}, Needs: []*backend.Need{gpurank.Needs[kind]},
	}
}

// Open returns the rank.Opener of the backend over a kind of library. A rank drives the
// device of its local rank and has locked its OS thread.
func Open(kind nccl.Kind) rank.Opener {
	return func(ctx context.Context, s *rank.Session, _ plan.Case) (rank.Runner, error) {
		log, err := logs[kind]()
		if err != nil {
			return nil, err
		}
		library, gpu, err := gpurank.OpenNCCL(kind, s)
		if err != nil {
			return nil, err
		}
		if err := library.Need("ncclSend", "ncclRecv"); err != nil {
			return nil, errors.Join(gpurank.NCCLError(err), gpu.Close())
		}
		if os.Getenv(disableP2P) == "1" {
			return nil, errors.Join(rank.Refused("%s=1 keeps the library from lane %s: unset it", disableP2P, vocab.LanePeer), gpu.Close())
		}
		end, err := device.NewEnd(ctx, s, gpu, vocab.LanePeer)
		if err != nil {
			return nil, err
		}
		end.TwoSided = true
		return end.Runner(&engine{End: end, library: library, log: log}, gpurank.LibraryOf(library)), nil
	}
}

// disableP2P is the variable that makes the library copy through host memory.
const disableP2P = "NCCL_P2P_DISABLE"

// engine is the runner.Engine of one rank.
type engine struct {
	*device.End
	library *nccl.Library
	log     *memlog.Log
	spare   [][]nccl.Message // lists of released requests

	// Of a case:
	ctx   context.Context
	id    nccl.ID
	comm  *nccl.Communicator
	watch *gpurank.Watch
	// logged is the length of the library's log before it created the communicator.
	logged int
	// broken: an operation failed, and the peer may wait forever.
	broken bool
}

var _ runner.Engine = (*engine)(nil)

// Register implements runner.Engine. The library accepts any memory of the device.
func (e *engine) Register(ctx context.Context, bytes int64, _ string) (pool.Memory, error) {
	e.ctx = ctx
	words, _, err := e.AllocPool(bytes)
	return words, err
}

// Metadata implements runner.Engine: rank 0 creates the id of the communicator.
func (e *engine) Metadata() (_ []byte, err error) {
	if e.Rank != 0 {
		return nil, nil
	}
	if e.id, err = e.library.NewID(); err != nil {
		return nil, gpurank.NCCLError(err)
	}
	return e.id[:], nil
}

func (e *engine) Connect(metadata []byte) (err error) {
	if e.Rank != 0 {
		if len(metadata) != nccl.IDBytes {
			return fmt.Errorf("the peer sent a communicator id of %d bytes", len(metadata))
		}
		e.id = nccl.ID(metadata)
	}
	text, err := e.log.Text()
	if err != nil {
		return err
	}
	e.logged = len(text)
	if e.comm, err = e.library.Init([]nccl.ID{e.id}, e.Rank, transfer.Ranks, nccl.Config{NVLinkCentric: true}); err != nil {
		return gpurank.NCCLError(err)
	}
	e.watch = gpurank.NewWatch(e.ctx, e.comm)
	return nil
}

// Lane implements runner.Engine: the transports of the connections over which this rank sends.
func (e *engine) Lane() (runner.Lane, error) {
	text, err := e.log.Text()
	if err != nil {
		return runner.Lane{}, err
	}
	return laneIn(text[e.logged:], e.Rank), nil
}

func (e *engine) Disconnect() (err error) {
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
	return err
}

// request holds the blocks of a request on this rank, and an event behind the group.
type request struct {
	engine   *engine
	event    accel.Event
	messages []nccl.Message
}

func (e *engine) Prepare(op string, blocks []runner.Block) (runner.Request, error) {
	posts := e.Rank != 0
	r := &request{engine: e}
	if n := len(e.spare); n > 0 {
		r.messages, e.spare = e.spare[n-1][:0], e.spare[:n-1]
	}
	for _, b := range blocks {
		if err := b.Check(e.Pool.Bytes); err != nil {
			return nil, err
		}
		at := b.Remote
		if posts {
			at = b.Local
		}
		r.messages = append(r.messages, nccl.Message{
			Peer: int32(device.PeerOf(e.Rank)), Sends: posts == (op == transfer.Push), At: e.Pool.Base.Add(at), Bytes: b.Bytes,
		})
	}
	var err error
	r.event, err = e.Event()
	return r, err
}

func (r *request) Post() error {
	e := r.engine
	if err := e.comm.SendRecv(e.Stream, r.messages); err != nil {
		e.broken = true
		return gpurank.NCCLError(err)
	}
	return e.failed(e.Stream.Record(r.event))
}

// Done implements runner.Request. Completion after an abort of the communicator is an error.
func (r *request) Done() (bool, error) {
	done, err := r.event.Query()
	return done, r.engine.failed(errors.Join(r.engine.watch.Err(), err))
}

func (r *request) Release() error {
	r.engine.PutEvent(r.event)
	r.engine.spare = append(r.engine.spare, r.messages)
	return nil
}

// failed records an error.
func (e *engine) failed(err error) error {
	e.broken = e.broken || err != nil
	return err
}
