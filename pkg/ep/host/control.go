package host

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/rendezvous"
	"github.com/collectivex/collectivex/pkg/result"
)

// lineBytes is the cache line size, which separates counters of different ranks.
const lineBytes = 64

// counter is a number in shared memory that one rank raises and others wait for.
type counter struct {
	atomic.Uint64
	_ [lineBytes - 8]byte
}

// control is a rank's page of counters. The rank itself raises the first four; source rank s
// raises arrived[s].
type control struct {
	released counter // dispatches that this rank no longer reads
	ready    counter // combines whose staged rows are in memory
	pulled   counter // combines whose rows this rank has read completely
	gone     counter // 1: the rank has left and no longer waits for or raises counters
	region   counter // region of the staged rows of the last ready combine
	arrived  [maxWorld]counter
}

// maxWorld is the maximum number of ranks on one host.
const maxWorld = 64

const controlBytes = int64(unsafe.Sizeof(control{}))

// A rank yields the processor after each busySpins loads, and checks on its peers after
// peekEvery such yields.
const (
	busySpins = 256
	peekEvery = 1024
)

// waiter waits for counters of peers and yields the processor to them.
type waiter struct {
	ctx   context.Context
	peers []peer
	busy  int // loads before the processor is yielded
	yield rendezvous.Yield
}

// wait returns when rank has raised n to at least the value least. It fails when the context ends, or
// when the rank has given up or died. A rank that left after finishing has raised all its counters.
func (w *waiter) wait(rank int, n *counter, least uint64) error {
	for spins := 0; n.Load() < least; spins++ {
		if spins < w.busy {
			continue
		}
		w.yield.Once()
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
