package runner

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

const (
	// looks is how often wait polls the stream before it checks the library for errors.
	looks = 64
	// Patience is how long a wait only yields the processor. Afterwards it sleeps between polls for a
	// thousandth of the time waited so far, which bounds the error of the window.
	Patience = 100 * time.Millisecond
	// longestSleep bounds the delay before an error or the end of ctx is noticed.
	longestSleep = 50 * time.Millisecond
)

// wait is Wait for the stream of the windows.
func (b *bench) wait(ctx context.Context) error { return Wait(ctx, b.backend.Comm, b.stream) }

// Wait polls the stream until it is done, as nccl-tests does: a blocking wait would add its wake-up to
// the window. It yields to threads of the library and, in a hang, leaves the processor to others. It
// fails with an error of the operations of c on the stream, and when ctx ends.
func Wait(ctx context.Context, c Comm, s accel.Stream) error {
	start := time.Now()
	for n := 1; ; n++ {
		done, err := s.Query()
		if err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
		if done {
			return nil
		}
		waited := time.Since(start)
		if n%looks == 0 || waited > Patience {
			if err := c.AsyncError(); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if waited < Patience {
			_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // cannot fail
			continue
		}
		pause := unix.NsecToTimespec(int64(min(waited/1000, longestSleep)))
		_ = unix.Nanosleep(&pause, nil) // an interrupted sleep is only shorter
	}
}
