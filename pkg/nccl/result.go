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

// Error is a call that failed. Its message may be shown; Detail is the
// library's own text, which can name hosts and addresses: it belongs in log
// files only.
type Error struct {
	Call   string // symbol, such as ncclAllReduce
	Result Result
	Rank   int // −1 where no communicator exists yet
	Detail string
}

func (e *Error) Error() string {
	if e.Rank < 0 {
		return fmt.Sprintf("%s: %s", e.Call, e.Result)
	}
	return fmt.Sprintf("%s: %s on rank %d", e.Call, e.Result, e.Rank)
}

// ErrNoHandle is wrapped by the error of a registration that succeeded without
// a handle: the library did nothing.
var ErrNoHandle = errors.New("the library registered nothing")

// Explain adds the library's own text about a call that failed, if err is such a
// call's. The text belongs in log files only.
func Explain(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Detail != "" {
		return fmt.Errorf("%w: %s", err, e.Detail)
	}
	return err
}
