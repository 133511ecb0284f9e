package nccl

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/wheels"
	"github.com/collectivex/collectivex/pkg/dl"
)

// never is of symbols that NVIDIA's library has in no release.
const never Version = 1 << 30

// since is the first release of NCCL with each symbol of the table.
var since = map[string]Version{
	"ncclGetVersion": 2305, "ncclGetErrorString": 2305, "ncclGetUniqueId": 2305,
	"ncclCommInitRank": 2305, "ncclCommDestroy": 2305, "ncclCommCount": 2305, "ncclCommUserRank": 2305,
	"ncclAllReduce": 2305, "ncclReduceScatter": 2305, "ncclAllGather": 2305, "ncclBroadcast": 2305, "ncclReduce": 2305,
	"ncclGroupStart": 2305, "ncclGroupEnd": 2305,
	"ncclCommAbort": 2402, "ncclCommGetAsyncError": 2402,
	"ncclSend": 2703, "ncclRecv": 2703,
	"ncclRedOpCreatePreMulSum": 21104, "ncclRedOpDestroy": 21104,
	"ncclGetLastError":       21304,
	"ncclCommInitRankConfig": 21403, "ncclCommFinalize": 21403,
	"ncclCommSplit":    21801,
	"ncclCommRegister": 21901, "ncclCommDeregister": 21901, "ncclMemAlloc": 21901, "ncclMemFree": 21901,
	"ncclCommInitRankScalable": 22304,
	"ncclCommShrink":           22703, "ncclCommWindowRegister": 22703, "ncclCommWindowDeregister": 22703,
	"ncclAlltoAll": 22803, "ncclGather": 22803, "ncclScatter": 22803, "ncclTeamLsa": 22803,
	"ncclCommQueryProperties": 22902,
	"ncclResetDebugInit":      22403,
	"ncclAllReduceConfig":     23102, "ncclReduceScatterConfig": 23102, "ncclAllGatherConfig": 23102, "ncclBroadcastConfig": 23102, "ncclReduceConfig": 23102,
	"ncclAllToAll": never, "ncclAlltoAllv": never, "ncclAllToAllv": never,
}

// later are symbols that came after the release at hand: the test can tell.
var later = map[string]Version{
	"ncclCommGrow": 22902, "ncclPutSignal": 22902, "ncclCommSuspend": 22907, "ncclParamBind": 23004,
}

// A real NCCL opens and answers without a driver too, which it looks for when it
// makes a communicator.
func TestRealLibrary(t *testing.T) {
	need.Full(t)
	t.Setenv("CX_NCCL_LIB", filepath.Join(wheels.NCCL.Libraries(t), "nvidia/nccl/lib/libnccl.so.2"))
	l, err := Open(NCCL)
	require.NoError(t, err)
	require.Equal(t, NCCL, l.Kind)
	require.Equal(t, wheels.NCCL.Version, l.VersionString())
	require.Equal(t, "libnccl.so.2", l.SOName())
	require.Regexp(t, "^[0-9a-f]{40}$", l.BuildID())

	for _, name := range symbols() {
		first, ok := since[name]
		require.True(t, ok, "%s has no release", name)
		require.Equal(t, first <= l.Version, l.Has(name), "%s, of release %d", name, first)
	}
	for name, first := range later {
		_, err := l.lib.Symbol(name)
		require.Equal(t, first <= l.Version, err == nil, "%s, of release %d", name, first)
	}

	id, err := l.NewID()
	require.NoError(t, err)
	require.NotZero(t, id)
	if _, err := dl.Open("libcuda.so.1"); err != nil {
		_, err = l.Init([]ID{id}, 0, 1, Config{NVLinkCentric: true})
		const without = "ncclCommInitRankConfig: ncclUnhandledCudaError on rank 0"
		require.EqualError(t, err, without)
		// The log that this has opened at another level is opened again, and closed.
		text, err := l.Logged("ALL", func() error {
			_, err := l.Init([]ID{id}, 0, 1, Config{})
			return err
		})
		require.EqualError(t, err, without)
		require.Contains(t, text, " NCCL WARN ")
		require.Empty(t, os.Getenv("NCCL_DEBUG"))
	}

	// The stand-in exports the same names under the same soname.
	t.Setenv("CX_NCCL_LIB", fakes.Build(t).NCCL)
	t.Setenv("CX_FAKE_NCCL_VERSION", "22203")
	standIn, err := Open(NCCL)
	require.NoError(t, err)
	require.Equal(t, "2.22.3", standIn.VersionString())
	require.NotEqual(t, l.BuildID(), standIn.BuildID())
	again, err := bind(l.lib)
	require.NoError(t, err)
	require.Equal(t, wheels.NCCL.Version, again.VersionString())
}
