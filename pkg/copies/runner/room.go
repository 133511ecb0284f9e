package runner

import (
	"context"
	"fmt"

	"github.com/collectivex/collectivex/pkg/copies"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sysfs"
)

// memoryShare is the fraction of the host's available memory that the ranks may take.
const memoryShare = 0.8

// Largest returns the maximum bytes of a copy for which all ranks together can allocate the given number of buffers,
// with free bytes of available memory on a host. block is the size of the blocks of a swap, otherwise 0.
func Largest(free int64, buffers int, block int64) int64 {
	return room{bytes: int64(memoryShare * float64(free)), all: buffers}.largest(marginsOf(block))
}

// room is memory for the buffers of a row.
type room struct {
	of    string // whose memory it is
	bytes int64  // that all ranks may take
	all   int    // buffers in it
	own   int    // of this rank
}

func (m room) largest(around margins) int64 {
	return max(0, m.bytes/int64(m.all)-around.lead-around.tail)
}

// lacks returns an error if the buffers of a row do not fit.
func (m room) lacks(r copies.Row) error {
	if m.own == 0 {
		return nil // for this rank
	}
	around := marginsOf(r.BlockBytes)
	fits := m.largest(around)
	if r.Bytes <= fits {
		return nil
	}
	remedy := fmt.Sprintf("sizes of at most %d bytes", fits)
	if r.BlockBytes > 0 {
		remedy = "fewer or smaller blocks"
	}
	return rank.Coded(result.ReasonMemoryForSize, fmt.Errorf("%s need %d bytes of %s memory, but a rank may use only %d: choose %s",
		r.Name(), int64(m.own)*around.buffer(r.Bytes), m.of, m.bytes*int64(m.own)/int64(m.all), remedy))
}

// room returns an error if the buffers of a row do not fit into the memory of the host, all of them together, or of this
// rank's device. No rank allocates memory before all ranks have checked: a kernel that runs out of memory kills processes.
func (b *bench) room(ctx context.Context) error {
	free, _, err := sysfs.Here().AvailableMemory()
	if err != nil {
		return rank.Coded(result.ReasonEnvironment, err)
	}
	onDevice, _, err := b.Device.Memory()
	if err != nil {
		return coded(err)
	}
	turns := b.block.Turns(b.session.World)
	for i, r := range copies.Asked(b.planned) {
		host, device := room{of: "host", bytes: int64(memoryShare * float64(free))}, room{of: "device", bytes: onDevice}
		for _, flow := range b.test.Flows(b.session.World, turns[i/len(b.block.Streams)%len(turns)]) {
			for _, side := range []copies.Side{flow.Src, flow.Dst} {
				own := 0
				if side.Rank == b.session.Rank {
					own = 1
				}
				if side.Host || b.Device.Info().SharedHostMem {
					host.all, host.own = host.all+1, host.own+own
				} else {
					device.all, device.own = device.all+own, device.own+own
				}
			}
		}
		for _, m := range []room{host, device} {
			if err := m.lacks(r); err != nil {
				return err
			}
		}
	}
	return b.meet.Wait(ctx)
}
