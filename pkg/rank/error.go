package rank

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/result"
)

// Error carries the published reason with the private text.
type Error struct {
	Reason result.Reason
	Err    error
}

func (e *Error) Error() string { return e.Reason.String() + ": " + e.Err.Error() }

// Unwrap returns the private cause.
func (e *Error) Unwrap() error { return e.Err }

// Coded returns err as an *Error with this code, nil where err is nil.
func Coded(code result.Code, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Reason: result.Reason{Code: code}, Err: err}
}

// RefusedFault returns the error of a case in which an injected fault would have no effect; the format says why.
// The published reason names the fault.
func RefusedFault(kind, format string, args ...any) error {
	return &Error{Reason: result.ReasonRefused.With("fault %s has no effect", kind), Err: fmt.Errorf(format, args...)}
}

// OutOfMemory returns the error of a rank that cannot allocate bytes of memory.
func OutOfMemory(bytes int64, err error) error {
	return &Error{Reason: result.ReasonMemory.With("%d bytes", bytes), Err: fmt.Errorf("allocate %d bytes: %w", bytes, err)}
}

// Refused returns the error of a case that the backend does not support exactly, or that must not run.
func Refused(format string, args ...any) error {
	return Coded(result.ReasonRefused, fmt.Errorf(format, args...))
}
