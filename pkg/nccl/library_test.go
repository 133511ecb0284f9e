package nccl

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/wording"
	"github.com/collectivex/collectivex/pkg/dl"
)

func TestVersion(t *testing.T) {
	for _, c := range []struct {
		code Version
		kind Kind
		want string
	}{
		{2304, NCCL, "2.3.4"},
		{2804, NCCL, "2.8.4"},
		{20903, NCCL, "2.9.3"},
		{21403, RCCL, "2.14.3"},
		{22809, NCCL, "2.28.9"},
		{23007, NCCL, "2.30.7"},
		{900, MSCCLPP, "0.9.0"},
		{2304, MSCCLPP, "0.23.4"},
		{10203, MSCCLPP, "1.2.3"},
	} {
		require.Equal(t, c.want, c.code.format(c.kind), "%d of %s", c.code, c.kind)
	}
}

func TestOpenSaysWhatTheLibraryIs(t *testing.T) {
	t.Setenv("CX_NCCL_LIB", fakes.Build(t).NCCL)
	t.Setenv("CX_RCCL_LIB", fakes.Build(t).RCCL)

	n, err := Open(NCCL)
	require.NoError(t, err)
	require.Equal(t, NCCL, n.Kind)
	require.Equal(t, "2.28.9", n.VersionString())
	require.Equal(t, "libnccl.so.2", n.SOName())
	require.True(t, n.Has("ncclAlltoAll"))
	require.False(t, n.Has("ncclAllToAll"))

	// Both export the same names; neither may call into the other.
	r, err := Open(RCCL)
	require.NoError(t, err)
	require.Equal(t, RCCL, r.Kind)
	require.Equal(t, "2.22.3", r.VersionString())
	require.True(t, r.Has("ncclAllToAllv"))
	again, err := Open(NCCL)
	require.NoError(t, err)
	require.Equal(t, "2.28.9", again.VersionString())
}

// Without the plugin that a variable names, NCCL would measure another network.
func TestOpenWithoutThePluginOfTheNetwork(t *testing.T) {
	lib := fakes.Build(t).NCCL
	t.Setenv("CX_NCCL_LIB", lib)
	for value, want := range map[string]string{"": "", "none": "", lib: "", "nosuch," + lib: "", "ofi": "NCCL_NET_PLUGIN … ofi … aws-ofi-nccl"} {
		t.Setenv("NCCL_NET_PLUGIN", value)
		_, err := Open(NCCL)
		if want == "" {
			require.NoError(t, err, value)
			continue
		}
		wording.Has(t, err.Error(), want)
	}
}

// With global symbols the second library does call into the first: the test
// above can fail.
func TestGlobalSymbolsCrossBind(t *testing.T) {
	if os.Getenv("CX_TEST_GLOBAL") == "" {
		self := exec.Command(os.Args[0], "-test.run=^TestGlobalSymbolsCrossBind$")
		self.Env = append(os.Environ(), "CX_TEST_GLOBAL=1")
		out, err := self.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	a, err := dl.OpenGlobal(fakes.Build(t).NCCL)
	require.NoError(t, err)
	b, err := dl.OpenGlobal(fakes.Build(t).RCCL)
	require.NoError(t, err)
	_, err = bind(a)
	require.NoError(t, err)
	r, err := bind(b)
	require.NoError(t, err)
	require.Equal(t, "2.28.9", r.VersionString())
}

func TestIdentifyARenamedLibrary(t *testing.T) {
	for _, c := range []struct {
		variant fakes.Variant
		want    Kind
	}{
		{fakes.Variant{SOName: "libmine.so"}, NCCL},
		{fakes.Variant{SOName: "libmine.so", RCCL: true}, RCCL},
		{fakes.Variant{SOName: "libmscclpp_nccl.so.0"}, MSCCLPP},
	} {
		lib, err := dl.Open(c.variant.Build(t))
		require.NoError(t, err)
		l, err := bind(lib)
		require.NoError(t, err)
		require.Equal(t, c.want, l.Kind, "%+v", c.variant)
	}
}

func TestOpenRefuses(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "libnccl.so.2")
	t.Setenv("CX_NCCL_LIB", missing)
	_, err := Open(NCCL)
	require.ErrorIs(t, err, dl.ErrNoLibrary)
	require.ErrorContains(t, err, "NCCL from CX_NCCL_LIB="+missing)

	other := fakes.Build(t).RCCL
	t.Setenv("CX_NCCL_LIB", other)
	_, err = Open(NCCL)
	require.ErrorIs(t, err, ErrNotKind)
	require.ErrorContains(t, err, "librccl.so.1 is rccl 2.22.3")

	for hidden, want := range map[string]string{
		"ncclGetUniqueId":              "ncclGetUniqueId",
		"ncclAllReduce; ncclBroadcast": "ncclAllReduce, ncclBroadcast",
	} {
		path := fakes.Variant{Hide: []string{hidden}}.Build(t)
		t.Setenv("CX_NCCL_LIB", path)
		_, err = Open(NCCL)
		require.ErrorIs(t, err, dl.ErrNoSymbol)
		wording.Has(t, err.Error(), "CX_NCCL_LIB="+path+": … "+want+" in libnccl.so.2")
	}

	t.Setenv("CX_NCCL_LIB", "libc.so.6")
	_, err = Open(NCCL)
	wording.Has(t, err.Error(), "CX_NCCL_LIB=libc.so.6: … ncclGetVersion in libc.so.6: it is not the NCCL library; ")

	_, err = Open("gloo")
	require.Error(t, err)
}

// MSCCL++ counts its own versions, needs a library beside it that the loader
// does not know of, and is linked with what it drives.
func TestOpenMSCCLPP(t *testing.T) {
	set := fakes.Build(t)
	for path, platform := range map[string]string{set.MSCCLPP: "cuda", set.MSCCLPPHIP: "hip"} {
		t.Setenv("CX_MSCCLPP_LIB", path)
		l, err := Open(MSCCLPP)
		require.NoError(t, err)
		require.Equal(t, MSCCLPP, l.Kind)
		require.Equal(t, "0.9.0", l.VersionString())
		require.Equal(t, "libmscclpp_nccl.so.0", l.SOName())
		require.Equal(t, platform, l.Platform())
		require.False(t, l.Has("ncclAlltoAll"))

		// NCCL in the same process stays NCCL, and MSCCL++ itself.
		t.Setenv("CX_NCCL_LIB", set.NCCL)
		n, err := Open(NCCL)
		require.NoError(t, err)
		require.Equal(t, "2.28.9", n.VersionString())
		again, err := bind(l.lib)
		require.NoError(t, err)
		require.Equal(t, "0.9.0", again.VersionString())
	}

	t.Setenv("CX_MSCCLPP_LIB", set.NCCL)
	_, err := Open(MSCCLPP)
	require.ErrorIs(t, err, ErrNotKind)
	require.ErrorContains(t, err, "libnccl.so.2 is nccl 2.28.9; set CX_MSCCLPP_LIB to the right library")
}
