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

// Spin is a barrier of the ranks of one host in memory that they share. It lets
// all of them go within a fraction of a microsecond, where Store.Barrier takes
// as long as a look at files: a rank that starts earlier than the others measures
// their delay.
type Spin struct {
	page    []byte
	arrived *atomic.Int64
	world   int64
	round   int64
}

const (
	spinBytes = 4096
	// spins is how often Wait looks before it lets others have the processor: with
	// fewer processors than ranks, one of them may be who it waits for.
	spins = 1 << 14
)

// OpenSpin opens the barrier name of world ranks, which all run on this host.
func OpenSpin(s Store, name string, world int) (*Spin, error) {
	path := filepath.Join(s.Dir(), "spin-"+strings.ReplaceAll(name, "/", "-"))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open barrier: %w", err)
	}
	defer f.Close()
	// Allocated here, a full file system is an error; at the first touch it would
	// be a SIGBUS.
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

// Wait returns when all ranks have called it as often as this one, or with the
// error of ctx.
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

// Close unmaps the barrier here.
func (b *Spin) Close() error { return unix.Munmap(b.page) }
