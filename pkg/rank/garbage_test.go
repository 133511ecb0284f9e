package rank

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// A trial that leaves little behind is not disturbed by a collection, and one
// that leaves much does not let the process grow.
func TestGarbageIsCollectedWhenThereIsMuch(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	collections := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumGC
	}
	g := NewGarbage()
	before := collections()
	left := make([]byte, garbageLimit/2)
	if g.Check(); collections() != before {
		t.Errorf("%d bytes left: collected, want not", len(left))
	}
	left = make([]byte, garbageLimit)
	if g.Check(); collections() != before+1 {
		t.Errorf("%d bytes more left: %d collections, want 1", len(left), collections()-before)
	}
	if g.Check(); collections() != before+1 {
		t.Error("nothing left since the last collection: collected, want not")
	}
	runtime.KeepAlive(left)
}
