// Package nccltest builds the stand-in for libnccl and librccl from
// testdata/fakes.
package nccltest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Variant is what the stand-in is built as.
type Variant struct {
	RCCL bool
	// Hide are symbols that the library lacks.
	Hide []string
	// SOName replaces libnccl.so.2 or librccl.so.1.
	SOName string
}

// Build compiles the variant into dir and returns the library's path.
func Build(t testing.TB, dir string, v Variant) string {
	t.Helper()
	_, here, _, ok := runtime.Caller(0)
	require.True(t, ok)
	source := filepath.Join(filepath.Dir(here), "..", "..", "..", "testdata", "fakes", "nccl.c")
	soname, args := "libnccl.so.2", []string{"-O2", "-g", "-shared", "-fPIC", "-pthread"}
	if v.RCCL {
		soname = "librccl.so.1"
		args = append(args, "-DCX_FAKE_RCCL")
	}
	if v.SOName != "" {
		soname = v.SOName
	}
	library := filepath.Join(dir, soname)
	args = append(args, "-Wl,-soname,"+soname)
	if len(v.Hide) > 0 {
		script := library + ".map"
		require.NoError(t, os.WriteFile(script, fmt.Appendf(nil, "{ local: %s; };\n", strings.Join(v.Hide, "; ")), 0o600))
		args = append(args, "-Wl,--version-script="+script)
	}
	args = append(args, "-o", library, source, "-ldl", "-lm")
	out, err := exec.Command(compiler(t), args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return library
}

func compiler(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "CC").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
