package python

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/accel"
	accelhost "github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/numeric"
)

// counter counts the allocations of a device that are not freed.
type counter struct {
	accel.Device
	live int
}

func (c *counter) Alloc(bytes int64) (accel.Ptr, error) {
	c.live++
	return c.Device.Alloc(bytes)
}

func (c *counter) Free(p accel.Ptr) error {
	c.live--
	return c.Device.Free(p)
}

// A warm group runs one case after another: each must free its memory.
func TestMemoryIsFreed(t *testing.T) {
	host, err := accelhost.Open(0, 1)
	require.NoError(t, err)
	defer host.Close()
	device := &counter{Device: host}
	m, err := newMemory(device, mode{}, runner.Codec{Format: numeric.E4M3FN, Block: true}, geometry{Groups: 1, Capacity: 8}, 4, 256)
	require.NoError(t, err)
	require.Equal(t, 4, device.live)
	require.NoError(t, m.device.Close())
	require.Zero(t, device.live)
}
