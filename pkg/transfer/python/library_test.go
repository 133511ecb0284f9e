package python

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/pyhost"
)

// What cannot be imported is named with what to install: the library, or what it needs.
func TestWhatCannotBeImported(t *testing.T) {
	l := &library{settings: withMooncake()}
	for want, e := range map[string]*pyhost.Exception{
		"library-missing: ImportError: libnl-3.so.200: cannot open shared object file: No such file or directory: install libnl-3-200": {
			Type: "ImportError", Message: "libnl-3.so.200: cannot open shared object file: No such file or directory",
		},
		"library-missing: ModuleNotFoundError: No module named 'mooncake': install mooncake-transfer-engine-non-cuda in the environment of python3 on PATH; cxrun doctor shows which that is": {
			Type: "ModuleNotFoundError", Message: "No module named 'mooncake'",
		},
	} {
		require.EqualError(t, l.coded(e), want)
	}
}
