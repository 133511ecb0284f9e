// Package runner runs collective operations on a rank: what they move, how they are timed and how
// their results are checked. It is independent of the device; the packages beside it provide the
// libraries (collective/host, …).
package runner

import (
	"context"
	"errors"
	"time"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Call is the arguments of one operation. Its memory layout is a C struct of nine 64-bit words (op and
// reduction share the first), so that a slice of calls is passed to C unchanged.
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
	// Supports returns an error (result.ReasonRefused, ReasonNoSymbol) if the library does not support
	// exactly this call. It ignores addresses.
	Supports(c Call) error
	// Alloc returns device memory that suits the library, registered as asked
	// (none, local, symmetric). All ranks call it in the same order with the same
	// arguments.
	Alloc(ctx context.Context, bytes int64, registration string) (Memory, error)
	// Enqueue adds the operations to the stream, in order, in one call into C. If group is above 1, each
	// group call of the library has that many operations. All ranks enqueue the same operations. Calls
	// to be captured into a graph are enqueued here too.
	Enqueue(s accel.Stream, calls []Call, group int) error
	// Time enqueues like Enqueue, and waits until the stream is done or for Patience, all in one call
	// into C.
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

// Elapsed is the time from the start of a window until its last operation was enqueued, and until all
// have ended, or 0 if they have not.
type Elapsed struct{ Enqueued, Ended time.Duration }

// Time runs enqueue and returns its elapsed time, without the end of the operations.
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

// ErrDisagree is wrapped if two checks of one buffer differ: one of them is broken, and the state of
// the buffer is unknown.
var ErrDisagree = errors.New("the checks of a buffer disagree")

// Data fills and checks buffers in device memory. Regions count elements from buf.
type Data interface {
	Fill(s accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) error
	// Poison writes the complement of the expected result.
	Poison(s accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) error
	// Check waits for the stream and compares. Its error is ErrDisagree if two checks give different
	// verdicts.
	Check(s accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) (workload.Verdict, error)
	// CheckedBy is device, or host if a copy is compared.
	CheckedBy() string
	Close() error
}

// Parts are the backend's parts of a Runner, which closes them in this order.
type Parts struct {
	Data   Data
	Comm   Comm
	Device accel.Device
	// Another opens an independent communicator of the same ranks, on which graphs are captured: in
	// NCCL, launches on a communicator remain slower after a capture. Nil if the device has no
	// graphs.
	Another func(context.Context, *rank.Session) (Comm, error)
	// Facts are emitted with every case.
	Facts rank.Facts
}
