package host

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/hostrank"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/transfer/pool"
	"github.com/collectivex/collectivex/pkg/transfer/runner"
)

// End is the runner.End of a rank on a host, for any engine.
type End struct {
	Peer   hostrank.Peer
	device *host.Device
	group  *hostrank.Group
	ranks  int       // sharing the host
	pool   accel.Ptr // 0: none
}

// NewEnd opens a rank's share of the host, and identifies the peer. It pins the calling OS thread to a
// processor.
func NewEnd(ctx context.Context, s *rank.Session, c plan.Case) (*End, error) {
	device, err := hostrank.Open(s, c.RanksPerNode)
	if err != nil {
		return nil, err
	}
	group, err := hostrank.Join(ctx, s, device)
	if err != nil {
		return nil, errors.Join(err, device.Close())
	}
	return &End{Peer: group.Peers[1-s.Rank], device: device, group: group, ranks: max(1, c.RanksPerNode)}, nil
}

// AllowPeer lets the peer read and write the memory of this process.
func (e *End) AllowPeer() {
	// With Yama, a process can read another process only with its permission. Kernels without Yama refuse
	// this call, and do not need it.
	_ = unix.Prctl(unix.PR_SET_PTRACER, uintptr(e.Peer.PID), 0, 0, 0)
}

// AllocPool implements runner.End. All pages of the pool are mapped.
func (e *End) AllocPool(bytes int64) (pool.Memory, accel.Ptr, error) {
	p, err := e.device.Alloc(bytes)
	if err != nil {
		return nil, 0, rank.OutOfMemory(bytes, err)
	}
	e.pool = p
	return pool.HostMemory(host.Bytes(p, bytes)), p, nil
}

// Unregister implements runner.End.
func (e *End) Unregister() error {
	if e.pool == 0 {
		return nil
	}
	err := e.device.Free(e.pool)
	e.pool = 0
	return err
}

// Runner implements runner.End.
func (e *End) Runner(engine runner.Engine, library rank.Library) rank.Runner {
	facts := hostrank.Facts(e.device)
	facts.Library = library
	return runner.NewRunner(runner.Parts{
		Engine: engine, Facts: facts,
		Free: func() (int64, error) {
			free, _, err := e.device.Memory() // the ranks share it
			return free / int64(e.ranks), err
		},
	})
}

// Close implements runner.End.
func (e *End) Close() error { return errors.Join(e.group.Close(), e.device.Close()) }
