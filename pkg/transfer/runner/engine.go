// Package runner measures transfers: bursts of requests that move a KV cache between the memory of two
// ranks, their cost, and the proof that every word arrived.
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

// Check refuses a block that exceeds pools of the given size.
func (b Block) Check(pool int64) error {
	if b.Bytes <= 0 || b.Local < 0 || b.Remote < 0 || b.Local > pool-b.Bytes || b.Remote > pool-b.Bytes {
		return rank.Coded(result.ReasonInternal, fmt.Errorf("a block of %d bytes at offsets %d and %d exceeds a pool of %d bytes", b.Bytes, b.Local, b.Remote, pool))
	}
	return nil
}

// Engine is one library, on one lane, in one rank. Its methods are called from one OS thread. Prepare is
// called on rank 1 only, unless Parts.TwoSided.
type Engine interface {
	// Register creates a pool of the given size, which the peer can access once it has Metadata, and
	// returns its memory. There is one pool at a time. The peer opens it by a handle of vocab.Handles,
	// or by the engine's default if that is empty; the planner requests only supported handles. When
	// ctx, the context of the case, ends, the engine abandons requests in flight.
	Register(ctx context.Context, bytes int64, handle string) (pool.Memory, error)
	// Metadata returns the argument of the peer's Connect.
	Metadata() ([]byte, error)
	// Connect makes the peer's pool, which has the size of this rank's, accessible. It is called on the
	// ranks that post.
	Connect(metadata []byte) error
	// Prepare returns a request that moves the blocks: to Local if op is pull, to Remote if it is
	// push.
	Prepare(op string, blocks []Block) (Request, error)
	// Lane returns what has moved the data of this rank's requests, according to the library. The
	// posting ranks call it after the last burst.
	Lane() (Lane, error)
	// Disconnect ends the use of the peer's pool. It is idempotent.
	Disconnect() error
	// Unregister frees the pool, which the peer no longer uses.
	Unregister() error
	Close() error
}

// Lane is what moved data. If a library reports only what it sends, Lane is the zero value on a rank
// that only received; the peer then reports the lane.
type Lane struct {
	// Name is one of vocab.Lanes or UnknownLane, or several of these in order, joined by "+".
	Name string `json:"name"`
	// Transport is the library's name for it, such as P2P/CUMEM, or the handle by which rank 1 opened
	// the pool; several are joined likewise. It is empty if the library does not report it.
	Transport string `json:"transport,omitempty"`
	// Unverified: nothing was there to show that the data took the lane for which the library was configured.
	Unverified bool `json:"unverified,omitempty"`
}

// UnknownLane is the lane of a library that does not report how the data moved.
const UnknownLane = "unknown"

// Add merges another lane that moved data.
func (l *Lane) Add(more Lane) {
	l.Name, l.Transport = joined(l.Name, more.Name), joined(l.Transport, more.Transport)
	l.Unverified = l.Unverified || more.Unverified
}

// joined merges the words of two lists.
func joined(a, b string) string {
	words := slices.DeleteFunc(append(strings.Split(a, "+"), strings.Split(b, "+")...), func(w string) bool { return w == "" })
	slices.Sort(words)
	return strings.Join(slices.Compact(words), "+")
}

// Request is a transfer that has been prepared and is posted once.
type Request interface {
	Post() error
	// Done reports whether the posted request has completed. It does not wait, unless the library has
	// only a call that does, for a limited time.
	Done() (bool, error)
	Release() error
}

// End is a rank's resources besides a library: memory for a pool, one at a time.
type End interface {
	// AllocPool returns a pool of the given size and its address.
	AllocPool(bytes int64) (pool.Memory, accel.Ptr, error)
	// Unregister frees the pool, if there is one.
	Unregister() error
	// Runner returns a runner of an engine on this end; library describes its library and may be
	// empty.
	Runner(engine Engine, library rank.Library) rank.Runner
	Close() error
}

// Parts are the backend's parts of a Runner.
type Parts struct {
	Engine Engine
	Facts  rank.Facts
	// TwoSided: both ranks prepare, post and complete each request, with the same blocks in the same
	// order. The slower rank's times count.
	TwoSided bool
	// Free returns the free memory for the pool of this rank, in bytes.
	Free func() (int64, error)
}
