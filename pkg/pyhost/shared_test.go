package pyhost

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRemedy(t *testing.T) {
	const absent = ": cannot open shared object file: No such file or directory"
	for message, want := range map[string]string{
		"libibverbs.so.1" + absent:                 "install libibverbs1",
		"no such library: libnl-3.so.200" + absent: "install libnl-3-200",
		"libother.so.7" + absent:                   "install libother.so.7, or name its directory in LD_LIBRARY_PATH",
		"No module named 'mooncake'":               "",
		"undefined symbol: ibv_fork1":              "",
	} {
		require.Equal(t, want, Remedy(message), message)
	}
}
