package transfer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A page that a cache cannot have is refused with the reason and the next one that it can.
func TestRefusePage(t *testing.T) {
	layers := &Cache{Entries: []CachePart{{Regions: 30, Tokens: 4, Bytes: 576}, {Regions: 30, Tokens: 4, Bytes: 132}, {Regions: 31, Tokens: 128, Bytes: 576}, {Regions: 61, Tokens: 1, Bytes: 576, Window: 128}}}
	rows := &Cache{Entries: []CachePart{{Regions: 1, Tokens: 256, Bytes: 1435968}}}
	for _, tt := range []struct {
		cache *Cache
		page  int
		want  string
	}{
		{layers, 8, ""},
		{layers, 256, ""},
		{layers, 4, "a block of 132 bytes is not a multiple of 8; use pages of 8 tokens"},
		{layers, 6, "pages of 6 tokens do not hold whole entries, of 4 tokens; use pages of 8 tokens"},
		{layers, 136, "pages of 136 tokens do not hold whole entries, of 128 tokens; use pages of 256 tokens"},
		{rows, 256, ""},
		{rows, 16, "every block holds at least 256 tokens; use pages of 256 tokens"},
		{rows, 1 << 20, ""},
		{rows, 1<<20 + 1, "pages of 1048577 tokens do not hold whole entries, of 256 tokens"},
	} {
		require.Equal(t, tt.want, tt.cache.RefusePage(tt.page), "%d", tt.page)
	}
}
