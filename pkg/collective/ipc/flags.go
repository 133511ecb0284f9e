package ipc

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// flag is a kind of counter. There is one counter for each ordered pair of ranks, in a cache line of its
// own. A stream of the first rank increases it, and a stream of the second rank waits for a value.
type flag int

const (
	ready  flag = iota // number of receives that have begun; the receiver writes it
	landed             // number of messages that have arrived; the sender writes it
	kinds
)

const (
	lineBytes = 128
	// open exceeds every counter value and lets every wait pass; see gpu.Device.WaitFlag.
	open = 1<<31 - 1
	// releaseInterval is the interval at which release opens the flags again, since a stream of another
	// rank may overwrite one.
	releaseInterval = 10 * time.Millisecond
)

// flags are in host memory that all ranks map and that their devices access. The host can therefore end
// every wait, even after a rank has died.
type flags struct {
	device  *gpu.Device
	rank    int
	world   int
	own     *host.Segment // on rank 0: the segment that the other ranks open
	segment *host.Segment
	at      accel.Ptr // the segment, for the device

	mu     sync.Mutex // serializes release and close
	closed bool
	ended  chan struct{} // closed to end the goroutine of release
	opener sync.WaitGroup
}

// openFlags opens the flags of all ranks, initially 0.
func openFlags(ctx context.Context, s *rank.Session, d *gpu.Device) (*flags, error) {
	f := &flags{device: d, rank: s.Rank, world: s.World, ended: make(chan struct{})}
	bytes := int64(kinds) * int64(s.World) * int64(s.World) * lineBytes
	var handle host.Handle
	var err error
	if s.Rank == 0 {
		if f.own, err = host.NewSegment("cx-flags", bytes); err != nil {
			return nil, rank.Coded(result.ReasonMemory, err)
		}
		handle = f.own.Handle()
	}
	handles, err := rank.Gather(ctx, s, "flags", handle)
	if err != nil {
		return nil, err
	}
	if f.segment, err = host.OpenSegment(handles[0]); err != nil {
		return nil, err
	}
	// Without this barrier, a rank that is refused a case could close the flags before others open them.
	if _, err := rank.Gather(ctx, s, "opened", true); err != nil {
		return nil, err
	}
	err = d.RegisterHost(f.segment.Base(), bytes)
	if err == nil {
		f.at, err = d.HostAddress(f.segment.Base())
	}
	if err != nil {
		return nil, rank.Coded(result.ReasonDevice, err)
	}
	return f, nil
}

// offset returns the byte offset of the flag of a kind that writer writes and waiter waits for.
func (f *flags) offset(kind flag, writer, waiter int) int64 {
	return int64((int(kind)*f.world+writer)*f.world+waiter) * lineBytes
}

// write enqueues setting this rank's flag for a peer to n.
func (f *flags) write(s accel.Stream, kind flag, peer int, n uint32) error {
	return f.device.WriteFlag(s, f.at.Add(f.offset(kind, f.rank, peer)), n)
}

// wait enqueues a wait until the flag of a peer for this rank is at least n.
func (f *flags) wait(s accel.Stream, kind flag, peer int, n uint32) error {
	return f.device.WaitFlag(s, f.at.Add(f.offset(kind, peer, f.rank)), n)
}

// release ends all current and future waits of this rank, until close.
func (f *flags) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.opener.Go(func() {
		for again := time.NewTicker(releaseInterval); ; {
			for kind := range kinds {
				for r := range f.world {
					word := (*atomic.Uint32)(unsafe.Add(f.segment.Base(), f.offset(kind, r, f.rank)))
					word.Store(open)
				}
			}
			select {
			case <-again.C:
			case <-f.ended:
				again.Stop()
				return
			}
		}
	})
}

// close frees the flags. No stream of this rank may still wait for one.
func (f *flags) close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	close(f.ended)
	f.opener.Wait()
	err := errors.Join(rank.Coded(result.ReasonDevice, f.device.UnregisterHost(f.segment.Base())), f.segment.Close())
	if f.own != nil {
		err = errors.Join(err, f.own.Close())
	}
	return err
}
