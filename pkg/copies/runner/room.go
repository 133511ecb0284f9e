package runner

import (
	"fmt"

	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/sysfs"
)

// memoryShare is the fraction of the host's available memory that the ranks may take.
const memoryShare = 0.8

// Largest returns the maximum bytes of a copy for which all ranks together can allocate the given number of buffers,
// with free bytes of available memory on a host. block is the size of the blocks of a swap, otherwise 0.
func Largest(free int64, buffers int, block int64) int64 {
	return marginsOf(block).largest(free, buffers)
}

func (m margins) largest(free int64, buffers int) int64 {
	return max(0, int64(memoryShare*float64(free))/int64(buffers)-m.lead-m.tail)
}

// room returns an error if the buffers of all ranks for copies of bytes, of which this one has own, do not fit into a
// host's memory. A kernel that runs out of memory kills processes.
func room(root sysfs.Root, own, all int, bytes int64, around margins) error {
	free, _, err := root.AvailableMemory()
	if err != nil {
		return rank.Coded(result.ReasonEnvironment, err)
	}
	if own == 0 {
		return nil // for this rank
	}
	if fits := around.largest(free, all); bytes > fits {
		return rank.Coded(result.ReasonMemoryForSize, fmt.Errorf("copies of %d bytes need %d bytes of host memory, but a rank may use only %d: choose sizes of at most %d bytes",
			bytes, int64(own)*around.buffer(bytes), int64(memoryShare*float64(free))*int64(own)/int64(all), fits))
	}
	return nil
}
