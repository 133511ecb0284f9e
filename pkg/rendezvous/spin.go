package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Spin is a barrier in memory that the ranks of one host share. All ranks leave it within a
// fraction of a microsecond of each other. Ranks that leave Store.Barrier, which polls files,
// are so far apart that the first would measure the delay of the others.
type Spin struct {
	page    []byte
	arrived *atomic.Int64
	world   int64
	round   int64
}

const (
	spinBytes = 4096
	// spins is how often Wait polls before it yields the processor: with fewer processors
	// than ranks, the rank that it waits for may need it.
	spins = 1 << 14
)

// OpenSpin opens the barrier name for world ranks. All of them run on this host and call it
// together. The file that they share has no name any more when OpenSpin returns.
func OpenSpin(ctx context.Context, s Store, name string, rank, world int) (*Spin, error) {
	f, err := spinFile(ctx, s, name+"/file", rank)
	if err != nil {
		return nil, fmt.Errorf("open barrier: %w", err)
	}
	defer f.Close()
	if rank == 0 {
		defer os.Remove(f.Name())
	}
	page, err := unix.Mmap(int(f.Fd()), 0, spinBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map barrier: %w", err)
	}
	b := &Spin{page: page, arrived: (*atomic.Int64)(unsafe.Pointer(&page[0])), world: int64(world)}
	if err := s.Barrier(ctx, name+"/open", rank, world); err != nil {
		return nil, errors.Join(fmt.Errorf("open barrier: %w", err), b.Close())
	}
	return b, nil
}

// spinFile returns the file of a barrier, which rank 0 creates.
func spinFile(ctx context.Context, s Store, key string, rank int) (*os.File, error) {
	if rank > 0 {
		path, err := s.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		return os.OpenFile(string(path), os.O_RDWR, 0)
	}
	f, err := os.CreateTemp(s.Dir(), "cxspin-")
	if err != nil {
		return nil, err
	}
	// Write the page now, so that a full file system is an error here and not a SIGBUS at the
	// first access. Some containers deny fallocate.
	if _, err = f.Write(make([]byte, spinBytes)); err == nil {
		err = s.Put(ctx, key, []byte(f.Name()))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return f, nil
}

// Wait returns when all ranks have called it as often as this one, or when ctx ends, with
// its error.
func (b *Spin) Wait(ctx context.Context) error {
	b.round++
	b.arrived.Add(1)
	var yield Yield
	for n := 1; b.arrived.Load() < b.round*b.world; n++ {
		if n < spins {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		yield.Once()
	}
	return nil
}

// Yield gives the processor of a waiting thread to other threads. While other programs use the processor for long, it
// sleeps instead: a thread that wakes up gets a processor sooner than one that yielded it.
type Yield struct{ naps int }

const (
	slowYield = time.Millisecond // a longer yield means that other programs used the processor
	nap       = 50 * time.Microsecond
	naps      = 20 // number of naps after such a yield, before the next yield
)

// Once returns when the thread runs again.
func (y *Yield) Once() {
	if y.naps > 0 {
		y.naps--
		pause := unix.NsecToTimespec(int64(nap))
		_ = unix.Nanosleep(&pause, nil) // an interrupted sleep is only shorter
		return
	}
	start := time.Now()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // cannot fail
	if time.Since(start) > slowYield {
		y.naps = naps
	}
}

// Close unmaps the barrier in this process.
func (b *Spin) Close() error { return unix.Munmap(b.page) }
