package pyrank

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/pyhost"
)

// What cannot be imported is named with what to install: the library, or what it needs. What an
// adapter refuses is no error of the library.
func TestExceptionsAreCoded(t *testing.T) {
	l := &Library{Name: "mooncake", Install: install(&backend.Backend{Needs: []*backend.Need{Torch, UCCL}})}
	for want, e := range map[string]*pyhost.Exception{
		"library-missing: ImportError: libnl-3.so.200: cannot open shared object file: No such file or directory: install libnl-3-200": {
			Type: "ImportError", Message: "libnl-3.so.200: cannot open shared object file: No such file or directory",
		},
		"library-missing: ModuleNotFoundError: No module named 'mooncake': install torch and UCCL (uccl) in the environment of python3 on PATH; cxrun doctor shows which that is": {
			Type: "ModuleNotFoundError", Message: "No module named 'mooncake'",
		},
		"refused: no network": {Type: "Refused", Message: "no network"},
		"library-error: mooncake ValueError: ValueError: no number": {Type: "ValueError", Message: "no number"},
	} {
		require.EqualError(t, l.Coded(e), want)
	}
}

func TestSnake(t *testing.T) {
	require.Equal(t, "values_at", snake("ValuesAt"))
	require.Equal(t, "open", snake("Open"))
}
