package host

import (
	"fmt"
	"maps"
	"slices"
)

// heap allocates ranges of a segment, first fit.
type heap struct {
	bytes int64
	used  map[int64]int64 // offset → bytes
}

const (
	smallAlign = 4096
	largeAlign = 2 << 20 // so that huge pages can serve large ranges
)

// take allocates a range and returns its offset.
func (h *heap) take(bytes int64) (int64, error) {
	align := int64(smallAlign)
	if bytes >= largeAlign {
		align = largeAlign
	}
	var at int64
	for _, start := range slices.Sorted(maps.Keys(h.used)) {
		if at+bytes <= start {
			break
		}
		at = roundUp(start+h.used[start], align)
	}
	if at+bytes > h.bytes {
		return 0, fmt.Errorf("allocate %d bytes: no free range of that size in the heap of %d bytes", bytes, h.bytes)
	}
	h.used[at] = bytes
	return at, nil
}

// drop frees the range at offset and returns its size in bytes.
func (h *heap) drop(at int64) (int64, error) {
	bytes, ok := h.used[at]
	if !ok {
		return 0, fmt.Errorf("no allocation begins at offset %d", at)
	}
	delete(h.used, at)
	return bytes, nil
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }
