package fakes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Variant is a communication library that is not as it should be.
type Variant struct {
	RCCL bool
	// Hide are symbols that it lacks.
	Hide []string
	// SOName replaces libnccl.so.2 or librccl.so.1.
	SOName string
}

// Build compiles the variant for this test and returns its path.
func (v Variant) Build(t testing.TB) string {
	t.Helper()
	args := []string{"-O1", "-shared", "-fPIC", "-pthread"}
	soname := "libnccl.so.2"
	if v.RCCL {
		soname = "librccl.so.1"
		args = append(args, "-DCX_FAKE_RCCL")
	}
	if v.SOName != "" {
		soname = v.SOName
	}
	library := filepath.Join(t.TempDir(), soname)
	if len(v.Hide) > 0 {
		script := library + ".map"
		require.NoError(t, os.WriteFile(script, fmt.Appendf(nil, "{ local: %s; };\n", strings.Join(v.Hide, "; ")), 0o600))
		args = append(args, "-Wl,--version-script="+script)
	}
	args = append(args, "-Wl,-soname,"+soname, "-o", library, filepath.Join(Source(t), "nccl.c"), "-ldl", "-lm")
	out, err := exec.Command(Compiler(t), args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return library
}
