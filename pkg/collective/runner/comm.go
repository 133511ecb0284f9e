// Package runner measures collective operations on a rank: it lays out and fills buffers, times
// windows, and checks results. It is independent of device and library; collective/host and other
// packages provide these.
package runner

import (
	"context"
	"errors"
	"time"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Call holds the arguments of one operation. Its memory layout is that of a C struct of nine 64-bit
// words, in which op and reduction share the first word, so that C reads a slice of calls directly.
type Call struct {
	Op    Op
	RedOp workload.RedOp
	Type  numeric.Type
	Root  int
	// Count is in elements as NCCL's functions count them: of the whole buffer for all_reduce, broadcast,
	// reduce and sendrecv, of one rank's part for the others.
	Count int64
	// Scalar is the factor of this rank's input in a mulsum.
	Scalar     float64
	Send, Recv accel.Ptr
	// Exchange is the host address of this rank's Form.Exchange, which must not move while the call is
	// used; 0 for operations without one.
	Exchange uintptr
}

// Comm is a communicator of one library, used from the rank's thread. Errors with a reason code are
// of type *rank.Error.
type Comm interface {
	// Supports returns an error (result.ReasonRefused or ReasonNoSymbol) if the library does not
	// support exactly this call. It ignores addresses.
	Supports(c Call) error
	// Alloc returns device memory that the library can use, with the given registration (none, local
	// or symmetric). All ranks call it in the same order with the same arguments.
	Alloc(ctx context.Context, bytes int64, registration string) (Memory, error)
	// Enqueue adds the operations to the stream, in order, in one call into C. If group is above 1,
	// each group call of the library has that many operations. All ranks enqueue the same operations.
	// During a capture, Enqueue adds them to the graph.
	Enqueue(s accel.Stream, calls []Call, group int) error
	// Time is Enqueue followed by a wait until the stream is done, for at most Patience, all in one
	// call into C.
	Time(s accel.Stream, calls []Call, group int) (Elapsed, error)
	// AsyncError returns an error of a running operation, without waiting.
	AsyncError() error
	// Abort ends all running and future operations with an error. Unlike the other methods it may be
	// called from any goroutine, and more than once.
	Abort()
	// Path names the entry point that performs op: native, or its substitute.
	Path(op Op) string
	Close() error
}

// Chooser is a Comm whose library has several algorithms.
type Chooser interface {
	// Choose says with which algorithm, of collective.AlgorithmNames, and number of CTAs op must run from now on;
	// with "" and 0 the library chooses. If it does not offer them, operations fail with result.ReasonRefused.
	Choose(op Op, algorithm string, ctas int) error
}

// choose calls Choose on a Chooser. Other libraries have no algorithms.
func choose(c Comm, op Op, b *collective.Block) error {
	if of, ok := c.(Chooser); ok {
		return of.Choose(op, b.Algorithm, b.CTAs)
	}
	if what := b.Variant(); what != "" {
		return rank.Refused("the library has no algorithm %s to choose", what)
	}
	return nil
}

// Counter is a Comm that counts messages where they arrive.
type Counter interface {
	// Counts reports whether each operation like c brings a message to this rank that it counts.
	Counts(c Call) bool
	// Arrived returns how many messages of such operations have arrived on this rank in all, modulo 2³². No operation
	// may be running.
	Arrived(c Call) (uint32, error)
}

// Elapsed holds the time from the start of a window until its last operation was enqueued, and until
// all operations ended. Ended is 0 if they have not ended.
type Elapsed struct{ Enqueued, Ended time.Duration }

// Time runs enqueue and returns its elapsed time as Enqueued. It does not wait for the operations.
func Time(enqueue func() error) (Elapsed, error) {
	start := time.Now()
	err := enqueue()
	return Elapsed{Enqueued: time.Since(start)}, err
}

// Memory is what Comm.Alloc returns.
type Memory interface {
	Ptr() accel.Ptr
	// Registered reports whether the library returned a handle for it.
	Registered() bool
	Close() error
}

// ErrDisagree is wrapped by the error of Data.Check if two checks of one buffer differ. One of them is
// wrong, so the state of the buffer is unknown.
var ErrDisagree = errors.New("the checks of a buffer disagree")

// Data fills and checks buffers in device memory. Offsets of regions are in elements from buf.
type Data interface {
	Fill(s accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) error
	// Poison writes the complement of the expected result.
	Poison(s accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) error
	// Check waits for the stream and compares the regions with the pattern. Its error wraps
	// ErrDisagree if two checks give different verdicts.
	Check(s accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) (workload.Verdict, error)
	// CheckedBy returns where the comparison runs: "device", or "host" if a copy is compared.
	CheckedBy() string
	Close() error
}

// Parts are what a backend provides for a Runner. The Runner closes them in this order.
type Parts struct {
	Data   Data
	Comm   Comm
	Device accel.Device
	// CommBytes is the device memory that the library took to open Comm; 0 if unknown.
	CommBytes int64
	// Another opens an independent communicator of the ranks of a session. Graphs are captured on one of
	// the same ranks, since in NCCL, launches on a communicator remain slower after a capture. Groups of
	// ranks have one of their own. Another is nil if the library has neither.
	Another func(context.Context, *rank.Session) (Comm, error)
	// All is a communicator of all ranks; nil if Comm is.
	All Comm
	// Facts are emitted with every case.
	Facts rank.Facts
}
