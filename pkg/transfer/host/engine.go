// Package host is the transfer family's backend on a host: two processes that use shared memory, or
// process_vm_readv and process_vm_writev.
package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Backend is the host backend.
var Backend = backend.Backend{Name: "host", Open: map[plan.Family]rank.Opener{transfer.Name: Open}}

// Open opens the runner of a rank of the host backend; it is a rank.Opener. The caller has
// locked its OS thread.
func Open(ctx context.Context, s *rank.Session, c plan.Case) (rank.Runner, error) {
	end, err := NewEnd(ctx, s, c)
	if err != nil {
		return nil, err
	}
	return end.Runner(&engine{End: end, lane: transfer.Of(&c).Mode}, rank.Library{}), nil
}

// engine moves data with the processor of the posting rank, which does all of the work in Post.
type engine struct {
	*End
	lane   string
	bytes  int64   // of the pool
	remote uintptr // address of the peer's pool: in this process over shm, in the peer over vm
}

var _ runner.Engine = (*engine)(nil)

// Lane implements runner.Engine. Neither lane has a fallback.
func (e *engine) Lane() (runner.Lane, error) { return runner.Lane{Name: e.lane}, nil }

func (e *engine) Register(_ context.Context, bytes int64, _ string) (pool.Memory, error) {
	if e.lane == vocab.LaneProcessVM {
		e.AllowPeer()
	}
	words, _, err := e.AllocPool(bytes)
	e.bytes = bytes
	return words, err
}

// metadata describes a pool to the peer.
type metadata struct {
	PID     int   `json:"pid"`
	Offset  int64 `json:"offset"`  // in the memory that the peers map
	Address int64 `json:"address"` // in the process
}

func (e *engine) Metadata() ([]byte, error) {
	base := accel.Ptr(uintptr(e.device.Segment().Base()))
	return json.Marshal(metadata{os.Getpid(), int64(e.pool - base), int64(e.pool)})
}

func (e *engine) Connect(of []byte) error {
	var m metadata
	if err := json.Unmarshal(of, &m); err != nil {
		return fmt.Errorf("read the metadata of the peer: %w", err)
	}
	if m.PID != e.Peer.PID {
		return fmt.Errorf("the metadata is from process %d, but the peer is process %d", m.PID, e.Peer.PID)
	}
	e.remote = uintptr(m.Address)
	if e.lane == vocab.LaneSharedMemory {
		e.remote = uintptr(unsafe.Add(e.Peer.Base(), m.Offset))
	}
	return nil
}

func (e *engine) Disconnect() error {
	e.remote = 0
	return nil
}

func (e *engine) Prepare(op string, blocks []runner.Block) (runner.Request, error) {
	for _, b := range blocks {
		if err := b.Check(e.bytes); err != nil {
			return nil, err
		}
	}
	if e.lane == vocab.LaneSharedMemory {
		return e.copies(op, blocks), nil
	}
	return e.vectors(op, blocks), nil
}

// done is common to both kinds of requests: when Post returns, the data have arrived.
type done struct{}

func (done) Done() (bool, error) { return true, nil }
func (done) Release() error      { return nil }

// copies is a request over shared memory.
type copies struct {
	done
	list []pair
}

type pair struct{ dst, src []byte }

func (e *engine) copies(op string, blocks []runner.Block) *copies {
	r := &copies{list: make([]pair, len(blocks))}
	remote := accel.Ptr(e.remote)
	for i, b := range blocks {
		p := pair{host.Bytes(e.pool.Add(b.Local), b.Bytes), host.Bytes(remote.Add(b.Remote), b.Bytes)}
		if op == transfer.Push {
			p.dst, p.src = p.src, p.dst
		}
		r.list[i] = p
	}
	return r
}

func (r *copies) Post() error {
	for _, p := range r.list {
		copy(p.dst, p.src)
	}
	return nil
}

// vectors is a request over process_vm_readv or process_vm_writev.
type vectors struct {
	done
	pid    int
	write  bool
	local  []unix.Iovec
	remote []unix.RemoteIovec
}

func (e *engine) vectors(op string, blocks []runner.Block) *vectors {
	r := &vectors{pid: e.Peer.PID, write: op == transfer.Push, local: make([]unix.Iovec, len(blocks)), remote: make([]unix.RemoteIovec, len(blocks))}
	for i, b := range blocks {
		r.local[i].Base = &host.Bytes(e.pool.Add(b.Local), b.Bytes)[0]
		r.local[i].SetLen(int(b.Bytes))
		r.remote[i] = unix.RemoteIovec{Base: e.remote + uintptr(b.Remote), Len: int(b.Bytes)}
	}
	return r
}

// maxVectors is the kernel's limit of vectors in one call.
const maxVectors = 1024

// Post implements runner.Request. The kernel may move less than requested; Post repeats the call for
// the rest.
func (r *vectors) Post() error {
	local, remote := r.local, r.remote
	for len(local) > 0 {
		n := min(len(local), maxVectors)
		move := unix.ProcessVMReadv
		if r.write {
			move = unix.ProcessVMWritev
		}
		moved, err := move(r.pid, local[:n], remote[:n], 0)
		if err != nil {
			return refused(err)
		}
		if moved == 0 {
			return rank.Coded(result.ReasonLibrary, errors.New("process_vm moved nothing"))
		}
		for moved > 0 {
			step := min(moved, remote[0].Len)
			moved -= step
			if step == remote[0].Len {
				local, remote = local[1:], remote[1:]
				continue
			}
			local[0].Base = (*byte)(unsafe.Add(unsafe.Pointer(local[0].Base), step))
			local[0].SetLen(remote[0].Len - step)
			remote[0].Base += uintptr(step)
			remote[0].Len -= step
		}
	}
	return nil
}

// refused adds the reason code to an error of the system call.
func refused(err error) error {
	denied := func(remedy, details string) error {
		return &rank.Error{Reason: result.ReasonEnvironment.With("process_vm is denied, %s", remedy), Err: fmt.Errorf("process_vm: %w: %s", err, details)}
	}
	switch {
	case errors.Is(err, unix.EPERM):
		return denied("add SYS_PTRACE to the container or set ptrace_scope to 1",
			"set /proc/sys/kernel/yama/ptrace_scope to 1 or less; in a container, use --cap-add SYS_PTRACE")
	case errors.Is(err, unix.ENOSYS):
		return denied("the kernel or a sandbox lacks it", "use a kernel and a sandbox with process_vm_readv and process_vm_writev")
	case errors.Is(err, unix.ESRCH):
		return rank.Coded(result.ReasonLibrary, fmt.Errorf("process_vm: %w: the peer is gone", err))
	default:
		return rank.Coded(result.ReasonLibrary, fmt.Errorf("process_vm: %w", err))
	}
}
