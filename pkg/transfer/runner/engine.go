// Package runner measures transfers: bursts of requests that move a KV cache between the memory
// of two ranks, what they cost, and the proof that every word arrived.
//
// Rank 0 owns the pool that the requests read or write. Rank 1 posts them and times them.
package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
)

// Block is a range of bytes that a request moves between two pools.
type Block struct {
	Local, Remote int64 // offsets in the pools of rank 1, which posts, and of rank 0
	Bytes         int64
}

// Check refuses a block that lies outside of pools of so many bytes.
func (b Block) Check(pool int64) error {
	if b.Bytes <= 0 || b.Local < 0 || b.Remote < 0 || b.Local > pool-b.Bytes || b.Remote > pool-b.Bytes {
		return rank.Coded(result.ReasonInternal, fmt.Errorf("a block of %d bytes at %d and %d: a pool has %d", b.Bytes, b.Local, b.Remote, pool))
	}
	return nil
}

// Engine is one library, on one lane, in one rank. Its methods are called from one OS
// thread. Prepare is called on rank 1 alone unless Parts.TwoSided says otherwise.
type Engine interface {
	// Register makes a pool of so many bytes, which the peer can access once it has
	// Metadata, and returns its memory. There is one pool at a time. The peer opens it by a
	// handle of vocab.Handles, or in the engine's usual way if that is empty; the planner asks
	// an engine only for what it has. When ctx, that of the case, ends, the engine gives up
	// what is in flight.
	Register(ctx context.Context, bytes int64, handle string) (pool.Memory, error)
	// Metadata is what the peer's Connect takes.
	Metadata() ([]byte, error)
	// Connect makes the peer's pool, which is as large as this rank's, accessible. It is called
	// on the ranks that post.
	Connect(metadata []byte) error
	// Prepare makes a request that moves the blocks: to Local if op is pull, to Remote if
	// it is push.
	Prepare(op string, blocks []Block) (Request, error)
	// Lane is what has moved the data of this rank's requests, as the library shows it. The
	// ranks that post ask after the last burst.
	Lane() (Lane, error)
	// Disconnect ends the use of the peer's pool. A second call does nothing.
	Disconnect() error
	// Unregister ends the pool, which the peer does not use any more.
	Unregister() error
	Close() error
}

// Lane is what moved data. The zero value says nothing, as of a rank whose library only
// knows what it sends, and which was sent to; its peer then has to say it.
type Lane struct {
	// Name is one of vocab.Lanes or UnknownLane, or several of these in order, joined by "+".
	Name string `json:"name"`
	// Transport is what the library calls it, such as P2P/CUMEM, or the handle by which rank 1
	// opened the pool; several are joined likewise. It is empty if the library does not say.
	Transport string `json:"transport,omitempty"`
}

// UnknownLane is the lane where the library does not show how the data moved.
const UnknownLane = "unknown"

// Add adds what else moved data.
func (l *Lane) Add(more Lane) {
	l.Name, l.Transport = joined(l.Name, more.Name), joined(l.Transport, more.Transport)
}

// joined joins the words of two lists.
func joined(a, b string) string {
	words := slices.DeleteFunc(append(strings.Split(a, "+"), strings.Split(b, "+")...), func(w string) bool { return w == "" })
	slices.Sort(words)
	return strings.Join(slices.Compact(words), "+")
}

// Request is a transfer that has been prepared and is posted once.
type Request interface {
	Post() error
	// Done reports whether the posted request has completed. It does not wait, unless all that
	// the library has is a call that does, for a limited time.
	Done() (bool, error)
	Release() error
}

// End is what a rank has besides a library: memory for a pool, one at a time.
type End interface {
	// AllocPool returns a pool of so many bytes and its address.
	AllocPool(bytes int64) (pool.Memory, accel.Ptr, error)
	// Unregister ends the pool, if there is one.
	Unregister() error
	// Runner returns a runner of an engine on this end, which uses a library or, if that is empty,
	// none.
	Runner(engine Engine, library rank.Library) rank.Runner
	Close() error
}

// Parts are what a backend brings to a rank.
type Parts struct {
	Engine Engine
	Facts  rank.Facts
	// TwoSided says that both ranks prepare, post and complete each request, with the same
	// blocks in the same order. The slower rank's times count.
	TwoSided bool
	// Free returns the bytes of free memory for the pool of this rank.
	Free func() (int64, error)
}
