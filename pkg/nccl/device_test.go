package nccl

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
)

// Headers of the library are inlined once, where they are first included, and those of others are left out.
func TestDeviceHeadersAreInlined(t *testing.T) {
	t.Setenv("CX_NCCL_LIB", fakes.Build(t).NCCL)
	dir := t.TempDir()
	t.Setenv(includeVariable, dir)
	for name, text := range map[string]string{
		"nccl.h":                         "#include <cuda_runtime.h>\n#define NCCL_VERSION_CODE 22809\n",
		"nccl_device/core.h":             "#include <nccl.h>\n#include \"coop.h\"\ncore\n",
		"nccl_device/coop.h":             "  # include <stdint.h>\ncoop\n",
		"nccl_device/gin/common.h":       "#include \"../core.h\"\ngin\n",
		"nccl_device/impl/core__funcs.h": "#include \"../core.h\"\n#include \"nccl_device/gin/common.h\"\n#include \"absent.h\"\nfuncs\n",
		"stdint.h":                       "not NCCL's\n",
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	l, err := Open(NCCL)
	require.NoError(t, err)
	text, err := l.DeviceHeaders()
	require.NoError(t, err)
	require.Equal(t, system+"#define NCCL_VERSION_CODE 22809\n"+loads+"coop\ncore\ngin\nfuncs\n", text)
}
