package nixl

import (
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/netns"
	"github.com/collectivex/collectivex/internal/wheels"
)

// What a transfer lacks is an error of the real library before anything moves: metadata, or
// memory that is registered on both sides from its begin to its end. Not under the race detector: it
// runs the library's destructors when the process ends, and they have crashed.
func TestWhatTheLibraryRefuses(t *testing.T) {
	need.Full(t)
	dir := wheels.NIXL.Libraries(t)
	if !netns.Own(t) {
		return
	}
	t.Setenv(search.Env, filepath.Join(dir, ".nixl_cu13.mesonpy.libs", "libnixl_capi.so"))
	t.Setenv("UCX_TLS", "tcp")
	t.Setenv("UCX_NET_DEVICES", "lo")
	l, err := Open(t.Context())
	require.NoError(t, err)
	require.Equal(t, wheels.NIXL.Version, l.Version())
	require.ErrorContains(t, l.DeviceError(), "_cuda.so.0.0.0 of UCX needs libcuda", "no driver is here")
	require.NoError(t, l.ModuleError("cma"))
	require.NoError(t, l.PluginError())
	require.EqualError(t, l.ModuleError("warp"), "the UCX in NIXL's wheel has no libuct_warp.so: reinstall the wheel")

	const bytes = 1 << 16
	var memory [2][]byte // of the agents
	var at [2]uintptr
	var agents [2]*Agent
	var pinner runtime.Pinner
	defer pinner.Unpin()
	for i := range agents {
		memory[i] = slices.Repeat([]byte{byte(1 + i)}, 2*bytes)
		pinner.Pin(&memory[i][0])
		at[i] = uintptr(unsafe.Pointer(&memory[i][0]))
		agents[i], err = l.NewAgent([]string{"a", "b"}[i], i == 1)
		require.NoError(t, err)
		defer func() { require.NoError(t, agents[i].Close()) }()
		r, err := agents[i].Register(Host, at[i], bytes, bytes) // the first half
		require.NoError(t, err)
		defer func() { require.NoError(t, r.Close()) }()
	}
	metadata, err := agents[0].Metadata()
	require.NoError(t, err)
	for _, cut := range []int{0, 1, len(metadata) / 2, len(metadata) - 1} {
		_, err := agents[1].Connect(metadata[:cut])
		require.Error(t, err, "%d of %d bytes", cut, len(metadata))
	}
	metadata, err = agents[1].Metadata()
	require.NoError(t, err)
	peer, err := agents[0].Connect(metadata)
	require.NoError(t, err)
	defer func() { require.NoError(t, peer.Close()) }()

	for name, blocks := range map[string][]Block{
		"local memory that is not registered":  {{at[0] + bytes, at[1], 64}},
		"remote memory that is not registered": {{at[0], at[1] + bytes, 64}},
		"past the end of the local memory":     {{at[0] + bytes - 8, at[1], 64}},
		"past the end of the remote memory":    {{at[0], at[1], 64}, {at[0] + 64, at[1] + bytes - 8, 64}},
		"nothing":                              nil,
	} {
		_, err := peer.Prepare(true, Host, Host, blocks)
		require.Equal(t, &StatusError{"create_xfer_req", -2}, err, name)
	}
	require.Equal(t, slices.Repeat([]byte{2}, 2*bytes), memory[1], "nothing moved")

	r, err := peer.Prepare(true, Host, Host, []Block{{at[0], at[1] + 64, 64}})
	require.NoError(t, err)
	require.NoError(t, r.Post())
	for done := false; !done; {
		done, err = r.Done()
		require.NoError(t, err)
	}
	require.NoError(t, r.Release())
	require.Equal(t, slices.Repeat([]byte{1}, 64), memory[1][64:128])
	require.Equal(t, byte(2), memory[1][63])
	require.Equal(t, byte(2), memory[1][128])
}
