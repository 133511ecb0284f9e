// Package ipc is the transfer family's backend between two GPUs of a host by copies of the driver:
// rank 1 opens the pool of rank 0, which is another process, and its device copies each block. It uses
// no library and is the upper bound for the other backends.
package ipc

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/device"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Backend is the IPC backend.
var Backend = backend.Backend{Name: "ipc", Open: map[plan.Family]rank.Opener{transfer.Name: Open}}

// Open opens the runner of a rank, on CUDA, or on HIP where CUDA's driver is not installed;
// it is a rank.Opener. A rank drives the device of its local rank and has locked its OS
// thread.
func Open(ctx context.Context, s *rank.Session, _ plan.Case) (rank.Runner, error) {
	end, err := device.Open(ctx, s, gpurank.OpenAny, vocab.LanePeer)
	if err != nil {
		return nil, err
	}
	return end.Runner(&engine{End: end}, end.DriverAs("ipc")), nil
}

// engine is the runner.Engine of one rank. Rank 0 only has a pool.
type engine struct {
	*device.End
	// Of a case:
	ctx      context.Context
	sharing  sharing   // of the pools
	metadata any       // of this rank's pool
	remote   accel.Ptr // the peer's pool in this process; 0: not open
}

var _ runner.Engine = (*engine)(nil)

func (e *engine) Register(ctx context.Context, bytes int64, handle string) (_ pool.Memory, err error) {
	if e.sharing, err = newSharing(e.End, handle); err != nil {
		return nil, err
	}
	if e.metadata, err = e.sharing.share(bytes); err != nil {
		return nil, err
	}
	e.ctx = ctx
	return e.Pool, nil
}

func (e *engine) Metadata() ([]byte, error) { return json.Marshal(e.metadata) }

// Connect implements runner.Engine: the posting rank opens its peer's pool.
func (e *engine) Connect(metadata []byte) (err error) {
	e.remote, err = e.sharing.open(e.ctx, metadata)
	return err
}

func (e *engine) Lane() (runner.Lane, error) {
	return runner.Lane{Name: vocab.LanePeer, Transport: e.sharing.handle()}, nil
}

func (e *engine) Disconnect() error {
	if e.remote == 0 {
		return nil
	}
	err := errors.Join(e.Stream.Synchronize(), e.sharing.close(e.remote))
	e.remote = 0
	return rank.Coded(result.ReasonDevice, err)
}

func (e *engine) Unregister() error {
	var err error
	if e.sharing != nil {
		err = rank.Coded(result.ReasonDevice, e.sharing.unshare())
	}
	return errors.Join(err, e.End.Unregister())
}

// request is copies in the order of the blocks, followed by an event.
type request struct {
	engine *engine
	push   bool
	blocks []runner.Block
	event  accel.Event
}

func (e *engine) Prepare(op string, blocks []runner.Block) (runner.Request, error) {
	for _, b := range blocks {
		if err := b.Check(e.Pool.Bytes); err != nil {
			return nil, err
		}
	}
	event, err := e.Event()
	return &request{e, op == transfer.Push, blocks, event}, err
}

func (r *request) Post() error {
	e := r.engine
	for _, b := range r.blocks {
		dst, src := e.Pool.Base.Add(b.Local), e.remote.Add(b.Remote)
		if r.push {
			dst, src = src, dst
		}
		if err := e.Copy(e.Stream, dst, src, b.Bytes); err != nil {
			return err
		}
	}
	return e.Stream.Record(r.event)
}

func (r *request) Done() (bool, error) { return r.event.Query() }

func (r *request) Release() error {
	r.engine.PutEvent(r.event)
	return nil
}
