package vocab

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Names are those that Model returns for the full name of some device.
func TestIsModel(t *testing.T) {
	for name, want := range map[string]bool{
		"h100": true, "mi325x": true, "gb300": true, "rtx4090": true, "quadro-k620": true, "cx-fake-nvidia-gpu": true,
		"hh100": false, "H100": false, "h 100": false, "nvidia-h100-pcie": false, "host": false, "": false,
	} {
		require.Equal(t, want, IsModel(name), name)
	}
}
