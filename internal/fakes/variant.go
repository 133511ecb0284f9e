package fakes

import (
	"cmp"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Variant is a defective communication library.
type Variant struct {
	RCCL bool
	// Hide lists symbols that it lacks.
	Hide []string
	// SOName replaces libnccl.so.2 or librccl.so.1.
	SOName string
}

// Build links the variant for this test and returns its path.
func (v Variant) Build(t testing.TB) string {
	t.Helper()
	file := ncclFile
	if v.RCCL {
		file = rcclFile
	}
	return lacking(t, file, cmp.Or(v.SOName, file), v.Hide)
}

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
