// Package nixl is the transfer family's backend over NIXL with its UCX backend: between the memory of
// two processes of a host, or of the GPUs that two ranks drive, on one host or two.
package nixl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/dl"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/laneenv"
	"github.com/collectivex/collectivex/pkg/memlog"
	"github.com/collectivex/collectivex/pkg/nixl"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/device"
	"github.com/collectivex/collectivex/pkg/transfer/host"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Backend is the NIXL backend.
var Backend = backend.Backend{
	Name: "nixl", Open: map[plan.Family]rank.Opener{transfer.Name: Open}, Loopback: true,
	Needs: []*backend.Need{{Kind: "nixl", Label: "NIXL", Find: findLibrary}},
}

// findLibrary finds NIXL and opens its plugin UCX. The environment must not set UCX's transports, because
// the ranks choose them.
func findLibrary(ctx context.Context) backend.Library {
	n, err := nixl.Open(ctx)
	if err != nil {
		return backend.Library{Err: err}
	}
	found := backend.Opened(n.File, n.Version())
	found.Err = laneenv.UCX.Check()
	if found.Held = found.Err != nil; !found.Held {
		found.Err = n.PluginError()
	}
	found.Lanes = map[string]error{
		vocab.LaneProcessVM: n.ModuleError("cma"), vocab.LanePeer: n.DeviceError(), vocab.LaneMNNVL: n.DeviceError(),
		vocab.LaneRDMA: cmp.Or(n.DeviceError(), n.ModuleError("ib")),
	}
	return found
}

// Open opens the runner of a rank; it is a rank.Opener. The caller has locked its OS thread. A process
// may open only one: UCX reads its settings, including the lane, once.
func Open(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
	lane := transfer.Of(&c).Mode
	if transports[lane] == "" {
		return nil, rank.Refused("backend nixl has no lane %s", lane)
	}
	locked := int64(device.NoLimit)
	if lane == vocab.LaneRDMA {
		locked = device.RaiseLocked()
	}
	log, err := configure(lane)
	if err != nil {
		return nil, err
	}
	e := &engine{log: log, rank: s.Rank, nodes: c.Nodes, locked: locked}
	library, err := nixl.Open(ctx)
	if err != nil {
		return nil, errors.Join(rank.Coded(reasonOf(err), err), e.Close())
	}
	if err := e.open(ctx, s, c, library); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e.end.Runner(e, rank.LibraryOf("nixl", library.Version(), library.File)), nil
}

// open creates the agent, and opens the memory of the lane.
func (e *engine) open(ctx context.Context, s *rank.Session, c plan.Case, library *nixl.Library) (err error) {
	e.onDevices = slices.Contains(ofDevices, transfer.Of(&c).Mode)
	if e.onDevices {
		end, err := device.Open(ctx, s, gpurank.OpenCUDA, transfer.Of(&c).Mode)
		if err != nil {
			return err
		}
		if transfer.Of(&c).Mode == vocab.LaneMNNVL {
			end.MakePool = end.AllocFabricPool
		}
		e.end, e.perNode = end, c.RanksPerNode
		if err := library.DeviceError(); err != nil {
			return rank.Coded(result.ReasonNoLibrary, err)
		}
	}
	// Before this thread is pinned to a processor: the agent's threads must not inherit the affinity.
	if e.agent, err = library.NewAgent(fmt.Sprintf("rank-%d", s.Rank), s.Rank == 0); err != nil {
		return e.failed(device.Limited(err, e.locked))
	}
	if e.onDevices {
		return nil
	}
	end, err := host.NewEnd(ctx, s, c)
	if err != nil {
		return err
	}
	end.AllowPeer()
	e.end = end
	return nil
}

// reasonOf returns the reason of an error of nixl.Open.
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

// engine is the runner.Engine of one rank. Rank 0 only has a pool.
type engine struct {
	log    *memlog.Log
	rank   int
	nodes  int
	agent  *nixl.Agent
	end    runner.End
	locked int64 // maximum bytes that the process may lock
	// onDevices: both ends use memory of GPUs, not of the host.
	onDevices bool
	perNode   int // ranks of a node, which drive GPUs

	// Of a case:
	pool       uintptr
	bytes      int64
	registered *nixl.Registration
	peer       *nixl.Peer
	remote     uintptr // the peer's pool
	flying     map[*nixl.Request]bool
	ops        []string // prepared so far
}

var _ runner.Engine = (*engine)(nil)

// failed adds the reason code and UCX's logged error to an error of the library.
func (e *engine) failed(err error) error {
	status, ok := errors.AsType[*nixl.StatusError](err)
	if !ok {
		return err
	}
	if text := lastError(e.log); text != "" {
		err = fmt.Errorf("%w: UCX: %s", err, text)
	}
	return &rank.Error{Reason: result.ReasonLibrary.With("nixl %d (%s)", int(status.Status), status.Status), Err: err}
}

func (e *engine) Lane() (runner.Lane, error) {
	text, err := e.log.Text()
	lane := lanesIn(text, e.ops, e.onDevices)
	if lane.Name == vocab.LanePeer && e.nodes > 1 { // the memory of a device on another node
		lane.Name = vocab.LaneMNNVL
	}
	return lane, err
}

func (e *engine) Register(_ context.Context, bytes int64, _ string) (pool.Memory, error) {
	words, at, err := e.end.AllocPool(bytes)
	if err != nil {
		return nil, err
	}
	e.pool, e.bytes = uintptr(at), bytes
	registered, err := e.agent.Register(e.memory(e.rank), e.pool, bytes, e.piece())
	if err != nil {
		return nil, e.failed(device.Limited(err, e.locked))
	}
	e.registered, e.flying, e.ops = registered, map[*nixl.Request]bool{}, nil
	return words, nil
}

// memory returns the library's description of the memory of a rank, which drives the device with its
// local rank.
func (e *engine) memory(rank int) nixl.Memory {
	if e.onDevices {
		return nixl.Device(rank % e.perNode)
	}
	return nixl.Host
}

// maxPiece is the maximum size of GPU memory registered at once: some adapters did not accept more than
// 7 GiB, and UCX did not report it.
var maxPiece int64 = 4 << 30

// piece returns the maximum size registered at once.
func (e *engine) piece() int64 {
	if e.onDevices {
		return maxPiece
	}
	return math.MaxInt64
}

// metadata describes a pool to the peer.
type metadata struct {
	Address uintptr `json:"address"`
	Agent   []byte  `json:"agent"`
}

func (e *engine) Metadata() ([]byte, error) {
	agent, err := e.agent.Metadata()
	if err != nil {
		return nil, e.failed(err)
	}
	return json.Marshal(metadata{e.pool, agent})
}

func (e *engine) Connect(of []byte) error {
	var m metadata
	if err := json.Unmarshal(of, &m); err != nil {
		return fmt.Errorf("read the metadata of the peer: %w", err)
	}
	peer, err := e.agent.Connect(m.Agent)
	if err != nil {
		return e.failed(err)
	}
	e.peer, e.remote = peer, m.Address
	return nil
}

func (e *engine) Disconnect() (err error) {
	if e.peer == nil {
		return nil
	}
	for r := range e.flying { // left by a case that failed
		err = errors.Join(err, r.Release())
	}
	err = errors.Join(err, e.peer.Close())
	e.peer, e.flying = nil, nil
	return e.failed(err)
}

func (e *engine) Unregister() (err error) {
	if e.registered != nil {
		err = e.failed(e.registered.Close())
		e.registered = nil
	}
	return errors.Join(err, e.end.Unregister())
}

func (e *engine) Close() (err error) {
	if e.agent != nil {
		err = e.failed(e.agent.Close())
	}
	if e.end != nil {
		err = errors.Join(err, e.end.Close())
	}
	return errors.Join(err, e.log.Close())
}

// request is a transfer of the library.
type request struct {
	engine *engine
	*nixl.Request
}

func (e *engine) Prepare(op string, blocks []runner.Block) (runner.Request, error) {
	list := make([]nixl.Block, 0, len(blocks))
	for _, b := range blocks {
		if err := b.Check(e.bytes); err != nil {
			return nil, err
		}
		for part := range pieces(b, e.piece()) {
			list = append(list, nixl.Block{Local: e.pool + uintptr(part.Local), Remote: e.remote + uintptr(part.Remote), Bytes: part.Bytes})
		}
	}
	r, err := e.peer.Prepare(op == transfer.Push, e.memory(e.rank), e.memory(1-e.rank), list)
	if err != nil {
		return nil, e.failed(err)
	}
	if !slices.Contains(e.ops, op) {
		e.ops = append(e.ops, op)
	}
	e.flying[r] = true
	return &request{e, r}, nil
}

// pieces splits a block where the memory of either side crosses into the next registered piece.
func pieces(b runner.Block, piece int64) iter.Seq[runner.Block] {
	return func(yield func(runner.Block) bool) {
		for b.Bytes > 0 {
			n := min(b.Bytes, piece-b.Local%piece, piece-b.Remote%piece)
			if !yield(runner.Block{Local: b.Local, Remote: b.Remote, Bytes: n}) {
				return
			}
			b = runner.Block{Local: b.Local + n, Remote: b.Remote + n, Bytes: b.Bytes - n}
		}
	}
}

func (r *request) Post() error { return r.engine.failed(r.Request.Post()) }

func (r *request) Done() (bool, error) {
	done, err := r.Request.Done()
	return done, r.engine.failed(err)
}

func (r *request) Release() error {
	delete(r.engine.flying, r.Request)
	return r.engine.failed(r.Request.Release())
}
