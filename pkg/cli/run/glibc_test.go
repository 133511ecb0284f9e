package run

import (
	"debug/elf"
	"go/version"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/launch"
)

// The program runs in images whose glibc is as old as we promise: this test is linked from
// the same C as cxrun, so that a call of something newer shows here.
func TestGlibcFloor(t *testing.T) {
	file, err := elf.Open(os.Args[0])
	require.NoError(t, err)
	defer file.Close()
	symbols, err := file.ImportedSymbols()
	require.NoError(t, err)
	asked := 0
	for _, s := range symbols {
		if v, is := strings.CutPrefix(s.Version, "GLIBC_"); is {
			asked++
			require.False(t, newerGlibc(v, launch.GlibcFloor), "%s is of glibc %s; we promise %s", s.Name, v, launch.GlibcFloor)
		}
	}
	require.Positive(t, asked)
	require.True(t, newerGlibc("2.35", "2.34"))
	require.False(t, newerGlibc("2.4", "2.34"))
	require.False(t, newerGlibc("2.3.2", "2.34"))
}

// newerGlibc compares versions, which have the form of Go's.
func newerGlibc(a, b string) bool { return version.Compare("go"+a, "go"+b) > 0 }
