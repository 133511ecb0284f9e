package wording

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHas(t *testing.T) {
	const text = "--ranks 3: want 4, as in ring.xml"
	Has(t, text, "--ranks 3 … ring.xml")
	Has(t, text, "")
	for want, missing := range map[string]string{
		"--width":              "--width",
		"ring.xml … --ranks 3": "--ranks 3",
		"ranks … ranks":        "ranks",
	} {
		got, ok := lacks(text, want)
		require.True(t, ok, want)
		require.Equal(t, missing, got)
	}
}
