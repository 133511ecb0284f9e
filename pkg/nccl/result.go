package nccl

import (
	"errors"
	"fmt"
)

// Result is ncclResult_t.
type Result int

// The results.
const (
	Success Result = iota
	UnhandledCudaError
	SystemError
	InternalError
	InvalidArgument
	InvalidUsage
	RemoteError
	InProgress
	Timeout
)

var resultNames = [...]string{
	"ncclSuccess", "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError", "ncclInvalidArgument",
	"ncclInvalidUsage", "ncclRemoteError", "ncclInProgress", "ncclTimeout",
}

func (r Result) String() string {
	if r < 0 || int(r) >= len(resultNames) {
		return fmt.Sprintf("ncclResult %d", int(r))
	}
	return resultNames[r]
}

// Error is a failed call. Its message may be published. Detail is the library's own text,
// which can contain host names and addresses, so it belongs only in log files.
type Error struct {
	Call   string // symbol, such as ncclAllReduce
	Result Result
	Rank   int // −1 before there is a communicator
	Detail string
}

func (e *Error) Error() string {
	if e.Rank < 0 {
		return fmt.Sprintf("%s: %s", e.Call, e.Result)
	}
	return fmt.Sprintf("%s: %s on rank %d", e.Call, e.Result, e.Rank)
}

// ErrNoHandle is wrapped by the error of a registration that returned success without a
// handle.
var ErrNoHandle = errors.New("the library registered nothing")

// Explain adds Detail to the message of an *Error. It returns other errors unchanged. The
// result belongs only in log files.
func Explain(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Detail != "" {
		return fmt.Errorf("%w: %s", err, e.Detail)
	}
	return err
}
