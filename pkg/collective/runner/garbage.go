package runner

import (
	"runtime"
	"runtime/metrics"
)

// garbageLimit is the number of bytes that a rank allocates between two garbage collections. A
// collection puts the measuring thread to sleep a dozen times and wakes other threads, so later windows
// begin with different caches and perhaps on another processor.
const garbageLimit = 64 << 20

// garbage runs the garbage collector between windows, and only above the limit.
type garbage struct {
	allocated [1]metrics.Sample
	collected uint64 // total allocated before the last collection
}

func newGarbage() *garbage {
	g := &garbage{}
	g.allocated[0].Name = "/gc/heap/allocs:bytes"
	g.collect()
	return g
}

func (g *garbage) collect() {
	runtime.GC()
	metrics.Read(g.allocated[:])
	g.collected = g.allocated[0].Value.Uint64()
}

// check collects if more than the limit was allocated since the last collection.
func (g *garbage) check() {
	metrics.Read(g.allocated[:])
	if g.allocated[0].Value.Uint64()-g.collected > garbageLimit {
		g.collect()
	}
}
