package host

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// lineBytes separates what different ranks write.
const lineBytes = 64

// counter is a number in shared memory that one rank raises and others wait for.
type counter struct {
	atomic.Uint64
	_ [lineBytes - 8]byte
}

// control is a rank's page of counters. It raises the first four itself;
// arrived[s] belongs to source rank s.
type control struct {
	released counter // dispatches that this rank no longer reads
	ready    counter // combines whose staged rows stand in memory
	pulled   counter // combines that this rank has read all rows of
	gone     counter // 1: the rank waits no more and raises nothing
	region   counter // where the staged rows of the last ready combine stand
	arrived  [maxWorld]counter
}

// maxWorld bounds the ranks of one host.
const maxWorld = 64

const controlBytes = int64(unsafe.Sizeof(control{}))

// A rank looks for the processor again after each of busySpins loads, then
// gives it away; after peekEvery of those it looks at its peers.
const (
	busySpins = 256
	peekEvery = 1024
)

// waiter waits for counters of peers without keeping a processor from them.
type waiter struct {
	ctx   context.Context
	peers []peer
	busy  int // loads before the processor is given away
}

// wait returns when rank has raised n to least, or with an error when the
// context ends or the rank has given up or died. A rank that left because all
// was done has raised all there is to wait for.
func (w *waiter) wait(rank int, n *counter, least uint64) error {
	for spins := 0; n.Load() < least; spins++ {
		if spins < w.busy {
			continue
		}
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		if spins%peekEvery != 0 {
			continue
		}
		if err := w.peek(rank); err != nil && n.Load() < least {
			return err
		}
	}
	return nil
}

func (w *waiter) peek(r int) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	p := &w.peers[r]
	if p.control.gone.Load() != 0 || errors.Is(unix.Kill(p.PID, 0), unix.ESRCH) {
		return rank.Coded(result.ReasonRankDied, fmt.Errorf("rank %d is gone", r))
	}
	return nil
}
