package cli

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBuild(t *testing.T) {
	stamped := func(version string) *debug.BuildInfo {
		return &debug.BuildInfo{
			Main:     debug.Module{Version: version},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}},
		}
	}
	for want, info := range map[string]*debug.BuildInfo{
		"v1.2.3 (commit 0123456789ab, source dev)":                stamped("v1.2.3"),
		"v1.2.3 (source dev)":                                     {Main: debug.Module{Version: "v1.2.3"}}, // go install
		"v1.2.4-0.20261126010203-0123456789ab+dirty (source dev)": stamped("v1.2.4-0.20261126010203-0123456789ab+dirty"),
		"devel (source dev)":                                      stamped("(devel)"),
	} {
		require.Equal(t, want, build(info))
	}
	require.Equal(t, "devel (source dev)", build(nil))
}
