// Package mooncake is the transfer family's backend over Mooncake's transfer engine, between two
// processes of a host over TCP. The library has a Python interface alone, which is called in
// this process; see package pyhost.
package mooncake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/pyhost"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/host"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Open opens the runner of a rank; it is a rank.Opener. The caller has locked its OS thread.
// A process opens one: it has one interpreter of Python, and Mooncake reads its settings once.
func Open(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
	if lane := c.Transfer().Mode; lane != vocab.LaneTCP {
		return nil, rank.Refused("backend mooncake has no lane %s", lane)
	}
	if err := configure(); err != nil {
		return nil, err
	}
	found, err := pyhost.Find(ctx, command.Host{}, nil)
	if err != nil {
		return nil, rank.Coded(result.ReasonNoLibrary, err)
	}
	python, err := pyhost.Start(found)
	if err != nil {
		return nil, rank.Coded(result.ReasonNoLibrary, err)
	}
	// Before this thread is pinned to a processor: the library's threads may run on all.
	l, err := newLibrary(python, "mooncake")
	if err != nil {
		return nil, err
	}
	end, err := host.NewEnd(ctx, s, c)
	if err != nil {
		return nil, err
	}
	e := &engine{End: end, rank: s.Rank, python: python, library: l}
	return end.Runner(e, rank.Library{Kind: "mooncake", Version: l.version}), nil
}

// forced are the variables with which Mooncake takes another lane than TCP.
var forced = []string{"MC_FORCE_HCA", "MC_FORCE_MNNVL", "MC_INTRANODE_NVLINK"}

// configure has Mooncake, which is not loaded yet, use TCP alone, and not write down every
// batch.
func configure() error {
	for _, name := range forced {
		if value, ok := os.LookupEnv(name); ok {
			return rank.Refused("%s=%s: the lane of the case decides what Mooncake uses: unset it", name, value)
		}
	}
	if _, ok := os.LookupEnv("MC_LOG_LEVEL"); !ok {
		if err := os.Setenv("MC_LOG_LEVEL", "WARNING"); err != nil {
			return err
		}
	}
	return os.Setenv("MC_FORCE_TCP", "1")
}

// engine is one rank's end. Rank 0 has a pool and does nothing else.
type engine struct {
	*host.End
	rank    int
	python  *pyhost.Interpreter
	library *library

	// Of a case:
	pool   uintptr
	bytes  int64 // of the pool, while it is registered
	remote uintptr
	flying []*batch
	before traffic // when it connected
	moved  map[string]int64
}

var _ transfer.Engine = (*engine)(nil)

// Register implements transfer.Engine.
func (e *engine) Register(_ context.Context, bytes int64) (transfer.Memory, error) {
	words, pool, err := e.AllocPool(bytes)
	if err != nil {
		return nil, err
	}
	if err := call("register_memory", e.library.register, int64(pool), bytes); err != nil {
		return nil, err
	}
	e.pool, e.bytes, e.moved = uintptr(pool), bytes, map[string]int64{}
	return words, nil
}

// metadata is what the peer needs to know of a pool.
type metadata struct {
	Port    int64   `json:"port"`
	Address uintptr `json:"address"`
}

// Metadata implements transfer.Engine.
func (e *engine) Metadata() ([]byte, error) { return json.Marshal(metadata{e.library.port, e.pool}) }

// Connect implements transfer.Engine: the rank that posts connects with its first request.
func (e *engine) Connect(of []byte, bytes int64) (err error) {
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
	if e.before, err = tcpTraffic(); err != nil {
		return err
	}
	e.remote = m.Address
	return call("connect", e.library.connect, m.Port)
}

// Lane implements transfer.Engine: that of TCP if the sockets of this process moved as many
// bytes as the requests did.
func (e *engine) Lane() (transfer.Lane, error) {
	now, err := tcpTraffic()
	if err != nil {
		return transfer.Lane{}, err
	}
	if m := now.since(e.before); m.received < e.moved[vocab.Pull] || m.sent < e.moved[vocab.Push] {
		return transfer.Lane{Name: transfer.UnknownLane}, nil
	}
	return transfer.Lane{Name: vocab.LaneTCP}, nil
}

// Disconnect implements transfer.Engine. Of a case that failed, it waits for what is in flight, up
// to the first batch that fails: each of the others may take as long to time out.
func (e *engine) Disconnect() error {
	for len(e.flying) > 0 {
		if e.finish(e.flying[0]) != nil {
			e.flying = nil
		}
	}
	return nil
}

// Unregister implements transfer.Engine.
func (e *engine) Unregister() error {
	var err error
	if e.bytes != 0 {
		err = call("unregister_memory", e.library.unregister, int64(e.pool))
		e.bytes = 0
	}
	return errors.Join(err, e.FreePool())
}

// Close implements transfer.Engine. Python, and with it the engine of Mooncake, ends with the
// process.
func (e *engine) Close() error { return errors.Join(e.python.Flush(), e.End.Close()) }

// Mooncake refuses what exceeds its queue to a peer, of some 2,048 blocks, after it has moved
// some of it.
const (
	batchBlocks  = 512  // of a batch, at most
	flyingBlocks = 1024 // of all batches in flight
)

// batch is blocks that were posted together.
type batch struct {
	id     int64
	blocks int
	err    error // when it is finished
}

// request is a transfer of the library.
type request struct {
	engine  *engine
	op      string
	number  int64
	blocks  int
	bytes   int64
	batches []*batch
}

// Prepare implements transfer.Engine. The library itself takes local memory that is not
// registered, and no blocks at all.
func (e *engine) Prepare(op string, blocks []transfer.Block) (transfer.Request, error) {
	if len(blocks) == 0 {
		return nil, rank.Coded(result.ReasonInternal, errors.New("a request without blocks"))
	}
	r := &request{engine: e, op: op, blocks: len(blocks)}
	list := make([]span, len(blocks))
	for i, b := range blocks {
		if err := b.Check(e.bytes); err != nil {
			return nil, err
		}
		list[i] = span{e.pool + uintptr(b.Local), e.remote + uintptr(b.Remote), b.Bytes}
		r.bytes += b.Bytes
	}
	var err error
	r.number, err = e.library.lists(list)
	return r, err
}

// Post implements transfer.Request. It waits for earlier batches if too many are in flight.
func (r *request) Post() error {
	e := r.engine
	for first := 0; first < r.blocks; first += batchBlocks {
		b := &batch{blocks: min(batchBlocks, r.blocks-first)}
		for e.inFlight()+b.blocks > flyingBlocks {
			if err := e.finish(e.flying[0]); err != nil {
				return err
			}
		}
		var err error
		if b.id, err = e.library.start(r.number, first, first+b.blocks, r.op == vocab.Push); err != nil {
			return err
		}
		e.flying, r.batches = append(e.flying, b), append(r.batches, b)
	}
	e.moved[r.op] += r.bytes
	return nil
}

// inFlight is how many blocks were posted and not waited for.
func (e *engine) inFlight() (blocks int) {
	for _, b := range e.flying {
		blocks += b.blocks
	}
	return blocks
}

// finish waits for a batch in flight.
func (e *engine) finish(b *batch) error {
	e.flying = slices.DeleteFunc(e.flying, func(o *batch) bool { return o == b })
	if b.err = call("get_batch_transfer_status", e.library.wait, b.id); b.err != nil {
		b.err = fmt.Errorf("%w: some of %d blocks may have arrived", b.err, b.blocks)
	}
	return b.err
}

// Done implements transfer.Request. Mooncake has no call that does not wait for a batch: it
// returns when the request has completed, or after MC_TRANSFER_TIMEOUT, by default 30 s.
func (r *request) Done() (bool, error) {
	for _, b := range r.batches {
		if slices.Contains(r.engine.flying, b) {
			if err := r.engine.finish(b); err != nil {
				return false, err
			}
		}
		if b.err != nil {
			return false, b.err
		}
	}
	return true, nil
}

// Release implements transfer.Request.
func (r *request) Release() error {
	_, err := r.engine.library.release.Call(r.number)
	return coded(err)
}
