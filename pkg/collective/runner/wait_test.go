package runner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/accel"
)

// slowStream is done at a time; never, where there is none.
type slowStream struct {
	accel.Stream
	until time.Time
	err   error
}

func (s slowStream) Query() (bool, error) {
	return !s.until.IsZero() && time.Now().After(s.until), s.err
}

// failingComm meets an error at a time.
type failingComm struct {
	Comm
	after time.Time
	err   error
}

func (c failingComm) AsyncError() error {
	if time.Now().After(c.after) {
		return c.err
	}
	return nil
}

func TestWait(t *testing.T) {
	lost := errors.New("lost")
	soon := func() time.Time { return time.Now().Add(20 * time.Millisecond) }
	b := &bench{stream: slowStream{until: soon()}, backend: Parts{Comm: failingComm{}}}
	require.NoError(t, b.wait(t.Context()))

	b = &bench{stream: slowStream{err: lost}}
	require.ErrorIs(t, b.wait(t.Context()), lost)

	b = &bench{stream: slowStream{}, backend: Parts{Comm: failingComm{after: soon(), err: lost}}}
	require.ErrorIs(t, b.wait(t.Context()), lost)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	b = &bench{stream: slowStream{}, backend: Parts{Comm: failingComm{}}}
	require.ErrorIs(t, b.wait(ctx), context.DeadlineExceeded)
	b = &bench{stream: slowStream{}, backend: Parts{Comm: failingComm{err: lost}}}
	require.ErrorIs(t, b.wait(ctx), context.DeadlineExceeded, "the end of the context aborted the communicator")
}

// A hang leaves the processor to others.
func TestWaitDoesNotBurn(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), Patience+2*time.Second)
	defer cancel()
	b := &bench{stream: slowStream{}, backend: Parts{Comm: failingComm{}}}
	before := processorTime(t)
	require.Error(t, b.wait(ctx))
	require.Less(t, processorTime(t)-before, time.Second)
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
