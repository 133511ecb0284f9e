package plural_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/pkg/plural"
)

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 files", 1: "1 file", 2: "2 files", 11: "11 files"} {
		require.Equal(t, want, plural.Count(n, "file", "files"))
	}
}
