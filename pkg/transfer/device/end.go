package device

import (
	"context"
	"errors"
	"os"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// End is the runner.End of a rank on its device, for any engine. It has a stream for requests, and
// events that mark their ends.
type End struct {
	*gpurank.GPU
	*Pools
	Pool     *Pool                            // of the case; nil: none
	MakePool func(bytes int64) (*Pool, error) // its errors have a reason code
	TwoSided bool                             // see runner.Parts
	Stream   accel.Stream                     // of requests
	Rank     int
	events   []accel.Event // unused ones
}

// Open opens the end of a rank on the GPU that open returns; see NewEnd.
func Open(ctx context.Context, s *rank.Session, open func(*rank.Session) (*gpurank.GPU, error), lane string) (*End, error) {
	g, err := open(s)
	if err != nil {
		return nil, err
	}
	return NewEnd(ctx, s, g, lane)
}

// NewEnd returns the end of a rank that drives g. The end owns g, even if NewEnd fails. For a lane
// between the devices of a host, it refuses a device that cannot access the peer's.
func NewEnd(ctx context.Context, s *rank.Session, g *gpurank.GPU, lane string) (*End, error) {
	if lane == vocab.LanePeer {
		if err := gpurank.Reaches(g.Device, s.LocalRank, PeerOf(s.LocalRank), ", as lane "+lane+" has to"); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	pools, err := NewPools(ctx, g)
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	stream, err := g.NewStream()
	if err != nil {
		return nil, errors.Join(rank.Coded(result.ReasonDevice, err), pools.Close(), g.Close())
	}
	return &End{GPU: g, Pools: pools, MakePool: pools.AllocPool, Stream: stream, Rank: s.Rank}, nil
}

// PeerOf returns the peer of rank 0 or 1, or of their devices.
func PeerOf(rank int) int { return 1 - rank }

// Runner implements runner.End.
func (e *End) Runner(engine runner.Engine, library rank.Library) rank.Runner {
	return e.Around(runner.NewRunner(runner.Parts{
		Engine: engine, Facts: e.Facts(library), TwoSided: e.TwoSided,
		Free: func() (int64, error) {
			free, _, err := e.Memory()
			return free, err
		},
	}))
}

// AllocPool implements runner.End.
func (e *End) AllocPool(bytes int64) (_ pool.Memory, at accel.Ptr, err error) {
	if e.Pool, err = e.MakePool(bytes); err != nil {
		return nil, 0, err
	}
	return e.Pool, e.Pool.Base, nil
}

// SharePool creates the pool of the case and returns the handle by which other processes of this host
// open it. Its errors have a reason code.
func (e *End) SharePool(bytes int64) (h gpu.SharedHandle, err error) {
	at, h, err := e.AllocShared(bytes)
	if err != nil {
		return h, gpurank.AllocError(bytes, err)
	}
	e.Pool = e.NewPool(at, bytes)
	return h, nil
}

// ShareVirtualPool is SharePool with virtual memory management; it returns the file and size that
// gpu.Device.ImportVirtual takes in another process.
func (e *End) ShareVirtualPool(bytes int64) (f *os.File, mapped int64, err error) {
	at, err := e.AllocVirtual(bytes)
	if err != nil {
		return nil, 0, gpurank.AllocError(bytes, err)
	}
	e.Pool = e.NewPool(at, bytes)
	f, mapped, err = e.ExportVirtual(at)
	if err != nil {
		return nil, 0, gpurank.AllocError(bytes, err)
	}
	return f, mapped, nil
}

// AllocFabricPool returns a pool that devices of other hosts can map over NVLink, by handles that a
// library creates for it.
func (e *End) AllocFabricPool(bytes int64) (*Pool, error) {
	at, err := e.AllocFabric(bytes)
	if err != nil {
		return nil, gpurank.AllocError(bytes, err)
	}
	return e.NewPool(at, bytes), nil
}

// Lane implements runner.Engine.
func (*End) Lane() (runner.Lane, error) { return runner.Lane{Name: vocab.LanePeer}, nil }

// Unregister implements runner.End.
func (e *End) Unregister() error {
	if e.Pool == nil {
		return nil
	}
	err := e.Pool.Close()
	e.Pool = nil
	return err
}

// Event returns an event for the end of a request, which PutEvent takes back.
func (e *End) Event() (accel.Event, error) {
	if n := len(e.events); n > 0 {
		event := e.events[n-1]
		e.events = e.events[:n-1]
		return event, nil
	}
	event, err := e.NewEvent()
	return event, rank.Coded(result.ReasonDevice, err)
}

// PutEvent keeps the event of a released request for another one.
func (e *End) PutEvent(event accel.Event) { e.events = append(e.events, event) }

// Close implements runner.End.
func (e *End) Close() error {
	var err error
	for _, event := range e.events {
		err = errors.Join(err, event.Close())
	}
	return errors.Join(rank.Coded(result.ReasonDevice, errors.Join(err, e.Stream.Close())), e.Pools.Close(), e.GPU.Close())
}
