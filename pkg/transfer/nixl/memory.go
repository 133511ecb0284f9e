package nixl

import (
	"context"
	"errors"
	"math"

	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/nixl"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer"
	"github.com/collectivex/collectivex/pkg/transfer/device"
	"github.com/collectivex/collectivex/pkg/transfer/host"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// memory is where a rank has its pool, one at a time.
type memory interface {
	// alloc returns a pool of so many bytes and its address.
	alloc(bytes int64) (pool.Memory, uintptr, error)
	free() error
	// kind is what the library calls the memory of a rank.
	kind(rank int) nixl.Memory
	// piece is the most bytes that are registered as one.
	piece() int64
	// runner returns a runner of an engine over this memory.
	runner(engine runner.Engine, library rank.Library) rank.Runner
	Close() error
}

// hostMemory is memory of this process.
type hostMemory struct{ *host.End }

func (hostMemory) kind(int) nixl.Memory { return nixl.Host }

func (hostMemory) piece() int64 { return math.MaxInt64 }

func (m hostMemory) alloc(bytes int64) (pool.Memory, uintptr, error) {
	m.AllowPeer()
	words, pool, err := m.AllocPool(bytes)
	return words, uintptr(pool), err
}

func (m hostMemory) free() error { return m.FreePool() }

func (m hostMemory) runner(engine runner.Engine, library rank.Library) rank.Runner {
	return m.Runner(engine, library)
}

// deviceMemory is memory of the GPU that the rank drives.
type deviceMemory struct {
	end     *device.End
	perNode int  // ranks of a node
	fabric  bool // pools can be mapped by devices of other hosts
}

// maxPiece is the most bytes of a GPU's memory that are registered as one: some adapters did
// not take more than 7 GiB, and UCX did not report it.
var maxPiece int64 = 4 << 30

// openDevice opens the GPU of a rank.
func openDevice(ctx context.Context, s *rank.Session, c plan.Case) (memory, error) {
	gpu, err := gpurank.Open("cuda", s)
	if err != nil {
		return nil, err
	}
	end, err := device.NewEnd(ctx, s, gpu, transfer.Of(&c).Mode)
	if err != nil {
		return nil, errors.Join(err, gpu.Close())
	}
	return &deviceMemory{end, c.RanksPerNode, transfer.Of(&c).Mode == vocab.LaneMNNVL}, nil
}

// kind implements memory: a rank drives the device with its number among those of its node.
func (m *deviceMemory) kind(rank int) nixl.Memory { return nixl.Device(rank % m.perNode) }

func (*deviceMemory) piece() int64 { return maxPiece }

func (m *deviceMemory) alloc(bytes int64) (pool.Memory, uintptr, error) {
	alloc := m.end.AllocPool
	if m.fabric {
		alloc = m.end.AllocFabricPool
	}
	pool, err := alloc(bytes)
	if err != nil {
		return nil, 0, err
	}
	m.end.Pool = pool
	return pool, uintptr(pool.Base), nil
}

func (m *deviceMemory) free() error { return m.end.Unregister() }

func (m *deviceMemory) runner(engine runner.Engine, library rank.Library) rank.Runner {
	return m.end.Runner(engine, library, false)
}

func (m *deviceMemory) Close() error { return m.end.Close() }
