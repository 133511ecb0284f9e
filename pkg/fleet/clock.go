package fleet

import (
	"context"
	"errors"
	"time"
)

// Clock is the client's source of time, which tests replace.
type Clock interface {
	Now() time.Time
	// Sleep returns after d, or with the cause for which ctx ended.
	Sleep(ctx context.Context, d time.Duration) error
	// WithTimeout returns a context that ends after d with ErrStalled as its cause.
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

// ErrStalled is the cause of a timeout: a request had no complete answer in time.
var ErrStalled = errors.New("no complete answer in time")

// Wall is the clock of this machine.
type Wall struct{}

var _ Clock = Wall{}

// Now implements Clock.
func (Wall) Now() time.Time { return time.Now() }

// Sleep implements Clock.
func (Wall) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// WithTimeout implements Clock.
func (Wall) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, ErrStalled)
}
