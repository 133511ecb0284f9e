package runner

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
)

const (
	// pollsPerCheck is the number of polls of the stream between two checks of the library for errors.
	pollsPerCheck = 64
	// Patience is how long a wait only yields the processor. Afterwards it sleeps between polls for a
	// thousandth of the time waited so far, so that the sleep adds at most 0.1 % to the window.
	Patience = 100 * time.Millisecond
	// maxSleep limits the delay before Wait notices an error or the end of ctx.
	maxSleep = 50 * time.Millisecond
)

// wait is Wait for the stream of the windows.
func (b *bench) wait(ctx context.Context) error { return Wait(ctx, b.backend.Comm, b.stream) }

// Wait polls the stream until it is done, as nccl-tests does, because a blocking wait would add its
// wake-up to the window. Between polls it yields the processor to threads of the library, and later
// sleeps. It fails when an operation of c fails, and when ctx ends.
func Wait(ctx context.Context, c Comm, s accel.Stream) error {
	start := time.Now()
	var yield rendezvous.Yield
	for n := 1; ; n++ {
		done, err := s.Query()
		if err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
		if done {
			return nil
		}
		waited := time.Since(start)
		if n%pollsPerCheck == 0 || waited > Patience {
			err := c.AsyncError()
			if ended := ctx.Err(); ended != nil { // which may have aborted c
				err = ended
			}
			if err != nil {
				return err
			}
		}
		if waited < Patience {
			yield.Once()
			continue
		}
		pause := unix.NsecToTimespec(int64(min(waited/1000, maxSleep)))
		_ = unix.Nanosleep(&pause, nil) // an interrupted sleep is only shorter
	}
}
