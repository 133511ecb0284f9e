package data

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/fakes"
	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/collective/runner"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/workload"
)

// Kernels that find nothing where something is wrong, or something where nothing
// is, are found out by the host.
func TestKernelsThatLie(t *testing.T) {
	fakes.Build(t).Use(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	driver, err := cuda.Load()
	require.NoError(t, err)
	dev, err := driver.Open(0, t.TempDir())
	require.NoError(t, err)
	defer dev.Close()
	stream, err := dev.NewStream()
	require.NoError(t, err)
	defer stream.Close()
	p, err := workload.NewPattern(numeric.Float, workload.Sum, 2, 1)
	require.NoError(t, err)

	for name, c := range map[string]struct {
		lie   string // what the kernel adds up instead of the wrong elements
		count int64
		// Whether a right and a wrong buffer go as they should.
		right, wrong bool
	}{
		"blind":                     {"0 * wrong", 1024, true, false},
		"blind, and the buffer big": {"0 * wrong", maxRecheck/4 + 1, true, true},
		"counts twice":              {"2 * wrong", maxRecheck/4 + 1, true, false},
		"alarmed":                   {"1", maxRecheck/4 + 1, false, false},
	} {
		text := strings.Replace(source(), "if (wrong) {", "wrong = "+c.lie+";\n\tif (wrong) {", 1)
		k, err := newDeviceData(t.Context(), dev, text)
		require.NoError(t, err)
		bytes := 4 * c.count
		buf, err := dev.Alloc(bytes)
		require.NoError(t, err)
		rs := []workload.Region{{Count: c.count, Source: workload.AllRanks}}

		judge := func(agree bool, write func(*deviceData) error) {
			k.rechecked = map[recheck]bool{}
			require.NoError(t, write(k))
			_, err := k.Check(stream, p, buf, rs)
			if agree {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, runner.ErrDisagree, name)
			}
		}
		judge(c.right, func(k *deviceData) error { return k.Fill(stream, p, buf, rs) })
		judge(c.wrong, func(k *deviceData) error { return k.Poison(stream, p, buf, rs) })
		_, err = k.Check(stream, p, buf, rs)
		require.NoError(t, err, "it is asked once")
		require.NoError(t, dev.Free(buf))
		require.NoError(t, k.Close())
	}
}
