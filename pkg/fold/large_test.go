package fold

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/result"
)

// fullDocuments returns the documents of an EP case with ten rungs and of a
// collective case with 28 sizes, histograms included, as a cell leaves them.
func fullDocuments(ordinal int) []result.Document {
	a := resulttest.Attempt()
	a.Ordinal = ordinal
	e := resulttest.EPCase()
	ep.Of(&e).Ladder = plan.Ladder{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
	of := resulttest.EP(e, a)
	histogram := func(c ep.Component) result.Histogram { return resulttest.Histogram(*c.Percentiles, c.SampleCount, 40) }
	for i := range of.Measurement.Rows {
		r := &of.Measurement.Rows[i]
		k := &r.Components
		r.Histograms = map[string]result.Histogram{
			"dispatch": histogram(k.Dispatch), "combine": histogram(k.Combine), "roundtrip": histogram(k.Roundtrip), "pair_period": histogram(k.PairPeriod),
		}
	}
	c := resulttest.CollectiveCase()
	collective.Of(&c).Sizes = nil
	for s := int64(8); s <= 1<<30; s *= 2 {
		collective.Of(&c).Sizes = append(collective.Of(&c).Sizes, s)
	}
	return []result.Document{of, resulttest.Collective(c, a)}
}

// largeRun writes documents of at least bytes in all into dir and returns
// their paths and size.
func largeRun(t testing.TB, dir string, bytes int64) (paths []string, size int64) {
	for n := 1; size < bytes; n++ {
		for i, d := range fullDocuments(n) {
			path := filepath.Join(dir, fmt.Sprintf("%06d-%d.json", n, i))
			data := encoded(t, d)
			require.NoError(t, os.WriteFile(path, data, 0o644))
			paths, size = append(paths, path), size+int64(len(data))
		}
	}
	return paths, size
}

// What is in memory while documents are read does not grow with their number.
func TestReadingHoldsFewDocuments(t *testing.T) {
	dir := t.TempDir()
	_, size := largeRun(t, dir, 24<<20)
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, held, n := live(), int64(0), 0
	for _, err := range Read([]string{dir}) {
		require.NoError(t, err)
		if n++; n%50 == 0 {
			held = max(held, live())
		}
	}
	t.Logf("%d bytes of %d documents: %d bytes in memory", size, n, held-before)
	require.Less(t, held-before, int64(12<<20))
}

// BenchmarkFold compares a fold with jq -c . over the same files, one process
// each but for the fold's start.
func BenchmarkFold(b *testing.B) {
	dir := b.TempDir()
	paths, size := largeRun(b, dir, 64<<20)
	b.Run("fold", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			_, err := Fold([]string{dir}, nil, Expected{}, filepath.Join(dir, "run.ndjson"))
			require.NoError(b, err)
		}
	})
	b.Run("jq", func(b *testing.B) {
		jq := need.Tool(b, "jq")
		b.SetBytes(size)
		for b.Loop() {
			out, err := os.Create(filepath.Join(dir, "jq.ndjson"))
			require.NoError(b, err)
			cmd := exec.Command(jq, append([]string{"-c", "."}, paths...)...)
			cmd.Stdout = out
			require.NoError(b, cmd.Run())
			require.NoError(b, out.Close())
		}
	})
}
