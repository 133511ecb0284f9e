package preflight

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/catalog"
	"github.com/collectivex/collectivex/pkg/sysfs"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Yama at 2 lets only those with CAP_SYS_PTRACE read other processes, and at 3 nobody.
func TestProcessVM(t *testing.T) {
	const refused = "/proc/sys/kernel/yama/ptrace_scope is "
	for _, tc := range []struct {
		scope, capabilities string
		refused             bool
	}{
		{"0", "0000000000000000", false},
		{"1", "0000000000000000", false},
		{"2", "0000000000000000", true},
		{"2", "0000000000080000", false},
		{"3", "000001ffffffffff", true},
	} {
		root := sysfs.Root{FS: fstest.MapFS{
			"proc/sys/kernel/yama/ptrace_scope": &fstest.MapFile{Data: []byte(tc.scope + "\n")},
			"proc/self/status":                  &fstest.MapFile{Data: []byte("Name:\tx\nCapEff:\t" + tc.capabilities + "\n")},
		}}
		why := processVM(root)
		require.Equal(t, tc.refused, len(why) > len(refused) && why[:len(refused)] == refused, "%+v: %s", tc, why)
	}
}

// A handle for other devices, or that a device cannot share, has a note.
func TestHandles(t *testing.T) {
	moves := &catalog.Moves{What: "transfers", Handles: []catalog.Handle{
		{Name: vocab.HandleIPC, Vendors: []string{"amd", "nvidia"}}, {Name: vocab.HandleVMM, Vendors: []string{"nvidia"}},
	}}
	of := func(vendor string, d backend.Device) (usable []string, note string) {
		e := &Examiner{libraries: map[string]backend.Library{vendors[vendor].driver.Kind: {Devices: []backend.Device{d}}}}
		usable, notes := e.handles(moves, vendor)
		for _, n := range notes {
			note += n.Text
		}
		return usable, note
	}
	usable, note := of("nvidia", backend.Device{})
	require.Equal(t, []string{vocab.HandleIPC, vocab.HandleVMM}, usable)
	require.Empty(t, note)
	usable, note = of("amd", backend.Device{})
	require.Equal(t, []string{vocab.HandleIPC}, usable)
	require.Equal(t, "transfers cannot open memory by handle vmm: it is for GPUs of nvidia only", note)
	_, note = of("nvidia", backend.Device{Unshared: errors.New("no files")})
	require.Equal(t, "transfers cannot open memory by handle vmm: no files", note)
}
