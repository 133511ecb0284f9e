package gpurank

import (
	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/numeric"
)

// Align is an operation that ends on no rank of a communicator before it has begun on all:
// an all-gather of a byte. It can be captured into graphs.
type Align struct {
	device accel.Device
	comm   *nccl.Communicator
	at     accel.Ptr
}

// NewAlign returns the operation of a communicator, whose device is current.
func NewAlign(d accel.Device, c *nccl.Communicator) (*Align, error) {
	at, err := d.Alloc(int64(c.World()))
	if err != nil {
		return nil, MemoryError(c.World(), err)
	}
	return &Align{d, c, at}, nil
}

// Enqueue enqueues the operation.
func (a *Align) Enqueue(s accel.Stream) error {
	return NCCLError(a.comm.AllGather(s, numeric.Int8, a.at.Add(int64(a.comm.Rank())), a.at, 1))
}

// Close frees the operation's memory.
func (a *Align) Close() error { return a.device.Free(a.at) }
