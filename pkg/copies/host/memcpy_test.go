package host

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/pkg/accel/host"
)

// Large copies are as fast as a loop of memcpy in a C program, and not faster. The fastest copies of
// both, which run in turns, are compared. Other work on the machine slows some turns down, so that
// the test goes on until the two agree; Go's copy never agrees where it is faster by half.
func TestLargeCopiesAreMemcpy(t *testing.T) {
	need.Full(t)
	program := filepath.Join(t.TempDir(), "memcpy")
	out, err := exec.Command(fakes.Compiler(t), "-O2", "-o", program, "testdata/memcpy.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	opened, err := host.Open(0, 1024) // more ranks than processors: it is not pinned
	require.NoError(t, err)
	defer opened.Close()
	device := copier{opened}

	const bytes, least, turns, tolerance = 64 << 20, 5, 200, 0.15
	var ours, theirs time.Duration
	for turn := range turns {
		src, err := device.AllocHost(bytes) // in each turn, as the program does: some pages are slower than others
		require.NoError(t, err)
		dst, err := device.Alloc(bytes)
		require.NoError(t, err)
		for range 5 {
			from := time.Now()
			require.NoError(t, device.CopyIn(nil, dst, src, bytes))
			if took := time.Since(from); ours == 0 || took < ours {
				ours = took
			}
		}
		require.NoError(t, device.FreeHost(src))
		require.NoError(t, device.Free(dst))
		out, err := exec.Command(program, strconv.Itoa(bytes), "5").Output()
		require.NoError(t, err)
		ns, err := strconv.Atoi(strings.TrimSpace(string(out)))
		require.NoError(t, err)
		if took := time.Duration(ns); theirs == 0 || took < theirs {
			theirs = took
		}
		if r := float64(ours) / float64(theirs); turn >= least && r > 1-tolerance && r < 1+tolerance {
			return
		}
	}
	t.Errorf("the fastest copy of %d bytes took %s, and %s in a C program", bytes, ours, theirs)
}
