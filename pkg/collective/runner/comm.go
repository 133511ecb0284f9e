// Package runner is what ranks do for collective operations: what they move, how they are
// timed and how their results are checked. It assumes nothing of the device: the packages
// beside it bring the libraries (collective/host, …).
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

// Call is one operation as a library takes it. Its memory layout is a C struct
// of nine 64-bit words (op and reduction share the first), so that a slice of
// calls crosses into C as it is.
type Call struct {
	Op    Op
	RedOp workload.RedOp
	Type  numeric.Type
	Root  int
	// Count is elements as NCCL's functions count them: of the whole buffer for
	// all_reduce, broadcast, reduce and sendrecv, of one rank's part for the others.
	Count int64
	// Scalar is what a mulsum multiplies this rank's input by.
	Scalar     float64
	Send, Recv accel.Ptr
	// Exchange is the host address of this rank's Form.Exchange, which does not
	// move as long as the call is used; 0 for operations that have none.
	Exchange uintptr
}

// Comm is a communicator of one library, used from the rank's thread. Errors
// are *rank.Error where the reason has a code.
type Comm interface {
	// Supports returns an error (result.ReasonRefused, ReasonNoSymbol) where the library
	// cannot do exactly this call. Addresses are not looked at.
	Supports(c Call) error
	// Alloc returns device memory that suits the library, registered as asked
	// (none, local, symmetric). All ranks call it in the same order with the same
	// arguments.
	Alloc(ctx context.Context, bytes int64, registration string) (Memory, error)
	// Enqueue adds the operations to the stream, in order, in one crossing into the
	// library; group operations at a time are one group call of the library, and 1
	// is none. All ranks enqueue the same operations. Calls that capture a graph
	// come here too.
	Enqueue(s accel.Stream, calls []Call, group int) error
	// Time enqueues as Enqueue does, and waits until the stream is done or for
	// Patience, all in one crossing.
	Time(s accel.Stream, calls []Call, group int) (Elapsed, error)
	// AsyncError returns an error that a running operation met, without waiting.
	AsyncError() error
	// Abort ends running operations with an error, now and for ever. It alone may
	// be called from any goroutine, and more than once.
	Abort()
	// Path names the entry point that does op: native, or what stands in for it.
	Path(op Op) string
	Close() error
}

// Elapsed is the time from the start of a window until its last operation was
// enqueued, and until all have ended: 0 where they have not yet.
type Elapsed struct{ Enqueued, Ended time.Duration }

// Time runs enqueue and returns how long it takes; nothing is known of the
// operations' end.
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

// ErrDisagree is wrapped where two checks of one buffer differ: nothing is known of
// the buffer then, and one of them is broken.
var ErrDisagree = errors.New("the checks of a buffer disagree")

// Data fills and checks buffers where they live. Regions count elements from buf.
type Data interface {
	Fill(s accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) error
	// Poison writes the complement of what a check expects.
	Poison(s accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) error
	// Check waits for the stream and compares. Its error is ErrDisagree where two
	// ways to compare come to different verdicts.
	Check(s accel.Stream, p workload.Pattern, buf accel.Ptr, regions []workload.Region) (workload.Verdict, error)
	// CheckedBy is device, or host where a copy is compared.
	CheckedBy() string
	Close() error
}

// Parts is what a backend brings to a Runner, which closes them in this order.
type Parts struct {
	Data   Data
	Comm   Comm
	Device accel.Device
	// Another opens a communicator of the same ranks that shares nothing with
	// Comm. Graphs are captured on it: in NCCL, operations of a communicator that
	// was captured once are slower to launch ever after. Nil where the device has
	// no graphs.
	Another func(context.Context, *rank.Session) (Comm, error)
	// Facts are emitted with every case.
	Facts rank.Facts
}
