// Package nixl is the transfer family's backend over NIXL with its UCX backend, between the
// memory of two processes of a host.
package nixl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/accel"
	accelhost "github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/dl"
	"github.com/collectivex/collectivex/pkg/hostrank"
	"github.com/collectivex/collectivex/pkg/nixl"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Open opens the runner of a rank; it is a rank.Opener. The caller has locked its OS thread.
// A process opens one: UCX reads its settings, and with them the lane, once.
func Open(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
	lane := c.Transfer().Mode
	if transports[lane] == "" {
		return nil, rank.Refused("backend nixl has no lane %s", lane)
	}
	log, err := configure(lane)
	if err != nil {
		return nil, err
	}
	library, err := nixl.Open()
	if err != nil {
		return nil, errors.Join(rank.Coded(reasonOf(err), err), log.file.Close())
	}
	e := &engine{log: log, rank: s.Rank}
	// Before this thread is pinned to a processor: the agent's threads may run on all.
	if e.agent, err = library.NewAgent(fmt.Sprintf("rank-%d", s.Rank)); err != nil {
		return nil, errors.Join(e.failed(err), log.file.Close())
	}
	if err := e.join(ctx, s, c.RanksPerNode); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	facts := hostrank.Facts(e.device)
	facts.Library = rank.Library{Kind: "nixl", Version: library.Version(), SOName: library.SOName(), BuildID: library.BuildID()}
	return transfer.NewRunner(transfer.Parts{
		Engine: e, Facts: facts,
		Free: func() (int64, error) {
			free, _, err := e.device.Memory() // the ranks share it
			return free / int64(max(1, c.RanksPerNode)), err
		},
	}), nil
}

// reasonOf is the reason of an error of nixl.Open.
func reasonOf(err error) result.Code {
	switch {
	case errors.Is(err, dl.ErrNoSymbol):
		return result.ReasonNoSymbol
	case errors.Is(err, nixl.ErrUnfit):
		return result.ReasonRefused
	default:
		return result.ReasonNoLibrary
	}
}

// engine is one rank's end. Rank 0 has a pool and does nothing else.
type engine struct {
	log    *ucxLog
	rank   int
	agent  *nixl.Agent
	device *accelhost.Device
	group  *hostrank.Group

	// Of a case:
	pool       accel.Ptr
	bytes      int64
	registered *nixl.Registration
	peer       *nixl.Peer
	remote     uintptr // the peer's pool
	flying     map[*nixl.Request]bool
	ops        []string // that were prepared
}

var _ transfer.Engine = (*engine)(nil)

// join opens this rank's share of the host, and finds the peer there.
func (e *engine) join(ctx context.Context, s *rank.Session, ranks int) (err error) {
	if e.device, err = hostrank.Open(s, ranks); err != nil {
		return err
	}
	e.group, err = hostrank.Join(ctx, s, e.device)
	return err
}

// failed gives an error of the library its reason, and adds what UCX wrote down.
func (e *engine) failed(err error) error {
	status, ok := errors.AsType[*nixl.StatusError](err)
	if !ok {
		return err
	}
	if text := e.log.lastError(); text != "" {
		err = fmt.Errorf("%w: UCX: %s", err, text)
	}
	return &rank.Error{Reason: result.ReasonLibrary.With("nixl %d", status.Status), Err: err}
}

// Lane implements transfer.Engine.
func (e *engine) Lane() (string, error) { return e.log.lanes(e.ops) }

// Register implements transfer.Engine.
func (e *engine) Register(_ context.Context, bytes int64) (transfer.Memory, error) {
	// Yama lets a process read another one only if that one allows it. Kernels without
	// Yama refuse the call, and need none.
	_ = unix.Prctl(unix.PR_SET_PTRACER, uintptr(e.group.Peers[1-e.rank].PID), 0, 0, 0)
	pool, err := e.device.Alloc(bytes)
	if err != nil {
		return nil, rank.Coded(result.ReasonMemory, err)
	}
	e.pool, e.bytes = pool, bytes
	registered, err := e.agent.Register(uintptr(pool), bytes)
	if err != nil {
		return nil, e.failed(err)
	}
	e.registered, e.flying, e.ops = registered, map[*nixl.Request]bool{}, nil
	return transfer.HostMemory(accelhost.Bytes(pool, bytes)), nil
}

// metadata is what the peer needs to know of a pool.
type metadata struct {
	Address uintptr `json:"address"`
	Agent   []byte  `json:"agent"`
}

// Metadata implements transfer.Engine.
func (e *engine) Metadata() ([]byte, error) {
	agent, err := e.agent.Metadata()
	if err != nil {
		return nil, e.failed(err)
	}
	return json.Marshal(metadata{uintptr(e.pool), agent})
}

// Connect implements transfer.Engine: the rank that posts connects.
func (e *engine) Connect(of []byte, bytes int64) error {
	if bytes != e.bytes {
		return fmt.Errorf("a pool of %d bytes here and of %d there", e.bytes, bytes)
	}
	if e.rank == 0 {
		return nil
	}
	var m metadata
	if err := json.Unmarshal(of, &m); err != nil {
		return fmt.Errorf("metadata of the peer: %w", err)
	}
	peer, err := e.agent.Connect(m.Agent)
	if err != nil {
		return e.failed(err)
	}
	e.peer, e.remote = peer, m.Address
	return nil
}

// Disconnect implements transfer.Engine.
func (e *engine) Disconnect() (err error) {
	if e.peer == nil {
		return nil
	}
	for r := range e.flying { // of a case that failed
		err = errors.Join(err, r.Release())
	}
	err = errors.Join(err, e.peer.Close())
	e.peer, e.flying = nil, nil
	return e.failed(err)
}

// Unregister implements transfer.Engine.
func (e *engine) Unregister() (err error) {
	if e.registered != nil {
		err = e.failed(e.registered.Close())
		e.registered = nil
	}
	if e.pool != 0 {
		err = errors.Join(err, e.device.Free(e.pool))
		e.pool = 0
	}
	return err
}

// Close implements transfer.Engine.
func (e *engine) Close() error {
	err := e.failed(e.agent.Close())
	if e.group != nil {
		err = errors.Join(err, e.group.Close())
	}
	if e.device != nil {
		err = errors.Join(err, e.device.Close())
	}
	return errors.Join(err, e.log.file.Close())
}

// request is a transfer of the library.
type request struct {
	engine *engine
	*nixl.Request
}

// Prepare implements transfer.Engine.
func (e *engine) Prepare(op string, blocks []transfer.Block) (transfer.Request, error) {
	list := make([]nixl.Block, len(blocks))
	for i, b := range blocks {
		if err := b.Check(e.bytes); err != nil {
			return nil, err
		}
		list[i] = nixl.Block{Local: uintptr(e.pool) + uintptr(b.Local), Remote: e.remote + uintptr(b.Remote), Bytes: b.Bytes}
	}
	r, err := e.peer.Prepare(op == vocab.Push, list)
	if err != nil {
		return nil, e.failed(err)
	}
	if !slices.Contains(e.ops, op) {
		e.ops = append(e.ops, op)
	}
	e.flying[r] = true
	return &request{e, r}, nil
}

// Post implements transfer.Request.
func (r *request) Post() error { return r.engine.failed(r.Request.Post()) }

// Done implements transfer.Request.
func (r *request) Done() (bool, error) {
	done, err := r.Request.Done()
	return done, r.engine.failed(err)
}

// Release implements transfer.Request.
func (r *request) Release() error {
	delete(r.engine.flying, r.Request)
	return r.engine.failed(r.Request.Release())
}
