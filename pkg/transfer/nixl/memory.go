package nixl

import (
	"context"
	"errors"
	"math"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/accel"
	accelhost "github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/hostrank"
	"github.com/collectivex/collectivex/pkg/nixl"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/device"
)

// memory is where a rank has its pool, one at a time.
type memory interface {
	// alloc returns a pool of so many bytes and its address.
	alloc(bytes int64) (transfer.Memory, uintptr, error)
	free() error
	// kind is what the library calls the memory of a rank.
	kind(rank int) nixl.Memory
	// piece is the most bytes that are registered as one.
	piece() int64
	// runner returns a runner of an engine over this memory.
	runner(engine transfer.Engine, library rank.Library) rank.Runner
	Close() error
}

// hostMemory is memory of this process.
type hostMemory struct {
	device *accelhost.Device
	group  *hostrank.Group
	peer   int // process
	pool   accel.Ptr
	ranks  int // that share the host
}

// openHost opens a rank's share of the host. It pins the calling thread to a processor.
func openHost(ctx context.Context, s *rank.Session, ranks int) (memory, error) {
	d, err := hostrank.Open(s, ranks)
	if err != nil {
		return nil, err
	}
	group, err := hostrank.Join(ctx, s, d)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return &hostMemory{device: d, group: group, peer: group.Peers[1-s.Rank].PID, ranks: max(1, ranks)}, nil
}

func (*hostMemory) kind(int) nixl.Memory { return nixl.Host }

func (*hostMemory) piece() int64 { return math.MaxInt64 }

func (m *hostMemory) alloc(bytes int64) (transfer.Memory, uintptr, error) {
	// Yama lets a process read another one only if that one allows it. Kernels without
	// Yama refuse the call, and need none.
	_ = unix.Prctl(unix.PR_SET_PTRACER, uintptr(m.peer), 0, 0, 0)
	pool, err := m.device.Alloc(bytes)
	if err != nil {
		return nil, 0, rank.Coded(result.ReasonMemory, err)
	}
	m.pool = pool
	return transfer.HostMemory(accelhost.Bytes(pool, bytes)), uintptr(pool), nil
}

func (m *hostMemory) free() error {
	if m.pool == 0 {
		return nil
	}
	err := m.device.Free(m.pool)
	m.pool = 0
	return err
}

func (m *hostMemory) runner(engine transfer.Engine, library rank.Library) rank.Runner {
	facts := hostrank.Facts(m.device)
	facts.Library = library
	return transfer.NewRunner(transfer.Parts{
		Engine: engine, Facts: facts,
		Free: func() (int64, error) {
			free, _, err := m.device.Memory() // the ranks share it
			return free / int64(m.ranks), err
		},
	})
}

func (m *hostMemory) Close() error { return errors.Join(m.group.Close(), m.device.Close()) }

// deviceMemory is memory of the GPU that the rank drives.
type deviceMemory struct{ end *device.End }

// maxPiece is the most bytes of a GPU's memory that are registered as one: some adapters did
// not take more than 7 GiB, and UCX did not report it.
var maxPiece int64 = 4 << 30

// openDevice opens the GPU of a rank.
func openDevice(ctx context.Context, s *rank.Session) (memory, error) {
	gpu, err := gpurank.Open("cuda", s)
	if err != nil {
		return nil, err
	}
	end, err := device.NewEnd(ctx, s, gpu)
	if err != nil {
		return nil, errors.Join(err, gpu.Close())
	}
	return &deviceMemory{end}, nil
}

// kind implements memory: a rank drives the device with its number.
func (*deviceMemory) kind(rank int) nixl.Memory { return nixl.Device(rank) }

func (*deviceMemory) piece() int64 { return maxPiece }

func (m *deviceMemory) alloc(bytes int64) (transfer.Memory, uintptr, error) {
	pool, err := m.end.AllocPool(bytes)
	if err != nil {
		return nil, 0, err
	}
	m.end.Pool = pool
	return pool, uintptr(pool.Base), nil
}

func (m *deviceMemory) free() error { return m.end.Unregister() }

func (m *deviceMemory) runner(engine transfer.Engine, library rank.Library) rank.Runner {
	return m.end.Runner(engine, library, false)
}

func (m *deviceMemory) Close() error { return m.end.Close() }
