package rank

import (
	"runtime"
	"runtime/metrics"
)

// garbageLimit is the number of bytes that a rank allocates between two garbage collections. A
// collection puts the measuring thread to sleep a dozen times and wakes other threads, so later windows
// begin with different caches and perhaps on another processor.
const garbageLimit = 64 << 20

// Garbage collects garbage between windows of a rank whose collector is off, and only above a limit.
type Garbage struct {
	allocated [1]metrics.Sample
	collected uint64 // total allocated before the last collection
}

// NewGarbage collects garbage, and returns what does so again.
func NewGarbage() *Garbage {
	g := &Garbage{}
	g.allocated[0].Name = "/gc/heap/allocs:bytes"
	g.Collect()
	return g
}

// Collect collects now.
func (g *Garbage) Collect() {
	runtime.GC()
	metrics.Read(g.allocated[:])
	g.collected = g.allocated[0].Value.Uint64()
}

// Check collects if more than 64 MiB were allocated since the last collection.
func (g *Garbage) Check() {
	metrics.Read(g.allocated[:])
	if g.allocated[0].Value.Uint64()-g.collected > garbageLimit {
		g.Collect()
	}
}
