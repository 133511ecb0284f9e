package nccl

/*
#include "abi.h"

static int cx_CommInitRank(const cx_nccl *f, cx_comm *c, int n, const cx_nccl_id *id, int rank) {
	return f->CommInitRank(c, n, *id, rank);
}
static int cx_CommInitRankConfig(const cx_nccl *f, cx_comm *c, int n, const cx_nccl_id *id, int rank, cx_nccl_config *config) {
	return f->CommInitRankConfig(c, n, *id, rank, config);
}
static int cx_CommInitRankScalable(const cx_nccl *f, cx_comm *c, int n, int rank, int ids, cx_nccl_id *id, cx_nccl_config *config) {
	return f->CommInitRankScalable(c, n, rank, ids, id, config);
}
static int cx_CommSplit(const cx_nccl *f, cx_comm c, int color, int key, cx_comm *to, cx_nccl_config *config) {
	return f->CommSplit(c, color, key, to, config);
}
static int cx_CommShrink(const cx_nccl *f, cx_comm c, int *exclude, int n, cx_comm *to, cx_nccl_config *config, int flags) {
	return f->CommShrink(c, exclude, n, to, config, flags);
}
static int cx_CommFinalize(const cx_nccl *f, cx_comm c) { return f->CommFinalize(c); }
static int cx_CommDestroy(const cx_nccl *f, cx_comm c) { return f->CommDestroy(c); }
static int cx_CommAbort(const cx_nccl *f, cx_comm c) { return f->CommAbort(c); }
static int cx_CommGetAsyncError(const cx_nccl *f, cx_comm c, int *r) { return f->CommGetAsyncError(c, r); }
static int cx_CommCount(const cx_nccl *f, cx_comm c, int *n) { return f->CommCount(c, n); }
static int cx_CommUserRank(const cx_nccl *f, cx_comm c, int *r) { return f->CommUserRank(c, r); }
static int cx_RedOpCreatePreMulSum(const cx_nccl *f, int *op, void *scalar, int dtype, cx_comm c) {
	return f->RedOpCreatePreMulSum(op, scalar, dtype, 1, c);
}
static int cx_RedOpDestroy(const cx_nccl *f, int op, cx_comm c) { return f->RedOpDestroy(op, c); }
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"
)

// ErrEnded is wrapped by errors of a communicator that was closed or aborted.
var ErrEnded = errors.New("the communicator has ended")

// Communicator is one rank's handle of an NCCL communicator. It belongs to the device that
// was current when it was created. It must be used from one thread, but Abort may be called
// from any thread.
type Communicator struct {
	lib    *Library
	handle C.cx_comm
	rank   int
	world  int
	ended  atomic.Bool
	// asking is held during calls that use the handle while Abort in another thread could
	// free it.
	asking sync.Mutex
}

// Init joins the communicator of world ranks that ids identify. All ranks must call Init
// with the same ids. It returns when all have joined. More than one id requires
// ncclCommInitRankScalable.
func (l *Library) Init(ids []ID, rank, world int, config Config) (*Communicator, error) {
	c := &Communicator{lib: l, rank: rank, world: world}
	id := (*C.cx_nccl_id)(unsafe.Pointer(&ids[0]))
	block := config.fill(l.Version)
	switch {
	case len(ids) > 1:
		const call = "ncclCommInitRankScalable"
		if err := l.Need(call); err != nil {
			return nil, err
		}
		return c.made(l.check(call, rank, C.cx_CommInitRankScalable(l.table, &c.handle, C.int(world), C.int(rank), C.int(len(ids)), id, &block)))
	case l.has["ncclCommInitRankConfig"]:
		return c.made(l.check("ncclCommInitRankConfig", rank, C.cx_CommInitRankConfig(l.table, &c.handle, C.int(world), id, C.int(rank), &block)))
	default:
		return c.made(l.check("ncclCommInitRank", rank, C.cx_CommInitRank(l.table, &c.handle, C.int(world), id, C.int(rank))))
	}
}

func (c *Communicator) made(err error) (*Communicator, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

// NoColor is the color of a rank that takes part in a split without joining a new
// communicator.
const NoColor = -1

// Split makes a communicator of the ranks that pass the same color, ordered by key. All
// ranks must call it. It returns nil on a rank that passes NoColor.
func (c *Communicator) Split(color, key int, config Config) (*Communicator, error) {
	if err := c.lib.Need("ncclCommSplit"); err != nil {
		return nil, err
	}
	to := &Communicator{lib: c.lib, rank: c.rank}
	block := config.fill(c.lib.Version)
	if err := c.check("ncclCommSplit", C.cx_CommSplit(c.lib.table, c.handle, C.int(color), C.int(key), &to.handle, &block)); err != nil {
		return nil, err
	}
	if to.handle == nil {
		return nil, nil
	}
	return to.made(to.ask())
}

// Shrink makes a communicator of the ranks that are not in exclude, in their old order.
// Only these ranks call it. If abort is true, it first ends the work in flight on c, for use
// after an error. Otherwise no work may be in flight. The caller must still end c.
func (c *Communicator) Shrink(exclude []int, abort bool, config Config) (*Communicator, error) {
	if err := c.lib.Need("ncclCommShrink"); err != nil {
		return nil, err
	}
	if len(exclude) == 0 {
		return nil, fmt.Errorf("ncclCommShrink on rank %d: no rank to exclude", c.rank)
	}
	ranks := make([]C.int, len(exclude))
	for i, r := range exclude {
		ranks[i] = C.int(r)
	}
	var flags C.int
	if abort {
		flags = 1
	}
	to := &Communicator{lib: c.lib, rank: c.rank}
	block := config.fill(c.lib.Version)
	if err := c.check("ncclCommShrink", C.cx_CommShrink(c.lib.table, c.handle, &ranks[0], C.int(len(ranks)), &to.handle, &block, flags)); err != nil {
		return nil, err
	}
	return to.made(to.ask())
}

// ask queries the library for the rank and the world of a communicator that it has made.
func (c *Communicator) ask() error {
	var rank, world C.int
	err := errors.Join(
		c.check("ncclCommUserRank", C.cx_CommUserRank(c.lib.table, c.handle, &rank)),
		c.check("ncclCommCount", C.cx_CommCount(c.lib.table, c.handle, &world)))
	c.rank, c.world = int(rank), int(world)
	return err
}

// Rank returns the rank of this process in the communicator.
func (c *Communicator) Rank() int { return c.rank }

// World returns the number of ranks in the communicator.
func (c *Communicator) World() int { return c.world }

// Library returns the library that made the communicator.
func (c *Communicator) Library() *Library { return c.lib }

// Handle returns the ncclComm_t, for packages that call the library from C.
func (c *Communicator) Handle() (unsafe.Pointer, error) {
	if c.ended.Load() {
		return nil, fmt.Errorf("rank %d: %w", c.rank, ErrEnded)
	}
	return unsafe.Pointer(c.handle), nil
}

// Close frees a communicator after its work is done. All ranks must call it. After Abort it
// does nothing.
func (c *Communicator) Close() error {
	if c.ended.Swap(true) {
		return nil
	}
	if c.lib.has["ncclCommFinalize"] {
		if err := c.check("ncclCommFinalize", C.cx_CommFinalize(c.lib.table, c.handle)); err != nil {
			return errors.Join(err, c.abort())
		}
	}
	return c.check("ncclCommDestroy", C.cx_CommDestroy(c.lib.table, c.handle))
}

// Abort frees a communicator after an error and stops its work in flight. Only the first
// call has an effect.
func (c *Communicator) Abort() error {
	if c.ended.Swap(true) {
		return nil
	}
	return c.abort()
}

func (c *Communicator) abort() error {
	if err := c.lib.Need("ncclCommAbort"); err != nil {
		return err
	}
	c.asking.Lock()
	defer c.asking.Unlock()
	return c.check("ncclCommAbort", C.cx_CommAbort(c.lib.table, c.handle))
}

// AsyncError returns the error that work in flight encountered, or nil.
func (c *Communicator) AsyncError() error {
	if !c.lib.has["ncclCommGetAsyncError"] {
		return nil
	}
	c.asking.Lock()
	defer c.asking.Unlock()
	if _, err := c.Handle(); err != nil {
		return err
	}
	var r C.int
	if result := C.cx_CommGetAsyncError(c.lib.table, c.handle, &r); result != 0 {
		return c.check("ncclCommGetAsyncError", result)
	}
	if Result(r) == InProgress {
		return nil
	}
	return c.check("asynchronous error", r)
}

func (c *Communicator) check(call string, result C.int) error {
	return c.lib.check(call, c.rank, result)
}

// NewPreMulSum makes a reduction that multiplies this rank's input by scalar before summing.
// scalar holds the bits of one element of dtype.
func (c *Communicator) NewPreMulSum(dtype int, scalar uint64) (op int, err error) {
	if err := c.lib.Need("ncclRedOpCreatePreMulSum"); err != nil {
		return 0, err
	}
	var made C.int
	err = c.check("ncclRedOpCreatePreMulSum", C.cx_RedOpCreatePreMulSum(c.lib.table, &made, unsafe.Pointer(&scalar), C.int(dtype), c.handle))
	return int(made), err
}

// FreePreMulSum frees a reduction made by NewPreMulSum.
func (c *Communicator) FreePreMulSum(op int) error {
	return c.check("ncclRedOpDestroy", C.cx_RedOpDestroy(c.lib.table, C.int(op), c.handle))
}
