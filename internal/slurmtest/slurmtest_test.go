package slurmtest

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// A cluster comes up although somebody took its ports after they were chosen.
func TestPortsThatAreTaken(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	asked := 0
	if !start(t, 1, func() int {
		if asked++; asked == 1 {
			return taken.Addr().(*net.TCPAddr).Port
		}
		return freePorts(t, 2)
	}) {
		return
	}
	require.GreaterOrEqual(t, asked, 2)
	require.Empty(t, Jobs(t))
}
