package gpurank

import (
	"context"
	"errors"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Group is a communicator of all ranks that can be watched while a case runs, and through which the streams of
// the ranks can synchronise.
type Group struct {
	*nccl.Communicator
	meeting accel.Ptr // buffer of Align, a byte for each rank
	device  accel.Device
	watch   *Watch // watch of the running case, or nil
}

// JoinGroup makes a group of all ranks on the current device, d; see Join.
func JoinGroup(ctx context.Context, s *rank.Session, l *nccl.Library, d accel.Device, name string, config nccl.Config) (*Group, error) {
	c, err := Join(ctx, s, l, name, config)
	if err != nil {
		return nil, err
	}
	at, err := d.Alloc(int64(c.World()))
	if err != nil {
		return nil, errors.Join(rank.OutOfMemory(int64(c.World()), err), c.Close())
	}
	return &Group{Communicator: c, meeting: at, device: d}, nil
}

// Align enqueues an all-gather of a byte. It ends on a rank only after it has begun on all ranks. It can be
// captured into graphs.
func (g *Group) Align(s accel.Stream) error {
	return NCCLError(g.AllGather(s, numeric.Int8, g.meeting.Add(int64(g.Rank())), g.meeting, 1))
}

// Watch watches the group until Unwatch; see NewWatch.
func (g *Group) Watch(ctx context.Context) { g.watch = NewWatch(ctx, g.Communicator) }

// Unwatch ends the watch, if there is one. It waits for an abort in progress.
func (g *Group) Unwatch() {
	if g.watch != nil {
		g.watch.Stop()
	}
	g.watch = nil
}

// Err returns the error for which the watch aborted the group, or nil.
func (g *Group) Err() error {
	if g.watch == nil {
		return nil
	}
	return g.watch.Err()
}

// Close frees the group.
func (g *Group) Close() error {
	g.Unwatch()
	return errors.Join(g.device.Free(g.meeting), NCCLError(g.Communicator.Close()))
}

// Alloc returns memory and a function that frees it. The memory comes from the allocator of c's library, since
// some libraries can register only such memory. If the library has no allocator, it comes from d.
func Alloc(c *nccl.Communicator, d accel.Device, bytes int64) (at accel.Ptr, free func() error, err error) {
	l := c.Library()
	if l.Has("ncclMemAlloc") {
		at, err = l.Alloc(bytes)
		free = func() error { return NCCLError(l.Free(at)) }
	} else {
		at, err = d.Alloc(bytes)
		free = func() error { return rank.Coded(result.ReasonDevice, d.Free(at)) }
	}
	if err != nil {
		return 0, nil, rank.OutOfMemory(bytes, nccl.Explain(err))
	}
	return at, free, nil
}

// Deregister ends a registration. Call it before freeing the memory. It does nothing if r is nil, or if the
// communicator has ended, which also ends its registrations.
func Deregister(c *nccl.Communicator, r *nccl.Registration) error {
	if _, ended := c.Handle(); r == nil || ended != nil {
		return nil
	}
	return NCCLError(r.Close())
}
