package fakes

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Liar compiles testdata/liar for this test around the library at path and
// returns its path.
func Liar(t testing.TB, path string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "libliar.so")
	cc := exec.Command(Compiler(t), "-O1", "-Wall", "-shared", "-fPIC", `-DREAL="`+path+`"`, "-DNATIVE_2_28", "-o", out,
		filepath.Join(Source(), "..", "liar", "liar.c"), "-Wl,--no-as-needed,-rpath,"+filepath.Dir(path), path, "-ldl")
	output, err := cc.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return out
}
