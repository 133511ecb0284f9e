package gpu

import (
	"errors"
	"fmt"

	"github.com/collectivex/collectivex/pkg/accel"
)

// Error is a failed call of the driver. Both vendors use the same numbers for the errors
// below.
type Error struct {
	Call string // exported name of the function
	Code int
	Name string // the driver's name for the code
}

const (
	codeOutOfMemory  = 2
	codeInvalid      = 1
	codeNotReady     = 600
	codeNotPermitted = 800
	codeUnsupported  = 801
)

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code) }

// Is matches accel's errors, so that callers need not know the vendor's codes.
func (e *Error) Is(target error) bool {
	switch target {
	case accel.ErrOutOfMemory:
		return e.Code == codeOutOfMemory
	case accel.ErrUnsupported:
		return e.Code == codeUnsupported
	}
	return false
}

// hint returns advice for an error of the driver's initialisation, after a colon, or "" if there is
// none.
func (v *Vendor) hint(err error) string {
	var code *Error
	if !errors.As(err, &code) || v.Hints[code.Code] == "" {
		return ""
	}
	return ": " + v.Hints[code.Code]
}

// also joins errors on one line, the cause first. It skips nil errors.
func also(errs ...error) error {
	var all error
	for _, err := range errs {
		switch {
		case err == nil:
		case all == nil:
			all = err
		default:
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}
