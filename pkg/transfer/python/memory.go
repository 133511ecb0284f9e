package python

import (
	"context"
	"errors"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer/device"
	"github.com/collectivex/collectivex/pkg/transfer/host"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// memory is where a rank has its pool, one at a time.
type memory interface {
	// AllocPool returns a pool of so many bytes and its address.
	AllocPool(bytes int64) (pool.Memory, accel.Ptr, error)
	FreePool() error
	// Runner returns a runner of an engine over this memory.
	Runner(engine runner.Engine, library rank.Library) rank.Runner
	Close() error
}

// openHost opens memory of this process.
func openHost(ctx context.Context, s *rank.Session, c plan.Case) (memory, error) {
	end, err := host.NewEnd(ctx, s, c)
	if err != nil {
		return nil, err
	}
	return end, nil
}

// deviceMemory is memory of the GPU that the rank drives.
type deviceMemory struct{ *device.End }

func openDevice(ctx context.Context, s *rank.Session, open func(*rank.Session) (*gpurank.GPU, error)) (memory, error) {
	gpu, err := open(s)
	if err != nil {
		return nil, err
	}
	end, err := device.NewEnd(ctx, s, gpu, vocab.LanePeer)
	if err != nil {
		return nil, errors.Join(err, gpu.Close())
	}
	return deviceMemory{end}, nil
}

// AllocPool implements memory: the libraries make a handle of the pool, for which it needs pages
// of its own.
func (m deviceMemory) AllocPool(bytes int64) (pool.Memory, accel.Ptr, error) {
	if _, err := m.SharePool(bytes); err != nil {
		return nil, 0, err
	}
	return m.Pool, m.Pool.Base, nil
}

func (m deviceMemory) FreePool() error { return m.Unregister() }

func (m deviceMemory) Runner(engine runner.Engine, library rank.Library) rank.Runner {
	return m.End.Runner(engine, library, false)
}
