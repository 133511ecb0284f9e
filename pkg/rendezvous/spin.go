package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Spin is a barrier in memory that the ranks of one host share. All ranks leave it within a
// fraction of a microsecond of each other. Store.Barrier polls files and takes far longer,
// so that ranks which start first would measure the delay of the others.
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

// OpenSpin opens the barrier name for world ranks, all of which run on this host.
func OpenSpin(s Store, name string, world int) (*Spin, error) {
	path := filepath.Join(s.Dir(), "spin-"+strings.ReplaceAll(name, "/", "-"))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open barrier: %w", err)
	}
	defer f.Close()
	// Allocate the page now, so that a full file system is an error here and not a SIGBUS
	// at the first access.
	err = unix.Fallocate(int(f.Fd()), 0, 0, spinBytes)
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = f.Truncate(spinBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("open barrier: %w", err)
	}
	page, err := unix.Mmap(int(f.Fd()), 0, spinBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map barrier: %w", err)
	}
	return &Spin{page: page, arrived: (*atomic.Int64)(unsafe.Pointer(&page[0])), world: int64(world)}, nil
}

// Wait returns when all ranks have called it as often as this one, or when ctx ends, with
// its error.
func (b *Spin) Wait(ctx context.Context) error {
	b.round++
	b.arrived.Add(1)
	for n := 1; b.arrived.Load() < b.round*b.world; n++ {
		if n < spins {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // cannot fail
	}
	return nil
}

// Close unmaps the barrier in this process.
func (b *Spin) Close() error { return unix.Munmap(b.page) }
