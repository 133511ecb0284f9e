package python

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/device"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
)

// engine is the runner.Engine of one rank. Rank 0 only has a pool.
type engine struct {
	settings
	end     runner.End
	library *library
	locked  int64 // see device.RaiseLocked

	// Of a case:
	ctx       context.Context
	pool      uintptr
	bytes     int64 // of the pool, while it is registered
	remote    uintptr
	connected bool
	flying    []*batch
	moved     map[string]int64
	took      func(moved map[string]int64) (runner.Lane, error) // see settings.evidence
}

var _ runner.Engine = (*engine)(nil)

func (e *engine) Register(ctx context.Context, bytes int64, _ string) (pool.Memory, error) {
	words, pool, err := e.end.AllocPool(bytes)
	if err != nil {
		return nil, err
	}
	if err := e.library.call("register", e.library.Register, int64(pool), bytes); err != nil {
		return nil, device.Limited(err, e.locked)
	}
	e.ctx, e.pool, e.bytes, e.moved = ctx, uintptr(pool), bytes, map[string]int64{}
	return words, nil
}

// metadata describes a pool to the peer.
type metadata struct {
	Address uintptr `json:"address"`
	Library string  `json:"library"` // argument of the library's connect
}

func (e *engine) Metadata() ([]byte, error) {
	text, err := e.library.Text(e.library.Metadata, "")
	if err != nil {
		return nil, err
	}
	return json.Marshal(metadata{e.pool, text})
}

func (e *engine) Connect(of []byte) (err error) {
	var m metadata
	if err := json.Unmarshal(of, &m); err != nil {
		return fmt.Errorf("read the metadata of the peer: %w", err)
	}
	if e.evidence != nil {
		if e.took, err = e.evidence(); err != nil {
			return err
		}
	}
	if _, err := e.library.Text(e.library.Connect, m.Library); err != nil {
		return err
	}
	e.remote, e.connected = m.Address, true
	return nil
}

func (e *engine) Lane() (runner.Lane, error) {
	if e.took == nil {
		return runner.Lane{Name: e.lane}, nil
	}
	return e.took(e.moved)
}

// drain limits how long the end of a failed case waits for blocks in flight.
const drain = 10 * time.Second

// Disconnect implements runner.Engine. After a failure it waits for batches in flight until the first
// one fails, since every later one may take as long to time out.
func (e *engine) Disconnect() error {
	for start := time.Now(); len(e.flying) > 0 && time.Since(start) < drain; {
		if _, err := e.ended(e.flying[0]); err != nil {
			break
		}
	}
	e.flying = nil
	if !e.connected {
		return nil
	}
	e.connected = false
	return e.library.call("disconnect", e.library.Disconnect)
}

func (e *engine) Unregister() error {
	var err error
	if e.bytes != 0 {
		err = e.library.call("unregister", e.library.Unregister)
		e.bytes = 0
	}
	return errors.Join(err, e.end.Unregister())
}

// Close implements runner.Engine. Python and the library end with the process.
func (e *engine) Close() error { return errors.Join(e.library.Flush(), e.end.Close()) }

// batch is blocks posted together.
type batch struct {
	id     int64
	blocks int
	err    error // result when it has ended
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

// Prepare implements runner.Engine. It refuses unregistered local memory and empty lists, which
// libraries accept.
func (e *engine) Prepare(op string, blocks []runner.Block) (runner.Request, error) {
	if len(blocks) == 0 {
		return nil, rank.Coded(result.ReasonInternal, errors.New("a request has no blocks"))
	}
	local, remote := e.pool, e.remote
	if e.localOffsets {
		local = 0
	}
	if e.remoteOffsets {
		remote = 0
	}
	r := &request{engine: e, op: op}
	list := make([]span, 0, len(blocks))
	for _, b := range blocks {
		if err := b.Check(e.bytes); err != nil {
			return nil, err
		}
		r.bytes += b.Bytes
		for b.Bytes > 0 {
			n := min(b.Bytes, cmp.Or(e.maxBlock, b.Bytes))
			list = append(list, span{local + uintptr(b.Local), remote + uintptr(b.Remote), n})
			b = runner.Block{Local: b.Local + n, Remote: b.Remote + n, Bytes: b.Bytes - n}
		}
	}
	r.blocks = len(list)
	var err error
	r.number, err = e.library.lists(list)
	return r, err
}

// limit returns a limit of blocks, where 0 means none.
func limit(blocks int) int { return cmp.Or(blocks, math.MaxInt) }

// Post implements runner.Request. It waits for earlier batches if too many are in flight.
func (r *request) Post() error {
	e := r.engine
	for first := 0; first < r.blocks; {
		b := &batch{blocks: min(limit(e.batchBlocks), r.blocks-first)}
		for e.inFlight() > limit(e.flyingBlocks)-b.blocks {
			if _, err := e.ended(e.flying[0]); err != nil {
				return err
			}
			if err := e.ctx.Err(); err != nil {
				return err
			}
		}
		var err error
		if b.id, err = e.library.start(r.number, first, first+b.blocks, r.op == transfer.Push); err != nil {
			return err
		}
		e.flying, r.batches = append(e.flying, b), append(r.batches, b)
		first += b.blocks
	}
	e.moved[r.op] += r.bytes
	return nil
}

// inFlight returns how many blocks were posted and have not ended.
func (e *engine) inFlight() (blocks int) {
	for _, b := range e.flying {
		blocks += b.blocks
	}
	return blocks
}

// ended polls a batch in flight, and reports whether it has ended. It does not poll again after that:
// the library has forgotten the batch.
func (e *engine) ended(b *batch) (bool, error) {
	done, err := e.library.ended(b.id)
	if done || err != nil {
		e.flying = slices.DeleteFunc(e.flying, func(o *batch) bool { return o == b })
	}
	if err != nil {
		b.err = fmt.Errorf("%w: some of %d blocks may have arrived", err, b.blocks)
	}
	return done, b.err
}

// Done implements runner.Request. Mooncake has no non-blocking poll of a batch: Done returns when the
// request has completed, or after MC_TRANSFER_TIMEOUT, by default 30 s.
func (r *request) Done() (bool, error) {
	for _, b := range r.batches {
		if slices.Contains(r.engine.flying, b) {
			if done, err := r.engine.ended(b); !done || err != nil {
				return false, err
			}
		}
		if b.err != nil {
			return false, b.err
		}
	}
	return true, nil
}

func (r *request) Release() error {
	return r.engine.library.call("release", r.engine.library.Release, r.number)
}
