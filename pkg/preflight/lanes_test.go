package preflight

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/sysfs"
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
